/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/probe/executed.h"

#include <string.h>

#include "logd/base/compiler.h"
#include "shim/exposed/probe/aside.h"
#include "shim/exposed/probe/exchange.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/x86/vector.h"

/* What xrstor makes of a processor that has just been started, which is what the handler's code expects. */
#define FRAME_BYTES 576
#define MXCSR_AT    24

SR_HIDDEN _Alignas(64) const uint8_t sr_executed_initial[FRAME_BYTES] = {[MXCSR_AT] = 0x80, [MXCSR_AT + 1] = 0x1f};

/*
 * As sr_exchange_call(), and with the frame's x87, vector and mask registers (xsave's components 0 to 2 and 5 to 7).  keep:
 * the frame gets what they are then.
 */
void sr_executed_call(greg_t *g, uintptr_t code, char *frame, bool keep);

#define COMPONENTS "	mov $0xe7, %eax\n	xor %edx, %edx\n"

__asm__(".text\n"
	".globl sr_executed_call\n"
	".hidden sr_executed_call\n"
	".type sr_executed_call, @function\n"
	"sr_executed_call:\n"
	"	push %rbx\n	push %rbp\n"
	"	mov %rdx, %rbx\n"
	"	movzbl %cl, %ebp\n" COMPONENTS
	"	xrstor64 (%rbx)\n"
	"	call sr_exchange_call\n" COMPONENTS
	"	test %ebp, %ebp\n"
	"	jz 1f\n"
	"	xsave64 (%rbx)\n"
	"1:	xrstor64 sr_executed_initial(%rip)\n"
	"	pop %rbp\n	pop %rbx\n"
	"	ret\n"
	".size sr_executed_call, .-sr_executed_call\n");

/* A signal must not come here. */
static bool may_signal(const struct insn *insn, const ucontext_t *uc)
{
	return insn->encoding.op.class == INSN_WRITE && insn->encoding.op.flags & OPCODE_SIGNALS && vector_may_signal(uc);
}

/* The operand as the instruction leaves it, where it was n times that byte before. */
static void execute(greg_t *g, uintptr_t code, char *frame, int before, char *after, size_t n)
{
	gregset_t now;

	memcpy(now, g, sizeof(now));
	memset(exposed_self.probe.operand, before, n);
	sr_executed_call(now, code, frame, before);
	memcpy(after, exposed_self.probe.operand, n);
}

bool executed_store(ucontext_t *uc, const struct insn *insn, enum visibility v)
{
	greg_t *g = uc->uc_mcontext.gregs;
	char *frame = vector_xsave_frame(uc), one[VECTOR_MAX], other[VECTOR_MAX], written[VECTOR_MAX];
	uintptr_t code;

	if (!frame || exposed_self.by_jump || may_signal(insn, uc))
		return false;
	code = aside_write(probes_code_at((uintptr_t)g[REG_RIP]), insn);
	if (!code)
		return false;
	execute(g, code, frame, 0, one, insn->size);
	execute(g, code, frame, 0xff, other, insn->size);
	for (unsigned int i = 0; i < insn->size; i++)
		written[i] = one[i] == other[i];
	parts_store(insn->address, one, written, insn->size, v);
	g[REG_RIP] += insn->length;
	counts.exchanges++;
	return true;
}
