/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/producers/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/page.h"
#include "replay/analysis/log/grow.h"

#define LEAST_SHIFT 6
#define PAGE_SHIFT  12
#define LINES	    (1u << (PAGE_SHIFT - LEAST_SHIFT)) /* of a page, at most */
#define ENTRIES	    4				       /* for each write of a page, on the average, at most */

_Static_assert(SR_LINE_LEAST == 1 << LEAST_SHIFT && PAGE == 1 << PAGE_SHIFT, "shifts");

/* ------------------------------------------------------------- writes by page */

/* The table's place for the page: its own, or a free one. */
static struct sr_lines_page *find_page(const struct sr_lines *x, uint64_t addr)
{
	const uint64_t number = addr / PAGE + 1;
	size_t at = (size_t)(number * 0x9e3779b97f4a7c15ull >> 32) & (x->pages_n - 1);

	while (x->pages[at].n && x->pages[at].number != number)
		at = (at + 1) & (x->pages_n - 1);
	return &x->pages[at];
}

static int double_pages(struct sr_lines *x)
{
	struct sr_lines_page *old = x->pages;
	size_t n = x->pages_n;

	x->pages_n = n ? 2 * n : 1024;
	x->pages = calloc(x->pages_n, sizeof(*x->pages));
	for (size_t i = 0; x->pages && i < n; i++)
		if (old[i].n)
			*find_page(x, (old[i].number - 1) * PAGE) = old[i];
	free(old);
	return x->pages ? 0 : -ENOMEM;
}

static int count_pages(struct sr_lines *x, size_t n)
{
	size_t pages = 0;

	for (size_t i = 0; i < n; i++) {
		struct sr_lines_page *p;

		/* A write of no bytes was taken back. */
		if (!x->writes[i].length)
			continue;
		if (2 * pages >= x->pages_n && double_pages(x))
			return -ENOMEM;
		p = find_page(x, x->writes[i].addr);
		pages += !p->n++;
		p->number = x->writes[i].addr / PAGE + 1;
	}
	return 0;
}

int sr_lines_begin(struct sr_lines *x, const struct sr_group_write *writes, size_t n)
{
	uint32_t first = 0;

	*x = (struct sr_lines){.writes = writes};
	if (n >= UINT32_MAX || double_pages(x) || count_pages(x, n))
		return -ENOMEM;
	x->by_page = malloc((n ? n : 1) * sizeof(*x->by_page));
	if (!x->by_page)
		return -ENOMEM;
	for (size_t i = 0; i < x->pages_n; i++) {
		x->pages[i].first = first;
		first += x->pages[i].n;
	}
	for (size_t i = 0; i < n; i++) {
		struct sr_lines_page *p = find_page(x, writes[i].addr);

		if (writes[i].length)
			x->by_page[p->first++] = (uint32_t)i;
	}
	for (size_t i = 0; i < x->pages_n; i++)
		x->pages[i].first -= x->pages[i].n;
	return 0;
}

void sr_lines_free(struct sr_lines *x)
{
	for (size_t i = 0; i < x->pages_n; i++)
		free(x->pages[i].begins);
	free(x->pages);
	free(x->by_page);
	free(x->entries);
	for (int i = 0; i < SR_LINES_LISTS; i++)
		free(x->list[i].entries);
	free(x->headers.all);
}

/* ------------------------------------------------------------- a page's lines */

static uint64_t last_line(const struct sr_group_write *w, unsigned shift)
{
	return (w->addr + w->length - 1) >> shift;
}

static uint32_t lines_of(const struct sr_lines_page *p)
{
	return 1u << (PAGE_SHIFT - p->shift);
}

static size_t count_entries(const struct sr_lines *x, const struct sr_lines_page *p, unsigned shift)
{
	size_t n = 0;

	for (uint32_t i = 0; i < p->n; i++) {
		const struct sr_group_write *w = &x->writes[x->by_page[p->first + i]];

		n += last_line(w, shift) - (w->addr >> shift) + 1;
	}
	return n;
}

static int compare(const void *a, const void *b, void *writes)
{
	const struct sr_line_entry *i = a, *j = b;
	const struct sr_group_write *x = (struct sr_group_write *)writes + i->number;
	const struct sr_group_write *y = (struct sr_group_write *)writes + j->number;

	if (x->origin.member != y->origin.member)
		return x->origin.member < y->origin.member ? -1 : 1;
	if (x->origin.tick != y->origin.tick)
		return x->origin.tick < y->origin.tick ? -1 : 1;
	return i->number < j->number ? -1 : i->number > j->number;
}

