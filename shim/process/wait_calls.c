/* SPDX-License-Identifier: BSD-2-Clause */
/* wait_calls.c: hooks of the calls that wait for descriptors, and of those that set a signal mask meanwhile. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/select.h>

#include "logd/base/rawsys.h"
#include "shim/core/hooks.h"
#include "shim/files/fds.h"
#include "shim/kernel/guarded.h"
#include "shim/signals/signals.h"

/* The kernel's mask is shorter than sigset_t. */
static uint64_t filter_mask(uint64_t mask, sigset_t *given, sigset_t *copy)
{
	if (!mask)
		return 0;
	sigemptyset(given);
	memcpy(given, (const void *)mask, sizeof(mask));
	return (uintptr_t)sr_signals_filter(given, copy);
}

/* ------------------------------------------------------------ masks of signals */

/*
 * A call that sets a signal mask for its duration. Signals that the shim claims are never blocked
 * (signals.h). The mask is the argument before its size; pselect6 and io_pgetevents have both in memory.
 */
uint64_t sr_invoke_masked(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t words[6], pair[2];
	bool packed = d->nr == SYS_pselect6 || d->nr == SYS_io_pgetevents;
	int at = packed ? 5 : d->nargs - 2;
	sigset_t given, copy;

	memcpy(words, a, d->nargs * sizeof(words[0]));
	if (!words[at])
		return sr_real(d, a);
	if (packed) {
		memcpy(pair, (const void *)words[at], sizeof(pair));
		pair[0] = filter_mask(pair[0], &given, &copy);
		words[at] = (uintptr_t)pair;
	} else {
		words[at] = filter_mask(words[at], &given, &copy);
	}
	return sr_real(d, words);
}

/* -------------------------------------------------------- what is waited for */

/* A call without descriptors only waits for time; it is captured, too. */
static bool selects_captured(const uint64_t *a)
{
	if ((int)a[0] <= 0)
		return true;
	for (int fd = 0; fd < (int)a[0]; fd++)
		for (int set = 1; set <= 3; set++)
			if (a[set] && FD_ISSET(fd, (const fd_set *)a[set]) && sr_fd_captured(fd))
				return true;
	return false;
}

static bool polls_captured(const uint64_t *a)
{
	const struct pollfd *fds = (const void *)a[0];

	for (uint64_t i = 0; i < a[1]; i++)
		if (sr_fd_captured(fds[i].fd))
			return true;
	return !a[1];
}

struct question {
	bool (*is_captured)(const uint64_t *a);
	const uint64_t *a;
	bool answer;
};

static void answer(void *argument)
{
	struct question *q = argument;

	q->answer = q->is_captured(q->a);
}

/* A call that the kernel refuses is recorded: its descriptors cannot be seen. */
static bool ask(struct question q)
{
	return !sr_guarded(answer, &q) || q.answer;
}

bool sr_select_captured(const uint64_t *a)
{
	return ask((struct question){selects_captured, a, false});
}

bool sr_poll_captured(const uint64_t *a)
{
	return ask((struct question){polls_captured, a, false});
}
