/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * main.c: a small program of random steps, which a seed determines.
 *
 *	random_program SEED [THREADS [STEPS [NAME,NAME...]]]
 *
 * It works in the current directory. With names of steps or of their tables it does only these, so
 * that a failing seed can be reduced. "random_program names" prints the names.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared.h"

#define MAX_STEPS 128

static const struct {
	const char *name;
	const struct step *steps;
	bool is_extra; /* only by name */
} tables[] = {
    {"memory", memory_steps},     {"threads", thread_steps}, {"files", file_steps},
    {"libc", libc_steps},         {"sockets", socket_steps}, {"signals", signal_steps},
    {"processes", process_steps},
    {"events", event_steps, true}, {"ipc", ipc_steps, true}, {"lives", life_steps, true},
    {"moves", move_steps, true}, {"newer", newer_steps, true},
#ifdef WITH_RINGS
    {"rings", ring_steps, true},
#endif
};

static const struct step *chosen[MAX_STEPS];
static int total_weight;
static bool is_verbose;

static uint64_t scramble(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

unsigned int draw(struct self *s, unsigned int n)
{
	s->steps += 0x9e3779b97f4a7c15ull;
	return (unsigned int)(scramble(s->steps) % n);
}

unsigned int decide(struct self *s, unsigned int n)
{
	return (unsigned int)(scramble(s->state) % n);
}

void mix(struct self *s, uint64_t value)
{
	s->state = scramble(s->state * 31 + value + 1);
}

void mix_bytes(struct self *s, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		mix(s, ((const uint8_t *)bytes)[i]);
}

static const struct step *random_step(struct self *s)
{
	int at = (int)draw(s, (unsigned int)total_weight);

	for (int i = 0; chosen[i]; i++) {
		at -= chosen[i]->weight;
		if (at < 0)
			return chosen[i];
	}
	return chosen[0];
}

void run_steps(struct self *s, int n)
{
	for (int i = 0; i < n; i++) {
		const struct step *step = random_step(s);

		step->run(s);
		if (!is_verbose)
			continue;
		/* At once, so that a replay stops behind the first step that differs. */
		fprintf(s->file, "%d %s %016llx\n", i, step->name, (unsigned long long)s->state);
		fflush(s->file);
	}
}

struct self *new_self(struct self *parent)
{
	static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
	static int count;
	struct self *s = calloc(1, sizeof(*s));

	/* The main thread makes others while these make theirs. */
	pthread_mutex_lock(&counting);
	s->number = count++;
	pthread_mutex_unlock(&counting);
	s->steps = scramble(parent->steps + (uint64_t)draw(parent, 1000000));
	s->depth = parent->depth + 1;
	snprintf(s->name, sizeof(s->name), "thread-%d", s->number);
	s->file = fopen(s->name, "w+");
	return s;
}

static bool is_named(const char *names, const char *name)
{
	const char *at = names;
	size_t length = strlen(name);

	while (at && (at = strstr(at, name))) {
		if ((at == names || at[-1] == ',') && (!at[length] || at[length] == ','))
			return true;
		at += length;
	}
	return !names;
}

static void choose(const char *names)
{
	int n = 0;

	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
		for (const struct step *s = tables[t].steps; s->name; s++)
			if ((names || !tables[t].is_extra) && (is_named(names, s->name) || is_named(names, tables[t].name))) {
				chosen[n++] = s;
				total_weight += s->weight;
			}
}

static void *body(void *argument)
{
	struct self *s = argument;

	run_steps(s, s->depth);
	return s;
}

int main(int argc, char **argv)
{
	struct self main_thread = {0}, *others[16], *self;
	int threads, steps;

	choose(argc > 4 ? argv[4] : NULL);
	for (int i = 0; argc < 2 && chosen[i]; i++)
		puts(chosen[i]->name);
	if (argc < 2)
		return 0;
	is_verbose = getenv("RANDOM_VERBOSE") != NULL;
	main_thread.steps = scramble(strtoull(argv[1], NULL, 0));
	threads = argc > 2 && atoi(argv[2]) ? atoi(argv[2]) : 1 + (int)draw(&main_thread, 5);
	steps = argc > 3 && atoi(argv[3]) ? atoi(argv[3]) : 10 + (int)draw(&main_thread, 150);
	prepare_threads();
	prepare_signals();
	prepare_sockets();
	if (argc > 4)
		prepare_newer();
	self = new_self(&main_thread);
	self->depth = 1;
	pthread_t ids[16];
	for (int i = 0; i + 1 < threads && i < 16; i++) {
		others[i] = new_self(&main_thread);
		others[i]->depth = steps;
		pthread_create(&ids[i], NULL, body, others[i]);
	}
	run_steps(self, steps);
	for (int i = 0; i + 1 < threads && i < 16; i++) {
		pthread_join(ids[i], NULL);
		printf("thread %d: %016llx\n", others[i]->number,
		       (unsigned long long)others[i]->state);
		mix(self, others[i]->state);
		fclose(others[i]->file);
	}
	printf("main: %016llx\n", (unsigned long long)self->state);
	fclose(self->file);
	return (int)decide(self, 64);
}
