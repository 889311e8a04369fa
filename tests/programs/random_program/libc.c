/* SPDX-License-Identifier: BSD-2-Clause */
/* libc.c: time, chance, and what libc keeps for all threads. */
#include <dlfcn.h>
#include <grp.h>
#include <locale.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "shared.h"

static void asks_time(struct self *s)
{
	struct timespec t;
	struct timeval v;
	struct tms tms;

	switch (draw(s, 6)) {
	case 0:
		clock_gettime((clockid_t)draw(s, 4), &t);
		mix(s, (uint64_t)t.tv_nsec);
		break;
	case 1:
		gettimeofday(&v, NULL);
		mix(s, (uint64_t)v.tv_usec);
		break;
	case 2:
		mix(s, (uint64_t)time(NULL));
		break;
	case 3:
		mix(s, __rdtsc());
		break;
	case 4:
		mix(s, (uint64_t)times(&tms));
		break;
	default:
		mix(s, (uint64_t)clock());
	}
}

static void draws_chance(struct self *s)
{
	uint64_t value = 0;

	switch (draw(s, 5)) {
	case 0:
		mix(s, (uint64_t)getrandom(&value, sizeof(value), 0));
		break;
	case 1:
		mix(s, (uint64_t)getentropy(&value, sizeof(value)));
		break;
	case 2:
		value = (uint64_t)rand();
		break;
	case 3:
		value = (uint64_t)random();
		break;
	default:
		value = (uint64_t)(drand48() * 1e15);
	}
	mix(s, value);
}

static void asks_process(struct self *s)
{
	struct rusage usage;
	struct utsname name;

	switch (draw(s, 6)) {
	case 0:
		mix(s, (uint64_t)getpid());
		break;
	case 1:
		mix(s, (uint64_t)syscall(SYS_gettid));
		break;
	case 2:
		getrusage(RUSAGE_SELF, &usage);
		mix(s, (uint64_t)usage.ru_utime.tv_usec);
		break;
	case 3:
		mix(s, (uint64_t)getppid());
		break;
	case 4:
		uname(&name);
		mix_bytes(s, name.release, strlen(name.release));
		break;
	default:
		mix(s, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	}
}

pthread_rwlock_t environment_lock = PTHREAD_RWLOCK_INITIALIZER;

static void uses_environment(struct self *s)
{
	char name[16], value[32], copy[32] = "";

	snprintf(name, sizeof(name), "RANDOM_%u", draw(s, 4));
	snprintf(value, sizeof(value), "%x", decide(s, 1000));
	pthread_rwlock_wrlock(&environment_lock);
	if (draw(s, 2))
		setenv(name, value, 1);
	else
		mix(s, (uint64_t)unsetenv(name));
	mix(s, (uint64_t)setenv(name, copy, 0));
	pthread_rwlock_unlock(&environment_lock);
}

static void tells_date(struct self *s)
{
	time_t t = time(NULL) + draw(s, 100000);
	struct tm tm;
	char text[64];

	localtime_r(&t, &tm);
	mix_bytes(s, text, strftime(text, sizeof(text), "%c %Z", &tm));
	mix(s, (uint64_t)mktime(&tm));
}

static void looks_up(struct self *s)
{
	struct passwd user, *found = NULL;
	char room[2048];

	mix(s, (uint64_t)getpwuid_r((uid_t)draw(s, 5), &user, room, sizeof(room), &found));
	if (found)
		mix_bytes(s, user.pw_name, strlen(user.pw_name));
}

static void loads(struct self *s)
{
	static const char *const names[] = {"libanl.so.1", "libBrokenLocale.so.1", "libm.so.6"};
	void *library = dlopen(names[draw(s, 3)], RTLD_NOW);

	mix(s, (uintptr_t)library);
	mix(s, (uintptr_t)(library ? dlsym(library, "cos") : NULL) & 0xfff);
	if (library)
		dlclose(library);
}

static void uses_locale(struct self *s)
{
	locale_t l = newlocale(LC_ALL_MASK, draw(s, 2) ? "C" : "C.UTF-8", NULL);

	mix(s, l != NULL);
	if (l)
		freelocale(l);
}

const struct step libc_steps[] = {
    {"asks_time", asks_time, 6},
    {"draws_chance", draws_chance, 6},
    {"asks_process", asks_process, 3},
    {"uses_environment", uses_environment, 2},
    {"tells_date", tells_date, 2},
    {"looks_up", looks_up, 1},
    {"loads", loads, 1},
    {"uses_locale", uses_locale, 1},
    {0},
};
