/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/layout/moves.h"

#if defined(__x86_64__)

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "logd/base/page.h"

/*
 * Each image goes by way of a range that nothing else is in: its old place, its new one and those of the others may overlap.
 * (That is where the shim puts the program's large mappings, later: shim/memory/heap.h.)
 */
#define AWAY  0x300000000000ul
#define APART 0x010000000000ul

enum { PROGRAM, LOADER, STACK, IMAGES };

/* The mappings [first, end) of the list are an image. */
struct image {
	size_t first, end;
	uint64_t by;
};

static bool is_anonymous(const struct sr_mapping *m)
{
	/* Until Linux 6.5 variables next to an empty heap are shown as the heap. */
	return !m->name[0] || !strcmp(m->name, "[heap]");
}

/* All mappings of the file around that address, and the zeros behind its data. */
static bool find_image(struct image *image, const struct sr_mappings *m, uint64_t at)
{
	size_t i = 0;

	while (i < m->n && m->list[i].to <= at)
		i++;
	if (i == m->n || m->list[i].from > at)
		return false;
	image->first = image->end = i;
	while (image->first && !strcmp(m->list[image->first - 1].name, m->list[i].name))
		image->first--;
	while (image->end < m->n && !strcmp(m->list[image->end].name, m->list[i].name))
		image->end++;
	while (image->end < m->n && is_anonymous(&m->list[image->end]) &&
	       m->list[image->end].from == m->list[image->end - 1].to)
		image->end++;
	return true;
}

static bool move(const struct sr_stopped *s, uint64_t from, uint64_t size, uint64_t to)
{
	const uint64_t a[6] = {from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to};

	return sr_stopped_call(s, SYS_mremap, a) == (long)to;
}

/* From where its mappings are after they have moved by `before`, to where they are to be: `by` from their first place. */
static bool move_image(const struct sr_stopped *s, const struct sr_mappings *m, const struct image *image, uint64_t before,
		       uint64_t by)
{
	for (size_t i = image->first; i < image->end; i++)
		if (!move(s, m->list[i].from + before, m->list[i].to - m->list[i].from, m->list[i].from + by))
			return false;
	return true;
}

static uint64_t way(const struct sr_mappings *m, const struct image *image, size_t number)
{
	return AWAY + (number + 1) * APART - m->list[image->first].from;
}

static bool move_all(const struct sr_stopped *s, const struct sr_mappings *m, const struct image *images)
{
	for (size_t i = 0; i < IMAGES; i++)
		if (images[i].by && !move_image(s, m, &images[i], 0, way(m, &images[i], i)))
			return false;
	for (size_t i = 0; i < IMAGES; i++)
		if (images[i].by && !move_image(s, m, &images[i], way(m, &images[i], i), images[i].by))
			return false;
	return true;
}

static bool find_images(struct image *images, const struct sr_mappings *m, const struct sr_images *here, const struct sr_moves *by)
{
	const uint64_t at[IMAGES] = {here->program, here->loader, here->stack};
	const uint64_t moves[IMAGES] = {by->program, by->loader, by->stack};

	for (size_t i = 0; i < IMAGES; i++) {
		if (moves[i] && (moves[i] % PAGE || !find_image(&images[i], m, at[i])))
			return false;
		images[i].by = moves[i];
	}
	return true;
}

/* What is executed while the code of ld.so moves.  No page may be writable and executable: some systems forbid it. */
static bool make_room_for_code(struct sr_stopped *s)
{
	const uint64_t a[6] = {AWAY, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, (uint64_t)-1};

	if (sr_stopped_call(s, SYS_mmap, a) != (long)AWAY)
		return false;
	s->code = AWAY;
	return true;
}

static bool give_room_back(struct sr_stopped *s)
{
	const uint64_t a[6] = {AWAY, PAGE};

	s->code = s->regs.rip;
	return !sr_stopped_call(s, SYS_munmap, a);
}

bool sr_move_images(struct sr_stopped *s, const struct sr_images *here, const struct sr_moves *by)
{
	struct image images[IMAGES] = {{0}};
	struct sr_mappings m;
	bool good;

	if (!sr_moves_any(by))
		return true;
	if (!sr_mappings_read(&m, s->pid))
		return false;
	good = find_images(images, &m, here, by) && make_room_for_code(s) && move_all(s, &m, images);
	sr_mappings_free(&m);
	if (!good)
		return false;
	/* It starts in ld.so, if there is one. */
	s->regs.rip += here->loader ? by->loader : by->program;
	s->regs.rsp += by->stack;
	return give_room_back(s);
}

#endif
