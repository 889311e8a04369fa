/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sreplay-logd: moves the records of recorded processes from their rings into traces.  Each user
 * has one on each node.  This file: start, the main loop and the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>
#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "logd/base/rawsys.h"
#include "logd/daemon/listen.h"
#include "logd/daemon/options.h"
#include "logd/daemon/peer.h"
#include "logd/daemon/requests.h"
#include "logd/nodes/directory.h"
#include "logd/ring/client.h"
#include "logd/service/log.h"
#include "logd/writer/files.h"

/* How often processes that wait are told that there is progress. */
#define PROGRESS_MS 500

/* How long another daemon may take to answer. */
#define ANSWER_MS   5000

/* ---- asking a daemon ---- */

static int no_daemon(const char *socket, int err)
{
	if (err == -ENOENT || err == -ECONNREFUSED)
		fprintf(stderr, "sreplay-logd: none runs on %s\n", socket);
	else
		fprintf(stderr, "sreplay-logd: cannot ask the one on %s: %s\n", socket,
			strerror(-err));
	return 1;
}

static int print_status(const struct options *o)
{
	int fd = sr_client_status(o->socket, ANSWER_MS);
	char text[4096];
	off_t at = 0;
	ssize_t n;

	if (fd < 0)
		return no_daemon(o->socket, fd);
	while ((n = pread(fd, text, sizeof(text), at)) > 0) {
		fwrite(text, 1, (size_t)n, stdout);
		at += n;
	}
	close(fd);
	return 0;
}

static int wait_for_trace(const struct options *o)
{
	char *dir = realpath(o->wait_dir, NULL);
	int err;

	if (!dir) {
		fprintf(stderr, "sreplay-logd: %s: %s\n", o->wait_dir, strerror(errno));
		return 1;
	}
	err = sr_client_wait_trace(o->socket, dir, NULL, o->timeout * 1000, NULL);
	free(dir);
	if (err == -ETIMEDOUT) {
		fprintf(stderr, "sreplay-logd: %s is still being written\n", o->wait_dir);
		return 1;
	}
	/* Without a daemon nothing is written. */
	if (err && err != -ENOENT && err != -ECONNREFUSED)
		return no_daemon(o->socket, err);
	return 0;
}

/* ---- becoming a daemon ---- */

/* Without a terminal the daemon's messages go to a file. */
static void move_stderr(const struct options *o)
{
	char path[PATH_MAX + 8];
	int fd;

	if (o->log[0])
		snprintf(path, sizeof(path), "%s", o->log);
	else
		snprintf(path, sizeof(path), "%s.log", o->socket);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		dup2(fd, STDERR_FILENO);
		close(fd);
	}
}

static void leave_terminal(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd >= 0) {
		dup2(fd, STDIN_FILENO);
		dup2(fd, STDOUT_FILENO);
		close(fd);
	}
	setsid();
	if (chdir("/"))
		return;
}

/*
 * Returns in the child only.  The parent waits until the child is ready (exit code 0) or gone (1).
 */
static int fork_away(void)
{
	int ready[2];
	char byte;
	pid_t pid;

	/* Pipes and locks of the starting program must not stay open as long as the daemon. */
	close_range(STDERR_FILENO + 1, ~0u, 0);
	if (pipe2(ready, O_CLOEXEC) || (pid = fork()) < 0) {
		fprintf(stderr, "sreplay-logd: cannot start: %s\n", strerror(errno));
		exit(1);
	}
	if (pid) {
		close(ready[1]);
		_exit(read(ready[0], &byte, 1) == 1 ? 0 : 1);
	}
	close(ready[0]);
	leave_terminal();
	return ready[1];
}

static void say_ready(const struct options *o, int ready_fd)
{
#ifdef HAVE_SYSTEMD
	sd_notify(0, "READY=1");
#endif
	if (ready_fd < 0)
		return;
	move_stderr(o);
	if (write(ready_fd, "", 1) < 0)
		log_line("the process that started this daemon did not wait");
	close(ready_fd);
}

/* ---- running ---- */

static void take_signal(void *owner, struct source *source)
{
	struct server *s = owner;
	struct signalfd_siginfo info;

	if (read(source->fd, &info, sizeof(info)) == sizeof(info))
		s->stopping = true;
}

static void take_event(void *owner, struct source *source)
{
	struct server *s = owner;
	uint64_t count;

	if (read(source->fd, &count, sizeof(count)) == sizeof(count))
		recordings_progress(&s->recordings);
}

/* The limits of whoever started the daemon are not meant for it. */
static void use_limits(void)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (setrlimit(RLIMIT_FSIZE, &none) && !getrlimit(RLIMIT_FSIZE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_FSIZE, &limit);
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* beyond the file-size limit, write fails */
}

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void serve_last_words(void *owner, struct connection *c)
{
	peer_serve(owner, c);
}

