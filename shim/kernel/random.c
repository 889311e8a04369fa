/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/kernel/random.h"

#include "logd/base/compiler.h"
#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/exposed/x86/decode.h"
#include "shim/exposed/x86/opcodes.h"

#if defined(__x86_64__)

#include <cpuid.h>

bool sr_random_is_sought(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && c & bit_RDRND;
}

/* ------------------------------------------------------------- an instruction */

struct draw {
	unsigned int bits;
	uint8_t reg, length;
	bool seeds;
};

static struct draw decode_draw(const struct sr_tsc_site *site)
{
	const uint8_t *code = (const uint8_t *)site->pc;
	struct draw draw = {.bits = 32};
	uint8_t byte = site->first;
	bool high = false;

	for (; byte != 0x0f; byte = code[++draw.length]) {
		if (byte == PREFIX_OPERAND16)
			draw.bits = 16;
		if (byte >> 4 == 4) {
			high = byte & REX_B;
			draw.bits = byte & REX_W ? 64 : draw.bits;
		}
	}
	byte = code[draw.length + 2];
	draw.length += SR_SOUGHT_BYTES;
	draw.reg = (uint8_t)((byte & 7) | (high ? 8 : 0));
	draw.seeds = (byte & 0x38) == 0x38;
	return draw;
}

/* Returns whether the processor had a number, as both instructions do. */
static int draw_plainly(bool seeds, unsigned int bits, uint64_t *value)
{
	uint8_t carry;

	if (seeds)
		__asm__ volatile("rdseed %0; setc %1" : "=r"(*value), "=qm"(carry) : : "cc");
	else
		__asm__ volatile("rdrand %0; setc %1" : "=r"(*value), "=qm"(carry) : : "cc");
	if (bits < 64)
		*value &= (1ull << bits) - 1;
	return carry;
}

uint64_t sr_invoke_rdrand(const struct sr_call_desc *d, uint64_t *a)
{
	return (uint64_t)draw_plainly(a[0], (unsigned int)a[1], (uint64_t *)a[2]);
}

/* A replay of a recording that has left this instruction as it is has no such record. */
static int draw_recorded(const struct draw *draw, uint64_t *value, void *site)
{
	uint64_t a[] = {draw->seeds, draw->bits, (uintptr_t)value};
	struct sr_thread *t = &sr_self;

	if (!sr_engine || t->depth || !t->armed ||
	    (sr_engine->replays && !sr_engine->comes_next(t, SR_CALL_rdrand, a)))
		return draw_plainly(draw->seeds, draw->bits, value);
	return (int)sr_call(SR_CALL_rdrand, a, site);
}

#define CARRY	     0x1
#define RESULT_FLAGS 0x8d5 /* carry, parity, adjust, zero, sign, overflow */

void sr_random_draw(const struct sr_tsc_site *site, ucontext_t *uc)
{
	const struct draw draw = decode_draw(site);
	greg_t *reg = decode_register(uc, draw.reg), *flags = &uc->uc_mcontext.gregs[REG_EFL];
	uint64_t value = 0;

	*flags &= ~(greg_t)RESULT_FLAGS;
	if (draw_recorded(&draw, &value, (void *)site->pc))
		*flags |= CARRY;
	if (draw.bits == 16)
		value |= (uint64_t)*reg & ~0xffffull;
	*reg = (greg_t)value;
	uc->uc_mcontext.gregs[REG_RIP] += draw.length;
}

#else

uint64_t sr_invoke_rdrand(const struct sr_call_desc *d, uint64_t *a)
{
	return 0;
}

#endif
