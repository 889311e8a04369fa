/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sought.h: finds the instructions in a program's code that read the time-stamp counter, draw random numbers, or ask the
 * processor what it is.
 *
 * Their bytes (0f 31, 0f 01 f9; 0f c7 f0 to 0f c7 ff; 0f a2) also occur within other instructions, and in constants. So
 * the function around each occurrence is decoded from its beginning; .eh_frame says where
 * that is. The decoding counts as right only if each instruction is valid and each direct
 * branch within the function leads to the beginning of one.
 *
 * Code is read through a callback: another thread may unmap it at any time.
 */
#ifndef SHIM_EXPOSED_X86_SOUGHT_H
#define SHIM_EXPOSED_X86_SOUGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest instruction that reads the counter: rdtscp. */
#define SR_COUNTER_BYTES  3
/* Most that tell such an instruction: its opcode, and rdrand's and rdseed's ModRM. */
#define SR_SOUGHT_BYTES   3

/* Bytes of a function that is decoded without memory being mapped for it. */
#define SR_FUNCTION_BYTES (1ul << 20)

enum sr_sought {
	SR_SOUGHT_COUNTER, /* rdtsc, rdtscp */
	SR_SOUGHT_RANDOM,  /* rdrand, rdseed: behind prefixes, mostly */
	SR_SOUGHT_CPUID,
	SR_SOUGHT_KINDS
};

struct sr_code_reader {
	enum sr_sought sought;
	/* False if not all of it can be read. */
	bool (*read)(void *argument, uintptr_t at, void *to, size_t n);
	void *argument;

	/* The last function, since several occurrences may be in one. The code does not change. */
	uintptr_t begin, end;
	bool is_decoded;
	uint8_t code[SR_FUNCTION_BYTES];
	uint8_t starts[SR_FUNCTION_BYTES / 8 + 1]; /* a bit for each byte */
	uint8_t targets[SR_FUNCTION_BYTES / 8 + 1];
};

/* An ELF image in memory. */
struct sr_code_image {
	uintptr_t functions, end; /* .eh_frame_hdr */
};

enum sr_occurrence {
	SR_OCCURRENCE_SITE,    /* an instruction */
	SR_OCCURRENCE_NONE,    /* within another instruction */
	SR_OCCURRENCE_UNCLEAR, /* not known */
};

/* base: where the image's header is. False if there is none, or it has no .eh_frame_hdr. */
bool sr_code_image_at(const struct sr_code_reader *r, uintptr_t base, struct sr_code_image *i);

/* The length of the instruction whose bytes these are; 0: they are not. */
static inline unsigned int sr_counter_length(const uint8_t *p, size_t n)
{
	if (n >= 2 && p[0] == 0x0f && p[1] == 0x31)
		return 2;
	return n >= 3 && p[0] == 0x0f && p[1] == 0x01 && p[2] == 0xf9 ? 3 : 0;
}

/* The length of such an instruction's opcode, with what belongs to it, whose bytes these are; 0: they are not. */
unsigned int sr_sought_length(enum sr_sought sought, const uint8_t *p, size_t n);

/* The first occurrence in these bytes at or after `from`; n if there is none. */
size_t sr_sought_find(enum sr_sought sought, const uint8_t *code, size_t n, size_t from);

/* Does an instruction of the function that was decoded last begin here? */
bool sr_code_begins(const struct sr_code_reader *r, uintptr_t at);

/*
 * What is the occurrence at `at`? image: NULL if the code is in none. Of an instruction, *at is
 * where it begins.
 */
enum sr_occurrence sr_sought_classify(struct sr_code_reader *r, const struct sr_code_image *image,
				      uintptr_t *at);

#endif
