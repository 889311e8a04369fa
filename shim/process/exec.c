/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exec.c: the program replaces itself by another one.
 *
 * The recording ends there, with a record that says so (SR_REC_EXEC), because the new image
 * would be a second process of the same rank. An exec is recorded as a call only if it
 * fails. A replay executes nothing.
 */
#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "logd/base/compiler.h"
#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/next.h"
#include "shim/signals/signals.h"
#include "shim/core/thread.h"
#include "shim/kernel/tsc.h"

/* One call of a function of the exec family, with its arguments. */
struct exec {
	int (*run)(const struct exec *e);
	struct sr_next_function *next;
	int directory, flags;
	const char *path;
	char *const *argv;
	char *const *envp;
};

uint64_t sr_invoke_exec(const struct sr_call_desc *d, uint64_t *a)
{
	errno = sr_self.made.error;
	return (uint64_t)-1;
}

static int execute(const struct exec *e, void *site)
{
	struct sr_thread *t = &sr_self;
	uint64_t a[1] = {(uintptr_t)e->path};
	enum sr_heap before;

	if (!sr_engine_is_active() || t->depth)
		return e->run(e);
	if (!sr_signals_are_replayed()) {
		sr_engine_note(t, SR_REC_EXEC, e->path, strlen(e->path));
		before = sr_enter(t);
		sr_signals_before_exec();
		sr_tsc_pause();
		e->run(e);
		t->made.error = errno;
		sr_tsc_resume();
		sr_signals_after_exec();
		sr_leave(t, before);
	}
	return (int)sr_call(SR_CALL_exec, a, site);
}

static int run_execve(const struct exec *e)
{
	return ((int (*)(const char *, char *const *, char *const *))sr_next(e->next))(
	    e->path, e->argv, e->envp);
}

static int run_execv(const struct exec *e)
{
	return ((int (*)(const char *, char *const *))sr_next(e->next))(e->path, e->argv);
}

static int run_fexecve(const struct exec *e)
{
	return ((int (*)(int, char *const *, char *const *))sr_next(e->next))(e->directory, e->argv,
									      e->envp);
}

static int run_execveat(const struct exec *e)
{
	return ((int (*)(int, const char *, char *const *, char *const *, int))sr_next(e->next))(
	    e->directory, e->path, e->argv, e->envp, e->flags);
}

SR_NEXT(next_execve, "execve");
SR_NEXT(next_execvpe, "execvpe");

SR_EXPORT int execve(const char *path, char *const *argv, char *const *envp)
{
	const struct exec e = {
	    .run = run_execve, .next = &next_execve, .path = path, .argv = argv, .envp = envp};

	return execute(&e, __builtin_return_address(0));
}

SR_EXPORT int execv(const char *path, char *const *argv)
{
	SR_NEXT(next, "execv");
	const struct exec e = {.run = run_execv, .next = &next, .path = path, .argv = argv};

	return execute(&e, __builtin_return_address(0));
}

SR_EXPORT int execvp(const char *file, char *const *argv)
{
	SR_NEXT(next, "execvp");
	const struct exec e = {.run = run_execv, .next = &next, .path = file, .argv = argv};

	return execute(&e, __builtin_return_address(0));
}

SR_EXPORT int execvpe(const char *file, char *const *argv, char *const *envp)
{
	const struct exec e = {
	    .run = run_execve, .next = &next_execvpe, .path = file, .argv = argv, .envp = envp};

	return execute(&e, __builtin_return_address(0));
}

SR_EXPORT int fexecve(int fd, char *const *argv, char *const *envp)
{
	SR_NEXT(next, "fexecve");
	const struct exec e = {.run = run_fexecve,
			       .next = &next,
			       .directory = fd,
			       .path = "",
			       .argv = argv,
			       .envp = envp};

	return execute(&e, __builtin_return_address(0));
}

SR_EXPORT int execveat(int directory, const char *path, char *const *argv, char *const *envp,
		    int flags)
{
	SR_NEXT(next, "execveat");
	const struct exec e = {.run = run_execveat,
			       .next = &next,
			       .directory = directory,
			       .flags = flags,
			       .path = path,
			       .argv = argv,
			       .envp = envp};

	return execute(&e, __builtin_return_address(0));
}

/* ------------------------------------------------------ variadic functions */

static size_t count(va_list ap)
{
	size_t n = 0;

	while (va_arg(ap, char *))
		n++;
	return n;
}

/* Stores first and the following arguments up to and including NULL; ap then points past them. */
static void take(char **argv, const char *first, va_list *ap)
{
	*argv++ = (char *)first;
	if (!first)
		return;
	while ((*argv++ = va_arg(*ap, char *)))
		;
}

#define ARGUMENTS(argv, first, ap)                                                                 \
	char **argv;                                                                               \
	va_list ap;                                                                                \
                                                                                                   \
	va_start(ap, first);                                                                       \
	argv = alloca(((first) ? count(ap) + 2 : 2) * sizeof(*argv));                              \
	va_end(ap);                                                                                \
	va_start(ap, first);                                                                       \
	take(argv, first, &ap)

SR_EXPORT int execl(const char *path, const char *first, ...)
{
	struct exec e = {.run = run_execve, .next = &next_execve, .path = path, .envp = environ};
	ARGUMENTS(argv, first, ap);

	va_end(ap);
	e.argv = argv;
	return execute(&e, __builtin_return_address(0));
}

SR_EXPORT int execlp(const char *file, const char *first, ...)
{
	struct exec e = {.run = run_execve, .next = &next_execvpe, .path = file, .envp = environ};
	ARGUMENTS(argv, first, ap);

	va_end(ap);
	e.argv = argv;
	return execute(&e, __builtin_return_address(0));
}

SR_EXPORT int execle(const char *path, const char *first, ...)
{
	struct exec e = {.run = run_execve, .next = &next_execve, .path = path};
	ARGUMENTS(argv, first, ap);

	e.envp = va_arg(ap, char **);
	va_end(ap);
	e.argv = argv;
	return execute(&e, __builtin_return_address(0));
}
