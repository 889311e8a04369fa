/* SPDX-License-Identifier: BSD-2-Clause */
/* How long a process waits for its daemon.  The lock is held. */
#include <stdio.h>
#include <string.h>

#include "logd/ring/client.h"
#include "logd/ring/client_private.h"

/* After this long the user is told what is waited for. */
#define SAY_MS     1000
/* ... and not again so soon. */
#define SAY_AGAIN_MS 30000
/* Nobody has waited for so long, so the time that has passed since does not count. */
#define PAUSED_MS  1000

/* Of a process's state as in /proc/PID/stat; 0: not known. */
static char process_state(int pid)
{
	char name[32], text[128];
	const char *at;
	long fd, n;

	snprintf(name, sizeof(name), "/proc/%d/stat", pid);
	fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(name), O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return 0;
	n = sr_sys_read((int)fd, text, sizeof(text) - 1);
	sr_sys_close((int)fd);
	text[n > 0 ? n : 0] = 0;
	at = strrchr(text, ')');
	return at && at[1] ? at[2] : 0;
}

void sr_client_describe_daemon(char *text, size_t size, int daemon)
{
	char state = daemon ? process_state(daemon) : 0;

	if (!daemon)
		snprintf(text, size, "sreplay-logd");
	else
		snprintf(text, size, "sreplay-logd (process %d%s)", daemon,
			 state == 'T' || state == 't' ? ", which is stopped" : "");
}

static void describe(const struct sr_client *c, char *text, size_t size)
{
	char who[100];
	bool in_file_system =
	    c->doorbell && atomic_load_explicit(&c->doorbell->in_file_system, memory_order_relaxed);

	if (c->socket < 0) {
		snprintf(text, size, "another sreplay-logd, since the last one is gone");
		return;
	}
	sr_client_describe_daemon(who, sizeof(who), c->daemon);
	snprintf(text, size, "%s%s", who,
		 strchr(who, ',') ? ""
		 : in_file_system ? ", which waits for the file system of the trace"
		 : c->doorbell	  ? ", which writes nothing"
				  : ", which makes no place in the trace");
}

static void say(struct sr_client *c, int64_t now)
{
	char text[200];

	if (!c->hooks || (c->said_at && now - c->said_at < SAY_AGAIN_MS))
		return;
	c->said_at = now;
	describe(c, text, sizeof(text));
	c->hooks->waits(text);
}

static bool has_moved(struct sr_client *c, int64_t now)
{
	uint32_t seen = c->progress;

	if (c->doorbell)
		c->progress = atomic_load_explicit(&c->doorbell->progress, memory_order_relaxed);
	return seen != c->progress || now - c->looked_at > PAUSED_MS;
}

bool sr_client_goes_on(struct sr_client *c, bool progress)
{
	int64_t now = sr_sys_now_ms();

	if (has_moved(c, now) || progress) {
		c->moved_at = now;
		c->has_tried = false;
	}
	c->looked_at = now;
	if (now - c->moved_at > SAY_MS)
		say(c, now);
	return (!c->deadline || now < c->deadline) &&
	       (c->stall_timeout_ms < 0 || now - c->moved_at <= c->stall_timeout_ms);
}

static bool goes_on(void *client, bool progress)
{
	return sr_client_goes_on(client, progress);
}

struct sr_request_wait sr_client_wait(struct sr_client *c)
{
	return (struct sr_request_wait){goes_on, c};
}

bool sr_client_is_silent(struct sr_client *c)
{
	bool silent = !c->has_tried && sr_sys_now_ms() - c->moved_at > SILENT_MS;

	c->has_tried |= silent;
	return silent;
}
