/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_opcodes.c: compares our table of opcodes with Zydis, over random encodings.
 *
 *     SREPLAY_TEST_ENCODINGS=20000000 SREPLAY_TEST_SEED=7 test_opcodes
 *
 * If our decoder knows an instruction, Zydis must read it the same way. Bytes that Zydis
 * rejects raise an exception before any access to memory, so our result for them does not
 * matter.
 */
#include <Zydis/Zydis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim/exposed/x86/decode.h"
#include "shim/exposed/x86/length.h"
#include "shim/exposed/x86/relocate.h"
#include "tests/unit/exposed/encodings.h"

#define ENCODINGS     400000
#define FAILURES_MAX  25

/* What Zydis says. */
struct reading {
	ZydisDecodedInstruction i;
	ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
	const ZydisDecodedOperand *memory; /* the operand of ModRM */
	const ZydisDecodedOperand *reg;    /* the register in ModRM's bits 3 to 5 */
};

static ZydisDecoder decoder;
static unsigned long failures, defined, known, movable, shaped;

/* ------------------------------------------------------------ comparisons */

static void print_bytes(const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		printf("%02x", bytes[i]);
}

static void differ(const uint8_t *bytes, const struct reading *z, const struct insn *insn, const char *what)
{
	const struct encoding *e = &insn->encoding;

	if (failures++ >= FAILURES_MAX)
		return;
	printf("# ");
	print_bytes(bytes, 15);
	printf(" %s\n#   Zydis: %s, %u bytes, memory %u bytes, actions %x, exceptions %d\n", what,
	       ZydisMnemonicGetString(z->i.mnemonic), z->i.length, z->memory ? z->memory->size / 8u : 0,
	       z->memory ? z->memory->actions : 0u, z->i.meta.exception_class);
	printf("#   ours: class %d, form %d, map %d, opcode %02x, %u bytes, memory %u bytes, align %u, reg %u%s\n", insn->class,
	       e->op.form, e->map, e->opcode, e->length, insn->size, insn->align, insn->reg, insn->always ? ", always" : "");
}

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			differ(bytes, z, insn, #condition); \
			return; \
		} \
	} while (0)

static bool is_read(const struct reading *z)
{
	return z->memory->actions & ZYDIS_OPERAND_ACTION_MASK_READ;
}

static bool is_written(const struct reading *z)
{
	return z->memory->actions & (ZYDIS_OPERAND_ACTION_MASK_WRITE | ZYDIS_OPERAND_ACTION_CONDWRITE);
}

static bool is_any(ZydisMnemonic m, const ZydisMnemonic *of)
{
	while (*of && *of != m)
		of++;
	return *of;
}

/* The number of a register in instructions; of ah to bh 4 to 7. */
static int number_of(ZydisRegister r)
{
	if (r >= ZYDIS_REGISTER_AL && r <= ZYDIS_REGISTER_BH)
		return r - ZYDIS_REGISTER_AL;
	if (r >= ZYDIS_REGISTER_SPL && r <= ZYDIS_REGISTER_R15B)
		return r - ZYDIS_REGISTER_SPL + 4;
	return ZydisRegisterGetId(r);
}

static unsigned int memory_operands(const struct reading *z)
{
	unsigned int n = 0;

	for (unsigned int k = 0; k < z->i.operand_count; k++)
		n += z->o[k].type == ZYDIS_OPERAND_TYPE_MEMORY && z->o[k].actions;
	return n;
}

static bool uses_rip(const struct reading *z)
{
	for (unsigned int k = 0; k < z->i.operand_count; k++)
		if (z->o[k].type == ZYDIS_OPERAND_TYPE_REGISTER && z->o[k].reg.value == ZYDIS_REGISTER_RIP)
			return true;
	return false;
}

static int64_t immediate_of(const struct reading *z)
{
	return z->i.raw.imm[0].is_signed ? z->i.raw.imm[0].value.s : (int64_t)z->i.raw.imm[0].value.u;
}

