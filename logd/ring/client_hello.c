/* SPDX-License-Identifier: BSD-2-Clause */
/* Introducing the process to a daemon. */
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "logd/base/page.h"
#include "logd/ring/client.h"
#include "logd/ring/client_private.h"
#include "logd/ring/own_facts.h"
#include "logd/ring/place.h"

/* ---- sentences, without stdio ---- */

struct sentence {
	char *at, *end;
};

static void say(struct sentence *s, const char *text)
{
	while (s->at < s->end && *text)
		*s->at++ = *text++;
	if (s->at <= s->end && s->end)
		*s->at = 0;
}

static void say_number(struct sentence *s, int number)
{
	char digits[12], *d = digits + sizeof(digits) - 1;

	*d = 0;
	do
		*--d = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	say(s, d);
}

static struct sentence begin(char *text, size_t size)
{
	if (!size)
		return (struct sentence){NULL, NULL};
	text[0] = 0;
	return (struct sentence){text, text + size - 1};
}

static void explain_connect(struct sentence *s, const char *path, int err, int daemon)
{
	char who[100];

	if (err == -ENAMETOOLONG) {
		say(s, "the socket's path is too long: ");
		say(s, path);
		return;
	}
	if (err == -ENOENT || err == -ECONNREFUSED) {
		say(s, "no sreplay-logd listens on ");
		say(s, path);
		say(s,
		    "; start one (sreplay-logd --daemonize) or name its socket in SREPLAY_SOCKET");
		return;
	}
	if (err == -ETIMEDOUT) {
		sr_client_describe_daemon(who, sizeof(who), daemon);
		say(s, "no answer for 5 s from ");
		say(s, who);
		say(s, ", on ");
		say(s, path);
		return;
	}
	say(s, "cannot talk to sreplay-logd on ");
	say(s, path);
	say(s, ": error ");
	say_number(s, -err);
	if (err == -EACCES)
		say(s, " (permission denied: it is another user's)");
	else if (err == -EFBIG)
		say(s, " (it was started under a limit on the size of files; end it, and start it "
		       "without that: ulimit -f)");
	else if (err == -EPROTO)
		say(s, " (it speaks another version of the protocol)");
}

/* ---- hello ---- */

/* A new daemon's page is mapped over the old one's, which other threads may be using. */
static int map_doorbell(struct sr_client *c, int fd)
{
	void *page = c->doorbell ? c->doorbell : sr_place(PAGE);

	if (fd < 0)
		return -EPROTO;
	if (!sr_sys_is_error(page))
		page =
		    sr_sys_mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	sr_sys_close(fd);
	if (sr_sys_is_error(page))
		return (int)(intptr_t)page;
	c->doorbell = page;
	/* That there is a daemon is no progress; what it writes is. */
	c->progress = atomic_load_explicit(&c->doorbell->progress, memory_order_relaxed);
	return 0;
}

/* An image before this one may have ended while it waited for an answer. */
static void drop_answers(int socket)
{
	char answer[sizeof(struct sr_message)];

	while (sr_syscall(SYS_recvfrom, socket, SR_ARG(answer), sizeof(answer), MSG_DONTWAIT, 0, 0) > 0)
		;
}

/* The daemon serves its own user.  A process that has become another one since goes on with the connection it has. */
static int connect_or_keep(struct sr_client *c)
{
	int given = c->given, fd = sr_request_connect(c->path);

	c->given = 0;
	if (!given)
		return fd;
	if (fd != -EACCES) {
		sr_sys_close(given);
		return fd;
	}
	drop_answers(given);
	return given;
}

/* Connect and introduce; answer->text is the daemon's reason when its error is returned. */
int sr_client_greet(struct sr_client *c, struct sr_message *answer)
{
	const struct sr_request_wait wait = sr_client_wait(c);
	struct ucred daemon = {0};
	socklen_t size = sizeof(daemon);
	int doorbell = -1, ret;

	answer->text[0] = 0;
	c->socket = connect_or_keep(c);
	if (c->socket < 0)
		return c->socket;
	sr_sys_getsockopt(c->socket, SOL_SOCKET, SO_PEERCRED, &daemon, &size);
	c->daemon = daemon.pid;
	ret = sr_request_while(c->socket, &c->hello, c->hello_fd, answer, &doorbell, &wait);
	if (!ret && answer->error)
		ret = answer->error;
	if (ret) {
		if (doorbell >= 0)
			sr_sys_close(doorbell);
		return ret;
	}
	ret = map_doorbell(c, doorbell);
	/* A place in the trace was made.  That a daemon knows the process already is no progress. */
	if (!(c->hello.flags & SR_MESSAGE_RESUME))
		sr_client_goes_on(c, true);
	return ret;
}

