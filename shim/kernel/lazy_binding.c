/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/kernel/lazy_binding.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/exposed/probe/write.h"
#include "shim/memory/images.h"

/* SSE, AVX, and the three of AVX-512: what a caller may have put arguments into, as in ld.so. */
#define STATES	   0xe6u
#define LEAF_XSAVE 0xd
#define FIRST_STATE 2u
#define LAST_STATE  7u
#define LEGACY_BYTES 576u /* of SSE, with the header */

/* What the code below uses. */
uintptr_t sr_lazy_fixup SR_HIDDEN; /* ld.so's _dl_fixup(): where the function is */
uint64_t sr_lazy_bytes SR_HIDDEN;  /* for the registers, a multiple of 64 */
uint32_t sr_lazy_states SR_HIDDEN;

void sr_lazy_resolve(void) SR_HIDDEN;

/* So many bytes below the kept registers the look-up itself may have used. */
#define LOOKUP_BYTES "4096"

/*
 * The stack: the library that calls, the number of the function, the caller's return address.  rax, rcx, rdx, rsi, rdi, r8 and r9
 * have arguments; r10 and r11 are free.  All that was written is cleared, from below up, before the last of them are loaded.
 */
/* clang-format off */
__asm__(
	"	.pushsection .text\n"
	"	.p2align 4\n"
	"	.type sr_lazy_resolve, @function\n"
	"	.hidden sr_lazy_resolve\n"
	"	.globl sr_lazy_resolve\n"
	"sr_lazy_resolve:\n"
	"	.cfi_startproc\n"
	"	.cfi_adjust_cfa_offset 16\n"
	"	push %rbx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset %rbx, 0\n"
	"	mov %rsp, %rbx\n"
	"	.cfi_def_cfa_register %rbx\n"
	"	push %rax\n"
	"	push %rcx\n"
	"	push %rdx\n"
	"	push %rsi\n"
	"	push %rdi\n"
	"	push %r8\n"
	"	push %r9\n"
	"	and $-64, %rsp\n"
	"	sub sr_lazy_bytes(%rip), %rsp\n"
	"	mov %rsp, %rdi\n"
	"	mov sr_lazy_bytes(%rip), %rcx\n"
	"	xor %eax, %eax\n"
	"	cld\n"
	"	rep stosb\n"
	"	mov sr_lazy_states(%rip), %eax\n"
	"	xor %edx, %edx\n"
	"	xsave (%rsp)\n"
	"	mov 16(%rbx), %rsi\n"
	"	mov 8(%rbx), %rdi\n"
	"	call *sr_lazy_fixup(%rip)\n"
	"	mov %rax, %r11\n"
	"	mov sr_lazy_states(%rip), %eax\n"
	"	xor %edx, %edx\n"
	"	xrstor (%rsp)\n"
	"	mov -16(%rbx), %r10\n" /* rcx, which counts below */
	"	mov -24(%rbx), %rdx\n"
	"	mov -32(%rbx), %rsi\n"
	"	mov -48(%rbx), %r8\n"
	"	mov -56(%rbx), %r9\n"
	"	lea -" LOOKUP_BYTES "(%rsp), %rdi\n"
	"	lea -40(%rbx), %rcx\n" /* up to rdi, exclusively */
	"	sub %rdi, %rcx\n"
	"	xor %eax, %eax\n"
	"	cld\n"
	"	rep stosb\n"
	"	mov %r10, %rcx\n"
	"	xor %r10d, %r10d\n"
	"	mov -40(%rbx), %rdi\n"
	"	mov -8(%rbx), %rax\n"
	"	movq $0, -40(%rbx)\n"
	"	movq $0, -32(%rbx)\n"
	"	movq $0, -24(%rbx)\n"
	"	movq $0, -16(%rbx)\n"
	"	movq $0, -8(%rbx)\n"
	"	mov %rbx, %rsp\n"
	"	.cfi_def_cfa_register %rsp\n"
	"	pop %rbx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_restore %rbx\n"
	"	movq $0, -8(%rsp)\n"
	"	movq $0, (%rsp)\n"
	"	movq $0, 8(%rsp)\n"
	"	lea 16(%rsp), %rsp\n"
	"	.cfi_adjust_cfa_offset -16\n"
	"	jmp *%r11\n"
	"	.cfi_endproc\n"
	".size sr_lazy_resolve, . - sr_lazy_resolve\n"
	".popsection\n");