static void compare_form(const uint8_t *bytes, const struct reading *z, const struct insn *insn)
{
	const struct encoding *e = &insn->encoding;
	unsigned int immediate = (z->i.raw.imm[0].size + z->i.raw.imm[1].size) / 8u;

	CHECK(e->length == z->i.length);
	CHECK(e->immediate_bytes == immediate);
	CHECK(!e->modrm_at == !(z->i.attributes & ZYDIS_ATTRIB_HAS_MODRM));
	switch (e->op.form) {
	case FORM_BRANCH:
		if (e->prefixed) /* not moved */
			break;
		CHECK(z->i.meta.category == ZYDIS_CATEGORY_COND_BR && z->i.raw.imm[0].is_relative);
		CHECK(signed_at(bytes + e->immediate_at, e->immediate_bytes) == immediate_of(z));
		break;
	case FORM_JUMP:
	case FORM_CALL:
		if (e->prefixed)
			break;
		CHECK(z->i.meta.category == (e->op.form == FORM_CALL ? ZYDIS_CATEGORY_CALL : ZYDIS_CATEGORY_UNCOND_BR));
		CHECK(z->i.raw.imm[0].is_relative && signed_at(bytes + e->immediate_at, e->immediate_bytes) == immediate_of(z));
		break;
	case FORM_CALL_BY:
	case FORM_JUMP_BY:
		if (e->prefixed)
			break;
		CHECK(z->i.meta.category == (e->op.form == FORM_CALL_BY ? ZYDIS_CATEGORY_CALL : ZYDIS_CATEGORY_UNCOND_BR));
		CHECK(!z->i.raw.imm[0].is_relative && z->i.meta.branch_type == ZYDIS_BRANCH_TYPE_NEAR);
		CHECK(e->relative == (z->memory && z->memory->mem.base == ZYDIS_REGISTER_RIP));
		break;
	case FORM_RETURN:
		CHECK(z->i.meta.category == ZYDIS_CATEGORY_RET);
		break;
	case FORM_PLAIN:
	case FORM_MODRM:
		CHECK(!uses_rip(z) && !z->i.raw.imm[0].is_relative);
		CHECK(e->relative == (z->memory && z->memory->mem.base == ZYDIS_REGISTER_RIP));
		break;
	}
}

/* ---------------------------------------------------- the operand in memory */

