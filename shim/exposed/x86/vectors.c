/* SPDX-License-Identifier: BSD-2-Clause */
/* vectors.c: their tables, after the Intel manual, volume 2, appendix A. */
#include "shim/exposed/x86/vectors.h"

#include <stddef.h>

#include "shim/exposed/x86/sizes.h"

#define VECTOR(class, size, flags, encodings) {FORM_MODRM, 0, class, size, flags, encodings}
#define BOTH (ENCODED_LEGACY | ENCODED_VEX)
#define ALL  (BOTH | ENCODED_EVEX)

/* Moves. */
#define LD(size)  VECTOR(INSN_VECTOR_LOAD, size, 0, ALL)
#define LDA(size) VECTOR(INSN_VECTOR_LOAD, size, OPCODE_ALIGNED, ALL)
#define ST(size)  VECTOR(INSN_VECTOR_STORE, size, 0, ALL)
#define STV(size) VECTOR(INSN_VECTOR_STORE, size, 0, ENCODED_VEX | ENCODED_EVEX)
#define STX(size) VECTOR(INSN_VECTOR_STORE, size, 0, ENCODED_EVEX)
#define STA(size) VECTOR(INSN_VECTOR_STORE, size, OPCODE_ALIGNED, ALL)
/* Reads that have no exception of their own: moves into a part of a register, shuffles; integers. */
#define RD(size)  VECTOR(INSN_OPERAND, size, OPCODE_ALWAYS, BOTH)
#define RDV(size) VECTOR(INSN_OPERAND, size, OPCODE_ALWAYS, ENCODED_VEX)
#define RDE(size) VECTOR(INSN_OPERAND, size, OPCODE_ALWAYS, ALL)
#define RDX(size) VECTOR(INSN_OPERAND, size, OPCODE_ALWAYS, ENCODED_EVEX)
/* Floating point. */
#define FP(size)  VECTOR(INSN_OPERAND, size, OPCODE_SIGNALS, BOTH)
#define FPV(size) VECTOR(INSN_OPERAND, size, OPCODE_SIGNALS, ENCODED_VEX)
/* Reads that a mask may suppress, or that read less than they name. */
#define RM(size)  VECTOR(INSN_OPERAND, size, 0, ENCODED_VEX)
#define RMU(size) VECTOR(INSN_OPERAND, size, OPCODE_UNALIGNED, BOTH)
/* Conversions, some elements only, mask registers. */
#define WRV(size) VECTOR(INSN_WRITE, size, 0, ENCODED_VEX)
#define WRX(size) VECTOR(INSN_WRITE, size, 0, ENCODED_EVEX)
#define COMPRESS  VECTOR(INSN_WRITE, FULL, OPCODE_ELEMENTS, ENCODED_EVEX)
/* Of general registers. */
#define RDL(size) VECTOR(INSN_OPERAND, size, OPCODE_ALWAYS, ENCODED_LEGACY)
/* MMX's: x87's exceptions are theirs. */
#define MMX(size) VECTOR(INSN_OPERAND, size, 0, ENCODED_LEGACY)
#define WRM(size) VECTOR(INSN_WRITE, size, OPCODE_SIGNALS, ENCODED_LEGACY)
#define NONE {0}

#define ARITHMETIC_FP {FP(FULL), FP(FULL), FP(DWORD), FP(QWORD)}
#define INTEGERS      {MMX(QWORD), RD(FULL)}
#define SHIFT         {MMX(QWORD), RD(OWORD)} /* by a count */

