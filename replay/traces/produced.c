/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/traces/produced.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

int sr_produced_open(struct sr_produced *p, int fd)
{
	struct stat st;
	void *m;

	*p = (struct sr_produced){.bytes = NULL};
	if (fstat(fd, &st))
		return -errno;
	if (!st.st_size)
		return 0;
	m = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (m == MAP_FAILED)
		return -errno;
	*p = (struct sr_produced){.bytes = m, .size = (size_t)st.st_size};
	return 0;
}

void sr_produced_close(struct sr_produced *p)
{
	if (p->size)
		munmap((void *)p->bytes, p->size);
}

/* Moves *at behind the thread's next entry, and returns its bytes; NULL: there is none. */
static const uint8_t *next_of(const struct sr_produced *p, uint32_t thread, uint32_t *length, size_t *at)
{
	struct sr_produced_entry e;

	while (p->size - *at >= sizeof(e)) {
		const uint8_t *bytes = p->bytes + *at + sizeof(e);

		memcpy(&e, p->bytes + *at, sizeof(e));
		if (e.length > p->size - *at - sizeof(e))
			return NULL;
		*at += sizeof(e) + e.length;
		*length = e.length;
		if (e.thread == thread)
			return bytes;
	}
	return NULL;
}

const uint8_t *sr_produced_next(const struct sr_produced *p, uint32_t thread, uint32_t length,
				size_t *at)
{
	uint32_t found = 0;
	const uint8_t *bytes = next_of(p, thread, &found, at);

	return bytes && found == length ? bytes : NULL;
}

bool sr_produced_none(const struct sr_produced *p, uint32_t thread, size_t *at)
{
	uint32_t found = 0;
	size_t behind = *at;

	if (!next_of(p, thread, &found, &behind) || found)
		return false;
	*at = behind;
	return true;
}