static const int gregs[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
			      REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

static ucontext_t uc;
static ZydisRegisterContext registers;

static void make_registers(void)
{
	for (int k = 0; k < 16; k++) {
		uint64_t v = random_bits();

		uc.uc_mcontext.gregs[gregs[k]] = (greg_t)v;
		registers.values[ZYDIS_REGISTER_RAX + k] = v;
	}
	uc.uc_mcontext.gregs[REG_RIP] = (greg_t)(random_bits() >> 17);
	registers.values[ZYDIS_REGISTER_RIP] = (uint64_t)uc.uc_mcontext.gregs[REG_RIP];
}

static bool is_misalignment_fault(const struct reading *z)
{
	static const ZydisMnemonic unaligned[] = {
	    ZYDIS_MNEMONIC_MOVUPS, ZYDIS_MNEMONIC_MOVUPD, ZYDIS_MNEMONIC_MOVDQU, ZYDIS_MNEMONIC_LDDQU, ZYDIS_MNEMONIC_PCMPESTRI,
	    ZYDIS_MNEMONIC_PCMPESTRM, ZYDIS_MNEMONIC_PCMPISTRI, ZYDIS_MNEMONIC_PCMPISTRM, 0};

	switch (z->i.meta.exception_class) {
	case ZYDIS_EXCEPTION_CLASS_SSE1:
	case ZYDIS_EXCEPTION_CLASS_AVX1:
	case ZYDIS_EXCEPTION_CLASS_E1:
	case ZYDIS_EXCEPTION_CLASS_E1NF:
		return true;
	case ZYDIS_EXCEPTION_CLASS_SSE2:
	case ZYDIS_EXCEPTION_CLASS_SSE4:
		return z->memory->size == 128 && !is_any(z->i.mnemonic, unaligned);
	default:
		/* Zydis has no class for these; the manual's is "MMX with FP exception and 16-byte alignment". */
		return z->i.mnemonic == ZYDIS_MNEMONIC_CVTPD2PI || z->i.mnemonic == ZYDIS_MNEMONIC_CVTTPD2PI;
	}
}

static bool is_masked(const struct reading *z)
{
	static const ZydisMnemonic masked[] = {ZYDIS_MNEMONIC_VMASKMOVPS, ZYDIS_MNEMONIC_VMASKMOVPD, ZYDIS_MNEMONIC_VPMASKMOVD,
					       ZYDIS_MNEMONIC_VPMASKMOVQ, 0};

	return is_any(z->i.mnemonic, masked);
}

static bool has_mmx(const struct reading *z)
{
	for (unsigned int k = 0; k < z->i.operand_count; k++)
		if (z->o[k].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    ZydisRegisterGetClass(z->o[k].reg.value) == ZYDIS_REGCLASS_MMX)
			return true;
	return false;
}

/* Has it an exception of its own, or may it read less than all of its operand? */
static bool may_fail_or_skip(const struct reading *z)
{
	switch (z->i.meta.exception_class) {
	case ZYDIS_EXCEPTION_CLASS_SSE2: /* floating point */
	case ZYDIS_EXCEPTION_CLASS_SSE3:
	case ZYDIS_EXCEPTION_CLASS_AVX2:
	case ZYDIS_EXCEPTION_CLASS_AVX3:
	case ZYDIS_EXCEPTION_CLASS_E2:
	case ZYDIS_EXCEPTION_CLASS_E2NF:
	case ZYDIS_EXCEPTION_CLASS_E3:
	case ZYDIS_EXCEPTION_CLASS_E3NF:
		return true;
	default:
		break;
	}
	return has_mmx(z) || is_masked(z) || z->i.mnemonic == ZYDIS_MNEMONIC_DIV || z->i.mnemonic == ZYDIS_MNEMONIC_IDIV ||
	       (z->i.avx.mask.mode != ZYDIS_MASK_MODE_INVALID && z->i.avx.mask.mode != ZYDIS_MASK_MODE_DISABLED);
}

/* Of what Zydis does not count: the word of a bit, and a stack pointer that has changed. */
static uint64_t further(const struct insn *insn)
{
	const uint64_t bit = encoding_chooses_bit(&insn->encoding) ? registers.values[ZYDIS_REGISTER_RAX + insn->reg] : 0;

	if (encoding_pops(&insn->encoding))
		return insn->operand.base == REGISTER_SP ? insn->size : 0;
	if (insn->size == 2)
		return (uint64_t)(((int16_t)bit & ~15) / 8);
	return insn->size == 4 ? (uint64_t)(((int32_t)bit & ~31) / 8) : (uint64_t)(((int64_t)bit & ~63) / 8);
}

static void compare_access(const uint8_t *bytes, const struct reading *z, const struct insn *insn)
{
	ZyanU64 address;

	CHECK(z->memory && z->memory->mem.type == ZYDIS_MEMOP_TYPE_MEM);
	/* With the return address; with the stack. */
	CHECK(memory_operands(z) == (insn->class == INSN_CALL || encoding_pops(&insn->encoding) ? 2 : 1));
	CHECK(insn->size == z->memory->size / 8);
	CHECK(insn->length == z->i.length);
	CHECK(ZYAN_SUCCESS(ZydisCalcAbsoluteAddressEx(&z->i, z->memory, registers.values[ZYDIS_REGISTER_RIP], &registers, &address)));
	CHECK(insn->address == address + further(insn));
	switch (insn->class) {
	case INSN_STORE:
	case INSN_VECTOR_STORE:
	case INSN_WRITE:
		CHECK(is_written(z) && !is_read(z));
		break;
	case INSN_EXCHANGE:
		CHECK(is_written(z));
		break;
	default:
		CHECK(is_read(z) && !is_written(z));
	}
	CHECK(!!insn->align == is_misalignment_fault(z));
	CHECK(!insn->align || insn->align == insn->size - 1);
	CHECK(insn->class != INSN_OPERAND || !insn->always || !may_fail_or_skip(z));
	CHECK(!insn->signals || (!is_masked(z) && !has_mmx(z)));
}

static void compare_register(const uint8_t *bytes, const struct reading *z, const struct insn *insn)
{
	CHECK(z->reg);
	CHECK(insn->reg + (insn->high ? 4 : 0) == number_of(z->reg->reg.value));
	CHECK(insn->high == (z->reg->reg.value >= ZYDIS_REGISTER_AH && z->reg->reg.value <= ZYDIS_REGISTER_BH));
}

static void compare_move(const uint8_t *bytes, const struct reading *z, const struct insn *insn)
{
	static const ZydisMnemonic loads[] = {ZYDIS_MNEMONIC_MOV, ZYDIS_MNEMONIC_MOVZX, ZYDIS_MNEMONIC_MOVSX, ZYDIS_MNEMONIC_MOVSXD, 0};
	static const ZydisMnemonic stores[] = {ZYDIS_MNEMONIC_MOV, ZYDIS_MNEMONIC_MOVNTI, ZYDIS_MNEMONIC_MOVDIRI, 0};
	bool sign = z->i.mnemonic == ZYDIS_MNEMONIC_MOVSX || z->i.mnemonic == ZYDIS_MNEMONIC_MOVSXD;

	if (insn->has_immediate)
		CHECK(insn->class != INSN_LOAD && insn->immediate == immediate_of(z));
	else
		compare_register(bytes, z, insn);
	switch (insn->class) {
	case INSN_LOAD:
		CHECK(is_any(z->i.mnemonic, loads) && insn->extends_sign == sign);
		CHECK(insn->to_size == z->reg->size / 8);
		break;
	case INSN_STORE:
		CHECK(is_any(z->i.mnemonic, stores));
		break;
	default:
		CHECK(z->i.mnemonic == (insn->test ? ZYDIS_MNEMONIC_TEST : ZYDIS_MNEMONIC_CMP));
		CHECK(insn->test || insn->has_immediate || insn->reversed == (z->memory->id == 1));
	}
}

/* Operands that are vector registers. */
static unsigned int vector_operands(const struct reading *z)
{
	unsigned int n = 0;

	for (unsigned int k = 0; k < z->i.operand_count; k++)
		n += z->o[k].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		     ZydisRegisterGetClass(z->o[k].reg.value) != ZYDIS_REGCLASS_MASK;
	return n;
}

static bool is_extract(const struct reading *z)
{
	static const ZydisMnemonic extracts[] = {
	    ZYDIS_MNEMONIC_PEXTRB, ZYDIS_MNEMONIC_PEXTRW, ZYDIS_MNEMONIC_PEXTRD, ZYDIS_MNEMONIC_PEXTRQ, ZYDIS_MNEMONIC_EXTRACTPS,
	    ZYDIS_MNEMONIC_VPEXTRB, ZYDIS_MNEMONIC_VPEXTRW, ZYDIS_MNEMONIC_VPEXTRD, ZYDIS_MNEMONIC_VPEXTRQ, ZYDIS_MNEMONIC_VEXTRACTPS,
	    ZYDIS_MNEMONIC_VEXTRACTF128, ZYDIS_MNEMONIC_VEXTRACTI128, ZYDIS_MNEMONIC_VEXTRACTF32X4, ZYDIS_MNEMONIC_VEXTRACTI32X4,
	    ZYDIS_MNEMONIC_VEXTRACTF64X2, ZYDIS_MNEMONIC_VEXTRACTI64X2, ZYDIS_MNEMONIC_VEXTRACTF32X8, ZYDIS_MNEMONIC_VEXTRACTI32X8,
	    ZYDIS_MNEMONIC_VEXTRACTF64X4, ZYDIS_MNEMONIC_VEXTRACTI64X4, 0};

	return is_any(z->i.mnemonic, extracts);
}

/* The immediate's low bits say which of the parts, each as large as the operand. */
static unsigned int first_byte(const struct reading *z)
{
	static const ZydisMnemonic uppers[] = {ZYDIS_MNEMONIC_MOVHPS, ZYDIS_MNEMONIC_MOVHPD, ZYDIS_MNEMONIC_VMOVHPS, ZYDIS_MNEMONIC_VMOVHPD, 0};
	/* Of vextractf128 Zydis has the register's lower half. */
	unsigned int vector = z->i.avx.vector_length ? z->i.avx.vector_length / 8u : 16;

	if (is_extract(z))
		return (unsigned int)(immediate_of(z) * (z->memory->size / 8)) % vector;
	return is_any(z->i.mnemonic, uppers) ? 8 : 0;
}

/* A vector move uses one register, does not change the flags and reads no mask. */
static void compare_vector(const uint8_t *bytes, const struct reading *z, const struct insn *insn)
{
	static const ZydisMnemonic others[] = {ZYDIS_MNEMONIC_LDDQU, ZYDIS_MNEMONIC_VLDDQU, ZYDIS_MNEMONIC_MOVNTDQA, ZYDIS_MNEMONIC_VMOVNTDQA, 0};

	CHECK(vector_operands(z) == 1);
	CHECK(z->i.meta.category == ZYDIS_CATEGORY_DATAXFER || is_any(z->i.mnemonic, others) || is_extract(z));
	CHECK(!may_fail_or_skip(z));
	CHECK(insn->vex == (z->i.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY));
	compare_register(bytes, z, insn);
	CHECK(insn->from == (insn->class == INSN_VECTOR_STORE ? first_byte(z) : 0));
}

static void compare_string(const uint8_t *bytes, const struct reading *z, const struct insn *insn)
{
	static const ZydisMnemonic moves[] = {ZYDIS_MNEMONIC_MOVSB, ZYDIS_MNEMONIC_MOVSW, ZYDIS_MNEMONIC_MOVSD, ZYDIS_MNEMONIC_MOVSQ, 0};
	static const ZydisMnemonic fills[] = {ZYDIS_MNEMONIC_STOSB, ZYDIS_MNEMONIC_STOSW, ZYDIS_MNEMONIC_STOSD, ZYDIS_MNEMONIC_STOSQ, 0};

	CHECK(is_any(z->i.mnemonic, insn->source ? moves : fills));
	CHECK(insn->size == z->o[0].size / 8);
	CHECK(insn->length == z->i.length);
}

/* --------------------------------------------------------- moved elsewhere */

static bool read_bytes(const uint8_t *bytes, struct reading *z)
{
	z->memory = z->reg = NULL;
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, 15, &z->i, z->o)))
		return false;
	for (unsigned int k = 0; k < z->i.operand_count; k++) {
		if (z->o[k].type == ZYDIS_OPERAND_TYPE_MEMORY && z->o[k].encoding == ZYDIS_OPERAND_ENCODING_MODRM_RM)
			z->memory = &z->o[k];
		if (z->o[k].type == ZYDIS_OPERAND_TYPE_REGISTER && z->o[k].encoding == ZYDIS_OPERAND_ENCODING_MODRM_REG)
			z->reg = &z->o[k];
	}
	return true;
}

