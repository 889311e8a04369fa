/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libc_order.c: threads that share what libc keeps behind its own locks.
 *
 *	libc_order CASE     without a case: names the cases
 *
 * Each thread prints what it got, so the output depends on the order in which the threads came; and on what libc's functions left
 * on the stack below, as a program may send it.
 */
#include <dlfcn.h>
#include <grp.h>
#include <libintl.h>
#include <link.h>
#include <locale.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS  300

static uint64_t sums[THREADS];
static pthread_barrier_t begin;
static FILE *input;

static void add(int thread, uint64_t value)
{
	sums[thread] = (sums[thread] ^ value) * 0x9e3779b97f4a7c15ull + 1;
}

static void add_text(int thread, const char *text)
{
	for (; text && *text; text++)
		add(thread, (uint8_t)*text);
}

/* Lets others in now and then, also on one processor. */
static void pause_at(int i)
{
	if (i % 37 == 0)
		sched_yield();
}

static void do_rand(int thread, int i)
{
	add(thread, (uint64_t)rand());
}

static void do_random(int thread, int i)
{
	static char state[THREADS][64];

	if (i % 100 == 50)
		srandom((unsigned int)i);
	else if (i % 100 == 70)
		initstate((unsigned int)i, state[thread], sizeof(state[0]));
	add(thread, (uint64_t)random());
}

static void do_drand48(int thread, int i)
{
	if (i % 100 == 50)
		srand48(i);
	add(thread, (uint64_t)(drand48() * 1e9));
	add(thread, (uint64_t)lrand48());
}

static void do_environment(int thread, int i)
{
	char name[32], value[32];

	snprintf(name, sizeof(name), "SHARED_%d", i % 5);
	snprintf(value, sizeof(value), "%d.%d", thread, i);
	if (i % 3 == 0)
		setenv(name, value, 1);
	else if (i % 20 == 1)
		unsetenv(name);
	else
		add(thread, getenv(name) != NULL);
	snprintf(name, sizeof(name), "SHARED_%d", (i + 1) % 5);
	add(thread, (uint64_t)setenv(name, value, 0));
}

/* The variable's last writer decides. */
static void do_zones(int thread, int i)
{
	static const char *const zones[] = {"UTC", "UTC-3", "EST5EDT", "XYZ-7"};
	time_t now = 1000000000 + i * 86400;
	struct tm tm;
	char text[64];

	if (i % 10 == 0) {
		setenv("TZ", zones[(thread + i / 10) % 4], 1);
		tzset();
	}
	localtime_r(&now, &tm);
	add(thread, (uint64_t)tm.tm_hour);
	strftime(text, sizeof(text), "%H:%M %Z", &tm);
	add(thread, (uint64_t)mktime(&tm));
}

static void do_locales(int thread, int i)
{
	locale_t l = newlocale(LC_ALL_MASK, i % 2 ? "C" : "C.UTF-8", NULL);

	add(thread, (uintptr_t)l & 0xfffff);
	if (l)
		freelocale(l);
	if (i % 10 == 0)
		add_text(thread, setlocale(LC_NUMERIC, thread % 2 ? "C" : "POSIX"));
}

static void do_messages(int thread, int i)
{
	char domain[32];

	snprintf(domain, sizeof(domain), "domain%d", i % 7);
	add_text(thread, bindtextdomain(domain, thread % 2 ? "/tmp/a" : "/tmp/b"));
	add_text(thread, dgettext(domain, "hello"));
	add_text(thread, textdomain(i % 2 ? domain : NULL));
}

static void do_input(int thread, int i)
{
	char line[64], *allocated = NULL;
	size_t size = 0;

	switch (i % 6) {
	case 0:
		add_text(thread, fgets(line, sizeof(line), input));
		break;
	case 1:
		add(thread, (uint64_t)fgetc(input));
		add(thread, (uint64_t)getc(input));
		break;
	case 2:
		add(thread, fread(line, 1, 5, input));
		add(thread, (uint64_t)line[0]);
		break;
	case 3:
		add(thread, (uint64_t)getline(&allocated, &size, input));
		add_text(thread, allocated);
		free(allocated);
		break;
	case 4:
		if (fscanf(input, "%32s", line) == 1)
			add_text(thread, line);
		break;
	default:
		add(thread, (uint64_t)ftell(input));
		if (i % 60 == 5)
			rewind(input);
	}
}

