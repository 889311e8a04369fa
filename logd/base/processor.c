/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/base/processor.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { EAX, EBX, ECX, EDX };

/* The first leaf of each range; it reports the last one. */
static const uint32_t ranges[] = {0, 0x40000000, 0x80000000};

#define RANGE_LEAVES 256
/* Behind a range, Intel answers with the last basic leaf, and AMD with 0. */
#define BEYOND(leaf)                                                                               \
	((leaf) < 0x40000000 ? 0x3fffffff : (leaf) < 0x80000000 ? 0x7fffffff : 0xffffffff)

#define EXTENDED_STATE 0xd /* up to 64 components, with gaps */
#define SUBLEAVES      64
#define GAP            3 /* behind so many empty subleaves there are no more */
#define MOVES_MAX      100

#define TOPOLOGY 0xb
#define EXTENDED 0x8000001e /* AMD's */

/* These return the subleaf asked for, and the CPU's number in edx, even where there is nothing. */
static bool is_topology(uint32_t leaf)
{
	return leaf == 0xb || leaf == 0x1f || leaf == 0x80000026;
}

/* The bits that name the CPU that answers: its number, and its core's and its node's. */
static const struct {
	uint32_t leaf, bits[4];
} numbers[] = {
    {0x1, {0, 0xff000000, 0, 0}},
    {0xb, {0, 0, 0, 0xffffffff}},
    {0x1f, {0, 0, 0, 0xffffffff}},
    {EXTENDED, {0xffffffff, 0xff, 0xff, 0}},
    {0x80000026, {0, 0, 0, 0xffffffff}},
};

void sr_processor_number(uint32_t leaf, const uint32_t from[4], uint32_t to[4])
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		for (int r = 0; numbers[i].leaf == leaf && r < 4; r++)
			to[r] = (to[r] & ~numbers[i].bits[r]) | (from[r] & numbers[i].bits[r]);
}

void sr_cpu_number_put(const struct sr_cpu_number *n, uint32_t leaf, uint32_t to[4])
{
	const uint32_t basic[4] = {0, n->basic << 24, 0, 0}, topology[4] = {0, 0, 0, n->topology},
		       extended[4] = {n->extended, n->core, n->node, 0};

	sr_processor_number(leaf, leaf == 1 ? basic : leaf == EXTENDED ? extended : topology, to);
}

static bool is_same(const struct sr_cpuid *a, const struct sr_cpuid *b)
{
	return !memcmp(a->reg, b->reg, sizeof(a->reg));
}

static const struct sr_cpuid *find(const struct sr_processor *p, uint32_t leaf, uint32_t subleaf)
{
	for (uint32_t i = 0; i < p->entries; i++) {
		const struct sr_cpuid *c = &p->entry[i];

		if (c->leaf == leaf && (c->subleaf == SR_CPUID_ANY || c->subleaf == subleaf))
			return c;
	}
	return NULL;
}

/*
 * Behind the last leaf of a range Intel answers what the last basic leaf does, to the same subleaf.
 * That leaf, if c, an answer to subleaf 0 behind a range, is its; and it is about topology, so that it
 * has an answer to every subleaf.
 */
static const struct sr_cpuid *topology_beyond(const struct sr_processor *p, const struct sr_cpuid *c)
{
	const struct sr_cpuid *first = find(p, 0, 0), *last = NULL;

	if (first && is_topology(first->reg[EAX]))
		last = find(p, first->reg[EAX], 0);
	return last && is_same(last, c) ? last : NULL;
}

/* ----------------------------------------------------------------- reading */

#if defined(__x86_64__)

static void execute(struct sr_cpuid *c, uint32_t leaf, uint32_t subleaf)
{
	*c = (struct sr_cpuid){.leaf = leaf, .subleaf = subleaf};
	__cpuid_count(leaf, subleaf, c->reg[EAX], c->reg[EBX], c->reg[ECX], c->reg[EDX]);
}

static bool is_empty(const struct sr_cpuid *c)
{
	if (is_topology(c->leaf))
		return !c->reg[EAX] && !c->reg[EBX];
	return !c->reg[EAX] && !c->reg[EBX] && !c->reg[ECX] && !c->reg[EDX];
}

static void add(struct sr_processor *p, const struct sr_cpuid *c)
{
	if (p->entries < SR_CPUID_ENTRIES)
		p->entry[p->entries++] = *c;
}

/* Some leaves hold the number of the CPU, so a thread that was moved meanwhile reads again. */
static void read_on_one_cpu(struct sr_cpuid c[3], uint32_t leaf)
{
	struct sr_cpuid again;

	for (int tries = 0; tries < MOVES_MAX; tries++) {
		for (uint32_t i = 0; i < 3; i++)
			execute(&c[i], leaf, i);
		execute(&again, leaf, 0);
		if (is_same(&c[0], &again))
			return;
	}
}