/* clang-format on */

/* ---------------------------------------------------------------- ld.so's */

/* push %rbx; mov %rsp, %rbx; and $-64, %rsp: how the ones begin that keep vector registers. */
static const uint8_t begins[] = {0x53, 0x48, 0x89, 0xe3, 0x48, 0x83, 0xe4, 0xc0};

/* mov 16(%rbx), %rsi; mov 8(%rbx), %rdi; call: in front of the distance to _dl_fixup(). */
static const uint8_t calls[] = {0x48, 0x8b, 0x73, 0x10, 0x48, 0x8b, 0x7b, 0x08, 0xe8};

#define CALL_WITHIN 192u

static const uint8_t *find(const uint8_t *from, const uint8_t *end, const uint8_t *what, size_t n)
{
	return from < end ? memmem(from, (size_t)(end - from), what, n) : NULL;
}

/* NULL: this function of ld.so's is another one. */
static const uint8_t *fixup_called_by(const uint8_t *function, const uint8_t *end)
{
	const uint8_t *to = end - function > CALL_WITHIN ? function + CALL_WITHIN : end;
	const uint8_t *call = find(function, to, calls, sizeof(calls));
	int32_t distance;

	if (!call || end - call < (ptrdiff_t)(sizeof(calls) + sizeof(distance)))
		return NULL;
	memcpy(&distance, call + sizeof(calls), sizeof(distance));
	return call + sizeof(calls) + sizeof(distance) + distance;
}

/* jmp *0(%rip), and where to. */
static void jump_to(uint8_t jump[14], uintptr_t target)
{
	static const uint8_t opcode[] = {0xff, 0x25, 0, 0, 0, 0};

	memcpy(jump, opcode, sizeof(opcode));
	memcpy(jump + sizeof(opcode), &target, sizeof(target));
}

/* ld.so has one for each instruction that keeps registers, and has chosen one. */
static void replace_all(int memory, const uint8_t *begin, const uint8_t *end)
{
	const uint8_t *fixup;
	uint8_t jump[14];

	jump_to(jump, (uintptr_t)sr_lazy_resolve);
	for (const uint8_t *at = begin; (at = find(at, end, begins, sizeof(begins))); at += sizeof(begins)) {
		fixup = fixup_called_by(at, end);
		if (!fixup || fixup < begin || fixup >= end)
			continue;
		sr_lazy_fixup = (uintptr_t)fixup;
		code_put(memory, (uintptr_t)at, jump, sizeof(jump));
	}
}

/* The processor itself is asked: what it says can be executed here. */
static bool ask_processor(void)
{
	unsigned int size, offset, c, d, states, high;

	if (!__get_cpuid(1, &size, &offset, &c, &d) || !(c & bit_OSXSAVE))
		return false;
	__asm__("xgetbv" : "=a"(states), "=d"(high) : "c"(0));
	sr_lazy_states = states & STATES;
	sr_lazy_bytes = LEGACY_BYTES;
	for (unsigned int i = FIRST_STATE; i <= LAST_STATE; i++) {
		if (!(sr_lazy_states & 1u << i))
			continue;
		__cpuid_count(LEAF_XSAVE, i, size, offset, c, d);
		if (offset + size > sr_lazy_bytes)
			sr_lazy_bytes = offset + size;
	}
	sr_lazy_bytes = (sr_lazy_bytes + 63) & ~63ul;
	return true;
}

void sr_lazy_binding_start(void)
{
	const uint8_t *begin, *end;
	int memory = sr_loader_code(&begin, &end) && ask_processor() ? code_open() : -1;

	if (memory < 0)
		return;
	replace_all(memory, begin, end);
	sr_sys_close(memory);
}

#else

void sr_lazy_binding_start(void)
{
}

#endif
