/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "fabric.h"
#include "raw.h"

/* After so much time without a request the driver sleeps until it is woken. */
#define QUIET      5000000ull
/* While there are requests, it looks at least so often. */
#define PERIOD     200000ull
#define MAX_GRACE  PERIOD
#define MAX_EVENTS 64

static int epoll_fd = -1, listener = -1;
static uint32_t process_of[65536]; /* by descriptor: place + 1 */

static int watch(int fd)
{
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

int sd_driver_begin(const char *directory)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int length, err = sd_fabric_make(directory);

	if (err)
		return err;
	length = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "softdev/%016llx/driver",
			  (unsigned long long)sd_fabric->id);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (bind(listener, (struct sockaddr *)&a,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) ||
	    listen(listener, 512))
		return -errno;
	/* The times of the model are microseconds. */
	prctl(PR_SET_TIMERSLACK, 1);
	return watch(listener);
}

/* --------------------------------------------------------------- processes */

static void accept_all(void)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		if (fd >= (int)(sizeof(process_of) / sizeof(process_of[0])) || watch(fd))
			close(fd);
	}
}

/* A process says which one it is, and then at most that there is work. Its end ends the connection.
 */
static void hear(int fd)
{
	uint32_t said[64];
	ssize_t n;

	while ((n = read(fd, said, sizeof(said))) > 0)
		process_of[fd] = said[0];
	if (n < 0 && errno == EAGAIN)
		return;
	if (process_of[fd]) {
		sd_lock();
		sd_process_remove(process_of[fd]);
		sd_progress(sd_now()); /* those that were connected to it find out */
		sd_unlock();
	}
	process_of[fd] = 0;
	close(fd);
}

/* ------------------------------------------------------------------- times */

/*
 * Callers execute what they wait for themselves, in time.  So the driver gives them a while before
 * it does it: none if that was in vain the last time, and longer each time that it was not.
 */
struct pace {
	uint64_t grace;
	uint64_t active_at, seen;
};

static uint64_t next_look(struct pace *p, uint64_t now, bool had_work)
{
	const struct sd_fabric *f = sd_fabric;
	uint64_t at = SD_NEVER;

	if (f->executed != p->seen) {
		p->seen = f->executed;
		p->active_at = now;
	}
	if (had_work)
		p->grace = 0;
	else
		p->grace = p->grace * 2 + 10000 < MAX_GRACE ? p->grace * 2 + 10000 : MAX_GRACE;
	if (f->active && f->next_due != SD_NEVER)
		at = (f->next_due > now ? f->next_due : now) + p->grace;
	if (now - p->active_at < QUIET && at > now + PERIOD)
		at = now + PERIOD;
	return at;
}

static uint64_t drive(struct pace *p)
{
	struct sd_fabric *f = sd_fabric;
	uint64_t now, before, at;

	sd_lock();
	now = sd_now();
	before = f->executed;
	if (f->random_state) {
		sd_random_steps(sd_chance(6));
		at = f->active ? now + (sd_chance(4) ? sd_chance(3000) : sd_chance(200000))
			       : SD_NEVER;
	} else {
		sd_progress(now);
		at = now ? next_look(p, now, f->executed != before) : SD_NEVER;
	}
	f->driven += f->executed - before;
	f->driver_wakes_at = at;
	sd_unlock();
	return at == SD_NEVER ? SD_NEVER : at - now;
}

void sd_driver_run(int signals)
{
	struct epoll_event events[MAX_EVENTS];
	struct pace pace = {0};

	watch(signals);
	for (;;) {
		uint64_t pause = drive(&pace);
		struct timespec t = {(time_t)(pause / 1000000000u), (long)(pause % 1000000000u)};
		int n =
		    epoll_pwait2(epoll_fd, events, MAX_EVENTS, pause == SD_NEVER ? NULL : &t, NULL);

		for (int i = 0; i < n; i++) {
			if (events[i].data.fd == signals) {
				epoll_ctl(epoll_fd, EPOLL_CTL_DEL, signals, NULL);
				return;
			}
			if (events[i].data.fd == listener)
				accept_all();
			else
				hear(events[i].data.fd);
		}
	}
}

struct sd_driver_report sd_driver_report(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (struct sd_driver_report){
	    .executed = sd_fabric->executed,
	    .driven = sd_fabric->driven,
	    .cpu_seconds = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
			   (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6,
	};
}
