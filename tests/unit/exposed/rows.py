#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Prints functions with two or three memory instructions in a row that are short enough for one jump (test_rows.c).

    rows.py SEED NUMBER
"""

import random
import sys

FIRST = ["mov (%rdi), %eax", "movzbl (%rdi), %eax", "cmp (%rdi), %eax", "add (%rdi), %eax", "mov %eax, (%rdi)",
         "movups (%rdi), %xmm0", "movups %xmm0, (%rdi)", "imul (%rdi), %eax", "test %eax, (%rdi)",
         "xor %eax, (%rdi)", "xchg %al, (%rdi)", "blsr (%rdi), %eax", "movbe %eax, (%rdi)"]
SECOND = ["mov (%rcx), %eax", "add (%rcx), %eax", "cmp (%rcx), %eax", "mov %eax, (%rcx)", "movups (%rcx), %xmm0",
          "movups %xmm0, (%rcx)", "pcmpeqb (%rcx), %xmm0", "pxor (%rcx), %xmm0", "add %eax, (%rcx)", "imul (%rcx), %eax",
          "mov (%rcx), %al", "movb $3, (%rcx)", "mov (%rcx), %rcx\\n and $0x7f, %ecx", "xor (%rcx), %rax",
          "lock xadd %eax, (%rcx)", "lock cmpxchg %r8d, (%rcx)", "andl $0x7f, (%rcx)", "shll (%rcx)", "lock incl (%rcx)",
          "shrx %rax, (%rcx), %rax", "movbe %rax, (%rcx)", "movbe (%rcx), %rax", "crc32l (%rcx), %eax",
          "sete (%rcx)", "adc %ah, (%rcx)", "btsl $3, (%rcx)", "not %rcx\\n not %rcx\\n notb (%rcx)",
          "add rows_data+64(%rip), %eax", "mov rows_data+72(%rip), %rax",
          "cmpl $77, rows_data+64(%rip)", "mov rows_data+80(%rip), %cx"]
THIRD = ["", "mov (%rdx), %eax", "add (%rdx), %eax", "mov %eax, (%rdx)", "movups (%rdx), %xmm0", "add 8(%rdx), %rax",
         "mov %al, (%rdx)"]
# All that a row has changed goes into what it returns.
ROW = '''row_function row_%d;
__asm__(".text\\n.p2align 8, 0x90\\nrow_%d: mov %%rdx, %%r8\\n mov %%rsi, %%rcx\\n mov $0x1234567, %%eax\\n"
	" pxor %%xmm0, %%xmm0\\n cmp %%eax, %%eax\\n %s\\n %s\\n %s\\n lea 8(%%r8), %%r10\\n lea 8(%%r8), %%r10\\n"
	" pushfq\\n pop %%r9\\n and $0x8c5, %%r9d\\n movq %%xmm0, %%r10\\n"
	" imul $31, %%rax, %%rax\\n add %%r9, %%rax\\n imul $31, %%rax, %%rax\\n add %%r10, %%rax\\n"
	" imul $31, %%rax, %%rax\\n add %%rcx, %%rax\\n ret\\n");'''


def main():
    random.seed(int(sys.argv[1]))
    number = int(sys.argv[2])
    for i in range(number):
        print(ROW % (i, i, random.choice(FIRST), random.choice(SECOND), random.choice(THIRD)))
    print("static row_function *const rows[] = {%s};" % ", ".join("row_%d" % i for i in range(number)))


main()