/*
 * These leaves have no subleaves (Intel SDM volume 2A, AMD APM volume 3), so one read is enough; and
 * 1 and 0x8000001e hold the number of the CPU, so that to a thread that is moved away and back within
 * four reads they would look as if they had.  In a virtual machine each read costs some 10 us.
 */
static bool has_one_subleaf(uint32_t leaf)
{
	if (leaf >= 0x80000000)
		return leaf <= 0x80000021 && leaf != 0x8000001d && leaf != 0x80000020;
	return leaf <= 0xc && leaf != 4 && leaf != 7 && leaf != 0xb;
}

static void add_only(struct sr_processor *p, struct sr_cpuid *c)
{
	c->subleaf = SR_CPUID_ANY;
	add(p, c);
}

/*
 * The components that the processor can save are bits of the first two subleaves: in eax and edx of
 * the one, ecx and edx of the other.  The subleaves of other components are empty.
 */
static void read_extended_state(struct sr_processor *p)
{
	struct sr_cpuid c[2];
	uint64_t components;

	for (uint32_t i = 0; i < 2; i++) {
		execute(&c[i], EXTENDED_STATE, i);
		if (!i || !is_empty(&c[i]))
			add(p, &c[i]);
	}
	components = ((uint64_t)c[0].reg[EDX] << 32 | c[0].reg[EAX]) |
		     ((uint64_t)c[1].reg[EDX] << 32 | c[1].reg[ECX]);
	for (uint32_t i = 2; i < SUBLEAVES; i++) {
		if (!(components >> i & 1))
			continue;
		execute(&c[0], EXTENDED_STATE, i);
		if (!is_empty(&c[0]))
			add(p, &c[0]);
	}
}

/* Other leaves do not say whether they have subleaves.  One that answers the same three times has
 * none. */
static void read_leaf(struct sr_processor *p, uint32_t leaf)
{
	struct sr_cpuid c[3];
	int empty = 0;

	if (leaf == EXTENDED_STATE) {
		read_extended_state(p);
		return;
	}
	if (has_one_subleaf(leaf)) {
		execute(&c[0], leaf, 0);
		add_only(p, &c[0]);
		return;
	}
	read_on_one_cpu(c, leaf);
	if (is_same(&c[0], &c[1]) && is_same(&c[0], &c[2])) {
		add_only(p, &c[0]);
		return;
	}
	for (uint32_t i = 0; i < SUBLEAVES && empty < GAP; i++) {
		execute(&c[0], leaf, i);
		empty = is_empty(&c[0]) ? empty + 1 : 0;
		/* The first one shows that there are subleaves. */
		if (!i || !empty)
			add(p, &c[0]);
	}
}

static void read_beyond(struct sr_processor *p, uint32_t leaf)
{
	struct sr_cpuid c;

	execute(&c, leaf, 0);
	if (topology_beyond(p, &c))
		add_only(p, &c);
	else
		read_leaf(p, leaf);
}

void sr_processor_execute(uint32_t leaf, uint32_t subleaf, uint32_t reg[4])
{
	struct sr_cpuid c;

	execute(&c, leaf, subleaf);
	memcpy(reg, c.reg, sizeof(c.reg));
}

void sr_processor_read(struct sr_processor *p)
{
	struct sr_cpuid c;

	p->entries = 0;
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		execute(&c, ranges[i], 0);
		for (uint32_t n = 0; n < RANGE_LEAVES && ranges[i] + n <= c.reg[EAX]; n++)
			read_leaf(p, ranges[i] + n);
		read_beyond(p, BEYOND(ranges[i]));
	}
}

static bool has_leaf(uint32_t leaf)
{
	struct sr_cpuid c;

	execute(&c, leaf & 0x80000000, 0);
	return c.reg[EAX] >= leaf;
}

struct sr_cpu_number sr_cpu_number_here(void)
{
	struct sr_cpu_number n = {.known = true};
	struct sr_cpuid c;

	execute(&c, 1, 0);
	n.basic = c.reg[EBX] >> 24;
	if (has_leaf(TOPOLOGY)) {
		execute(&c, TOPOLOGY, 0);
		n.topology = c.reg[EDX];
	}
	if (has_leaf(EXTENDED)) {
		execute(&c, EXTENDED, 0);
		n.extended = c.reg[EAX];
		n.core = c.reg[EBX] & 0xff;
		n.node = c.reg[ECX] & 0xff;
	}
	return n;
}

#else

struct sr_cpu_number sr_cpu_number_here(void)
{
	return (struct sr_cpu_number){.known = true};
}

void sr_processor_execute(uint32_t leaf, uint32_t subleaf, uint32_t reg[4])
{
	memset(reg, 0, 4 * sizeof(reg[0]));
}