/* Are all operands except the one in memory the same? */
static bool has_same_operands(const struct reading *a, const struct reading *b)
{
	if (a->i.mnemonic != b->i.mnemonic || a->i.operand_count != b->i.operand_count)
		return false;
	for (unsigned int k = 0; k < a->i.operand_count; k++) {
		const ZydisDecodedOperand *x = &a->o[k], *y = &b->o[k];

		if (x->type != y->type || x->size != y->size)
			return false;
		if (x->type == ZYDIS_OPERAND_TYPE_REGISTER && x->reg.value != y->reg.value)
			return false;
		if (x->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && x->imm.value.u != y->imm.value.u)
			return false;
	}
	return true;
}

static void compare_relocated_operand(const uint8_t *bytes, const struct reading *z, const struct insn *insn)
{
	uint8_t to[ENCODING_BYTES] = {0};
	struct reading moved;

	if (!relocate_operand(to, bytes, &insn->encoding, PREFIX_GS, -0x1234))
		return;
	CHECK(read_bytes(to, &moved));
	CHECK(has_same_operands(z, &moved));
	CHECK(moved.memory && moved.memory->mem.segment == ZYDIS_REGISTER_GS);
	CHECK(moved.memory->mem.base == ZYDIS_REGISTER_NONE && moved.memory->mem.index == ZYDIS_REGISTER_NONE);
	CHECK(moved.memory->mem.disp.value == -0x1234);
}