static bool has_no_daemon(int err)
{
	return sr_client_is_broken(err) || err == -ENOENT || err == -ECONNREFUSED;
}

/*
 * Waits for the successor of a daemon that dies meanwhile.  A process of `sreplay record` also
 * waits where none listens: that command had one, and starts the next when it dies.
 */
static int greet_first(struct sr_client *c, struct sr_message *answer)
{
	static const uint8_t no_session[sizeof(c->hello.session)];
	bool is_of_command = memcmp(c->hello.session, no_session, sizeof(no_session)) != 0;
	int64_t deadline = sr_sys_now_ms() + SUCCESSOR_MS;
	int ret = sr_client_greet(c, answer);
	bool may_come = sr_client_is_broken(ret) || is_of_command;

	while (may_come && has_no_daemon(ret) && sr_sys_now_ms() < deadline) {
		struct timespec pause = sr_sys_ms(RETRY_MS);

		sr_client_disconnect(c);
		sr_sys_nanosleep(&pause);
		ret = sr_client_greet(c, answer);
	}
	return ret;
}

int sr_client_make_hello(struct sr_client *c, const struct sr_hello *h)
{
	struct sr_hello_body body = {
	    .trace_dir_size = (uint32_t)strlen(h->trace_dir),
	    .schema_size = (uint32_t)h->schema_size,
	    .extra_size = h->extra_json ? (uint32_t)strlen(h->extra_json) : 0,
	};
	struct iovec texts[4 + SR_FACTS] = {
	    {&body, sizeof(body)},
	    {(void *)h->trace_dir, body.trace_dir_size},
	    {(void *)h->schema, body.schema_size},
	    {(void *)h->extra_json, body.extra_size},
	};
	struct sr_own_facts facts;
	long ret;

	sr_message_init(&c->hello, SR_MSG_HELLO);
	c->hello.rank = h->rank;
	c->hello.hello_flags = h->flags;
	c->hello.trace_version = h->version;
	c->hello.value = h->stack;
	if (h->session)
		memcpy(c->hello.session, h->session, sizeof(c->hello.session));
	if (h->late)
		c->hello.flags |= SR_MESSAGE_LATE;
	if (h->image) {
		c->hello.flags |= SR_MESSAGE_IMAGE;
		memcpy(c->hello.text, h->image, sizeof(*h->image));
	}
	if (h->parent) {
		c->hello.flags |= SR_MESSAGE_CHILD;
		memcpy(c->hello.text, h->parent, sizeof(*h->parent));
	}
	ret = sr_sys_getrandom(c->hello.process, sizeof(c->hello.process));
	if (ret != sizeof(c->hello.process))
		return ret < 0 ? (int)ret : -EIO;
	sr_own_facts_read(&facts);
	for (int i = 0; i < SR_FACTS; i++) {
		texts[4 + i] = facts.texts[i];
		body.fact_sizes[i] = (uint32_t)facts.texts[i].iov_len;
	}
	c->hello_fd = sr_request_memfd(texts, 4 + SR_FACTS, c->path);
	sr_own_facts_free(&facts);
	return c->hello_fd < 0 ? c->hello_fd : 0;
}

int sr_client_introduce(struct sr_client *c, const char *socket_path, int err, char *error,
			size_t error_size)
{
	struct sentence s = begin(error, error_size);
	struct sr_message answer;

	answer.text[0] = 0;
	if (!err)
		err = greet_first(c, &answer);
	if (!err)
		return 0;
	if (answer.text[0])
		say(&s, answer.text);
	else
		explain_connect(&s, socket_path, err, c->daemon);
	return err;
}
