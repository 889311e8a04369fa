/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/x86/atomics.h"

#include <string.h>

#include "shim/exposed/x86/length.h"
#include "shim/exposed/x86/opcodes.h"

static bool is_in_memory(uint8_t modrm)
{
	return modrm >> 6 != 3;
}

/* xchg */
static bool exchanges(const uint8_t *opcode)
{
	return (opcode[0] & 0xfe) == 0x86 && is_in_memory(opcode[1]);
}

/* Those that the processor allows the prefix for; data that is taken for code has it with others. */
static bool may_be_locked(const uint8_t *opcode)
{
	static const uint8_t wide[] = {0xab, 0xb0, 0xb1, 0xb3, 0xba, 0xbb, 0xc0, 0xc1, 0xc7};

	if (opcode[0] == 0x0f)
		return memchr(wide, opcode[1], sizeof(wide)) && is_in_memory(opcode[2]);
	if (!is_in_memory(opcode[1]))
		return false;
	if (opcode[0] < 0x38)
		return (opcode[0] & 7) < 2;
	return (opcode[0] >= 0x80 && opcode[0] <= 0x83) || (opcode[0] & 0xfe) == 0xf6 || (opcode[0] & 0xfe) == 0xfe;
}

bool code_has_atomics(const uint8_t *code, size_t n)
{
	struct shape s;

	for (size_t at = 0; at + ATOMICS_TAIL < n; at += s.length) {
		if (!shape_of(code + at, n - at, &s)) {
			s.length = 1;
			continue;
		}
		if (exchanges(code + at + s.opcode_at) ||
		    (memchr(code + at, PREFIX_LOCK, s.opcode_at) && may_be_locked(code + at + s.opcode_at)))
			return true;
	}
	return false;
}
