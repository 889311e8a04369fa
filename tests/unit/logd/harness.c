/* SPDX-License-Identifier: BSD-2-Clause */
#include "harness.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pattern.h"

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "harness: %s: %s\n", what, strerror(errno));
	exit(99);
}

void sleep_us(unsigned int us)
{
	struct timespec time = {us / 1000000, us % 1000000 * 1000};

	while (nanosleep(&time, &time) && errno == EINTR)
		;
}

void harness_begin(struct harness *h)
{
	memset(h, 0, sizeof(*h));
	h->daemon = -1;
	strcpy(h->dir, "/tmp/sreplay-test-XXXXXX");
	if (!mkdtemp(h->dir))
		give_up(h->dir);
	snprintf(h->socket, sizeof(h->socket), "%s/s/logd.sock", h->dir);
	snprintf(h->trace, sizeof(h->trace), "%s/t.srec", h->dir);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

void harness_end(struct harness *h)
{
	if (h->daemon > 0)
		daemon_kill(h, SIGTERM);
	nftw(h->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static _Noreturn void become_daemon(const struct harness *h, const char *const *options)
{
	const char *argv[32] = {getenv("SREPLAY_LOGD"), "--socket", h->socket};
	int n = 3;

	if (!argv[0])
		argv[0] = "sreplay-logd";
	while (options && *options)
		argv[n++] = *options++;
	if (getenv("SREPLAY_TEST_PLAIN_IO"))
		argv[n++] = "--plain-io";
	/* The daemon dies with its test. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execvp(argv[0], (char *const *)argv);
	give_up(argv[0]);
}

void daemon_start(struct harness *h, const char *const *options)
{
	h->daemon = fork();
	if (h->daemon < 0)
		give_up("fork");
	if (h->daemon == 0)
		become_daemon(h, options);
	for (int i = 0; i < 5000; i++) {
		int fd = sr_client_status(h->socket, 5000);

		if (fd >= 0) {
			close(fd);
			return;
		}
		if (waitpid(h->daemon, NULL, WNOHANG) == h->daemon)
			break;
		sleep_us(1000);
	}
	give_up("the daemon does not listen");
}

int daemon_kill(struct harness *h, int signal)
{
	int status = 0;

	/*
	 * Continue a daemon that a failed test left stopped; do so first, because a leak check
	 * at the end would fail.
	 */
	kill(h->daemon, SIGCONT);
	kill(h->daemon, signal);
	waitpid(h->daemon, &status, 0);
	h->daemon = -1;
	return status;
}

int connect_as(struct harness *h, struct sr_client *c, int32_t rank, char *error, size_t size)
{
	return connect_in(h, c, rank, NULL, error, size);
}

int connect_in(struct harness *h, struct sr_client *c, int32_t rank, const uint8_t *session,
	       char *error, size_t size)
{
	static const char schema[] = "{\"calls\": []}";
	struct sr_hello hello = {
	    .version = SR_TRACE_VERSION,
	    .rank = rank,
	    .stack = 0x7fff12340000,
	    .trace_dir = h->trace,
	    .schema = schema,
	    .schema_size = sizeof(schema) - 1,
	    .extra_json = "{\"test\": true}",
	    .session = session,
	};

	return sr_client_connect(c, h->socket, &hello, error, size);
}

void wait_written(struct harness *h)
{
	int err = sr_client_wait_trace(h->socket, h->trace, NULL, 20000, NULL);

	if (err && err != -ENOENT) {
		errno = -err;
		give_up("the trace is still being written");
	}
}

static void take_mark(struct stream_check *found, const struct sr_entry *e)
{
	const struct sr_mark_payload *mark = e->payload;

	found->mark = mark->reason;
	found->mark_argument = mark->argument;
}

static bool read_entries(struct sr_stream *s, uint64_t seed, struct stream_check *found)
{
	struct sr_entry e;
	uint64_t sn = 1;
	int ret;

	while ((ret = sr_stream_next(s, &e)) == 1) {
		if (found->exit) {
			fprintf(stderr, "records after SR_REC_EXIT\n");
			return false;
		}
		if (e.kind == SR_REC_EXIT)
			found->exit = true;
		else if (e.kind == SR_REC_MARK)
			take_mark(found, &e);
		else if (!pattern_matches(&e, seed, found->records++, sn))
			return false;
		sn += e.count;
	}
	if (sr_stream_warning(s))
		snprintf(found->warning, sizeof(found->warning), "%s", sr_stream_warning(s));
	if (ret < 0)
		fprintf(stderr, "%s\n", found->warning);
	return ret == 0;
}

bool check_stream(const char *trace, int32_t rank, uint32_t thread, uint64_t seed,
		  struct stream_check *found)
{
	struct sr_stream *s = NULL;
	struct sr_trace *t = NULL;
	struct sr_error err;
	bool good = false;

	memset(found, 0, sizeof(*found));
	if (!sr_trace_open(&t, trace, &err) && !sr_stream_open(&s, t, rank, thread, &err))
		good = read_entries(s, seed, found);
	else
		fprintf(stderr, "%s\n", err.text);
	sr_stream_close(s);
	sr_trace_close(t);
	return good;
}
