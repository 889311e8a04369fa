/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/kernel/tsc_sites.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/single_threaded.h>

#include "logd/base/lock.h"
#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/probe/code.h"
#include "shim/exposed/probe/aside.h"
#include "shim/exposed/probe/counter.h"
#include "shim/exposed/probe/probe.h"
#include "shim/exposed/probe/write.h"
#include "shim/exposed/x86/opcodes.h"
#include "shim/kernel/code_maps.h"
#include "shim/kernel/readable.h"
#include "shim/exposed/x86/sought.h"
#include "shim/kernel/tsc_searched.h"
#include "shim/kernel/tsc_unclear.h"
#include "shim/memory/heap.h"
#include "shim/memory/images.h"

#if defined(__x86_64__)

#define SITES_MAX  4096

/* Faults of an instruction before it becomes a jump: at a clock call, and anywhere. */
#define FAULTS_MIN 3
#define FAULTS_MAX 32

/* Entries only ever come to the end, so readers need no lock. */
static struct sr_tsc_site *sites; /* SITES_MAX */
static _Atomic uint32_t sites_n;
static struct sr_lock lock;

struct sr_tsc_site *sr_tsc_site_at(uintptr_t pc)
{
	uint32_t n = atomic_load_explicit(&sites_n, memory_order_acquire);

	for (uint32_t i = 0; i < n; i++)
		if (sites[i].pc == pc)
			return &sites[i];
	return NULL;
}

/* ---------------------------------------------------------- the process's memory */

static bool pread_all(int memory, uintptr_t at, void *to, size_t n)
{
	return sr_syscall(SYS_pread64, memory, SR_ARG(to), (long)n, (long)at, 0, 0) == (long)n;
}

static bool is_readable(uintptr_t at, size_t n);

static bool read_code(int memory, uintptr_t at, void *to, size_t n)
{
	if (!is_readable(at, n))
		return pread_all(memory, at, to, n);
	memcpy(to, (const void *)at, n);
	return true;
}

/* The code as it was before the shim wrote into it. The lock of the probes is held. */
static bool read_original(void *memory, uintptr_t at, void *to, size_t n)
{
	uint32_t sites_known = atomic_load_explicit(&sites_n, memory_order_relaxed);
	uint8_t *code = to;

	if (!read_code(*(int *)memory, at, to, n))
		return false;
	probes_originals(at, code, n);
	for (uint32_t i = 0; i < sites_known; i++)
		if (sites[i].pc - at < n && code[sites[i].pc - at] == PROBE_TRAP)
			code[sites[i].pc - at] = sites[i].first;
	return true;
}

/* --------------------------------------------------------- executable mappings */

static bool is_kernels(const struct mapping *map)
{
	return sr_is_vdso((const void *)map->begin) || !strcmp(map->name, "[vdso]") ||
	       !strcmp(map->name, "[vsyscall]") || !strcmp(map->name, "[uprobes]");
}

static bool is_own_image(const struct mapping *map)
{
	return (uintptr_t)sr_tsc_sites_find - map->begin < map->end - map->begin;
}

/* ------------------------------------------------------------------ the search */

struct search {
	int memory;
	struct sr_code_reader *reader;
	uintptr_t base; /* of the image that the mappings belong to ... */
	uint64_t inode; /* ... and its file */
	struct sr_code_image image;
	bool has_image, has_looked;
	bool complete; /* so far all occurrences are known */
	uint32_t n;    /* sites, with the new ones */
};

#define CHUNK	     (64ul << 10)
#define MAPPINGS_MAX 4096

/*
 * What a search needs, mapped as long as it lasts: the library's image has to stay small
 * (tests/unit/shim/image.py).
 */
struct workplace {
	struct sr_code_reader reader;
	struct mapping mappings[MAPPINGS_MAX]; /* of the process, in their order */
	uint8_t chunk[CHUNK];
	/*
	 * Where there is no other thread, nobody unmaps what /proc/self/maps has said. Reading there
	 * takes a tenth of the time.
	 */
	bool is_alone;
	uint32_t readable_n;
	struct {
		uintptr_t begin, end;
	} readable[1024];
};

static struct workplace *workplace; /* NULL: there is no search */

static void note_readable(uintptr_t begin, uintptr_t end)
{
	struct workplace *w = workplace;
	uint32_t n = w->readable_n;

	if (n && w->readable[n - 1].end == begin)
		w->readable[n - 1].end = end;
	else if (n < sizeof(w->readable) / sizeof(w->readable[0]))
		w->readable[w->readable_n++] = (typeof(w->readable[0])){begin, end};
}

