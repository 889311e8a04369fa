/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/writer/held_inputs.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MOST_OF_ONE 256

/* Of all recordings. */
static atomic_uint held;

/* The rest of the daemon's descriptors is for what it cannot do without. */
static unsigned int most_of_all(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) ? 0 : (unsigned int)(limit.rlim_cur < 65536 ? limit.rlim_cur : 65536) / 4;
}

bool is_same_content(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

void held_input_free(struct held_input *input)
{
	close(input->fd);
	free(input);
	atomic_fetch_sub(&held, 1);
}

static struct held_input *take_first(struct held_inputs *h)
{
	struct held_input *input = h->first;

	if (!input)
		return NULL;
	h->first = input->next;
	if (!h->first)
		h->last = NULL;
	h->count--;
	return input;
}

static void put_last(struct held_inputs *h, struct held_input *input)
{
	if (!h->last)
		h->last = &h->first;
	*h->last = input;
	h->last = &input->next;
	h->count++;
}

void held_inputs_add(struct held_inputs *h, int fd, const struct stat *st, const char *path, const char *file, uint64_t number)
{
	const size_t bytes = strlen(path) + 1;
	struct held_input *input, *oldest;

	if ((h->count == MOST_OF_ONE || atomic_load(&held) >= most_of_all()) && (oldest = take_first(h)))
		held_input_free(oldest);
	input = atomic_load(&held) < most_of_all() ? calloc(1, sizeof(*input) + bytes) : NULL;
	if (!input) {
		close(fd);
		return;
	}
	atomic_fetch_add(&held, 1);
	input->fd = fd;
	input->st = *st;
	input->number = number;
	strncpy(input->file, file, sizeof(input->file) - 1);
	memcpy(input->path, path, bytes);
	put_last(h, input);
}

static bool is_replaced(const struct held_input *input)
{
	struct stat at_path, now;

	if (!stat(input->path, &at_path) && is_same_content(&at_path, &input->st))
		return false;
	/* What was changed in place is lost. */
	return !fstat(input->fd, &now) && is_same_content(&now, &input->st);
}

struct held_input *held_inputs_next_replaced(struct held_inputs *h)
{
	struct held_input *input;

	while ((input = take_first(h)) && !is_replaced(input))
		held_input_free(input);
	return input;
}

void held_inputs_free(struct held_inputs *h)
{
	struct held_input *input;

	while ((input = take_first(h)))
		held_input_free(input);
}