/* Most lines have one writer, whose writes are in their order already. */
static void sort_line(struct sr_lines *x, size_t begin, size_t end)
{
	void *writes = (void *)x->writes;

	for (size_t i = begin + 1; i < end; i++)
		if (compare(&x->entries[i - 1], &x->entries[i], writes) > 0) {
			qsort_r(x->entries + begin, end - begin, sizeof(*x->entries), compare, writes);
			return;
		}
}

/* By line, and in a line by their numbers.  begins: of each line, and the end of the last one. */
static void fill(struct sr_lines *x, const struct sr_lines_page *p, uint32_t *begins)
{
	const uint64_t first_line = (p->number - 1) << (PAGE_SHIFT - p->shift);
	const uint32_t lines = lines_of(p);
	uint32_t at[LINES];

	memset(begins, 0, (lines + 1) * sizeof(*begins));
	for (uint32_t i = 0; i < p->n; i++) {
		const struct sr_group_write *w = &x->writes[x->by_page[p->first + i]];

		for (uint64_t line = w->addr >> p->shift; line <= last_line(w, p->shift); line++)
			begins[line - first_line + 1]++;
	}
	begins[0] = (uint32_t)x->entries_n;
	for (uint32_t line = 1; line <= lines; line++)
		begins[line] += begins[line - 1];
	memcpy(at, begins, lines * sizeof(*at));
	for (uint32_t i = 0; i < p->n; i++) {
		const uint32_t number = x->by_page[p->first + i];
		const struct sr_group_write *w = &x->writes[number];

		for (uint64_t line = w->addr >> p->shift; line <= last_line(w, p->shift); line++)
			x->entries[at[line - first_line]++] = (struct sr_line_entry){.number = number, .member = w->origin.member};
	}
}

