/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/x86/sought.h"

#include <elf.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <string.h>

#include "logd/base/page.h"
#include "shim/exposed/x86/length.h"
#include "shim/exposed/x86/opcodes.h"

static bool get(const struct sr_code_reader *r, uintptr_t at, void *to, size_t n)
{
	return r->read(r->argument, at, to, n);
}

/* --------------------------------------------------------------- the image */

#define SEGMENTS_MAX 64

bool sr_code_image_at(const struct sr_code_reader *r, uintptr_t base, struct sr_code_image *image)
{
	Elf64_Phdr segments[SEGMENTS_MAX];
	const Elf64_Phdr *first = NULL, *functions = NULL;
	Elf64_Ehdr header;
	uintptr_t bias;

	if (!get(r, base, &header, sizeof(header)) || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(segments[0]) ||
	    header.e_phnum > SEGMENTS_MAX ||
	    !get(r, base + header.e_phoff, segments, header.e_phnum * sizeof(segments[0])))
		return false;
	for (int i = 0; i < header.e_phnum; i++) {
		if (segments[i].p_type == PT_LOAD && !first)
			first = &segments[i];
		if (segments[i].p_type == PT_GNU_EH_FRAME)
			functions = &segments[i];
	}
	if (!first || first->p_offset || !functions)
		return false;
	bias = base - sr_page_down(first->p_vaddr);
	image->functions = bias + functions->p_vaddr;
	image->end = image->functions + functions->p_memsz;
	return true;
}

/* ------------------------------------------------- where a function begins and ends */

/* How .eh_frame and its table encode addresses: DW_EH_PE_*, of the LSB. */
enum {
	AS_ADDRESS = 0x00,
	AS_UDATA4 = 0x03,
	AS_UDATA8 = 0x04,
	AS_SDATA4 = 0x0b,
	AS_SDATA8 = 0x0c,
	RELATIVE_TO_ITSELF = 0x10,
	RELATIVE_TO_TABLE = 0x30,
};

/* Reads a number in the lower half of such an encoding. Returns its size, or 0. */
static size_t get_number(const struct sr_code_reader *r, uintptr_t at, uint8_t encoding,
			 uintptr_t *v)
{
	uint64_t v8;
	int32_t v4;

	switch (encoding & 0x0f) {
	case AS_UDATA4:
	case AS_SDATA4:
		if (!get(r, at, &v4, sizeof(v4)))
			return 0;
		*v = (encoding & 0x0f) == AS_SDATA4 ? (uintptr_t)(intptr_t)v4 : (uint32_t)v4;
		return sizeof(v4);
	case AS_ADDRESS:
	case AS_UDATA8:
	case AS_SDATA8:
		if (!get(r, at, &v8, sizeof(v8)))
			return 0;
		*v = v8;
		return sizeof(v8);
	}
	return 0;
}

