/* SPDX-License-Identifier: BSD-2-Clause */
/* copy.c: moves bytes between spans of memory, as a network card does. */
#include <string.h>
#include <sys/uio.h>

#include "raw.h"
#include "regions.h"

/* Two words, which x86 stores at once if they are aligned; from an address of any alignment. */
typedef uint64_t pair __attribute__((vector_size(16), may_alias));
typedef uint64_t any_pair __attribute__((vector_size(16), may_alias, aligned(1)));

static void store_bytes(char *to, const char *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		__atomic_store_n(to + i, from[i], __ATOMIC_RELEASE);
}

static void store_word(char *to, const char *from)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	__atomic_store_n((uint64_t *)to, word, __ATOMIC_RELEASE);
}

/*
 * Aligned words are stored whole, in ascending order: programs poll the last byte of what they
 * expect (perftest), or a word.  The volatile stores keep the compiler from combining or reordering
 * them; x86 and the order of a loop do the rest (elsewhere a release store is needed, since a
 * reader takes the last byte as a sign for the others).  A network card takes none of a processor's
 * time for that, so as much is stored at once as may be.
 */
static void store_words(char *to, const char *from, size_t n)
{
	size_t i = -(uintptr_t)to % sizeof(uint64_t);

	i = i < n ? i : n;
	store_bytes(to, from, i);
	if ((uintptr_t)(to + i) % sizeof(pair) && i + sizeof(uint64_t) <= n) {
		store_word(to + i, from + i);
		i += sizeof(uint64_t);
	}
	for (; i + 4 * sizeof(pair) <= n; i += 4 * sizeof(pair)) {
		const any_pair *p = (const any_pair *)(from + i);
		volatile pair *line = (pair *)(to + i);

		line[0] = p[0];
		line[1] = p[1];
		line[2] = p[2];
		line[3] = p[3];
	}
	for (; i + sizeof(uint64_t) <= n; i += sizeof(uint64_t))
		store_word(to + i, from + i);
	store_bytes(to + i, from + i, n - i);
}

/* Within one region a message may overlap itself: then from the end, as memmove does. */
static void copy_here(char *to, const char *from, size_t n)
{
	if (to > from && to < from + n)
		memmove(to, from, n);
	else
		store_words(to, from, n);
}

static void move_foreign(const struct sd_span *s, char *here, size_t n, bool writes)
{
	struct iovec local = {here, n}, remote = {(void *)(uintptr_t)s->address, n};

	syscall(writes ? SYS_process_vm_writev : SYS_process_vm_readv, s->pid, &local, 1, &remote,
		1, 0);
}

#define BETWEEN 4096

/* With the lock held. */
static void move_between(const struct sd_span *to, const struct sd_span *from, size_t n)
{
	static char between[BETWEEN];

	move_foreign(from, between, n, false);
	move_foreign(to, between, n, true);
}

static void copy_span(const struct sd_span *to, const struct sd_span *from, size_t n)
{
	if (to->at && from->at)
		copy_here(to->at, from->at, n);
	else if (to->at)
		move_foreign(from, to->at, n, false);
	else if (from->at)
		move_foreign(to, from->at, n, true);
	else if (n <= BETWEEN)
		move_between(to, from, n);
}

static void advance(struct sd_span *s, size_t n)
{
	s->at = s->at ? s->at + n : NULL;
	s->address += n;
	s->length -= n;
}

void sd_copy(struct sd_spans *to, struct sd_spans *from)
{
	for (uint32_t i = 0, j = 0; i < to->n && j < from->n;) {
		struct sd_span *d = &to->v[i], *s = &from->v[j];
		size_t n = d->length < s->length ? d->length : s->length;

		if (!d->at && !s->at && n > BETWEEN)
			n = BETWEEN;
		copy_span(d, s, n);
		advance(d, n);
		advance(s, n);
		i += !d->length;
		j += !s->length;
	}
}
