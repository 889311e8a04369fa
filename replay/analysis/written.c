/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/written.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/process/events.h"

size_t sr_written_find(const struct sr_written_memory *m, uint64_t address)
{
	size_t low = 0, high = m->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (m->pieces[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Makes room for one more piece at this place. */
static int insert(struct sr_written_memory *m, size_t at, struct sr_written_piece piece)
{
	if (m->n == m->room) {
		size_t room = m->room ? 2 * m->room : 64;
		struct sr_written_piece *more = realloc(m->pieces, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		m->pieces = more;
		m->room = room;
	}
	memmove(&m->pieces[at + 1], &m->pieces[at], (m->n - at) * sizeof(piece));
	m->pieces[at] = piece;
	m->n++;
	return 0;
}

/* A piece that begins before `address` and ends behind it becomes two. */
static int split(struct sr_written_memory *m, uint64_t address)
{
	size_t at = sr_written_find(m, address);
	struct sr_written_piece second;

	if (at == m->n || m->pieces[at].begin >= address)
		return 0;
	second = m->pieces[at];
	second.begin = address;
	m->pieces[at].end = address;
	return insert(m, at + 1, second);
}

int sr_written_add(struct sr_written_memory *m, uint64_t begin, uint64_t length,
		   const struct sr_writer *writer)
{
	uint64_t end = begin + length, at = begin;
	int err = split(m, begin);

	if (!err)
		err = split(m, end);
	for (size_t i = sr_written_find(m, begin); at < end && !err; i++) {
		bool is_gap = i == m->n || m->pieces[i].begin > at;

		if (is_gap) {
			uint64_t next =
			    i < m->n && m->pieces[i].begin < end ? m->pieces[i].begin : end;

			err = insert(m, i,
				     (struct sr_written_piece){
					 .begin = at, .end = next, .last.rank = SR_NO_RANK});
			if (err)
				break;
		}
		m->pieces[i].before = m->pieces[i].last;
		m->pieces[i].last = *writer;
		at = m->pieces[i].end;
	}
	return err;
}

void sr_written_free(struct sr_written_memory *m)
{
	free(m->pieces);
	*m = (struct sr_written_memory){0};
}
