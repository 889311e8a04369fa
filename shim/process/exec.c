/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exec.c: the program replaces itself by another one.
 *
 * A record (SR_REC_EXEC) says what is executed, and the recording of this image ends with it; the
 * new program is recorded as the rank's next image (image.h). An exec is recorded as a call only
 * if it fails. A replay compares what the program executes, and executes nothing: the command
 * starts the next image.
 */
#include "shim/process/exec.h"

#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "logd/base/compiler.h"
#include "logd/base/say.h"
#include "shim/core/call.h"
#include "shim/core/codec.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/next.h"
#include "shim/signals/signals.h"
#include "shim/core/thread.h"
#include "shim/files/mapped_outputs.h"
#include "shim/files/last_outputs.h"
#include "shim/kernel/readable.h"
#include "shim/kernel/tsc.h"
#include "shim/memory/heap.h"
#include "shim/process/executable.h"
#include "shim/process/image.h"

/* One call of a function of the exec family, with its arguments. */
struct exec {
	int (*run)(const struct exec *e);
	struct sr_next_function *next;
	struct sr_exec what;
};

uint64_t sr_invoke_exec(const struct sr_call_desc *d, uint64_t *a)
{
	errno = sr_self.made.error;
	return (uint64_t)-1;
}

/* ------------------------------------------------------------ the next image */

/* False: a thread that shares this process's memory, but is another process. */
static bool note(const struct sr_exec *e, struct sr_image_origin *next)
{
	struct sr_buf what = {0};
	bool is_recorded;

	sr_image_put(&what, e->path, e->argv, e->envp);
	is_recorded = sr_engine->executes(&sr_self, &what, NULL, next);
	sr_free(what.p);
	return is_recorded;
}

static bool are_strings(char *const *list)
{
	bool readable = true;

	for (; list && (readable = sr_is_readable(list, sizeof(*list))) && *list; list++)
		if (!(readable = sr_is_readable(*list, 1)))
			break;
	return readable;
}

bool sr_exec_is_readable(const struct sr_exec *e)
{
	return sr_is_readable(e->path, 1) && are_strings(e->argv) && are_strings(e->envp);
}

const char *sr_exec_path(const struct sr_exec *e)
{
	return sr_is_readable(e->path, 1) ? e->path : "";
}

void sr_exec_begins(struct sr_exec *e)
{
	struct sr_image_origin next;
	const char *obstacle;

	e->made = NULL;
	if (!note(e, &next))
		return;
	obstacle = sr_executable_obstacle(e->directory, e->path, e->search);
	if (obstacle)
		sr_say("the program executes %s, which is %s: that is not recorded",
		       e->path[0] ? e->path : "a file", obstacle);
	else
		e->made = sr_image_environment(e->envp, &next);
	if (e->made)
		e->envp = e->made;
	else
		sr_image_keep_connection();
}

void sr_exec_failed(struct sr_exec *e)
{
	sr_free(e->made);
	sr_image_keep_connection();
	sr_outputs_open();
}

void sr_exec_replayed(const struct sr_exec *e, void *site)
{
	enum sr_heap before = sr_enter(&sr_self);
	struct sr_buf what = {0};

	sr_image_put(&what, e->path, e->argv, e->envp);
	sr_engine->executes(&sr_self, &what, site, NULL);
	sr_free(what.p);
	sr_leave(&sr_self, before);
}

static int execute_unrecorded(struct exec *e)
{
	size_t room = e->what.envp ? sr_image_preload_room(e->what.envp) : 0;

	if (room)
		e->what.envp = sr_image_preload(e->what.envp, alloca(room));
	return e->run(e);
}