/* A copy of it, by itself, at another place. */
static void compare_copy(const uint8_t *bytes, const struct reading *z, const struct insn *insn)
{
	const struct group g = {.n = 1, .length = insn->encoding.length, .at = {0, insn->encoding.length}};
	uint8_t to[2 * ENCODING_BYTES] = {0};
	uintptr_t pc = (uintptr_t)to + 0x1000 + below(0x10000);
	ZyanU64 here, there;
	struct reading moved;
	struct copies c;

	if (!relocate(bytes, pc, &g, to, &c, pc + g.length) || insn->encoding.op.form == FORM_CALL ||
	    insn->encoding.op.form == FORM_CALL_BY)
		return;
	CHECK(read_bytes(to, &moved));
	if (insn->encoding.op.form == FORM_BRANCH || insn->encoding.op.form == FORM_JUMP) {
		CHECK(z->i.mnemonic == moved.i.mnemonic);
		CHECK(pc + z->i.length + (uint64_t)immediate_of(z) == (uintptr_t)to + moved.i.length + (uint64_t)immediate_of(&moved));
		return;
	}
	CHECK(has_same_operands(z, &moved));
	if (z->memory && z->memory->mem.base == ZYDIS_REGISTER_RIP && !insn->encoding.segment) {
		ZydisCalcAbsoluteAddress(&z->i, z->memory, pc, &here);
		ZydisCalcAbsoluteAddress(&moved.i, moved.memory, (uintptr_t)to, &there);
		CHECK(here == there);
	}
}

