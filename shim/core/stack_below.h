/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stack_below.h: what a call leaves on the stack below its caller, and in vector registers.
 *
 * Programs send bytes that they never wrote: padding, the unwritten end of a struct.  If it lies on
 * the stack, it holds what earlier functions left there, and the recorder leaves other bytes than a
 * replay.  So both clear the stack below an intercepted call before it returns.
 *
 * And the registers that belong to the called function: programs' functions save vector registers on the
 * stack, as ld.so does (kernel/lazy_binding.h); and a place at which a thread is stopped (shim/record/places.h) is told by the general
 * ones.
 */
#ifndef SHIM_CORE_STACK_BELOW_H
#define SHIM_CORE_STACK_BELOW_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/base/page.h"
#include "shim/core/thread.h"

/*
 * So many bytes, at an operation on the heap and at a call.  (Those of the data path have a stack of their own:
 * call_stack.h.)  The recorder itself goes deeper, so a small stack has room for it.  What the rest of its frames leaves
 * below is met by functions that need more stack than this.  A call that waits for its turn leaves something 2,400 bytes deep.
 */
#define SR_STACK_HEAP 512
#define SR_STACK_LIBC 1024 /* at an operation of libc's that is ordered like one on the heap */
#define SR_STACK_CALL 4096

/*
 * A call that opens, looks up or registers something: libc and the recorder, which a replay does not run, go so deep
 * there. OpenMPI sends a buffer of 4 KiB from its stack of which it has written a part.
 */
#define SR_STACK_DEEP 16384

/* Which vector registers there are. Set at the start; the processor itself is asked, not the trace. */
enum sr_vectors { SR_VECTORS_SSE, SR_VECTORS_AVX, SR_VECTORS_AVX512 };
extern uint8_t sr_vectors;
void sr_vectors_find(void);

#define SR_VPXOR(n) "vpxord %%zmm" #n ", %%zmm" #n ", %%zmm" #n "\n\t"
#define SR_KXOR(n)  "kxorw %%k" #n ", %%k" #n ", %%k" #n "\n\t"
#define SR_PXOR(n)  "pxor %%xmm" #n ", %%xmm" #n "\n\t"

static inline __attribute__((always_inline)) void sr_clear_vectors(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(sr_vectors == SR_VECTORS_SSE, 0)) {
		__asm__ volatile(SR_PXOR(0) SR_PXOR(1) SR_PXOR(2) SR_PXOR(3) SR_PXOR(4) SR_PXOR(5) SR_PXOR(6) SR_PXOR(7) SR_PXOR(8)
				 SR_PXOR(9) SR_PXOR(10) SR_PXOR(11) SR_PXOR(12) SR_PXOR(13) SR_PXOR(14) SR_PXOR(15) "" ::);
		return;
	}
	if (sr_vectors == SR_VECTORS_AVX512)
		__asm__ volatile(SR_VPXOR(16) SR_VPXOR(17) SR_VPXOR(18) SR_VPXOR(19) SR_VPXOR(20) SR_VPXOR(21) SR_VPXOR(22)
				 SR_VPXOR(23) SR_VPXOR(24) SR_VPXOR(25) SR_VPXOR(26) SR_VPXOR(27) SR_VPXOR(28) SR_VPXOR(29)
				 SR_VPXOR(30) SR_VPXOR(31)
				 SR_KXOR(0) SR_KXOR(1) SR_KXOR(2) SR_KXOR(3) SR_KXOR(4) SR_KXOR(5) SR_KXOR(6) SR_KXOR(7) "" ::);
	__asm__ volatile("vzeroall" ::);
#endif
}

/*
 * May SR_STACK_DEEP bytes below this address be cleared?  Not on a stack that the program has made, of which nothing is
 * known.
 */
static inline bool sr_stack_has_room(const struct sr_thread *t, uintptr_t at)
{
	return at < t->stack_high && at - SR_STACK_DEEP - PAGE > t->stack_low;
}

/*
 * Clears from `bytes` below the stack pointer on, rounded down to a cache line: stores that lie across two lines take
 * twice as long.  The same bytes on each processor.
 */
#define SR_CLEAR_FROM "lea %c2(%%rsp), %0\n\tmov %%rsp, %1\n\tand $-64, %0\n\tand $-64, %1\n1:\t"
#define SR_CLEAR_NEXT "add $256, %0\n\tcmp %1, %0\n\tjne 1b\n\t"
#define SR_CLEAR(text, bytes)                                                                      \
	do {                                                                                       \
		char *at, *end;                                                                    \
		__asm__ volatile(text : "=&r"(at), "=&r"(end) : "i"(-(bytes)) : "memory", "xmm0", "cc"); \
	} while (0)

#define SR_ZMM(at) "vmovdqa64 %%zmm0, " #at "(%0)\n\t"
#define SR_YMM(at) "vmovdqa %%ymm0, " #at "(%0)\n\t"
#define SR_XMM(at) "movaps %%xmm0, " #at "(%0)\n\t"