static bool is_readable(uintptr_t at, size_t n)
{
	const struct workplace *w = workplace;
	uint32_t low = 0, high = w ? w->readable_n : 0;

	while (low < high) {
		uint32_t half = (low + high) / 2;

		if (w->readable[half].end <= at)
			low = half + 1;
		else
			high = half;
	}
	return w && w->is_alone && low < w->readable_n && w->readable[low].begin <= at &&
	       n <= w->readable[low].end - at;
}

static const struct sr_code_image *image_of(struct search *s, const struct mapping *map)
{
	if (!map->inode || map->inode != s->inode)
		return NULL;
	if (!s->has_looked)
		s->has_image = sr_code_image_at(s->reader, s->base, &s->image);
	s->has_looked = true;
	return s->has_image ? &s->image : NULL;
}

/* length: as in struct sr_tsc_site. */
static bool add_site(struct search *s, uintptr_t pc, unsigned int length, uint8_t first)
{
	const struct sr_tsc_site *known = sr_tsc_site_at(pc);

	if (known)
		return known->kind == s->reader->sought && known->length == length;
	if (s->n == SITES_MAX)
		return false;
	sites[s->n].pc = pc;
	sites[s->n].kind = s->reader->sought;
	sites[s->n].length = (uint8_t)length;
	sites[s->n].first = first;
	sites[s->n].refused = sites[s->n].is_jump = false;
	sites[s->n].faults = 0;
	s->n++;
	return true;
}

/* Where the file of the code is that is decoded now: to find it takes a look at all mappings. */
static struct text in_file;

static bool has_bytes(const struct text *t, uintptr_t at, size_t n)
{
	return at - t->begin < t->end - t->begin && n <= t->end - at;
}

static bool read_file(void *memory, uintptr_t at, void *to, size_t n)
{
	if (!has_bytes(&in_file, at, n) && !text_at(at, &in_file))
		in_file = (struct text){0};
	if (!in_file.is_text || !has_bytes(&in_file, at, n))
		return read_original(memory, at, to, n);
	memcpy(to, in_file.file + (at - in_file.begin), n);
	return true;
}

/* Are the instructions that have these bytes in the file, as r has just decoded it, in memory as well? */
static bool is_as_in_file(struct search *s, uintptr_t at)
{
	uint8_t now[INSN_BYTES_MAX + SR_SOUGHT_BYTES], then[sizeof(now)];
	uintptr_t begin = at;

	while (begin > s->reader->begin && at - begin < INSN_BYTES_MAX && !sr_code_begins(s->reader, begin))
		begin--;
	return read_original(&s->memory, begin, now, at + SR_SOUGHT_BYTES - begin) &&
	       read_file(&s->memory, begin, then, at + SR_SOUGHT_BYTES - begin) &&
	       !memcmp(now, then, at + SR_SOUGHT_BYTES - begin);
}

/* Others change code, too: UCX replaces the first instructions of sbrk, so that its function cannot be decoded. */
static enum sr_occurrence classify_in_file(struct search *s, const struct mapping *map, uintptr_t *at)
{
	const uintptr_t occurrence = *at;
	struct sr_code_reader *r = s->reader;
	enum sr_occurrence kind;

	if (!map->inode || map->shared)
		return SR_OCCURRENCE_UNCLEAR;
	/* It keeps what it has decoded. */
	r->begin = r->end = 0;
	r->read = read_file;
	in_file = (struct text){0};
	kind = sr_sought_classify(r, image_of(s, map), at);
	if (kind != SR_OCCURRENCE_UNCLEAR && !is_as_in_file(s, occurrence))
		kind = SR_OCCURRENCE_UNCLEAR;
	r->read = read_original;
	r->begin = r->end = 0;
	return kind;
}

static bool may_guard(const struct mapping *map, uintptr_t at)
{
	return map->inode && map->readable && !map->shared && !map->writable && sr_tsc_unclear_add(at);
}