/* Every instruction has a length, except where processors disagree about it. */
static void compare_shape(const uint8_t *bytes, const struct reading *z)
{
	static const struct insn none;
	const struct insn *insn = &none;
	bool is_relative = z->i.raw.imm[0].is_relative;
	struct shape s;

	/* Of a coprocessor that is no more: its branches have a vector instruction's prefix. */
	if (is_relative && z->i.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX)
		return;
	if (!shape_of(bytes, 15, &s)) {
		CHECK(is_relative && z->i.attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE);
		return;
	}
	shaped++;
	CHECK(s.length == z->i.length);
	CHECK(s.relative == (z->memory && (z->memory->mem.base == ZYDIS_REGISTER_RIP || z->memory->mem.base == ZYDIS_REGISTER_EIP)));
	CHECK(s.branches == (is_relative && z->i.mnemonic != ZYDIS_MNEMONIC_XBEGIN));
	if (s.branches)
		CHECK(s.distance == immediate_of(z));
	CHECK(shape_of(bytes, s.length, &s) && !shape_of(bytes, s.length - 1u, &s));
}

static void compare(const uint8_t bytes[ENCODING_BYTES])
{
	struct reading reading, *z = &reading;
	struct insn insn;

	if (!read_bytes(bytes, z))
		return;
	defined++;
	compare_shape(bytes, z);
	make_registers();
	decode(bytes, &uc, &insn);
	if (!encoding_of(bytes, &insn.encoding)) {
		if (insn.class != INSN_UNKNOWN)
			differ(bytes, z, &insn, "decode() knows what encoding_of() does not");
		return;
	}
	if (insn.encoding.op.form != FORM_UNKNOWN) {
		movable++;
		compare_form(bytes, z, &insn);
		compare_copy(bytes, z, &insn);
	}
	if (insn.class == INSN_UNKNOWN)
		return;
	known++;
	if (insn.class == INSN_STRING) {
		compare_string(bytes, z, &insn);
		return;
	}
	compare_access(bytes, z, &insn);
	if (insn.class == INSN_LOAD || insn.class == INSN_STORE || insn.class == INSN_COMPARE)
		compare_move(bytes, z, &insn);
	if (insn.class == INSN_VECTOR_LOAD || insn.class == INSN_VECTOR_STORE)
		compare_vector(bytes, z, &insn);
	compare_relocated_operand(bytes, z, &insn);
}