/* Clears all of it. */
static inline __attribute__((always_inline)) void sr_clear_all_below(const int bytes)
{
#if defined(__x86_64__)
	if (sr_vectors == SR_VECTORS_AVX512)
		SR_CLEAR("vpxor %%xmm0, %%xmm0, %%xmm0\n\t" SR_CLEAR_FROM SR_ZMM(0) SR_ZMM(64) SR_ZMM(128) SR_ZMM(192)
			     SR_CLEAR_NEXT "vmovdqu64 %%zmm0, -64(%%rsp)", bytes);
	else if (sr_vectors == SR_VECTORS_AVX)
		SR_CLEAR("vpxor %%xmm0, %%xmm0, %%xmm0\n\t" SR_CLEAR_FROM SR_YMM(0) SR_YMM(32) SR_YMM(64) SR_YMM(96)
			     SR_YMM(128) SR_YMM(160) SR_YMM(192) SR_YMM(224)
			 SR_CLEAR_NEXT "vmovdqu %%ymm0, -64(%%rsp)\n\tvmovdqu %%ymm0, -32(%%rsp)", bytes);
	else
		/* "rep stos" takes longer to begin than these stores to end. */
		SR_CLEAR("pxor %%xmm0, %%xmm0\n\t" SR_CLEAR_FROM SR_XMM(0) SR_XMM(16) SR_XMM(32) SR_XMM(48) SR_XMM(64)
			     SR_XMM(80) SR_XMM(96) SR_XMM(112) SR_XMM(128) SR_XMM(144) SR_XMM(160) SR_XMM(176) SR_XMM(192)
			 SR_XMM(208) SR_XMM(224) SR_XMM(240) SR_CLEAR_NEXT
			 "movups %%xmm0, -64(%%rsp)\n\tmovups %%xmm0, -48(%%rsp)\n\tmovups %%xmm0, -32(%%rsp)\n\t"
			 "movups %%xmm0, -16(%%rsp)", bytes);
#endif
}

/* What a call on the data path uses itself. */
#define SR_STACK_NEAR 2048

#define SR_LOOK_FROM "lea %c3(%%rsp), %1\n\tlea %c4(%%rsp), %2\n\tand $-64, %1\n\tand $-64, %2\n1:\t"
#define SR_LOOK_NEXT "add $256, %1\n\tcmp %2, %1\n\tjne 1b\n\t"
#define SR_LOOK(text, bytes)                                                                                \
	__asm__ volatile(text : "=r"(clear), "=&r"(at), "=&r"(end) : "i"(-(bytes)), "i"(-SR_STACK_NEAR) \
			 : "memory", "xmm0", "xmm1", "cc")

#define SR_OR_ZMM(at, n) "vporq " #at "(%1), %%zmm" #n ", %%zmm" #n "\n\t"
#define SR_OR_YMM(at, n) "vorps " #at "(%1), %%ymm" #n ", %%ymm" #n "\n\t"

/* Is all from there on down to `bytes` zero?  Mostly it is, behind the last such call, and loads take half as long as stores. */
static inline __attribute__((always_inline)) bool sr_is_clear_below_near(const int bytes)
{
	bool clear = false;

#if defined(__x86_64__)
	char *at, *end;

	if (sr_vectors == SR_VECTORS_AVX512)
		SR_LOOK("vpxor %%xmm0, %%xmm0, %%xmm0\n\tvpxor %%xmm1, %%xmm1, %%xmm1\n\t" SR_LOOK_FROM SR_OR_ZMM(0, 0)
			    SR_OR_ZMM(64, 1) SR_OR_ZMM(128, 0) SR_OR_ZMM(192, 1) SR_LOOK_NEXT
			"vporq %%zmm1, %%zmm0, %%zmm0\n\tvptestmq %%zmm0, %%zmm0, %%k1\n\tkortestw %%k1, %%k1\n\tsetz %b0", bytes);
	else if (sr_vectors == SR_VECTORS_AVX)
		SR_LOOK("vpxor %%xmm0, %%xmm0, %%xmm0\n\tvpxor %%xmm1, %%xmm1, %%xmm1\n\t" SR_LOOK_FROM SR_OR_YMM(0, 0)
			    SR_OR_YMM(32, 1) SR_OR_YMM(64, 0) SR_OR_YMM(96, 1) SR_OR_YMM(128, 0) SR_OR_YMM(160, 1)
			SR_OR_YMM(192, 0) SR_OR_YMM(224, 1) SR_LOOK_NEXT
			"vorps %%ymm1, %%ymm0, %%ymm0\n\tvptest %%ymm0, %%ymm0\n\tsetz %b0", bytes);
#endif
	return clear;
}

static inline __attribute__((always_inline)) void sr_clear_general_registers(void)
{
#if defined(__x86_64__)
	__asm__ volatile("xor %%ecx, %%ecx\n\txor %%edx, %%edx\n\txor %%esi, %%esi\n\txor %%edi, %%edi\n\t"
			 "xor %%r8d, %%r8d\n\txor %%r9d, %%r9d\n\txor %%r10d, %%r10d\n\txor %%r11d, %%r11d" ::
			     : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
#endif
}

/* In a frame that is about to return. */
static inline __attribute__((always_inline)) void sr_clear_registers(void)
{
	sr_clear_vectors();
	sr_clear_general_registers();
}

/* The same, and the frame keeps nothing below its stack pointer. */
static inline __attribute__((always_inline)) void sr_clear_stack_below(const int bytes)
{
	if (bytes > SR_STACK_NEAR && sr_is_clear_below_near(bytes))
		sr_clear_all_below(SR_STACK_NEAR);
	else
		sr_clear_all_below(bytes);
	sr_clear_registers();
}

#endif
