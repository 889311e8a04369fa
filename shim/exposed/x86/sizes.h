/* SPDX-License-Identifier: BSD-2-Clause */
/* sizes.h: the values of `immediate` and `size` in a row (row.h). */
#ifndef SHIM_EXPOSED_X86_SIZES_H
#define SHIM_EXPOSED_X86_SIZES_H

/* How many bytes of immediate follow. */
enum immediate {
	NO_IMMEDIATE,
	IMMEDIATE_1,
	IMMEDIATE_4,
	IMMEDIATE_Z, /* of the operand size, at most 4 */
	IMMEDIATE_V, /* of the operand size */
};

/* The operand's size in memory. */
enum size {
	NO_SIZE,
	BYTE,
	WORD,
	DWORD,
	QWORD,
	OWORD,
	YWORD,        /* 32 bytes */
	TBYTE,        /* 10 bytes */
	V,            /* operand size: 2, 4 or 8 */
	STACK,        /* of push and pop: 2 or 8 */
	D_OR_Q,       /* 4; 8 with W */
	Q_OR_O,       /* 8; 16 with W */
	MASK_W,       /* 2; 8 with W */
	MASK_B,       /* 1; 4 with W */
	FULL,         /* of the vector registers */
	HALF,
	QUARTER,
	EIGHTH,
	FULL_BUT_128, /* 8 if the registers have 16 bytes */
};

#endif