/* False: it is not known what this is. */
static bool take_occurrence(struct search *s, const struct mapping *map, uintptr_t at)
{
	const bool is_counter = s->reader->sought == SR_SOUGHT_COUNTER;
	uintptr_t begin = at;
	uint8_t code[SR_SOUGHT_BYTES];
	enum sr_occurrence kind;

	if (counter_is_stub(at))
		return true;
	kind = sr_sought_classify(s->reader, image_of(s, map), &begin);
	if (kind == SR_OCCURRENCE_UNCLEAR)
		kind = classify_in_file(s, map, &begin);
	switch (kind) {
	case SR_OCCURRENCE_SITE:
		return !map->shared &&
		       s->reader->read(s->reader->argument, begin, code, sizeof(code)) &&
		       add_site(s, begin, is_counter ? sr_counter_length(code, sizeof(code)) : 0, code[0]);
	case SR_OCCURRENCE_NONE:
		return true;
	default:
		if (!is_counter)
			return true;
		/* The jumps of other probes may look like one. */
		return s->reader->read(s->reader->argument, at, code, sizeof(code)) &&
		       (!sr_counter_length(code, sizeof(code)) || may_guard(map, at));
	}
}

static void search_bytes(struct search *s, const struct mapping *map, uintptr_t from,
			 const uint8_t *code, size_t n)
{
	const enum sr_sought sought = s->reader->sought;

	for (size_t at = sr_sought_find(sought, code, n, 0); at < n; at = sr_sought_find(sought, code, n, at + 1))
		s->complete &= take_occurrence(s, map, from + at);
}

/*
 * The dynamic linker maps all of a library executable first, also what lies behind the file's end.
 * There is no code, and reading it is a SIGBUS.
 */
static uintptr_t end_of_file(const struct mapping *map)
{
	uintptr_t there = map->begin, not_there = map->end;

	if (sr_is_readable((const void *)(map->end - 1), 1) || !sr_is_readable((const void *)there, 1))
		return map->end;
	while (not_there - there > PAGE) {
		uintptr_t middle = sr_page_down(there + (not_there - there) / 2);

		if (sr_is_readable((const void *)middle, 1))
			there = middle;
		else
			not_there = middle;
	}
	return not_there;
}

static void search_mapping(struct search *s, const struct mapping *map)
{
	uintptr_t end = end_of_file(map);
	size_t n, step;

	for (uintptr_t from = map->begin; from < end; from += step) {
		n = end - from < CHUNK ? end - from : CHUNK;
		if (is_readable(map->begin, end - map->begin)) {
			n = end - from;
			search_bytes(s, map, from, (const uint8_t *)from, n);
			return;
		}
		if (!pread_all(s->memory, from, workplace->chunk, n)) {
			s->complete = false;
			return;
		}
		step = n < CHUNK ? n : n - (SR_SOUGHT_BYTES - 1);
		search_bytes(s, map, from, workplace->chunk, n);
	}
}

/* Once, as long as nothing there changes. */
static void search_once(struct search *s, const struct mapping *map)
{
	bool complete = s->complete;

	if (sr_tsc_is_searched(s->reader->sought, map->begin, map->end, map->inode))
		return;
	s->complete = true;
	search_mapping(s, map);
	if (s->complete)
		sr_tsc_searched_add(s->reader->sought, map->begin, map->end, map->inode);
	s->complete &= complete;
}

static void note_image(struct search *s, const struct mapping *map)
{
	if (!map->inode || map->offset)
		return;
	s->base = map->begin;
	s->inode = map->inode;
	s->has_looked = false;
}

static bool is_searched(const struct mapping *map)
{
	return map->executable && !is_kernels(map) && !is_own_image(map) &&
	       !aside_has_page(map->begin);
}

/* All of a search's code is read, when the program starts: a library that is as large as LLVM's or torch's is left alone. */
#define UNTRAPPED_CODE_MAX (32ul << 20)

static bool is_too_large(const struct search *s, const struct mapping *map)
{
	return s->reader->sought != SR_SOUGHT_COUNTER && map->end - map->begin > UNTRAPPED_CODE_MAX;
}

/*
 * Two mappings of a file that follow each other are one, as far as this is concerned: an
 * instruction may lie in both.
 */
static size_t read_mappings(struct maps *m)
{
	struct mapping *mappings = workplace->mappings;
	struct mapping map;
	size_t n = 0;

	workplace->is_alone = __libc_single_threaded;
	while (n < MAPPINGS_MAX && next_mapping(m, &map)) {
		struct mapping *last = &mappings[n - 1];

		if (!map.inode && !map.executable)
			continue;
		if (map.readable && !map.shared && !is_kernels(&map))
			note_readable(map.begin, map.end);
		if (n && last->executable && map.executable && !map.writable && !last->writable &&
		    last->end == map.begin && last->inode == map.inode) {
			last->end = map.end;
			last->shared |= map.shared;
		} else {
			mappings[n++] = map;
		}
	}
	return n;
}

