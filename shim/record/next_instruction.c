/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/next_instruction.h"

#include "shim/exposed/probe/probes.h"
#include "shim/exposed/x86/decode.h"

bool next_is_delicate(uintptr_t pc)
{
	const uint8_t *code = probes_code_at(pc);

	return code[0] == 0x9c || code[0] == 0x9d || code[0] == 0xcf || code[0] == 0xcc || code[0] == 0xcd ||
	       (code[0] == 0x0f && (code[1] == 0x05 || code[1] == 0x34 || code[1] == 0x0b));
}

bool next_is_string(uintptr_t pc)
{
	struct encoding e;

	return encoding_of(probes_code_at(pc), &e) && e.op.class == INSN_STRING && e.repeat;
}

bool next_is_pause(uintptr_t pc)
{
	const uint8_t *code = probes_code_at(pc);

	return code[0] == 0xf3 && code[1] == 0x90;
}