/* Columns: no prefix, 66, f3, f2. */
static const struct opcode vectors_0f[256][4] = {
    [0x10] = {LD(FULL), LD(FULL), LD(DWORD), LD(QWORD)}, /* movups, movupd, movss, movsd */
    [0x11] = {ST(FULL), ST(FULL), ST(DWORD), ST(QWORD)},
    [0x12] = {RD(QWORD), RD(QWORD), RD(FULL), RD(FULL_BUT_128)}, /* movlps, movlpd, movsldup, movddup */
    [0x13] = {ST(QWORD), ST(QWORD)}, /* movlps */
    [0x14 ... 0x15] = {RD(FULL), RD(FULL)}, /* unpck?ps */
    [0x16] = {RD(QWORD), RD(QWORD), RD(FULL)}, /* movhps, movhpd, movshdup */
    [MOVHPS] = {ST(QWORD), ST(QWORD)},
    [0x28] = {LDA(FULL), LDA(FULL)}, /* movaps, movapd */
    [0x29] = {STA(FULL), STA(FULL)},
    [0x2a] = {MMX(QWORD), MMX(QWORD), FP(D_OR_Q), FP(D_OR_Q)}, /* cvtsi2ss */
    [0x2b] = {STA(FULL), STA(FULL)}, /* movntps */
    [0x2c ... 0x2d] = {MMX(QWORD), VECTOR(INSN_OPERAND, OWORD, 0, ENCODED_LEGACY), FP(DWORD), FP(QWORD)}, /* cvtss2si */
    [0x2e ... 0x2f] = {FP(DWORD), FP(QWORD)}, /* comiss */
    [0x51] = ARITHMETIC_FP, /* sqrt */
    [0x52 ... 0x53] = {FP(FULL), NONE, FP(DWORD)}, /* rsqrt, rcp */
    [0x54 ... 0x57] = {RD(FULL), RD(FULL)}, /* and, andn, or, xor */
    [0x58 ... 0x59] = ARITHMETIC_FP,
    [0x5a] = {FP(HALF), FP(FULL), FP(DWORD), FP(QWORD)}, /* cvtps2pd */
    [0x5b] = {FP(FULL), FP(FULL), FP(FULL)}, /* cvtdq2ps */
    [0x5c ... 0x5f] = ARITHMETIC_FP,
    [0x60 ... 0x62] = {MMX(DWORD), RD(FULL)}, /* punpckl */
    [0x63 ... 0x6b] = INTEGERS,
    [0x6c ... 0x6d] = {NONE, RD(FULL)},
    [0x6e] = {NONE, LD(D_OR_Q)}, /* movd, movq */
    [0x6f] = {NONE, LDA(FULL), LD(FULL), VECTOR(INSN_VECTOR_LOAD, FULL, 0, ENCODED_EVEX)}, /* movdqa, movdqu */
    [0x70] = {MMX(QWORD), RD(FULL), RD(FULL), RD(FULL)}, /* pshuf */
    [0x74 ... 0x76] = {MMX(QWORD), RDE(FULL)}, /* pcmpeq */
    [0x7c ... 0x7d] = {NONE, FP(FULL), NONE, FP(FULL)}, /* hadd */
    [0x7e] = {WRM(D_OR_Q), ST(D_OR_Q), LD(QWORD)},
    [0x7f] = {WRM(QWORD), STA(FULL), ST(FULL), STX(FULL)},
    [0x90] = {RM(MASK_W), RM(MASK_B)}, {WRV(MASK_W), WRV(MASK_B)}, /* kmov */
    [0xc2] = ARITHMETIC_FP, /* cmp */
    [0xc4] = {MMX(WORD), RD(WORD)}, /* pinsrw */
    [0xc6] = {RD(FULL), RD(FULL)}, /* shuf */
    [0xd0] = {NONE, FP(FULL), NONE, FP(FULL)}, /* addsub */
    [0xd1 ... 0xd3] = SHIFT,
    [0xd4 ... 0xd5] = INTEGERS,
    [0xd6] = {NONE, ST(QWORD)}, /* movq */
    [0xd8 ... 0xd9] = INTEGERS,
    [0xda ... 0xdb] = {MMX(QWORD), RDE(FULL)}, /* pminub, pand */
    [0xdc ... 0xde] = INTEGERS,
    [0xdf] = {MMX(QWORD), RDE(FULL)}, /* pandn */
    [0xe0] = INTEGERS,
    [0xe1 ... 0xe2] = SHIFT,
    [0xe3 ... 0xe5] = INTEGERS,
    [0xe6] = {NONE, FP(FULL), FP(HALF), FP(FULL)}, /* cvttpd2dq, cvtdq2pd, cvtpd2dq */
    [0xe7] = {WRM(QWORD), STA(FULL)}, /* movntq, movntdq */
    [0xe8 ... 0xea] = INTEGERS,
    [0xeb] = {MMX(QWORD), RDE(FULL)}, /* por */
    [0xec ... 0xee] = INTEGERS,
    [0xef] = {MMX(QWORD), RDE(FULL)}, /* pxor */
    [0xf0] = {NONE, NONE, NONE, VECTOR(INSN_VECTOR_LOAD, FULL, 0, BOTH)}, /* lddqu */
    [0xf1 ... 0xf3] = SHIFT,
    [0xf4 ... 0xf6] = INTEGERS,
    [0xf8 ... 0xfe] = INTEGERS,
};

#define FMA_FULL   {NONE, FPV(FULL)}
#define FMA_SCALAR {NONE, FPV(D_OR_Q)}
#define BMI        RDV(D_OR_Q)
#define MOVBE_LOAD  RDL(V)
#define MOVBE_STORE VECTOR(INSN_EXCHANGE, V, 0, ENCODED_LEGACY)