void sr_processor_read(struct sr_processor *p)
{
	p->entries = 0;
}

#endif

/* ------------------------------------------------------------------ asking */

/* The leaf whose answers this one has: itself, or what stands for all behind its range. */
static uint32_t leaf_that_answers(const struct sr_processor *p, uint32_t leaf)
{
	const struct sr_cpuid *beyond, *topology;

	if (find(p, leaf, 0))
		return leaf;
	beyond = find(p, BEYOND(leaf), 0);
	topology = beyond ? topology_beyond(p, beyond) : NULL;
	return topology ? topology->leaf : BEYOND(leaf);
}

void sr_processor_ask(const struct sr_processor *p, uint32_t leaf, uint32_t subleaf,
		      uint32_t reg[4])
{
	const struct sr_cpuid *c, *first;

	leaf = leaf_that_answers(p, leaf);
	c = find(p, leaf, subleaf);
	first = find(p, leaf, 0);
	memset(reg, 0, 4 * sizeof(reg[0]));
	if (c) {
		memcpy(reg, c->reg, sizeof(c->reg));
	} else if (first && is_topology(leaf)) {
		reg[ECX] = subleaf & 0xff;
		reg[EDX] = first->reg[EDX];
	}
}

/* ---------------------------------------------------------------- features */

/* Registers in which each bit is a feature. */
static const struct word {
	uint32_t leaf, subleaf;
	int reg;
} words[] = {
    {1, 0, ECX},          {1, 0, EDX},          {7, 0, EBX},          {7, 0, ECX},
    {7, 0, EDX},          {7, 1, EAX},          {7, 1, EDX},          {0xd, 1, EAX},
    {0x80000001, 0, ECX}, {0x80000001, 0, EDX}, {0x80000007, 0, EDX},
};

#define WORDS (sizeof(words) / sizeof(words[0]))

static uint32_t features(const struct sr_processor *p, const struct word *w)
{
	uint32_t reg[4];

	sr_processor_ask(p, w->leaf, w->subleaf, reg);
	/* OSXSAVE is set by the kernel, not by the processor. */
	if (w->leaf == 1 && w->reg == ECX)
		reg[ECX] &= ~(1u << 27);
	return reg[w->reg];
}

static bool same_vendor(const struct sr_processor *a, const struct sr_processor *b)
{
	uint32_t of_a[4], of_b[4];

	sr_processor_ask(a, 0, 0, of_a);
	sr_processor_ask(b, 0, 0, of_b);
	return !memcmp(of_a + EBX, of_b + EBX, 3 * sizeof(of_a[0]));
}

bool sr_processors_are_alike(const struct sr_processor *a, const struct sr_processor *b)
{
	if (!same_vendor(a, b))
		return false;
	for (size_t i = 0; i < WORDS; i++)
		if (features(a, &words[i]) != features(b, &words[i]))
			return false;
	return true;
}

static bool is_same_but_for_number(const struct sr_cpuid *a, const struct sr_cpuid *b)
{
	struct sr_cpuid b_on_a = *b;

	sr_processor_number(a->leaf, a->reg, b_on_a.reg);
	return a->leaf == b->leaf && a->subleaf == b->subleaf && is_same(a, &b_on_a);
}

bool sr_processors_are_the_same(const struct sr_processor *a, const struct sr_processor *b)
{
	if (a->entries != b->entries)
		return false;
	for (uint32_t i = 0; i < a->entries; i++)
		if (!is_same_but_for_number(&a->entry[i], &b->entry[i]))
			return false;
	return true;
}

/* Bits that say how fast a string instruction is, which each processor has (Intel SDM volume 2A, cpuid). */
static const struct word_bits {
	struct word word;
	uint32_t bits;
} hints[] = {
    {{7, 0, EBX}, 1u << 9},			   /* ERMS */
    {{7, 0, EDX}, 1u << 4},			   /* FSRM */
    {{7, 1, EAX}, 1u << 10 | 1u << 11 | 1u << 12}, /* FZRM, FSRS, FSRCS */
};

static uint32_t hints_in(const struct word *w)
{
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
		if (hints[i].word.leaf == w->leaf && hints[i].word.subleaf == w->subleaf && hints[i].word.reg == w->reg)
			return hints[i].bits;
	return 0;
}

void sr_processor_ask_for_libc(const struct sr_processor *recorded, const struct sr_processor *here,
			       uint32_t leaf, uint32_t subleaf, uint32_t reg[4])
{
	uint32_t own[4];

	sr_processor_ask(recorded, leaf, subleaf, reg);
	sr_processor_ask(here, leaf, subleaf, own);
	for (size_t i = 0; i < WORDS; i++)
		if (words[i].leaf == leaf && (words[i].subleaf == subleaf || leaf != 7))
			reg[words[i].reg] &= own[words[i].reg] | hints_in(&words[i]);
	if (leaf == EXTENDED_STATE && subleaf != 1)
		memcpy(reg, own, sizeof(own));
	if (leaf == EXTENDED_STATE && subleaf == 1)
		reg[EBX] = own[EBX];
}

