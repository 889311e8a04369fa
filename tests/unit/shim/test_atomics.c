/* SPDX-License-Identifier: BSD-2-Clause */
/* test_atomics.c: atomic instructions are told from others, and from what only looks like them. */
#include <stdio.h>
#include <string.h>

#include "shim/exposed/x86/atomics.h"

#define NOP 0x90

static const struct {
	const char *what;
	bool is_atomic;
	uint8_t n, code[8];
} cases[] = {
    {"lock cmpxchg", true, 5, {0xf0, 0x0f, 0xb1, 0x0f, 0x90}},
    {"lock cmpxchg of 8 bytes", true, 5, {0xf0, 0x48, 0x0f, 0xb1, 0x0f}},
    {"lock xadd of 2 bytes", true, 5, {0xf0, 0x66, 0x0f, 0xc1, 0x07}},
    {"lock add, of an immediate", true, 4, {0xf0, 0x83, 0x07, 0x01}},
    {"lock or, to the stack (a barrier)", true, 6, {0xf0, 0x83, 0x0c, 0x24, 0x00, 0x90}},
    {"lock inc", true, 3, {0xf0, 0xff, 0x07}},
    {"xchg with memory", true, 2, {0x87, 0x07}},
    {"xchg of 8 bytes with memory", true, 3, {0x48, 0x87, 0x07}},
    {"xchg of registers", false, 2, {0x87, 0xc7}},
    {"cmpxchg without lock", false, 3, {0x0f, 0xb1, 0x0f}},
    {"a constant that looks like one", false, 5, {0xb8, 0xf0, 0x0f, 0xb1, 0x0f}},
    {"another one", false, 5, {0xb8, 0x48, 0x87, 0x07, 0x00}},
    {"a lock prefix where none may be", false, 4, {0xf0, 0x89, 0xc7, 0x90}},
    {"mov to memory", false, 2, {0x89, 0x07}},
};

int main(void)
{
	const int n = sizeof(cases) / sizeof(cases[0]);
	int failed = 0;

	for (int i = 0; i < n; i++) {
		uint8_t code[64];
		bool good;

		memset(code, NOP, sizeof(code));
		memcpy(code + 20, cases[i].code, cases[i].n);
		good = code_has_atomics(code, sizeof(code)) == cases[i].is_atomic;
		printf("%sok %d - %s\n", good ? "" : "not ", i + 1, cases[i].what);
		failed += !good;
	}
	printf("1..%d\n", n);
	return failed != 0;
}