static const struct opcode vectors_0f38[256][4] = {
    [0x00 ... 0x0b] = INTEGERS, /* pshufb, phadd, ... */
    [0x0c ... 0x0f] = {NONE, RDV(FULL)}, /* vpermil, vtest */
    [0x10] = {NONE, NONE, WRX(HALF)}, {NONE, NONE, WRX(QUARTER)}, {NONE, NONE, WRX(EIGHTH)}, /* vpmovus */
    {NONE, FPV(HALF), WRX(HALF)}, {NONE, NONE, WRX(QUARTER)}, /* and vcvtph2ps */
    [0x15] = {NONE, NONE, WRX(HALF)},
    [0x16] = {NONE, RDV(YWORD)}, /* vpermps */
    [0x17] = {NONE, RD(FULL)}, /* ptest */
    [0x18] = {NONE, RDV(DWORD)}, [0x19] = {NONE, RDV(QWORD)}, [0x1a] = {NONE, RDV(OWORD)}, /* vbroadcast */
    [0x1c ... 0x1e] = INTEGERS, /* pabs */
    [0x20] = {NONE, RD(HALF), WRX(HALF)}, {NONE, RD(QUARTER), WRX(QUARTER)}, /* pmovsx, vpmovs */
    {NONE, RD(EIGHTH), WRX(EIGHTH)}, {NONE, RD(HALF), WRX(HALF)},
    {NONE, RD(QUARTER), WRX(QUARTER)}, {NONE, RD(HALF), WRX(HALF)},
    [0x26 ... 0x27] = {NONE, RDX(FULL), RDX(FULL)}, /* vptestm, vptestnm */
    [0x28 ... 0x29] = {NONE, RD(FULL)}, /* pmuldq, pcmpeqq */
    [0x2a] = {NONE, LDA(FULL)}, {NONE, RD(FULL)}, /* movntdqa, packusdw */
    [0x2c ... 0x2d] = {NONE, RM(FULL)}, [0x2e ... 0x2f] = {NONE, WRV(FULL)}, /* vmaskmov */
    [0x30] = {NONE, RD(HALF), WRX(HALF)}, {NONE, RD(QUARTER), WRX(QUARTER)}, /* pmovzx, vpmov */
    {NONE, RD(EIGHTH), WRX(EIGHTH)}, {NONE, RD(HALF), WRX(HALF)},
    {NONE, RD(QUARTER), WRX(QUARTER)}, {NONE, RD(HALF), WRX(HALF)},
    [0x36] = {NONE, RDV(YWORD)}, /* vpermd */
    [0x37 ... 0x39] = {NONE, RD(FULL)}, /* pcmpgtq, pmin */
    [0x3a ... 0x3b] = {NONE, RDE(FULL)},
    [0x3c ... 0x40] = {NONE, RD(FULL)}, /* pmax, pmulld */
    [0x41] = {NONE, RD(OWORD)}, /* phminposuw */
    [0x45 ... 0x47] = {NONE, RDV(FULL)}, /* vpsrlv */
    [0x50 ... 0x53] = {NONE, RDV(FULL)}, /* vpdp */
    [0x58] = {NONE, RDV(DWORD)}, [0x59] = {NONE, RDV(QWORD)}, [0x5a] = {NONE, RDV(OWORD)}, /* vpbroadcast */
    [0x63] = {NONE, COMPRESS}, [0x8a ... 0x8b] = {NONE, COMPRESS}, /* vpcompress, vcompress */
    [0x78] = {NONE, RDV(BYTE)}, [0x79] = {NONE, RDV(WORD)},
    [0x8c] = {NONE, RM(FULL)}, [0x8e] = {NONE, WRV(FULL)}, /* vpmaskmov */
    [0x96 ... 0x98] = FMA_FULL, FMA_SCALAR, FMA_FULL, FMA_SCALAR, FMA_FULL, FMA_SCALAR, FMA_FULL, FMA_SCALAR,
    [0xa6 ... 0xa8] = FMA_FULL, FMA_SCALAR, FMA_FULL, FMA_SCALAR, FMA_FULL, FMA_SCALAR, FMA_FULL, FMA_SCALAR,
    [0xb6 ... 0xb8] = FMA_FULL, FMA_SCALAR, FMA_FULL, FMA_SCALAR, FMA_FULL, FMA_SCALAR, FMA_FULL, FMA_SCALAR,
    [0xcf] = {NONE, RD(FULL)}, /* gf2p8mulb */
    [0xdb] = {NONE, RD(OWORD)}, /* aesimc */
    [0xdc ... 0xdf] = {NONE, RD(FULL)}, /* aes */
    [0xf0] = {MOVBE_LOAD, MOVBE_LOAD, NONE, RDL(BYTE)}, {MOVBE_STORE, MOVBE_STORE, NONE, RDL(V)}, /* and crc32 */
    [0xf9] = {VECTOR(INSN_STORE, D_OR_Q, 0, ENCODED_LEGACY)}, /* movdiri */
    [0xf2] = {BMI}, {BMI}, /* andn; blsr, blsmsk, blsi */
    [0xf5] = {BMI, NONE, BMI, BMI}, /* bzhi, pext, pdep */
    {NONE, RDL(D_OR_Q), RDL(D_OR_Q), BMI}, /* adcx, adox, mulx */
    {BMI, BMI, BMI, BMI}, /* bextr, shlx, sarx, shrx */
};