/* What the random encodings have found, in three tables that were here before this one. */
static const struct found {
	const char *name;
	uint8_t bytes[8];
	enum insn_class class;
	uint8_t size, align;
} found[] = {
    {"66 before cvtsi2sd changes nothing", {0x66, 0xf2, 0x0f, 0x2a, 0x07}, INSN_OPERAND, 4, 0},
    {"vcvtsi2sd reads 4 bytes without W", {0xc5, 0xfb, 0x2a, 0x07}, INSN_OPERAND, 4, 0},
    {"cvtps2pd reads 8 bytes", {0x0f, 0x5a, 0x07}, INSN_OPERAND, 8, 0},
    {"punpckldq of MMX reads 4 bytes", {0x0f, 0x62, 0x07}, INSN_OPERAND, 4, 0},
    {"vmovhps reads 8 bytes", {0xc5, 0xe8, 0x16, 0x07}, INSN_OPERAND, 8, 0},
    {"vmovddup reads 8 bytes to xmm", {0xc5, 0xfb, 0x12, 0x07}, INSN_OPERAND, 8, 0},
    {"vpmovzxbq reads an eighth", {0xc4, 0xe2, 0x7d, 0x32, 0x07}, INSN_OPERAND, 4, 0},
    {"vfmadd213ss reads 4 bytes", {0xc4, 0xe2, 0x71, 0xa9, 0x07}, INSN_OPERAND, 4, 0},
    {"kmovb reads 1 byte", {0xc5, 0xf9, 0x90, 0x07}, INSN_OPERAND, 1, 0},
    {"vpinsrb reads 1 byte", {0xc4, 0xe3, 0x71, 0x20, 0x07, 0x01}, INSN_OPERAND, 1, 0},
    {"vmaskmovps to memory is no read", {0xc4, 0xe2, 0x75, 0x2e, 0x07}, INSN_WRITE, 32, 0},
    {"vextractf128 to memory is no read", {0xc4, 0xe3, 0x7d, 0x19, 0x07, 0x01}, INSN_VECTOR_STORE, 16, 0},
    {"vstmxcsr is no read", {0xc5, 0xf8, 0xae, 0x1f}, INSN_UNKNOWN, 0, 0},
    {"vzeroupper has no operand", {0xc5, 0xf8, 0x77, 0x07}, INSN_UNKNOWN, 0, 0},
    {"vmovntdqa needs an aligned operand", {0xc4, 0xe2, 0x7d, 0x2a, 0x07}, INSN_VECTOR_LOAD, 32, 31},
};
#define FOUND (sizeof(found) / sizeof(*found))

static bool is_right(const struct found *f)
{
	uint8_t bytes[ENCODING_BYTES] = {0};
	struct insn insn;

	memcpy(bytes, f->bytes, sizeof(f->bytes));
	make_registers();
	decode(bytes, &uc, &insn);
	return insn.class == f->class && (insn.class == INSN_UNKNOWN || (insn.size == f->size && insn.align == f->align));
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 0) : otherwise;
}

int main(void)
{
	uint64_t n = number("SREPLAY_TEST_ENCODINGS", ENCODINGS), seed = number("SREPLAY_TEST_SEED", (uint64_t)time(NULL));
	uint8_t bytes[ENCODING_BYTES];

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	encodings_begin(seed);
	printf("1..%zu\n# seed %llu\n", 1 + FOUND, (unsigned long long)seed);
	for (uint64_t k = 0; k < n; k++) {
		encodings_next(bytes);
		compare(bytes);
	}
	printf("# %llu encodings, %lu of them instructions, %lu known, %lu movable, %lu measured\n", (unsigned long long)n, defined, known, movable,
	       shaped);
	printf("%sok 1 - Zydis reads every instruction as we do (%lu differences)\n", failures || !known ? "not " : "", failures);
	for (size_t k = 0; k < FOUND; k++) {
		bool right = is_right(&found[k]);

		printf("%sok %zu - %s\n", right ? "" : "not ", 2 + k, found[k].name);
		failures += !right;
	}
	return failures || !known;
}
