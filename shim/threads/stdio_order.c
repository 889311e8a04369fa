/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stdio_order.c: makes the output of several threads appear in the recorded order.
 *
 * glibc's printf and similar functions lock their file without a call that the shim could
 * intercept, and write by an inner call when the buffer is full. So the order is decided inside
 * glibc, and records of the writes would not contain it. These wrappers first lock the file with
 * flockfile, which is an ordered call like any other lock; glibc then locks it a second time.
 *
 * With one thread they do nothing. Here are those with a variable number of arguments; the others
 * are in libc_order.def.
 */
#include <err.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/next.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/threads/program_threads.h"
#include "shim/threads/stdio_order.h"

int __vfprintf_chk(FILE *file, int flag, const char *format, va_list ap);
int __printf_chk(int flag, const char *format, ...);
int __fprintf_chk(FILE *file, int flag, const char *format, ...);
int __vprintf_chk(int flag, const char *format, va_list ap);

static void unlock(void *file)
{
	funlockfile(file);
}

/* Locks and returns the file; NULL if there is nothing to order. */
static FILE *lock(FILE *file)
{
	if (__builtin_expect(!sr_threaded, 1) || !sr_engine || sr_self.depth || !file)
		return NULL;
	flockfile(file);
	return file;
}

static bool try_lock(FILE *file)
{
	SR_NEXT(next, "ftrylockfile");

	return !((int (*)(FILE *))sr_next(&next))(file);
}

/*
 * If threads run one at a time, only the holder of the run token takes the lock, because
 * glibc also takes and releases it internally, without an event.
 */
uint64_t sr_invoke_flockfile(const struct sr_call_desc *d, uint64_t *a)
{
	const struct timespec a_moment = {.tv_nsec = 20000};
	struct sr_thread *t = &sr_self;

	if (!sr_token_is_released(&t->run_token))
		return sr_real(d, a);
	for (;;) {
		sr_token_take(&t->run_token, t->number);
		if (try_lock((FILE *)a[0]))
			return 0;
		sr_token_release(&t->run_token, SR_TOKEN_FOR_LONG);
		if (sr_call_number(d) == SR_CALL_ftrylockfile)
			return (uint64_t)-1;
		sr_sys_nanosleep(&a_moment);
	}
}

void sr_replayed_flockfile(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	SR_NEXT(next, "flockfile");

	if (!result)
		((void (*)(FILE *))sr_next(&next))((FILE *)a[0]);
}

/*
 * One thread may be printing while another ends the process. In both runs, all of that
 * output must appear or none. So the ending thread takes the lock at its event and keeps
 * it. It gives up after a while, since the holder may never release it.
 */
void sr_stdio_settle(void)
{
	const struct timespec a_moment = {.tv_nsec = 1000000};

	for (int i = 0; sr_threaded && i < 100 && ftrylockfile(stdout); i++)
		sr_sys_nanosleep(&a_moment);
}

static int print(FILE *file, const char *format, va_list ap)
{
	SR_NEXT(next, "vfprintf");
	int (*real)(FILE *, const char *, va_list) =
	    (int (*)(FILE *, const char *, va_list))sr_next(&next);
	FILE *locked = lock(file);
	int n;

	if (!locked)
		return real(file, format, ap);
	/* Writing is a cancellation point. */
	pthread_cleanup_push(unlock, locked);
	n = real(file, format, ap);
	pthread_cleanup_pop(1);
	return n;
}

static int print_checked(FILE *file, int flag, const char *format, va_list ap)
{
	SR_NEXT(next, "__vfprintf_chk");
	int (*real)(FILE *, int, const char *, va_list) =
	    (int (*)(FILE *, int, const char *, va_list))sr_next(&next);
	FILE *locked = lock(file);
	int n;

	if (!locked)
		return real(file, flag, format, ap);
	pthread_cleanup_push(unlock, locked);
	n = real(file, flag, format, ap);
	pthread_cleanup_pop(1);
	return n;
}

SR_EXPORT int vfprintf(FILE *file, const char *format, va_list ap)
{
	return print(file, format, ap);
}

SR_EXPORT int vprintf(const char *format, va_list ap)
{
	return print(stdout, format, ap);
}

SR_EXPORT int fprintf(FILE *file, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = print(file, format, ap);
	va_end(ap);
	return n;
}

SR_EXPORT int printf(const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = print(stdout, format, ap);
	va_end(ap);
	return n;
}

SR_EXPORT int __vfprintf_chk(FILE *file, int flag, const char *format, va_list ap)
{
	return print_checked(file, flag, format, ap);
}

SR_EXPORT int __vprintf_chk(int flag, const char *format, va_list ap)
{
	return print_checked(stdout, flag, format, ap);
}

SR_EXPORT int __fprintf_chk(FILE *file, int flag, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = print_checked(file, flag, format, ap);
	va_end(ap);
	return n;
}

SR_EXPORT int __printf_chk(int flag, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = print_checked(stdout, flag, format, ap);
	va_end(ap);
	return n;
}

/* Each reads by its sibling with a va_list, which takes the order (libc_order.def). */
#define SCAN(function, sibling)                                                                    \
	int sibling(FILE *file, const char *format, va_list ap);                                   \
	int function(FILE *file, const char *format, ...);                                         \
	SR_EXPORT int function(FILE *file, const char *format, ...)                                \
	{                                                                                          \
		va_list ap;                                                                        \
		int n;                                                                             \
                                                                                                   \
		va_start(ap, format);                                                              \
		n = sibling(file, format, ap);                                                     \
		va_end(ap);                                                                        \
		return n;                                                                          \
	}

SCAN(__isoc99_fscanf, __isoc99_vfscanf)
SCAN(__isoc23_fscanf, __isoc23_vfscanf)

#define SCAN_INPUT(function, sibling)                                                              \
	int function(const char *format, ...);                                                     \
	SR_EXPORT int function(const char *format, ...)                                            \
	{                                                                                          \
		va_list ap;                                                                        \
		int n;                                                                             \
                                                                                                   \
		va_start(ap, format);                                                              \
		n = sibling(stdin, format, ap);                                                    \
		va_end(ap);                                                                        \
		return n;                                                                          \
	}

SCAN_INPUT(__isoc99_scanf, __isoc99_vfscanf)
SCAN_INPUT(__isoc23_scanf, __isoc23_vfscanf)

/* ----------------------------------------------------------------- err, warn */

/* As glibc has them, but by the wrappers of vwarn and vwarnx (libc_order.def). */
SR_EXPORT void warn(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vwarn(format, ap);
	va_end(ap);
}

SR_EXPORT void warnx(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vwarnx(format, ap);
	va_end(ap);
}

SR_EXPORT void __attribute__((noreturn)) verr(int status, const char *format, va_list ap)
{
	vwarn(format, ap);
	exit(status);
}

SR_EXPORT void __attribute__((noreturn)) verrx(int status, const char *format, va_list ap)
{
	vwarnx(format, ap);
	exit(status);
}

SR_EXPORT void __attribute__((noreturn)) err(int status, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	verr(status, format, ap);
}

SR_EXPORT void __attribute__((noreturn)) errx(int status, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	verrx(status, format, ap);
}
