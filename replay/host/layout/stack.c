/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/layout/stack.h"

#if defined(__x86_64__)

#include <elf.h>
#include <inttypes.h>
#include <linux/prctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "logd/base/page.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

#define WORDS 65536 /* of arguments, environment and vector, at most */

static size_t words_before_vector(const uint64_t *words, size_t n)
{
	size_t i = 1 + words[0];

	while (i < n && words[i])
		i++;
	i++;
	while (i < n && words[i])
		i++;
	return i + 1;
}

bool sr_stack_read(struct sr_stack *stack, const struct sr_stopped *s)
{
	ssize_t bytes;

	*stack = (struct sr_stack){.words = calloc(WORDS, sizeof(*stack->words))};
	bytes = stack->words ? pread(s->memory, stack->words, WORDS * sizeof(*stack->words), (off_t)s->regs.rsp) : 0;
	stack->n = bytes > 0 ? (size_t)bytes / sizeof(*stack->words) : 0;
	if (stack->n && stack->words[0] < stack->n)
		stack->vector = words_before_vector(stack->words, stack->n);
	if (stack->vector && stack->vector < stack->n)
		return true;
	sr_stack_free(stack);
	return false;
}

void sr_stack_free(struct sr_stack *stack)
{
	free(stack->words);
	*stack = (struct sr_stack){0};
}

uint64_t sr_stack_value(const struct sr_stack *stack, uint64_t type)
{
	for (size_t i = stack->vector; i + 1 < stack->n && stack->words[i] != AT_NULL; i += 2)
		if (stack->words[i] == type)
			return stack->words[i + 1];
	return 0;
}

uint64_t sr_stack_top(const struct sr_stack *stack, const struct sr_stopped *s)
{
	uint64_t path = sr_stack_value(stack, AT_EXECFN);
	char c = 1;

	if (!path)
		return 0;
	while (c && sr_stopped_read(s, path, &c, 1))
		path++;
	return sr_page_up(path + sizeof(void *));
}

/* Of newer kernels; nothing that runs in a replay needs them. */
static bool is_dispensable(uint64_t type)
{
	return type == AT_RSEQ_FEATURE_SIZE || type == AT_RSEQ_ALIGN;
}

/* Where the two short strings are that the kernel puts between the vectors and the strings of execve. */
struct between {
	uint64_t from, to;
	uint64_t random, platform;
	bool as_recorded;
};

static uint64_t value_there(uint64_t type, uint64_t value, const struct sr_layout *l, const struct sr_moves *by,
			    const struct between *b)
{
	switch (type) {
	case AT_PHDR:
	case AT_ENTRY:
		return value + by->program;
	case AT_BASE:
		return value ? value + by->loader : 0;
	case AT_EXECFN:
		return value + by->stack;
	case AT_RANDOM:
		return b->random;
	case AT_PLATFORM:
		return b->platform;
	case AT_MINSIGSTKSZ:
		return l->signal_frame ? l->signal_frame : value;
	case AT_SYSINFO_EHDR:
		return l->vdso;
	default:
		return value;
	}
}

/* Drops the entries that are not needed. */
static void shorten_vector(struct sr_stack *stack, bool has_vdso)
{
	uint64_t *words = stack->words;
	size_t to = stack->vector;

	for (size_t i = stack->vector; i + 1 < stack->n; i += 2) {
		if (is_dispensable(words[i]) || (words[i] == AT_SYSINFO_EHDR && !has_vdso))
			continue;
		words[to++] = words[i];
		words[to++] = words[i + 1];
		if (words[to - 2] == AT_NULL)
			break;
	}
	stack->n = to;
}

static void change_values(struct sr_stack *stack, const struct sr_layout *l, const struct sr_moves *by, const struct between *b)
{
	for (size_t i = 1; i < stack->vector; i++)
		if (stack->words[i])
			stack->words[i] += by->stack;
	for (size_t i = stack->vector; i + 1 < stack->n; i += 2)
		stack->words[i + 1] = value_there(stack->words[i], stack->words[i + 1], l, by, b);
}

/* Where the lowest of the strings is that execve got. */
static uint64_t lowest_string(const struct sr_stack *stack)
{
	uint64_t lowest = sr_stack_value(stack, AT_EXECFN);

	for (size_t i = 1; i < stack->vector; i++)
		if (stack->words[i] && stack->words[i] < lowest)
			lowest = stack->words[i];
	return lowest;
}

static size_t bytes_of(const struct sr_stack *stack)
{
	return stack->n * sizeof(*stack->words);
}

/*
 * A path of another length moves all that is below it: then the two strings stay, and if need be the vectors.  Returns where
 * the vectors begin.
 */
