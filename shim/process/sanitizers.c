/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/process/sanitizers.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "replay/abi/control.h"
#include "shim/core/plain_text.h"
#include "shim/core/setting.h"
#include "shim/core/settings.h"
#include "shim/core/symbols.h"
#include "shim/core/variables.h"
#include "shim/process/restart.h"

/* The functions that only the runtimes have; libsreplay_access.so has ThreadSanitizer's others. */
static const struct {
	const char *function, *sanitizer;
} runtimes[] = {
    {"__asan_init", "address"},
    {"__tsan_acquire", "thread"},
    {"__msan_init", "memory"},
    {"__lsan_init", "leak"}, /* at the end it traces the process from a clone */
};

const char *sr_sanitizer(void)
{
	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++)
		if (sr_symbol_is_defined(runtimes[i].function))
			return runtimes[i].sanitizer;
	return NULL;
}

/* As sr_say, which formats by libc. */
static void say(const char *const *words)
{
	struct iovec pieces[8];
	int n = 0;

	for (; words[n]; n++)
		pieces[n] = (struct iovec){(void *)words[n], sr_plain_length(words[n])};
	sr_syscall(SYS_writev, STDERR_FILENO, SR_ARG(pieces), n, 0, 0, 0);
}

/* Takes the shim out of LD_PRELOAD. */
static bool unload_next_time(void)
{
	char *entry = (char *)sr_variable("LD_PRELOAD"), *file, *end;

	for (; entry && *entry; entry = end) {
		for (file = end = entry; *end && *end != ':' && *end != ' '; end++)
			if (*end == '/')
				file = end + 1;
		end += *end != 0;
		if (!sr_plain_behind(file, "libsreplay_verbs.so"))
			continue;
		while ((*entry++ = *end++))
			;
		return true;
	}
	return false;
}

void sr_sanitizer_evade(const char *sanitizer, const char *program, bool must_be_recorded)
{
	const char *trace = sr_variable(sr_setting_variable(SR_SETTING_TRACE));
	const char *const why[] = {"sreplay: ", program, " is compiled with -fsanitize=", sanitizer,
				   ", and such programs are not recorded: record one that is compiled without it\n", NULL};
	const char *const end[] = {"sreplay: so the program is not run (sreplay record --or-run runs it unrecorded)\n", NULL};

	if (trace && *trace)
		say(why);
	if (must_be_recorded) {
		say(end);
		for (;;)
			sr_syscall(SYS_exit_group, SR_REPLAY_EXIT_FAILED, 0, 0, 0, 0, 0);
	}
	if (unload_next_time())
		sr_execute_again();
}