static const struct opcode vectors_0f3a[256][4] = {
    [0x00 ... 0x01] = {NONE, RDV(YWORD)}, /* vpermq */
    [0x02] = {NONE, RDV(FULL)}, [0x04 ... 0x05] = {NONE, RDV(FULL)}, /* vpblendd, vpermil */
    [0x06] = {NONE, RDV(YWORD)}, /* vperm2f128 */
    [0x08 ... 0x09] = {NONE, FP(FULL)}, [0x0a] = {NONE, FP(DWORD)}, {NONE, FP(QWORD)}, /* round */
    [0x0c ... 0x0e] = {NONE, RD(FULL)}, /* blend */
    [0x0f] = INTEGERS, /* palignr */
    [0x14] = {NONE, ST(BYTE)}, {NONE, ST(WORD)}, {NONE, ST(D_OR_Q)}, {NONE, ST(DWORD)}, /* pextr, extractps */
    [0x18] = {NONE, RDV(OWORD)}, {NONE, STV(OWORD)}, [0x1b] = {NONE, STX(YWORD)}, /* vinsertf128, vextractf128 */
    [0x1d] = {NONE, VECTOR(INSN_WRITE, HALF, OPCODE_SIGNALS, ENCODED_VEX | ENCODED_EVEX)}, /* vcvtps2ph */
    [0x1e ... 0x1f] = {NONE, RDX(FULL)}, /* vpcmp */
    [0x20] = {NONE, RD(BYTE)}, {NONE, RD(DWORD)}, {NONE, RD(D_OR_Q)}, /* pinsr */
    [0x25] = {NONE, VECTOR(INSN_OPERAND, FULL, 0, ENCODED_EVEX)}, /* vpternlog */
    [0x38] = {NONE, RDV(OWORD)}, {NONE, STV(OWORD)}, [0x3b] = {NONE, STX(YWORD)}, /* vinserti128, vextracti128 */
    [0x3e ... 0x3f] = {NONE, RDX(FULL)}, /* vpcmp */
    [0x40] = {NONE, FP(FULL)}, {NONE, FP(OWORD)}, {NONE, RD(FULL)}, [0x44] = {NONE, RD(FULL)}, /* dpps, mpsadbw */
    [0x46] = {NONE, RDV(YWORD)}, /* vperm2i128 */
    [0x4a ... 0x4c] = {NONE, RDV(FULL)}, /* vblendv */
    [0x60 ... 0x63] = {NONE, RMU(OWORD)}, /* pcmpestrm */
    [0xce ... 0xcf] = {NONE, RD(FULL)}, /* gf2p8affine */
    [0xdf] = {NONE, RD(OWORD)}, /* aeskeygenassist */
    [0xf0] = {NONE, NONE, NONE, BMI}, /* rorx */
};

const struct opcode *vector_row(uint8_t map, uint8_t op, unsigned int prefix)
{
	static const struct opcode (*const maps[])[4] = {NULL, vectors_0f, vectors_0f38, vectors_0f3a};

	return &maps[map][op][prefix];
}

bool vector_has_immediate(uint8_t map, uint8_t op)
{
	return map == 3 || (map == 1 && ((op >= 0x70 && op <= 0x73) || op == 0xc2 || (op >= 0xc4 && op <= 0xc6)));
}

bool is_vector_0f(uint8_t op)
{
	return (op >= 0x10 && op <= 0x17) || (op >= 0x28 && op <= 0x2f) || (op >= 0x50 && op <= 0x76) ||
	       (op >= 0x7c && op <= 0x7f) || op == 0xc2 || (op >= 0xc4 && op <= 0xc6) || (op >= 0xd0 && op <= 0xfe);
}

bool is_vex_0f(uint8_t op)
{
	return is_vector_0f(op) || (op >= 0x41 && op <= 0x4b) || (op >= 0x90 && op <= 0x93) || op == 0x98 || op == 0x99;
}
