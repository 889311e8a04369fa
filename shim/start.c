/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * start.c: decides what a new process is, and sets up what it needs.  The only file that
 * names both engines.
 *
 * Before main, a process is found to be replayed, to be recorded, or neither.  In the last case
 * nothing is set up, and the wrappers go straight to the real functions.
 *
 * A process that is to be recorded but has loaded neither libibverbs nor a library known to load it
 * may be the program, which will load it by dlopen, or a process that starts the program (a shell,
 * mpirun).  Recording all of these from their start would give the program's rank to the launcher, and cost processes time
 * that never use a device.  So such a process waits until it opens a device, and is recorded from
 * there on.  Its trace says so: it can be read and analysed, but a replay lacks the beginning.  A
 * user who knows that the process is the program asks for its start (--from-start).
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "logd/ring/place.h"
#include "logd/ring/ring.h"
#include "shim/replay/engine.h"
#include "shim/core/engine.h"
#include "shim/core/next.h"
#include "shim/verbs/by_value.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/calls/direct.h"
#include "shim/memory/heap.h"
#include "shim/memory/malloc_key.h"
#include "logd/base/lock.h"
#include "shim/async/ends.h"
#include "shim/calls/trap/trap.h"
#include "shim/confirm/confirm.h"
#include "shim/verbs/outside.h"
#include "shim/calls/codec/place.h"
#include "shim/threads/main_stack.h"
#include "shim/threads/program_threads.h"
#include "shim/calls/real.h"
#include "shim/record/record.h"
#include "shim/files/inherited.h"
#include "shim/files/mapped_outputs.h"
#include "shim/process/executable.h"
#include "shim/process/image.h"
#include "shim/process/restart.h"
#include "shim/process/sanitizers.h"
#include "shim/process/segments.h"
#include "shim/process/verbs_users.h"
#include "shim/verbs/objects.h"
#include "logd/base/say.h"
#include "shim/core/setting.h"
#include "shim/exposed/exposed.h"
#include "shim/core/settings.h"
#include "shim/core/stack_below.h"
#include "shim/core/sums.h"
#include "shim/core/thread.h"
#include "shim/kernel/lazy_binding.h"
#include "shim/kernel/tsc.h"
#include "shim/core/variables.h"
#include "shim/verbs/regions.h"
#include "shim/verbs/shared_memory.h"

/* Without the trap, nothing sees what comes after this. */
static void handle_exit(int status, void *unused)
{
	sr_requests_end();
	/* What others wrote behind the last call, the program may have seen. */
	if (sr_regions_on)
		sr_exposed_observe();
	if (sr_trap_is_on)
		sr_engine_exit_begins(status);
	else
		sr_engine_exits(status);
}

/*
 * Blocks of any size come from one heap: where mmap would put a large one depends on the kernel
 * and on the libraries that happen to be loaded.
 */
static void pin_malloc(void)
{
	if (!sr_heap_is_libcs())
		return;
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, 512 << 20);
	/* The machine decides how many arenas there may be, and chance which one a thread takes. */
	mallopt(M_ARENA_MAX, 1);
	sr_malloc_pin_key();
}

static bool prepare(void)
{
	int err;

	err = sr_heap_init();
	if (err) {
		sr_say("its address ranges are taken (%s): this process is not recorded",
		       strerrorname_np(-err));
		return false;
	}
	if (!sr_threads_init()) {
		sr_say("the program has used up the thread keys: this process is not recorded");
		return false;
	}
	sr_places_start();
	sr_heap_on_mapping_end(sr_segment_ends);
	sr_heap_on_mapping_end(sr_mr_doubt);
	sr_heap_on_mapping_end(sr_regions_mapping_ends);
	sr_shared_start();
	sr_mapped_outputs_start();
	sr_place_set_hook(sr_heap_place_mapping);
	/*
	 * The handler that is registered first runs last: after those of the program and the
	 * destructors of all libraries.
	 */
	on_exit(handle_exit, NULL);
	return true;
}

static struct sr_settings settings;
static struct sr_image_origin image; /* number 0: the first one of the process */

/* Before the recording is described to the daemon. */
static void trap_system_calls(void)
{
	int err = settings.syscall_trap ? sr_trap_start() : 0;

	if (err)
		sr_say(
		    "system calls cannot be trapped (%s): what libc's own calls bring into the "
		    "process is not recorded",
		    strerrorname_np(-err));
}

static void trap_counter(void)
{
	int err = settings.tsc == SR_TSC_NATIVE || !sr_trap_is_on ? 0 : sr_tsc_start();

	if (err)
		sr_say("the time-stamp counter cannot be made to trap (%s): what the program reads "
		       "from it is not recorded",
		       strerrorname_np(-err));
}

/* Is this the process that `sreplay record` started?  It has the same number as its starter saw. */
static bool must_be_recorded(void)
{
	const char *text = sr_variable(SR_ENV_MUST_RECORD);
	long number = 0;

	for (; text && *text >= '0' && *text <= '9' && number < INT32_MAX; text++)
		number = 10 * number + (*text - '0');
	return text && !*text && number == sr_sys_getpid();
}

/* After a line that says why there is no recording. */
static void refuse_to_run(void)
{
	/* What an exec has begun goes on. */
	if (image.number || !must_be_recorded())
		return;
	sr_say("so the program is not run (sreplay record --or-run runs it unrecorded)");
	for (;;)
		sr_syscall(SYS_exit_group, SR_REPLAY_EXIT_FAILED, 0, 0, 0, 0, 0);
}

/*
 * Threads mostly wait for each other, and decide by plain atomics; where they compute, they part (core/phases.h). In a
 * process that is recorded from a device's opening on, the token would come too late: threads may run already.
 */