static void answer_waits(void *owner)
{
	requests_answer_waits(owner);
}

static const struct recording_events recording_events = {
    .last_words = serve_last_words,
    .progressed = answer_waits,
};

/* The event descriptor wakes the main thread for what the other threads have done. */
static int start_threads(struct server *s, const struct options *o)
{
	struct recordings *r = &s->recordings;
	int err;

	*r = (struct recordings){.loop = &s->loop, .events = &recording_events, .owner = s};
	r->event_fd = s->event.fd;
	err = drain_start(&r->drain, &o->drain, s->event.fd);
	return err ? err : files_start(&r->files, s->event.fd);
}

static int watch(struct server *s, struct source *source, void (*ready)(void *, struct source *),
		 int fd)
{
	*source = (struct source){.ready = ready, .owner = s, .fd = fd};
	return fd < 0 ? -errno : loop_watch(&s->loop, source);
}

/* 0, or -errno and a sentence. */
static int start(struct server *s, const struct options *o, char *error, size_t size)
{
	int err, listener = listen_open(o->socket, error, size);

	if (listener < 0)
		return listener;
	s->socket_path = o->socket;
	err = loop_open(&s->loop);
	if (!err)
		err = watch(s, &s->event, take_event, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (!err)
		err = watch(s, &s->signals, take_signal, open_signals());
	if (!err)
		err = start_threads(s, o);
	if (!err)
		err = watch(s, &s->listener, peer_accept, listener);
	if (err) {
		snprintf(error, size, "cannot start: %s", strerror(-err));
		return err;
	}
	s->directory = sodium_init() < 0 ? NULL : directory_open(&s->loop, o->socket);
	if (!s->directory) {
		snprintf(error, size, "cannot start: no randomness, or no memory");
		return -ENOMEM;
	}
	return 0;
}

/* When nothing needs the daemon any more it has so many ms left, or as many as it likes (-1). */
static int64_t time_left(struct server *s, int idle_exit)
{
	int64_t left;

	if (s->recordings.first || s->peers || directory_in_use(s->directory)) {
		s->idle_since = 0;
		return -1;
	}
	if (!s->idle_since)
		s->idle_since = sr_sys_now_ms();
	left = s->idle_since + idle_exit * 1000LL - sr_sys_now_ms();
	return !idle_exit ? -1 : left > 0 ? left : 0;
}

static int64_t lower_time(int64_t a, int64_t b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* When those that wait are told of progress next; -1: nobody waits. */
static int64_t show_progress(struct server *s)
{
	int64_t now = sr_sys_now_ms();

	if (now >= s->progress_at) {
		s->progress_at = now + PROGRESS_MS;
		if (!requests_show_progress(s))
			s->progress_at = 0;
	}
	return s->progress_at ? s->progress_at - now : -1;
}

/* Whatever begins or ends is an event, so between events there is nothing else to look for. */
static void run(struct server *s, const struct options *o)
{
	while (!s->stopping) {
		int64_t left = time_left(s, o->idle_exit);

		if (!left)
			break;
		if (left > INT_MAX)
			left = INT_MAX;
		left = lower_time(left, peers_wake_listener(s));
		left = lower_time(left, show_progress(s));
		loop_step(&s->loop, (int)left);
	}
}

/* False: threads hang in a file system that does not answer, and use what they use. */
static bool end(struct server *s)
{
	bool all;

	/* From here on a client sees no daemon, and waits for the next one. */
	unlink(s->socket_path);
	close(s->listener.fd);
#ifdef HAVE_SYSTEMD
	sd_notify(0, "STOPPING=1");
#endif
	all = drain_stop(s->recordings.drain);
	all = files_stop(s->recordings.files) && all;
	if (!all)
		return false;
	recordings_progress(&s->recordings);
	while (s->peers)
		peer_free(s, s->peers);
	directory_close(s->directory);
	return recordings_free(&s->recordings);
}

int main(int argc, char **argv)
{
	struct server s = {0};
	struct options o;
	char error[600] = "";
	int ready_fd = -1;

	parse_options(&o, argc, argv);
	if (o.status)
		return print_status(&o);
	if (o.wait_dir)
		return wait_for_trace(&o);
	if (o.daemonize)
		ready_fd = fork_away();
	use_limits();
	if (start(&s, &o, error, sizeof(error))) {
		log_line("%s", error);
		return 1;
	}
	say_ready(&o, ready_fd);
	run(&s, &o);
	if (!end(&s)) {
		log_line("a file system does not answer; what is left goes to the next sreplay-logd");
		_exit(1);
	}
	return 0;
}