static int make_room(struct sr_lines *x, size_t n)
{
	size_t room = x->room;
	struct sr_line_entry *more;

	if (n >= UINT32_MAX)
		return -ENOMEM;
	while (room < n)
		room = 2 * room + 4096;
	if (room == x->room)
		return 0;
	more = realloc(x->entries, room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	x->entries = more;
	x->room = room;
	return 0;
}

static bool is_of(enum sr_lines_list_name list, uint16_t kind)
{
	switch (list) {
	case SR_LINES_WITH_BYTES:
		return !sr_group_has_no_bytes(kind);
	case SR_LINES_CHANGES:
		return !sr_group_has_no_bytes(kind) && kind != SR_GROUP_OWN;
	case SR_LINES_FETCHED:
		return kind == SR_GROUP_FETCHED;
	default:
		return kind == SR_GROUP_LOCK;
	}
}

static int list_entry(struct sr_lines *x, size_t entry)
{
	const uint16_t kind = sr_lines_write(x, entry)->kind;

	for (int i = 0; i < SR_LINES_LISTS; i++) {
		struct sr_lines_list *l = &x->list[i];
		uint32_t *at;

		if (i < SR_LINES_COUNTED)
			x->entries[entry].before[i] = (uint32_t)l->n;
		if (!is_of(i, kind))
			continue;
		at = sr_grow((void **)&l->entries, l->n, &l->room, sizeof(*at));
		if (!at)
			return -ENOMEM;
		*at = (uint32_t)entry;
		l->n++;
	}
	return 0;
}

static int compare_headers(const void *a, const void *b)
{
	const struct sr_lines_header *i = a, *j = b;

	if (i->line != j->line)
		return i->line < j->line ? -1 : 1;
	return i->number < j->number ? -1 : i->number > j->number;
}

static int list_headers(struct sr_lines *x, uint32_t line, uint32_t end)
{
	struct sr_lines_headers *h = &x->headers;
	const size_t first = h->n;

	for (uint32_t i = line; i < end; i++) {
		struct sr_lines_header *at;

		if (sr_lines_write(x, i)->kind != SR_GROUP_HEADER)
			continue;
		at = sr_grow((void **)&h->all, h->n, &h->room, sizeof(*at));
		if (!at)
			return -ENOMEM;
		*at = (struct sr_lines_header){line, sr_lines_number(x, i)};
		h->n++;
	}
	if (h->n - first > 1)
		qsort(h->all + first, h->n - first, sizeof(*h->all), compare_headers);
	return 0;
}

/* All entries of the line are there. */
static int list_line(struct sr_lines *x, uint32_t line, uint32_t end)
{
	int error = 0;

	sort_line(x, line, end);
	for (uint32_t i = line; i < end && !error; i++)
		error = list_entry(x, i);
	return error ? error : list_headers(x, line, end);
}

static int index_page(struct sr_lines *x, struct sr_lines_page *p)
{
	uint32_t lines, *begins;
	size_t n;

	p->shift = LEAST_SHIFT;
	while ((n = count_entries(x, p, p->shift)) > ENTRIES * p->n && p->shift < PAGE_SHIFT)
		p->shift++;
	lines = lines_of(p);
	begins = make_room(x, x->entries_n + n) ? NULL : malloc((lines + 1) * sizeof(*begins));
	if (!begins)
		return -ENOMEM;
	fill(x, p, begins);
	x->entries_n += n;
	p->begins = begins;
	for (uint32_t line = 0; line < lines; line++)
		if (list_line(x, begins[line], begins[line + 1]))
			return -ENOMEM;
	return 0;
}

/* ------------------------------------------------------------------- a line */

/* The end of the entries of this one's writer; end: of its line. */
static uint32_t end_of_writer(const struct sr_lines *x, uint32_t at, uint32_t end)
{
	const int32_t member = x->entries[at].member;
	uint32_t low = at + 1, high = end;

	if (x->entries[end - 1].member == member)
		return end;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (x->entries[middle].member == member)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int sr_lines_at(struct sr_lines *x, uint64_t addr, uint32_t members, struct sr_lines_range *of)
{
	struct sr_lines_page *p = find_page(x, addr);
	const uint32_t *line;

	memset(of, 0, members * sizeof(*of));
	if (!p->n)
		return 0;
	if (!p->begins && index_page(x, p))
		return -ENOMEM;
	line = p->begins + (addr % PAGE >> p->shift);
	for (uint32_t at = line[0], end; at < line[1]; at = end) {
		end = end_of_writer(x, at, line[1]);
		of[x->entries[at].member] = (struct sr_lines_range){at, end};
	}
	return 0;
}

void sr_lines_extent(const struct sr_lines *x, uint64_t addr, uint64_t *begin, uint64_t *end)
{
	const struct sr_lines_page *p = find_page(x, addr);

	*begin = addr >> p->shift << p->shift;
	*end = *begin + (1ull << p->shift);
}

/* -------------------------------------------------------------------- lists */

static size_t search_list(const struct sr_lines_list *l, size_t entry)
{
	size_t low = 0, high = l->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (l->entries[middle] < entry)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t sr_lines_before(const struct sr_lines *x, enum sr_lines_list_name list, size_t entry)
{
	if (list >= SR_LINES_COUNTED)
		return search_list(&x->list[list], entry);
	return entry < x->entries_n ? x->entries[entry].before[list] : x->list[list].n;
}

static const struct sr_group_write *header_if_at(const struct sr_lines *x, size_t i, uint64_t addr)
{
	const struct sr_group_write *w = &x->writes[x->headers.all[i].number];

	return addr - w->addr < w->length ? w : NULL;
}

/* The first one of the line whose number is not lower. */
static size_t first_header(const struct sr_lines_headers *h, uint32_t line, uint64_t number)
{
	size_t low = 0, high = h->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct sr_lines_header *at = &h->all[middle];

		if (at->line < line || (at->line == line && at->number < number))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct sr_group_write *sr_lines_header_at(const struct sr_lines *x, uint64_t addr, uint64_t number)
{
	const struct sr_lines_headers *h = &x->headers;
	const struct sr_lines_page *p = h->n ? find_page(x, addr) : NULL;
	const struct sr_group_write *w = NULL;
	uint32_t line;
	size_t first;

	if (!p || !p->begins)
		return NULL;
	line = p->begins[addr % PAGE >> p->shift];
	first = first_header(h, line, number);
	for (size_t i = first; i-- && h->all[i].line == line && !w;)
		w = header_if_at(x, i, addr);
	for (size_t i = first; i < h->n && h->all[i].line == line && !w; i++)
		w = header_if_at(x, i, addr);
	return w;
}