static int choose_threads(enum sr_record_from from)
{
	return from == SR_RECORD_FROM_START ? SR_THREADS_SERIAL : SR_THREADS_PARALLEL;
}

static void record(enum sr_record_from from)
{
	if (from == SR_RECORD_FROM_START)
		sr_inherited_find();
	if (!prepare())
		return;
	sr_image_keep_settings();
	sr_direct_set(settings.allow_direct ? SR_DIRECT_ALLOW : SR_DIRECT_REFUSE);
	settings.threads_auto = settings.threads == SR_THREADS_AUTO;
	if (settings.threads_auto)
		settings.threads = choose_threads(from);
	if (from == SR_RECORD_FROM_START) {
		pin_malloc();
		sr_lazy_binding_start();
		trap_system_calls();
		trap_counter();
	}
	sr_record_start(&settings, from, image.number ? &image : NULL);
	if (!sr_engine && from == SR_RECORD_FROM_START)
		refuse_to_run();
	if (sr_engine)
		sr_regions_start((enum sr_regions_mode)settings.exposed, settings.probes && !sr_confirm_needs_faults(),
				 settings.order);
	if (sr_engine && settings.order)
		sr_by_value_start(settings.by_value);
	sr_leaves_out = sr_sums_on = sr_engine && settings.order;
	if (sr_engine)
		sr_clocks_start(&settings, settings.member >= 0);
	/* What is dropped cannot count as known, nor what was before the recording. */
	sr_picks_on = sr_sums_on && from == SR_RECORD_FROM_START && !settings.lossy && sr_clocks_is_member();
}

bool sr_wake(void)
{
	static struct sr_lock waking;
	struct sr_thread *t = &sr_self;
	enum sr_heap before = sr_enter(t);

	sr_lock(&waking);
	if (sr_waiting)
		record(SR_RECORD_FROM_OPEN);
	sr_waiting = false;
	sr_unlock(&waking);
	sr_leave(t, before);
	return sr_engine;
}

/* The environment of a replayed process is the recorded one. */
static bool replays_direct_verbs(void)
{
	return sr_setting_is_on(sr_variable(sr_setting_variable(SR_SETTING_ALLOW_DIRECT)));
}

static void begin(char **argv, char **envp)
{
	struct sr_thread *t = &sr_self;
	enum sr_heap before;

	if (!environ)
		environ = envp;
	sr_look_up_libc();
	sr_heap_look_up();
	if (sr_replay_wanted()) {
		sr_switch_off_variable(sr_setting_variable(SR_SETTING_FROM_START));
		if (!prepare())
			_exit(SR_REPLAY_EXIT_FAILED);
		pin_malloc();
		sr_lazy_binding_start();
		before = sr_enter(t);
		sr_direct_set(replays_direct_verbs() ? SR_DIRECT_ALLOW : SR_DIRECT_REFUSE_QUIETLY);
		sr_replay_start();
		sr_leave(t, before);
		return;
	}
	before = sr_enter(t);
	sr_image_begin(&image);
	if (sr_settings_read(&settings)) {
		refuse_to_run();
	} else if (settings.trace) {
		bool from_start = settings.from_start || image.number || sr_process_uses_verbs() || sr_names_verbs(argv);

		if (settings.in_group && from_start)
			sr_restart_without_randomisation();
		/* It is for this process, not for those that it starts. */
		sr_switch_off_variable(sr_setting_variable(SR_SETTING_FROM_START));
		if (!settings.in_group) {
			sr_outside_start(&settings);
		} else if (from_start) {
			record(SR_RECORD_FROM_START);
		} else {
			sr_waiting = true;
		}
	}
	sr_leave(t, before);
}

/*
 * What would begin later than it should, inside a call of a verbs library that a replay does not make. It begins as a part of
 * the program, so that what it reads is recorded: an allocator in the executable (rustc has jemalloc there) reads clocks, and
 * the resolver its files, which are others on another machine.
 */
static void begin_libc(void)
{
	void *volatile first;

	if (!sr_heap_is_first()) {
		first = malloc(1);
		free(first);
	}
	sr_trap_load_resolver();
}

/*
 * Runs before the constructors of all libraries (-z initfirst), including libc's, which sets
 * environ.  So what these read of the machine, and allocate accordingly, is recorded.
 */
__attribute__((constructor)) static void start(int argc, char **argv, char **envp)
{
	const char *sanitizer = sr_sanitizer();
	int saved = errno;

	if (sanitizer) {
		environ = envp;
		sr_sanitizer_evade(sanitizer, argv[0], must_be_recorded());
		return;
	}
	sr_vectors_find();
	sr_main_stack_know();
	begin(argv, envp);
	if (sr_engine && sr_trap_is_on)
		begin_libc();
	sr_image_end_environment();
	errno = saved;
}

/* The ways to end a process that skip exit handlers. */
static void __attribute__((noreturn)) leave(struct sr_next_function *next, int status)
{
	void (*real)(int) = (void (*)(int))sr_next(next);

	sr_process_ends(status, __builtin_return_address(0));
	if (real)
		real(status);
	for (;;)
		sr_syscall(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

/* A thread that may not end the process waits here, where it holds none of libc's locks. */
SR_EXPORT void __attribute__((noreturn)) exit(int status)
{
	SR_NEXT(next, "exit");
	void (*real)(int) = (void (*)(int))sr_next(&next);

	if (sr_engine)
		sr_engine->exit_called(&sr_self);
	real(status);
	__builtin_unreachable();
}

SR_EXPORT void __attribute__((noreturn)) _exit(int status)
{
	SR_NEXT(next, "_exit");

	leave(&next, status);
}

SR_EXPORT void __attribute__((noreturn)) _Exit(int status)
{
	SR_NEXT(next, "_Exit");

	leave(&next, status);
}
