/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_record.c: `sreplay record`: sees to a daemon, runs the command with the preloaded library, and
 * waits until the daemon has written all of the trace.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "logd/ring/client.h"
#include "logd/ring/socket_path.h"
#include "replay/command/command.h"
#include "replay/command/record_child.h"
#include "replay/command/record_daemon.h"
#include "replay/command/record_end.h"
#include "replay/command/record_environment.h"
#include "replay/command/record_options.h"
#include "replay/command/record_output.h"
#include "replay/command/traces.h"
#include "replay/host/start/installed.h"
#include "shim/core/ranks.h"
#include "shim/core/settings.h"

/* How long the daemon may take to write the end of the trace: in all this, without progress. */
#define WRITTEN_MS 5000
/* After this long the user is told. */
#define SAY_MS     1000

#define KEY_BYTES  32

static bool write_key(int fd)
{
	uint8_t key[KEY_BYTES];

	return getrandom(key, sizeof(key), 0) == sizeof(key) &&
	       write(fd, key, sizeof(key)) == sizeof(key);
}

/*
 * Many may start at once, on a file system that they share.  The first one that links its draft
 * makes the key, so the others see a whole file or none.
 */
static bool make_key(const char *path)
{
	char draft[PATH_MAX];
	bool made;
	int fd;

	snprintf(draft, sizeof(draft), "%s.%ld.XXXXXX", path, (long)getpid());
	fd = mkstemp(draft); /* 0600: nobody else may read it */
	if (fd < 0)
		return false;
	made = write_key(fd) && (!link(draft, path) || errno == EEXIST);
	close(fd);
	unlink(draft);
	return made;
}

static bool prepare_key(const char *path)
{
	if (!path || !access(path, F_OK) || make_key(path))
		return true;
	sr_fail("cannot make the key %s: %s", path, strerror(errno));
	return false;
}

static void make_session(uint8_t session[SR_SESSION_BYTES])
{
	/* It is no secret: with another recording's session we would wait for its processes too. */
	if (getrandom(session, SR_SESSION_BYTES, 0) != SR_SESSION_BYTES)
		memcpy(session, &(pid_t){getpid()}, sizeof(pid_t));
}

struct trace_wait {
	const char *trace;
	int64_t moved_at;
	bool has_said;
};

static bool trace_goes_on(void *owner, bool progress)
{
	struct trace_wait *w = owner;
	int64_t now = sr_sys_now_ms();

	if (progress)
		w->moved_at = now;
	if (!w->has_said && now - w->moved_at > SAY_MS) {
		w->has_said = true;
		sr_note("waiting for sreplay-logd to write the rest of %s", w->trace);
	}
	return now - w->moved_at < WRITTEN_MS;
}

static void wait_for_trace(const struct sr_record_options *o, const char *socket_path,
			   const uint8_t session[SR_SESSION_BYTES])
{
	const char *trace = o->value[SR_SETTING_TRACE];
	struct trace_wait w = {trace, sr_sys_now_ms()};
	const struct sr_request_wait wait = {trace_goes_on, &w};
	struct sr_session_end end = {0};
	struct stat st;
	int err;

	if (o->claimed)
		sr_traces_release(o->claimed); /* if nothing was recorded */
	if (stat(trace, &st)) {
		sr_record_say_nothing(o->command[0], sr_record_is_from_start(o));
		return;
	}
	err = sr_client_wait_session(socket_path, trace, session, -1, &wait, &end);
	if (err == -ETIMEDOUT)
		sr_note("%s is not written to its end: sreplay-logd wrote nothing of it for %d s",
			trace, WRITTEN_MS / 1000);
	else if (err)
		sr_note("%s: sreplay-logd is gone (%s); the trace ends where it was", trace,
			strerror(-err));
	else if (!sr_record_is_quiet(o))
		sr_record_say_end(trace, &end);
}

/* As the recorded process finds it.  -1: its launcher's variable is no rank, which it says. */
static long rank_of(const struct sr_record_options *o)
{
	const char *text = o->value[SR_SETTING_RANK];

	if (!text)
		text = getenv(sr_setting_variable(SR_SETTING_RANK));
	for (size_t i = 0; !text && i < SR_LAUNCHER_RANKS; i++)
		text = getenv(sr_launcher_ranks[i]);
	return text ? sr_parse_number("the rank", text) : 0;
}

static bool is_in_group(const struct sr_record_options *o, long rank)
{
	const char *list = o->value[SR_SETTING_GROUP];
	long first, last;

	if (!list)
		list = getenv(sr_setting_variable(SR_SETTING_GROUP));
	if (!list || !*list)
		return true;
	while (*list && sr_ranks_next(&list, &first, &last))
		if (first <= rank && rank <= last)
			return true;
	return false;
}

/* Without --output the trace is COMMAND-N.srec. */
static bool choose_output(struct sr_record_options *o, long rank)
{
	if (!o->value[SR_SETTING_TRACE])
		o->value[SR_SETTING_TRACE] = o->claimed = sr_traces_claim(o->command[0], rank);
	return o->value[SR_SETTING_TRACE];
}

/* All that can be known before the command runs. */
static bool can_be_recorded(struct sr_record_options *o)
{
	long rank;

	if (!prepare_key(o->value[SR_SETTING_KEY]))
		return false;
	rank = rank_of(o);
	return rank >= 0 && choose_output(o, rank) && (!is_in_group(o, rank) ||
			     sr_output_is_usable(o->value[SR_SETTING_TRACE], rank, sr_record_is_quiet(o)));
}

int sr_cmd_record(int argc, char **argv)
{
	char shim[PATH_MAX], socket_path[108];
	uint8_t session[SR_SESSION_BYTES] = {0};
	struct sr_record_options o = {0};
	int status, err;

	sr_record_options_parse(argc, argv, &o);
	/* `sreplay confirm` runs a line that records as its user ran it. */
	if (getenv(sr_setting_variable(SR_SETTING_CONFIRM)) && getenv(sr_setting_variable(SR_SETTING_TRACE)))
		o.value[SR_SETTING_TRACE] = getenv(sr_setting_variable(SR_SETTING_TRACE));
	if (!can_be_recorded(&o))
		sr_record_refuse(&o);
	err = sr_socket_path(socket_path, sizeof(socket_path));
	if (err)
		sr_fail("cannot make a place for the daemon's socket: %s", strerror(-err));
	if (err || !sr_find_shim(shim, sizeof(shim)) || !sr_daemon_ensure(socket_path))
		sr_record_refuse(&o);
	make_session(session);
	status = sr_record_child_run(&(struct sr_record_run){&o, shim, socket_path, session});
	wait_for_trace(&o, socket_path, session);
	return status;
}