static void search_all(struct search *s, struct maps *m)
{
	struct mapping *mappings = workplace->mappings;
	size_t n = read_mappings(m);

	s->complete = n < MAPPINGS_MAX;
	for (size_t i = 0; i < n; i++) {
		note_image(s, &mappings[i]);
		if (!is_searched(&mappings[i]))
			continue;
		if (mappings[i].writable || is_too_large(s, &mappings[i]))
			s->complete = false;
		else
			search_once(s, &mappings[i]);
	}
}

/* All readable memory may be executed then. */
static bool reads_imply_execution(void)
{
	return sr_syscall(SYS_personality, 0xffffffff, 0, 0, 0, 0, 0) & READ_IMPLIES_EXEC;
}

/* New ones, and old ones whose library was unloaded and is there again. */
static bool put_traps(const struct search *s)
{
	static const uint8_t trap[1] = {PROBE_TRAP};
	uint32_t i = 0;
	uint8_t now;

	atomic_store_explicit(&sites_n, s->n, memory_order_release);
	for (; i < s->n; i++)
		if (pread_all(s->memory, sites[i].pc, &now, 1) && now == sites[i].first &&
		    !code_put(s->memory, sites[i].pc, trap, 1))
			break;
	if (i == s->n && code_fetch_anew())
		return true;
	/* They trap anyhow; a program that is not recorded is to find what it wrote. */
	while (i--)
		if (pread_all(s->memory, sites[i].pc, &now, 1) && now == PROBE_TRAP)
			code_put(s->memory, sites[i].pc, &sites[i].first, 1);
	return false;
}