static uint64_t choose_places(const struct sr_stack *stack, const struct sr_stopped *s, const struct sr_layout *l,
			      const struct sr_moves *by, size_t platform, struct between *b)
{
	uint64_t at = l->stack && l->stack % 16 == 0 ? l->stack : s->regs.rsp;

	*b = (struct between){.from = at + bytes_of(stack), .to = lowest_string(stack) + by->stack};
	b->as_recorded = l->random_at >= b->from && l->random_at + sizeof(l->random) <= b->to && l->platform >= b->from &&
			 l->platform + platform <= b->to && b->to - at < WORDS * sizeof(*stack->words);
	b->random = b->as_recorded ? l->random_at : sr_stack_value(stack, AT_RANDOM) + by->stack;
	b->platform = b->as_recorded ? l->platform : sr_stack_value(stack, AT_PLATFORM) + by->stack;
	if (b->from <= b->random && b->to - at < WORDS * sizeof(*stack->words))
		return at;
	return s->regs.rsp;
}

/* Nothing but zeros is around the two strings. */
static bool write_between(const struct sr_stopped *s, const struct between *b, const struct sr_layout *l, const char *platform,
			  size_t length)
{
	uint8_t *bytes = calloc(b->to - b->from, 1);
	bool good = bytes;

	if (good) {
		memcpy(bytes + (b->platform - b->from), platform, length);
		memcpy(bytes + (b->random - b->from), l->random, sizeof(l->random));
		good = sr_stopped_write(s, b->from, bytes, b->to - b->from);
	}
	free(bytes);
	return good;
}

bool sr_stack_place(struct sr_stack *stack, struct sr_stopped *s, const struct sr_layout *l, const struct sr_moves *by,
		    bool has_vdso)
{
	char platform[16] = "";
	struct between b;
	size_t length;

	sr_stopped_read(s, sr_stack_value(stack, AT_PLATFORM) + by->stack, platform, sizeof(platform) - 1);
	length = strlen(platform) + 1;
	shorten_vector(stack, has_vdso);
	s->regs.rsp = choose_places(stack, s, l, by, length, &b);
	change_values(stack, l, by, &b);
	if (!sr_stopped_write(s, s->regs.rsp, stack->words, bytes_of(stack)))
		return false;
	if (b.as_recorded)
		return write_between(s, &b, l, platform, length);
	return !l->stack || sr_stopped_write(s, b.random, l->random, sizeof(l->random));
}

/* The numbers of /proc/PID/stat behind the name, from its third on (proc(5)). */
#define STAT_FIELDS 49
#define FIELD(n)    ((n)-4)

static bool read_stat(pid_t pid, uint64_t fields[STAT_FIELDS])
{
	char path[32], text[2048], *at;
	FILE *stat;
	size_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	stat = fopen(path, "re");
	if (!stat)
		return false;
	n = fread(text, 1, sizeof(text) - 1, stat);
	fclose(stat);
	text[n] = 0;
	at = strrchr(text, ')');
	at = at ? strchr(at + 2, ' ') : NULL;
	for (n = 0; at && n < STAT_FIELDS; n++) {
		fields[n] = strtoull(at, &at, 10);
		if (*at != ' ' && *at != '\n')
			break;
	}
	return n == STAT_FIELDS;
}

bool sr_stack_tell_kernel(const struct sr_stack *stack, const struct sr_stopped *s, const struct sr_layout *l,
			  const struct sr_moves *by)
{
	uint64_t f[STAT_FIELDS] = {0}, at = sr_page_down(s->regs.rsp) - PAGE;
	struct prctl_mm_map map;
	long err;

	if (!read_stat(s->pid, f))
		return false;
	if (!sr_moves_any(by) && (!l->program_break || f[FIELD(47)] == l->program_break))
		return true;
	map = (struct prctl_mm_map){
	    .start_code = f[FIELD(26)] + by->program,
	    .end_code = f[FIELD(27)] + by->program,
	    .start_data = f[FIELD(45)] + by->program,
	    .end_data = f[FIELD(46)] + by->program,
	    .start_brk = l->program_break ? l->program_break : f[FIELD(47)],
	    .brk = l->program_break ? l->program_break : f[FIELD(47)],
	    .start_stack = s->regs.rsp,
	    .arg_start = f[FIELD(48)] + by->stack,
	    .arg_end = f[FIELD(49)] + by->stack,
	    .env_start = f[FIELD(50)] + by->stack,
	    .env_end = f[FIELD(51)] + by->stack,
	    .auxv = (__u64 *)(uintptr_t)(s->regs.rsp + stack->vector * sizeof(*stack->words)),
	    .auxv_size = (__u32)((stack->n - stack->vector) * sizeof(*stack->words)),
	    .exe_fd = (__u32)-1,
	};
	/* Below the stack, for the call alone. */
	if (!sr_stopped_write(s, at, &map, sizeof(map)))
		return false;
	err = sr_stopped_call(s, SYS_prctl, (uint64_t[6]){PR_SET_MM, PR_SET_MM_MAP, at, sizeof(map)});
	memset(&map, 0, sizeof(map));
	sr_stopped_write(s, at, &map, sizeof(map));
	return !err;
}

#endif
