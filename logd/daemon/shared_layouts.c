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
	if (s)
		s->users++;
	pthread_mutex_unlock(&lock);
	return s ? s->layouts : NULL;
}

void shared_layouts_drop(const struct sr_layouts *layouts)
{
	struct shared **at, *s;

	if (!layouts)
		return;
	pthread_mutex_lock(&lock);
	for (at = &first; (s = *at)->layouts != layouts; at = &s->next)
		;
	if (!--s->users) {
		*at = s->next;
		sr_layouts_free(s->layouts);
		free(s);
	}
	pthread_mutex_unlock(&lock);
}