/* *kept: what was found is in the table. */
static bool find_sites(enum sr_sought sought, int memory, struct maps *m, bool all_or_none, bool *kept)
{
	struct search s = {.memory = memory, .n = atomic_load(&sites_n)};
	void *p = sr_sys_mmap(NULL, sizeof(*workplace), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool found;

	if (sr_sys_is_error(p))
		return false;
	workplace = p;
	s.reader = &workplace->reader;
	s.reader->sought = sought;
	s.reader->read = read_original;
	s.reader->argument = &s.memory;
	found = code_fetch_anew();
	if (found)
		search_all(&s, m);
	workplace = NULL;
	sr_sys_munmap(p, sizeof(*workplace));
	if (!found || (!s.complete && all_or_none) || (all_or_none && !sr_tsc_unclear_begin()))
		return false;
	*kept = true;
	return put_traps(&s) && s.complete;
}

static bool find(enum sr_sought sought, bool all_or_none)
{
	struct maps m = {.at = 0};
	uint64_t mask;
	bool done = false, kept = false;
	int memory;

	if (!sr_trylock(&lock))
		return false;
	if (!sites)
		sites = sr_alloc_zeroed(SITES_MAX * sizeof(*sites));
	if (!sites) {
		sr_unlock(&lock);
		return false;
	}
	exposed_lock(&mask);
	sr_tsc_searched_begins();
	memory = code_open();
	m.fd = (int)sr_syscall(SYS_openat, AT_FDCWD, SR_ARG("/proc/self/maps"),
			       O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (memory >= 0 && m.fd >= 0)
		done = find_sites(sought, memory, &m, all_or_none, &kept) && !reads_imply_execution();
	if (memory >= 0)
		sr_sys_close(memory);
	if (m.fd >= 0)
		sr_sys_close(m.fd);
	sr_tsc_searched_ends(kept);
	exposed_unlock(&mask);
	sr_unlock(&lock);
	return done;
}

bool sr_tsc_sites_find(bool all_or_none)
{
	return find(SR_SOUGHT_COUNTER, all_or_none);
}

void sr_untrapped_sites_find(enum sr_sought kind)
{
	find(kind, false);
}

bool sr_tsc_sites_may_be_in(enum sr_sought sought, uintptr_t begin, size_t size)
{
	uint8_t code[4096];
	int memory = code_open();
	bool may = memory < 0;
	size_t n, step;

	for (uintptr_t at = begin; at < begin + size && !may; at += step) {
		n = begin + size - at < sizeof(code) ? begin + size - at : sizeof(code);
		step = n < sizeof(code) ? n : n - (SR_SOUGHT_BYTES - 1);
		/* What cannot be read is behind the end of a file. */
		may = pread_all(memory, at, code, n) && sr_sought_find(sought, code, n, 0) < n;
	}
	if (memory >= 0)
		sr_sys_close(memory);
	return may;
}

/* ------------------------------------------------------------------------ jumps */

/* Branches to a place are mostly of the same function. */
#define NEAR	 (32ul << 10)
#define TEXT_MAX (CHUNK + 4 * PAGE)

/* The code around the site, as it was without what the recorder put there; mapped meanwhile, as a search's workplace is. */
static bool probe(const struct sr_tsc_site *site, int memory, uintptr_t begin, uintptr_t end)
{
	void *text = sr_sys_mmap(NULL, TEXT_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool done;

	if (sr_sys_is_error(text))
		return false;
	done = read_original(&memory, begin, text, end - begin) && counter_probe(site->pc, site->length, text, begin, end - begin);
	sr_sys_munmap(text, TEXT_MAX);
	return done;
}

static bool make_jump(const struct sr_tsc_site *site)
{
	const uintptr_t page = sr_page_down(site->pc);
	uintptr_t begin = page, end = page + PAGE;
	int memory = code_open();
	bool done;
	uint8_t byte;

	if (memory < 0)
		return false;
	/* As many pages as there are without a gap: a small library is not all of it. */
	while (begin > page - NEAR && pread_all(memory, begin - PAGE, &byte, sizeof(byte)))
		begin -= PAGE;
	while (end < page + 2 * PAGE + NEAR && pread_all(memory, end, &byte, sizeof(byte)))
		end += PAGE;
	done = probe(site, memory, begin, end);
	sr_sys_close(memory);
	return done;
}

_Atomic bool sr_tsc_jumps_due;

void sr_tsc_sites_make_jumps(void)
{
	uint32_t n = atomic_load(&sites_n);
	uint64_t mask;

	if (!sr_trylock(&lock))
		return;
	exposed_lock(&mask);
	atomic_store(&sr_tsc_jumps_due, false);
	for (struct sr_tsc_site *site = sites; site < sites + n; site++) {
		if (site->kind != SR_SOUGHT_COUNTER || site->refused || site->is_jump || atomic_load(&site->faults) < FAULTS_MIN)
			continue;
		site->is_jump = make_jump(site);
		site->refused = !site->is_jump;
	}
	exposed_unlock(&mask);
	sr_unlock(&lock);
}

void sr_tsc_site_faulted(struct sr_tsc_site *site)
{
	uint32_t n;

	if (site->refused)
		return;
	/* Its jump was given up, or the library was unloaded and is there again. */
	site->is_jump = false;
	n = atomic_fetch_add(&site->faults, 1) + 1;
	if (n >= FAULTS_MIN)
		atomic_store(&sr_tsc_jumps_due, true);
	if (n >= FAULTS_MAX)
		sr_tsc_sites_make_jumps();
}

/* ------------------------------------------------------------------- the way back */

static void put_first(int memory, const struct sr_tsc_site *site)
{
	uint8_t now;

	if (pread_all(memory, site->pc, &now, 1) && now == PROBE_TRAP)
		code_put(memory, site->pc, &site->first, 1);
}

/* Where there is no descriptor left. */
static void put_first_into_mapping(const struct sr_tsc_site *site)
{
	long page = (long)sr_page_down(site->pc);

	if (!sr_syscall(SYS_mprotect, page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, 0, 0, 0) &&
	    *(volatile uint8_t *)site->pc == PROBE_TRAP)
		*(volatile uint8_t *)site->pc = site->first;
	sr_syscall(SYS_mprotect, page, PAGE, PROT_READ | PROT_EXEC, 0, 0, 0);
}

static void restore(bool all)
{
	uint32_t n = atomic_load(&sites_n);
	int memory = n ? code_open() : -1;

	for (uint32_t i = 0; i < n; i++) {
		if (sites[i].kind == SR_SOUGHT_COUNTER && !all)
			continue;
		if (memory >= 0)
			put_first(memory, &sites[i]);
		else
			put_first_into_mapping(&sites[i]);
	}
	if (memory >= 0)
		sr_sys_close(memory);
}

void sr_tsc_sites_restore(void)
{
	restore(true);
	sr_tsc_unclear_end();
}

void sr_untrapped_sites_restore(void)
{
	restore(false);
}

#endif
