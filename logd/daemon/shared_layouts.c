/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/daemon/shared_layouts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/layouts.h"

struct shared {
	struct shared *next;
	struct sr_layouts *layouts;
	unsigned int users;
	size_t size;
	char schema[];
};

/* Held while a schema is read: those that need the same one wait for it, which is in memory. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shared *first;
/* The last one that lost its users.  The next process most likely has the same schema, and reading it takes 5 ms. */
static struct shared *unused;

static struct shared *find(const char *schema, size_t size)
{
	struct shared *s;

	for (s = first; s && (s->size != size || memcmp(s->schema, schema, size)); s = s->next)
		;
	return s;
}

static struct shared *add(const char *schema, size_t size)
{
	struct shared *s = malloc(sizeof(*s) + size);

	if (!s)
		return NULL;
	*s = (struct shared){.next = first, .layouts = sr_layouts_new(schema, size), .size = size};
	if (!s->layouts) {
		free(s);
		return NULL;
	}
	memcpy(s->schema, schema, size);
	first = s;
	return s;
}

const struct sr_layouts *shared_layouts_take(const char *schema, size_t size)
{
	struct shared *s;

	pthread_mutex_lock(&lock);
	s = find(schema, size);
	if (!s)
		s = add(schema, size);
	if (s == unused)
		unused = NULL;
	if (s)
		s->users++;
	pthread_mutex_unlock(&lock);
	return s ? s->layouts : NULL;
}

static void forget(struct shared *s)
{
	struct shared **at = &first;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	sr_layouts_free(s->layouts);
	free(s);
}

void shared_layouts_drop(const struct sr_layouts *layouts)
{
	struct shared *s;

	if (!layouts)
		return;
	pthread_mutex_lock(&lock);
	for (s = first; s->layouts != layouts; s = s->next)
		;
	if (!--s->users) {
		if (unused)
			forget(unused);
		unused = s;
	}
	pthread_mutex_unlock(&lock);
}