static bool get_leb128(const struct sr_code_reader *r, uintptr_t *at, uint64_t *v)
{
	uint8_t byte;

	*v = 0;
	for (unsigned int shift = 0; shift < 63; shift += 7) {
		if (!get(r, (*at)++, &byte, 1))
			return false;
		*v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

/* How the functions of this CIE encode their addresses: after 'R' in its augmentation. */
static bool get_encoding(const struct sr_code_reader *r, uintptr_t cie, uint8_t *encoding)
{
	char augmentation[8] = "";
	uintptr_t at = cie + 9;
	uint64_t ignored;
	uint8_t version, byte;

	*encoding = AS_ADDRESS;
	if (!get(r, cie + 8, &version, 1) || (version != 1 && version != 3))
		return false;
	for (unsigned int i = 0; i < sizeof(augmentation) - 1; i++) {
		if (!get(r, at++, &augmentation[i], 1))
			return false;
		if (!augmentation[i])
			break;
	}
	if (!augmentation[0])
		return true;
	/* Code and data alignment, and the return address's register, precede its data. */
	if (augmentation[0] != 'z' || !get_leb128(r, &at, &ignored) ||
	    !get_leb128(r, &at, &ignored))
		return false;
	if (version == 1)
		at++;
	else if (!get_leb128(r, &at, &ignored))
		return false;
	if (!get_leb128(r, &at, &ignored))
		return false;
	for (const char *c = augmentation + 1; *c; c++) {
		if (*c == 'R')
			return get(r, at, encoding, 1);
		if (*c == 'L') {
			at++;
		} else if (*c == 'P') {
			uintptr_t personality;
			size_t size;

			if (!get(r, at++, &byte, 1))
				return false;
			size = get_number(r, at, byte, &personality);
			if (!size)
				return false;
			at += size;
		} else if (*c != 'S' && *c != 'B') {
			return false;
		}
	}
	return true;
}

/* The range of one function, from its entry in .eh_frame. */
static bool get_function(const struct sr_code_reader *r, uintptr_t entry, uintptr_t *begin,
			 uintptr_t *end)
{
	uint32_t length, to_cie;
	uintptr_t at = entry + 8, size;
	uint8_t encoding;
	size_t n;

	if (!get(r, entry, &length, 4) || !length || length == UINT32_MAX ||
	    !get(r, entry + 4, &to_cie, 4) || !to_cie ||
	    !get_encoding(r, entry + 4 - to_cie, &encoding))
		return false;
	n = get_number(r, at, encoding, begin);
	if (!n || (encoding & 0xf0 & ~RELATIVE_TO_ITSELF))
		return false;
	if (encoding & RELATIVE_TO_ITSELF)
		*begin += at;
	if (!get_number(r, at + n, encoding & 0x0f, &size))
		return false;
	*end = *begin + size;
	return true;
}

/* An entry of the table in .eh_frame_hdr, sorted by address; both are relative to the table. */
struct entry {
	int32_t function, frame;
};

static bool find_entry(const struct sr_code_reader *r, const struct sr_code_image *image,
		       uintptr_t at, uintptr_t *frame)
{
	uint8_t head[4];
	uintptr_t table, pointer, count, low = 0;
	struct entry e;
	size_t size;

	if (!get(r, image->functions, head, sizeof(head)) || head[0] != 1 ||
	    head[3] != (RELATIVE_TO_TABLE | AS_SDATA4))
		return false;
	size = get_number(r, image->functions + 4, head[1], &pointer);
	table = image->functions + 4 + size;
	if (!size || !(size = get_number(r, table, head[2], &count)))
		return false;
	table += size;
	if (table + count * sizeof(e) > image->end)
		return false;
	while (count) {
		uintptr_t half = count / 2;

		if (!get(r, table + (low + half) * sizeof(e), &e, sizeof(e)))
			return false;
		if (image->functions + (uintptr_t)(intptr_t)e.function <= at) {
			*frame = image->functions + (uintptr_t)(intptr_t)e.frame;
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return low;
}

/* ------------------------------------------------------------- the function */

static bool is_start(const uint8_t *starts, size_t at)
{
	return starts[at / 8] >> at % 8 & 1;
}

bool sr_code_begins(const struct sr_code_reader *r, uintptr_t at)
{
	return at - r->begin < r->end - r->begin && is_start(r->starts, at - r->begin);
}

static void set_bit(uint8_t *bits, size_t at)
{
	bits[at / 8] |= (uint8_t)(1 << at % 8);
}

/* libc jumps over the lock prefix where there is one thread. */
static bool may_be_target(const struct sr_code_reader *r, size_t at)
{
	return is_start(r->starts, at) ||
	       (at && r->code[at - 1] == PREFIX_LOCK && is_start(r->starts, at - 1));
}

static bool are_targets_starts(const struct sr_code_reader *r, size_t n)
{
	for (size_t i = 0; i <= n / 8; i++)
		if (r->targets[i] & ~r->starts[i])
			for (size_t at = 8 * i; at < 8 * i + 8; at++)
				if (is_start(r->targets, at) && !may_be_target(r, at))
					return false;
	return true;
}

#define BREAKPOINT 0xcc /* a debugger's hides an instruction */

static bool decode(struct sr_code_reader *r, size_t n)
{
	struct shape s;
	int64_t target;

	memset(r->starts, 0, n / 8 + 1);
	memset(r->targets, 0, n / 8 + 1);
	for (size_t at = 0; at < n; at += s.length) {
		if (!shape_of(r->code + at, n - at, &s) || r->code[at] == BREAKPOINT)
			return false;
		set_bit(r->starts, at);
		if (!s.branches)
			continue;
		target = (int64_t)(at + s.length) + s.distance;
		if (target >= 0 && (uint64_t)target < n)
			set_bit(r->targets, (size_t)target);
	}
	return are_targets_starts(r, n);
}

/* False: it is not known where its instructions begin. */
static bool decode_function(struct sr_code_reader *r, uintptr_t begin, uintptr_t end)
{
	if (r->begin == begin && r->end == end)
		return r->is_decoded;
	r->begin = begin;
	r->end = end;
	r->is_decoded = end - begin <= sizeof(r->code) && get(r, begin, r->code, end - begin) &&
			decode(r, end - begin);
	return r->is_decoded;
}

unsigned int sr_sought_length(enum sr_sought sought, const uint8_t *p, size_t n)
{
	if (sought == SR_SOUGHT_COUNTER)
		return sr_counter_length(p, n);
	if (sought == SR_SOUGHT_CPUID)
		return n >= 2 && p[0] == 0x0f && p[1] == 0xa2 ? 2 : 0;
	return n >= 3 && p[0] == 0x0f && p[1] == 0xc7 && p[2] >= 0xf0 ? 3 : 0;
}

/* With a prefix in front, from `begins` to `at`: only those that draw numbers have any, and rdpid is not sought. */
static bool is_sought(const struct sr_code_reader *r, size_t begins, size_t at)
{
	return r->sought != SR_SOUGHT_RANDOM ? begins == at : !memchr(r->code + begins, PREFIX_REP, at - begins);
}

enum sr_occurrence sr_sought_classify(struct sr_code_reader *r, const struct sr_code_image *image,
				      uintptr_t *sought)
{
	uintptr_t frame = 0, begin, end, address = *sought;
	size_t at, before;
	struct shape s;

	/* Functions are not nested. */
	if (address - r->begin >= r->end - r->begin) {
		if (!image || !find_entry(r, image, address, &frame) ||
		    !get_function(r, frame, &begin, &end) || address - begin >= end - begin)
			return SR_OCCURRENCE_UNCLEAR;
		decode_function(r, begin, end);
	}
	if (!r->is_decoded)
		return SR_OCCURRENCE_UNCLEAR;
	at = before = address - r->begin;
	if (!sr_sought_length(r->sought, r->code + at, r->end - address))
		return SR_OCCURRENCE_UNCLEAR;
	while (!is_start(r->starts, before))
		before--;
	shape_of(r->code + before, r->end - r->begin - before, &s);
	if (before + s.opcode_at != at)
		return SR_OCCURRENCE_NONE;
	if (!is_sought(r, before, at))
		return SR_OCCURRENCE_UNCLEAR;
	*sought = r->begin + before;
	return SR_OCCURRENCE_SITE;
}

/* The first 0f that something sought may begin with, before n. */
static size_t next_candidate(enum sr_sought sought, const uint8_t *code, size_t n, size_t from)
{
	const uint8_t *p;

#ifdef __SSE2__
	/* Every hundredth byte is an 0f, and all code of the process is searched for these: by pairs, sixteen at a time. */
	const __m128i first = _mm_set1_epi8(0x0f), second = _mm_set1_epi8(sought == SR_SOUGHT_CPUID ? (char)0xa2 : (char)0xc7);

	while (sought != SR_SOUGHT_COUNTER && from + 16 < n) {
		__m128i is_first = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(code + from)), first);
		__m128i is_second = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(code + from + 1)), second);
		int found = _mm_movemask_epi8(_mm_and_si128(is_first, is_second));

		if (found)
			return from + (size_t)__builtin_ctz((unsigned int)found);
		from += 16;
	}
#endif
	p = memchr(code + from, 0x0f, n - from);
	return p ? (size_t)(p - code) : n;
}

size_t sr_sought_find(enum sr_sought sought, const uint8_t *code, size_t n, size_t from)
{
	while (from < n) {
		from = next_candidate(sought, code, n, from);
		if (from < n && sr_sought_length(sought, code + from, n - from))
			return from;
		from++;
	}
	return n;
}