static int execute(struct exec *e, void *site)
{
	struct sr_thread *t = &sr_self;
	uint64_t a[1];
	enum sr_heap before;
	bool is_noted;

	if (!sr_engine)
		return execute_unrecorded(e);
	if (t->depth || !e->what.path)
		return e->run(e);
	is_noted = sr_engine->executes && sr_exec_is_readable(&e->what);
	if (is_noted)
		sr_mapped_outputs_compare(site);
	if (sr_engine->replays) {
		if (is_noted)
			sr_exec_replayed(&e->what, site);
	} else if (!sr_engine->executes) {
		return e->run(e);
	} else {
		before = sr_enter(t);
		if (is_noted)
			sr_exec_begins(&e->what);
		sr_signals_before_exec();
		sr_tsc_pause();
		e->run(e);
		t->made.error = errno;
		sr_tsc_resume();
		sr_signals_after_exec();
		if (is_noted)
			sr_exec_failed(&e->what);
		sr_leave(t, before);
	}
	a[0] = (uintptr_t)sr_exec_path(&e->what);
	return (int)sr_call(SR_CALL_exec, a, site);
}

static int run_execve(const struct exec *e)
{
	return ((int (*)(const char *, char *const *, char *const *))sr_next(e->next))(
	    e->what.path, e->what.argv, e->what.envp);
}

static int run_fexecve(const struct exec *e)
{
	return ((int (*)(int, char *const *, char *const *))sr_next(e->next))(
	    e->what.directory, e->what.argv, e->what.envp);
}

static int run_execveat(const struct exec *e)
{
	return ((int (*)(int, const char *, char *const *, char *const *, int))sr_next(e->next))(
	    e->what.directory, e->what.path, e->what.argv, e->what.envp, e->what.flags);
}

SR_NEXT(next_execve, "execve");
SR_NEXT(next_execvpe, "execvpe");

/* execv and execvp are execve and execvpe with the program's environment. */
static int execute_file(struct sr_next_function *next, bool search, const char *path,
			char *const *argv, char *const *envp, void *site)
{
	struct exec e = {.run = run_execve,
			 .next = next,
			 .what = {.directory = AT_FDCWD,
				  .search = search,
				  .path = path,
				  .argv = argv,
				  .envp = envp}};

	return execute(&e, site);
}

SR_EXPORT int execve(const char *path, char *const *argv, char *const *envp)
{
	return execute_file(&next_execve, false, path, argv, envp, __builtin_return_address(0));
}

SR_EXPORT int execv(const char *path, char *const *argv)
{
	return execute_file(&next_execve, false, path, argv, environ, __builtin_return_address(0));
}

SR_EXPORT int execvp(const char *file, char *const *argv)
{
	return execute_file(&next_execvpe, true, file, argv, environ, __builtin_return_address(0));
}

SR_EXPORT int execvpe(const char *file, char *const *argv, char *const *envp)
{
	return execute_file(&next_execvpe, true, file, argv, envp, __builtin_return_address(0));
}

SR_EXPORT int fexecve(int fd, char *const *argv, char *const *envp)
{
	SR_NEXT(next, "fexecve");
	struct exec e = {.run = run_fexecve,
			 .next = &next,
			 .what = {.directory = fd, .path = "", .argv = argv, .envp = envp}};

	return execute(&e, __builtin_return_address(0));
}

SR_EXPORT int execveat(int directory, const char *path, char *const *argv, char *const *envp,
		    int flags)
{
	SR_NEXT(next, "execveat");
	struct exec e = {.run = run_execveat,
			 .next = &next,
			 .what = {.directory = directory,
				  .flags = flags,
				  .path = path,
				  .argv = argv,
				  .envp = envp}};

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
	ARGUMENTS(argv, first, ap);

	va_end(ap);
	return execute_file(&next_execve, false, path, argv, environ, __builtin_return_address(0));
}

SR_EXPORT int execlp(const char *file, const char *first, ...)
{
	ARGUMENTS(argv, first, ap);

	va_end(ap);
	return execute_file(&next_execvpe, true, file, argv, environ, __builtin_return_address(0));
}

SR_EXPORT int execle(const char *path, const char *first, ...)
{
	char **envp;
	ARGUMENTS(argv, first, ap);

	envp = va_arg(ap, char **);
	va_end(ap);
	return execute_file(&next_execve, false, path, argv, envp, __builtin_return_address(0));
}
