/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * counter_unclear.c: bytes that look as if they read the time-stamp counter, with no unwind information around: a table, and
 * code that does read it.  A library that counter.c loads late.
 */
__asm__(".text\n.p2align 12\n"
	"unclear_table: .byte 0x9c, 0x0f, 0x31, 0x66\n.p2align 12\n"
	".globl unclear_read\n.type unclear_read, @function\n"
	"unclear_read: rdtsc\nshl $32, %rdx\nor %rdx, %rax\nret\n.p2align 12\n");