/* Instruction sets that compilers and libraries use, by the kernel's names. */
static const struct {
	struct word word;
	int bit;
	const char *name;
} sets[] = {
    {{1, 0, ECX}, 0, "pni"},
    {{1, 0, ECX}, 1, "pclmulqdq"},
    {{1, 0, ECX}, 9, "ssse3"},
    {{1, 0, ECX}, 12, "fma"},
    {{1, 0, ECX}, 13, "cx16"},
    {{1, 0, ECX}, 19, "sse4_1"},
    {{1, 0, ECX}, 20, "sse4_2"},
    {{1, 0, ECX}, 22, "movbe"},
    {{1, 0, ECX}, 23, "popcnt"},
    {{1, 0, ECX}, 25, "aes"},
    {{1, 0, ECX}, 28, "avx"},
    {{1, 0, ECX}, 29, "f16c"},
    {{1, 0, ECX}, 30, "rdrand"},
    {{7, 0, EBX}, 0, "fsgsbase"},
    {{7, 0, EBX}, 3, "bmi1"},
    {{7, 0, EBX}, 4, "hle"},
    {{7, 0, EBX}, 5, "avx2"},
    {{7, 0, EBX}, 8, "bmi2"},
    {{7, 0, EBX}, 11, "rtm"},
    {{7, 0, EBX}, 16, "avx512f"},
    {{7, 0, EBX}, 17, "avx512dq"},
    {{7, 0, EBX}, 18, "rdseed"},
    {{7, 0, EBX}, 19, "adx"},
    {{7, 0, EBX}, 21, "avx512ifma"},
    {{7, 0, EBX}, 23, "clflushopt"},
    {{7, 0, EBX}, 24, "clwb"},
    {{7, 0, EBX}, 28, "avx512cd"},
    {{7, 0, EBX}, 29, "sha_ni"},
    {{7, 0, EBX}, 30, "avx512bw"},
    {{7, 0, EBX}, 31, "avx512vl"},
    {{7, 0, ECX}, 1, "avx512vbmi"},
    {{7, 0, ECX}, 5, "waitpkg"},
    {{7, 0, ECX}, 6, "avx512_vbmi2"},
    {{7, 0, ECX}, 8, "gfni"},
    {{7, 0, ECX}, 9, "vaes"},
    {{7, 0, ECX}, 10, "vpclmulqdq"},
    {{7, 0, ECX}, 11, "avx512_vnni"},
    {{7, 0, ECX}, 12, "avx512_bitalg"},
    {{7, 0, ECX}, 14, "avx512_vpopcntdq"},
    {{7, 0, ECX}, 22, "rdpid"},
    {{7, 0, ECX}, 27, "movdiri"},
    {{7, 0, ECX}, 28, "movdir64b"},
    {{7, 0, ECX}, 29, "enqcmd"},
    {{7, 0, EDX}, 8, "avx512_vp2intersect"},
    {{7, 0, EDX}, 14, "serialize"},
    {{7, 0, EDX}, 22, "amx_bf16"},
    {{7, 0, EDX}, 23, "avx512_fp16"},
    {{7, 0, EDX}, 24, "amx_tile"},
    {{7, 0, EDX}, 25, "amx_int8"},
    {{7, 1, EAX}, 4, "avx_vnni"},
    {{7, 1, EAX}, 5, "avx512_bf16"},
    {{7, 1, EAX}, 23, "avx_ifma"},
    {{0xd, 1, EAX}, 1, "xsavec"},
    {{0xd, 1, EAX}, 2, "xgetbv1"},
    {{0x80000001, 0, ECX}, 5, "abm"},
    {{0x80000001, 0, ECX}, 11, "xop"},
    {{0x80000001, 0, ECX}, 16, "fma4"},
    {{0x80000001, 0, EDX}, 27, "rdtscp"},
};

bool sr_processor_lacks(const struct sr_processor *recorded, const struct sr_processor *here,
			uint32_t leaf, char *names, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		const struct word *w = &sets[i].word;
		size_t length = strlen(sets[i].name);

		if ((leaf != SR_CPUID_ANY && w->leaf != leaf) ||
		    !((features(recorded, w) & ~features(here, w)) >> sets[i].bit & 1) ||
		    used + length + 2 > size)
			continue;
		if (used)
			names[used++] = ' ';
		memcpy(names + used, sets[i].name, length + 1);
		used += length;
	}
	return used;
}