static int count(struct dl_phdr_info *info, size_t size, void *n)
{
	++*(int *)n;
	return 0;
}

/* The last dlclose unloads the library, the next dlopen loads it again. */
static void do_libraries(int thread, int i)
{
	static const char *const names[] = {"libanl.so.1", "libBrokenLocale.so.1",
					    "libnss_compat.so.2"};
	void *library;
	int n = 0;

	if (i % 4)
		return;
	library = dlopen(names[(i / 4) % 3], RTLD_NOW);
	add(thread, (uintptr_t)library);
	dl_iterate_phdr(count, &n);
	add(thread, (uint64_t)n);
	if (library)
		dlclose(library);
}

static void compute(void)
{
	volatile uint32_t x = 1;

	for (int i = 0; i < 2000000; i++)
		x = x * 1664525 + 1013904223;
}

/* Some load a library while the others look a symbol up, which takes long: its name is. */
static void do_symbols(int thread, int i)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static char symbol[8 << 20];
	static uint64_t order;
	void *library = NULL;

	if (i % 20)
		return;
	pthread_mutex_lock(&mutex);
	memset(symbol, 'x', sizeof(symbol) - 1);
	order = order * 31 + (uint64_t)thread;
	add(thread, order);
	pthread_mutex_unlock(&mutex);
	/* The recorder lets threads that compute run at the same time. */
	compute();
	for (int n = 0; thread % 2 && n < 4; n++) {
		library = dlopen("libBrokenLocale.so.1", RTLD_NOW);
		if (library)
			dlclose(library);
	}
	add(thread, thread % 2 ? library != NULL : dlsym(RTLD_DEFAULT, symbol) != NULL);
}

static void do_users(int thread, int i)
{
	struct passwd *user;
	struct group *group;

	if (i % 5)
		return;
	user = getpwnam(i % 2 ? "root" : "daemon");
	add(thread, user != NULL);
	user = getpwent();
	if (i % 30 == 0)
		setpwent();
	group = getgrgid((gid_t)i % 3);
	add(thread, group != NULL);
	add(thread, getservbyname("http", "tcp") != NULL);
}

static void at_end_1(void)
{
	write(1, "1", 1);
}

static void at_end_2(void)
{
	write(1, "2", 1);
}

static void do_exits(int thread, int i)
{
	if (i % 10 == 0)
		atexit(thread % 2 ? at_end_1 : at_end_2);
}

static const struct {
	const char *name;
	void (*run)(int thread, int i);
} cases[] = {
    {"rand", do_rand},           {"random", do_random},
    {"drand48", do_drand48},     {"environment", do_environment},
    {"zones", do_zones},         {"locales", do_locales},
    {"messages", do_messages},   {"input", do_input},
    {"libraries", do_libraries}, {"users", do_users},
    {"exits", do_exits},         {"symbols", do_symbols},
};

static void (*run)(int thread, int i);

/* Nothing of it has been written by this function. */
static __attribute__((noinline)) void add_left_on_stack(int thread)
{
	volatile uint64_t left[1000];

	left[0] = 0;
	for (int i = 0; i < 1000; i++)
		add(thread, left[i]);
}

static void *work(void *argument)
{
	int thread = (int)(intptr_t)argument;

	pthread_barrier_wait(&begin);
	for (int i = 0; i < ROUNDS; i++) {
		pause_at(i + thread);
		run(thread, i);
		/* What dlsym leaves is ld.so's, and nothing is done about it. */
		if (run != do_symbols)
			add_left_on_stack(thread);
	}
	return NULL;
}

static void make_input(void)
{
	input = tmpfile();
	for (int i = 0; i < 500; i++)
		fprintf(input, "line %d of the file %x\n", i, i * 7919);
	rewind(input);
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc < 2)
			puts(cases[i].name);
		else if (!strcmp(argv[1], cases[i].name))
			run = cases[i].run;
	}
	if (!run)
		return argc > 1;
	make_input();
	pthread_barrier_init(&begin, NULL, THREADS);
	for (intptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++)
		printf("thread %d: %016llx\n", i, (unsigned long long)sums[i]);
	return 0;
}
