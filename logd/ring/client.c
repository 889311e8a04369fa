/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/ring/client.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>

#include "logd/base/page.h"
#include "logd/ring/place.h"
#include "logd/base/rawsys.h"
#include "logd/ring/request.h"

#define ANSWER_MS     60000 /* of the first hello: a job's come all at once, with libraries to hash */
#define RING_MS       3000  /* ... of a ring: it opens a file */
#define RESUME_MS     1000  /* ... and of one that has been silent before */
#define SILENT_MS     3000  /* a daemon that lets rings stay full for so long is asked how it is */
#define EMPTY_POLL_US 200
#define RETRY_MS      20
#define SUCCESSOR_MS  2000
#define FIRST_RINGS   256 /* a page of them */

struct sr_client_ring {
	struct sr_ring *ring;
	uint32_t thread;
};

/* Introduced once, and not given up since. */
static bool is_live(const struct sr_client *c)
{
	return c->state == SR_CLIENT_LIVE;
}

/* ---- lock: one per process, never held while a ring waits ---- */

static bool lock(struct sr_client *c)
{
	uint32_t me = (uint32_t)sr_sys_gettid(), holder = 0;

	while (!atomic_compare_exchange_strong(&c->lock, &holder, me)) {
		if (holder == me)
			return false;
		sr_sys_futex((uint32_t *)&c->lock, FUTEX_WAIT_PRIVATE, holder, NULL);
		holder = 0;
	}
	return true;
}

static bool try_lock(struct sr_client *c)
{
	uint32_t free = 0;

	return atomic_compare_exchange_strong(&c->lock, &free, (uint32_t)sr_sys_gettid());
}

static void unlock(struct sr_client *c)
{
	atomic_store(&c->lock, 0);
	sr_sys_futex((uint32_t *)&c->lock, FUTEX_WAKE_PRIVATE, 1, NULL);
}

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

static void explain_connect(struct sentence *s, const char *path, int err)
{
	if (err == -ENOENT || err == -ECONNREFUSED) {
		say(s, "no sreplay-logd listens on ");
		say(s, path);
		say(s,
		    "; start one (sreplay-logd --daemonize) or name its socket in SREPLAY_SOCKET");
		return;
	}
	say(s, "cannot talk to sreplay-logd on ");
	say(s, path);
	say(s, ": error ");
	say_number(s, -err);
	if (err == -EACCES)
		say(s, " (permission denied: it is another user's)");
	else if (err == -EPROTO)
		say(s, " (it speaks another version of the protocol)");
	else if (err == -ETIMEDOUT)
		say(s, " (it does not answer)");
}

/* ---- hello ---- */

static void disconnect(struct sr_client *c)
{
	if (c->socket >= 0)
		sr_sys_close(c->socket);
	c->socket = -1;
	if (!c->lost_since)
		c->lost_since = sr_sys_now_ms();
}

/*
 * The page stays where it is, since committing threads may be using it: a new
 * daemon's page is mapped over the old one's.
 */
static int map_doorbell(struct sr_client *c, int fd)
{
	void *page = c->doorbell_page ? c->doorbell_page : sr_place(PAGE);

	if (fd < 0)
		return -EPROTO;
	if (!sr_sys_is_error(page))
		page = sr_sys_mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
				   fd, 0);
	sr_sys_close(fd);
	if (sr_sys_is_error(page))
		return (int)(intptr_t)page;
	c->doorbell_page = page;
	return 0;
}

/* Connect and introduce; answer->text is the daemon's reason when its error is returned. */
static int greet(struct sr_client *c, struct sr_message *answer, int timeout_ms)
{
	int doorbell = -1, ret;

	answer->text[0] = 0;
	c->socket = sr_talk_connect(c->path);
	if (c->socket < 0)
		return c->socket;
	ret = sr_talk(c->socket, &c->hello, c->hello_fd, answer, &doorbell, timeout_ms);
	if (!ret && answer->error)
		ret = answer->error;
	if (ret) {
		if (doorbell >= 0)
			sr_sys_close(doorbell);
		return ret;
	}
	ret = map_doorbell(c, doorbell);
	if (ret)
		return ret;
	c->lost_since = 0;
	return 0;
}

/* The daemon died: whatever it was told, the next one must be told again. */
static bool is_broken_talk(int err)
{
	return err == -ECONNRESET || err == -EPIPE || err == -ENOTCONN || err == -EBADF;
}

/* No daemon at all is the user's to mend; one that dies during the hello has a successor soon. */
static int greet_first(struct sr_client *c, struct sr_message *answer)
{
	int64_t deadline = sr_sys_now_ms() + SUCCESSOR_MS;
	int ret = greet(c, answer, ANSWER_MS);
	bool broken = is_broken_talk(ret);

	while (broken && ret && sr_sys_now_ms() < deadline &&
	       (is_broken_talk(ret) || ret == -ENOENT || ret == -ECONNREFUSED)) {
		struct timespec pause = sr_sys_ms(RETRY_MS);

		if (c->socket >= 0)
			sr_sys_close(c->socket);
		c->socket = -1;
		sr_sys_nanosleep(&pause);
		ret = greet(c, answer, ANSWER_MS);
	}
	return ret;
}

static int make_hello(struct sr_client *c, const struct sr_hello *h)
{
	struct sr_hello_body body = {
	    .trace_dir_size = (uint32_t)strlen(h->trace_dir),
	    .schema_size = (uint32_t)h->schema_size,
	    .extra_size = h->extra_json ? (uint32_t)strlen(h->extra_json) : 0,
	};
	struct iovec texts[] = {
	    {&body, sizeof(body)},
	    {(void *)h->trace_dir, body.trace_dir_size},
	    {(void *)h->schema, body.schema_size},
	    {(void *)h->extra_json, body.extra_size},
	};
	long ret;

	sr_message_init(&c->hello, SR_MSG_HELLO);
	c->hello.rank = h->rank;
	c->hello.hello_flags = h->flags;
	c->hello.trace_version = h->version;
	c->hello.value = h->stack;
	if (h->session)
		memcpy(c->hello.session, h->session, sizeof(c->hello.session));
	ret = sr_sys_getrandom(c->hello.process, sizeof(c->hello.process));
	if (ret != sizeof(c->hello.process))
		return ret < 0 ? (int)ret : -EIO;
	c->hello_fd = sr_talk_memfd(texts, 4);
	return c->hello_fd < 0 ? c->hello_fd : 0;
}

static void forget(struct sr_client *c)
{
	/* Zeroed storage that was never connected: 0 is the program's file descriptor. */
	if (c->state == SR_CLIENT_NONE)
		return;
	if (c->socket >= 0)
		sr_sys_close(c->socket);
	if (c->hello_fd >= 0)
		sr_sys_close(c->hello_fd);
	if (c->doorbell_page)
		sr_sys_munmap(c->doorbell_page, PAGE);
	if (c->rings)
		sr_sys_munmap(c->rings, c->room_rings * sizeof(*c->rings));
	memset(c, 0, sizeof(*c));
}

int sr_client_connect(struct sr_client *c, const char *socket_path, const struct sr_hello *hello,
		      char *error, size_t error_size)
{
	struct sentence s = begin(error, error_size);
	struct sr_message answer;
	int ret;

	memset(c, 0, sizeof(*c));
	c->state = SR_CLIENT_LIVE;
	c->socket = c->hello_fd = -1;
	c->stall_timeout_ms = SR_CLIENT_STALL_TIMEOUT_MS;
	if (strlen(socket_path) >= sizeof(c->path)) {
		say(&s, "the socket's path is too long: ");
		say(&s, socket_path);
		forget(c);
		return -ENAMETOOLONG;
	}
	strcpy(c->path, socket_path);
	answer.text[0] = 0;
	ret = make_hello(c, hello);
	if (!ret)
		ret = greet_first(c, &answer);
	if (!ret)
		return 0;
	if (answer.text[0])
		say(&s, answer.text);
	else
		explain_connect(&s, socket_path, ret);
	forget(c);
	return ret;
}

/* ---- rings ---- */

static int hand_over(struct sr_client *c, const struct sr_client_ring *entry, uint32_t flags,
		     int timeout_ms)
{
	struct sr_message request, answer;
	int ret;

	sr_message_init(&request, SR_MSG_RING);
	request.thread = entry->thread;
	request.flags = flags;
	ret = sr_talk(c->socket, &request, entry->ring->fd, &answer, NULL, timeout_ms);
	if (ret)
		return ret;
	if (!answer.error)
		sr_ring_set_doorbell(entry->ring, c->doorbell_page);
	return answer.error;
}

/* Not malloc: the program's heap must not notice the recorder. */
static int grow_table(struct sr_client *c)
{
	uint32_t room = c->room_rings ? 2 * c->room_rings : FIRST_RINGS;
	struct sr_client_ring *rings = sr_place(room * sizeof(*rings));

	if (!sr_sys_is_error(rings))
		rings = sr_sys_mmap(rings, room * sizeof(*rings), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (sr_sys_is_error(rings))
		return (int)(intptr_t)rings;
	if (c->rings) {
		memcpy(rings, c->rings, c->n_rings * sizeof(*rings));
		sr_sys_munmap(c->rings, c->room_rings * sizeof(*rings));
	}
	c->rings = rings;
	c->room_rings = room;
	return 0;
}

/* A ring's wait for room is where a dead daemon is noticed. */
static void check_daemon(void *client)
{
	sr_client_check(client);
}

static int add_ring_locked(struct sr_client *c, uint32_t thread, struct sr_ring *ring)
{
	struct sr_client_ring entry = {ring, thread};
	int ret = 0;

	if (!is_live(c))
		return -ENOTCONN;
	if (c->n_rings == c->room_rings)
		ret = grow_table(c);
	if (ret)
		return ret;
	if (c->socket >= 0)
		ret = hand_over(c, &entry, 0, RING_MS);
	else
		ret = -ECONNRESET;
	/*
	 * Between two daemons a ring is recorded as well: the next one gets it
	 * with all others.  So is one whose daemon is silent: the wait was the
	 * only one, since threads that come later find no connection.
	 */
	if (is_broken_talk(ret) || ret == -ETIMEDOUT) {
		disconnect(c);
		if (ret == -ETIMEDOUT)
			c->next_try = sr_sys_now_ms() + SILENT_MS;
		ret = 0;
	}
	if (ret)
		return ret;
	sr_ring_set_wait_hook(ring, check_daemon, c);
	/* In that order: a child that is forked just now goes by what it finds (sr_client_abandon).
	 */
	c->rings[c->n_rings] = entry;
	atomic_signal_fence(memory_order_release);
	c->n_rings++;
	return 0;
}

int sr_client_add_ring(struct sr_client *c, uint32_t thread, struct sr_ring *ring)
{
	int ret;

	if (!lock(c))
		return -EDEADLK;
	ret = add_ring_locked(c, thread, ring);
	unlock(c);
	return ret;
}

/* Called with the lock held. */
static void forget_ring(struct sr_client *c, const struct sr_ring *ring)
{
	for (uint32_t i = 0; i < c->n_rings; i++) {
		if (c->rings[i].ring == ring) {
			c->rings[i] = c->rings[--c->n_rings];
			return;
		}
	}
}

static void reconnect(struct sr_client *c);

/* A ring that no daemon has may hold records still: they need one more daemon. */
static void wait_for_daemon(struct sr_client *c, int64_t deadline)
{
	while (is_live(c) && c->socket < 0 && c->n_rings && sr_sys_now_ms() < deadline) {
		struct timespec pause = sr_sys_ms(RETRY_MS);

		reconnect(c);
		if (c->socket < 0)
			sr_sys_nanosleep(&pause);
	}
}

/*
 * Only what the daemon has released is written: a ring that is let go earlier
 * would be lost with a daemon that dies now.
 */
static void wait_until_empty(struct sr_client *c, const struct sr_ring *ring)
{
	const struct timespec pause = {.tv_nsec = EMPTY_POLL_US * 1000};
	int64_t deadline = sr_sys_now_ms() + (c->stall_timeout_ms < 0 ? INT64_MAX / 2 : c->stall_timeout_ms);

	while (is_live(c) && !sr_ring_stopped(ring) && !sr_ring_empty(ring) &&
	       sr_sys_now_ms() < deadline) {
		sr_client_check(c);
		sr_sys_nanosleep(&pause);
	}
}

void sr_client_remove_ring(struct sr_client *c, struct sr_ring *ring)
{
	sr_ring_close(ring);
	wait_until_empty(c, ring);
	if (!lock(c))
		return;
	forget_ring(c, ring);
	unlock(c);
	sr_ring_detach(ring);
}

/* ---- noticing and replacing a dead daemon; the lock is held ---- */

static bool has_hung_up(const struct sr_client *c)
{
	struct pollfd p = {.fd = c->socket, .events = POLLIN};
	struct timespec now = {0};

	/* The daemon never speaks first: anything to read is the end of file. */
	return c->socket < 0 || sr_sys_ppoll(&p, 1, &now) > 0;
}

static void give_up(struct sr_client *c, int error)
{
	c->state = SR_CLIENT_GIVEN_UP;
	for (uint32_t i = 0; i < c->n_rings; i++)
		sr_ring_stop(c->rings[i].ring, error);
	if (c->give_up_hook)
		c->give_up_hook(error);
}

static int resume(struct sr_client *c)
{
	struct sr_message answer;
	int ret;

	c->hello.flags |= SR_MESSAGE_RESUME;
	ret = greet(c, &answer, RESUME_MS);
	for (uint32_t i = 0; !ret && i < c->n_rings; i++) {
		int err = hand_over(c, &c->rings[i], SR_MESSAGE_RESUME, RESUME_MS);

		if (is_broken_talk(err) || err == -ETIMEDOUT)
			ret = err;
		else if (err)
			sr_ring_stop(c->rings[i].ring, -err);
	}
	return ret;
}

static bool is_worth_another_try(int err)
{
	return is_broken_talk(err) || err == -ENOENT || err == -ECONNREFUSED || err == -ETIMEDOUT ||
	       err == -EAGAIN || err == -EMFILE || err == -ENFILE;
}

static void reconnect(struct sr_client *c)
{
	int64_t now = sr_sys_now_ms();
	int err;

	if (now < c->next_try)
		return;
	c->next_try = now + RETRY_MS;
	if (c->socket >= 0)
		disconnect(c);
	err = resume(c);
	if (!err) {
		c->emptied_at = sr_sys_now_ms();
		return;
	}
	disconnect(c);
	/* Asking a silent one costs time, of whoever needs the lock meanwhile. */
	if (err == -ETIMEDOUT)
		c->next_try = sr_sys_now_ms() + SILENT_MS;
	/* Refused, or none came for too long: the program goes on unrecorded. */
	if (!is_worth_another_try(err))
		give_up(c, -err);
	else if (c->stall_timeout_ms >= 0 && now - c->lost_since > c->stall_timeout_ms)
		give_up(c, ENOTCONN);
}

/*
 * A ring waits; has the daemon emptied none of all for a while?  A new
 * connection tells whether it is slow (a disk) or does nothing any more.
 */
static bool is_silent(struct sr_client *c)
{
	int64_t now = sr_sys_now_ms();
	uint64_t emptied = 0;

	for (uint32_t i = 0; i < c->n_rings; i++)
		emptied += sr_ring_released(c->rings[i].ring);
	/* Long since the last look: no ring has waited for that time. */
	if (emptied != c->emptied || now - c->looked_at > SILENT_MS) {
		c->emptied = emptied;
		c->emptied_at = now;
	}
	c->looked_at = now;
	return now - c->emptied_at > SILENT_MS;
}

void sr_client_check(struct sr_client *c)
{
	if (!try_lock(c)) /* another thread is at it, or this one is in the middle of it */
		return;
	if (is_live(c) && (has_hung_up(c) || is_silent(c)))
		reconnect(c);
	unlock(c);
}

void sr_client_set_stall_timeout(struct sr_client *c, int64_t ms)
{
	c->stall_timeout_ms = ms;
}

void sr_client_set_give_up_hook(struct sr_client *c, void (*hook)(int error))
{
	c->give_up_hook = hook;
}

/* ---- files ---- */

static int talk_of_file(struct sr_client *c, const struct sr_message *request, int fd)
{
	struct sr_message answer;
	int ret;

	if (c->socket < 0)
		return -ECONNRESET;
	ret = sr_talk(c->socket, request, fd, &answer, NULL, RING_MS);
	if (is_broken_talk(ret) || ret == -ETIMEDOUT)
		disconnect(c);
	return ret ? ret : answer.error;
}

static int add_file_locked(struct sr_client *c, const struct sr_message *request, int fd)
{
	int ret;

	if (!is_live(c))
		return -ENOTCONN;
	ret = talk_of_file(c, request, fd);
	if (!is_broken_talk(ret))
		return ret;
	/* Between two daemons: what the file holds now cannot be noted later. */
	for (int64_t end = sr_sys_now_ms() + SUCCESSOR_MS;
	     is_live(c) && c->socket < 0 && sr_sys_now_ms() < end;) {
		struct timespec pause = sr_sys_ms(RETRY_MS);

		reconnect(c);
		if (c->socket < 0)
			sr_sys_nanosleep(&pause);
	}
	return talk_of_file(c, request, fd);
}

int sr_client_add_file(struct sr_client *c, int fd, const char *path, bool keep)
{
	struct sr_message request;
	size_t size = strlen(path);
	int ret;

	sr_message_init(&request, SR_MSG_FILE);
	request.flags = keep ? SR_MESSAGE_KEEP : 0;
	if (size < sizeof(request.text))
		memcpy(request.text, path, size);
	if (!lock(c))
		return -EDEADLK;
	ret = add_file_locked(c, &request, fd);
	unlock(c);
	return ret;
}

/* ---- the end ---- */

static int finish_locked(struct sr_client *c, int64_t deadline)
{
	struct sr_message request, answer;
	int ret = -ENOTCONN;

	sr_message_init(&request, SR_MSG_FINISH);
	while (is_live(c)) {
		int64_t left = deadline - sr_sys_now_ms();

		if (has_hung_up(c))
			wait_for_daemon(c, deadline);
		if (c->socket < 0)
			return left > 0 ? -ENOTCONN : -ETIMEDOUT;
		ret = sr_talk(c->socket, &request, -1, &answer, NULL, left > 0 ? (int)left : 0);
		if (!is_broken_talk(ret))
			break;
		disconnect(c);
	}
	/* A late answer would be taken for the next request's. */
	if (ret == -ETIMEDOUT)
		disconnect(c);
	return ret ? ret : answer.error;
}

int sr_client_finish(struct sr_client *c, int timeout_ms)
{
	int ret;

	if (!lock(c))
		return -EDEADLK;
	ret = finish_locked(c, sr_sys_now_ms() + timeout_ms);
	unlock(c);
	return ret;
}

void sr_client_abandon(struct sr_client *c)
{
	/* The lock's holder may be a thread that the child does not have: no locking. */
	for (uint32_t i = 0; i < c->n_rings; i++)
		sr_ring_detach(c->rings[i].ring);
	forget(c);
}

/* ---- without a hello ---- */

int sr_client_wait_trace(const char *socket_path, const char *trace_dir, const uint8_t *session,
			 int timeout_ms)
{
	struct iovec text = {(void *)trace_dir, strlen(trace_dir)};
	struct sr_message request, answer;
	int fd, ret, socket = sr_talk_connect(socket_path);

	if (socket < 0)
		return socket;
	fd = sr_talk_memfd(&text, 1);
	sr_message_init(&request, SR_MSG_WAIT_TRACE);
	if (session)
		memcpy(request.session, session, sizeof(request.session));
	ret = fd < 0 ? fd : sr_talk(socket, &request, fd, &answer, NULL, timeout_ms);
	if (fd >= 0)
		sr_sys_close(fd);
	sr_sys_close(socket);
	return ret ? ret : answer.error;
}

int sr_client_status(const char *socket_path)
{
	struct sr_message request, answer;
	int fd = -1, ret, socket = sr_talk_connect(socket_path);

	if (socket < 0)
		return socket;
	sr_message_init(&request, SR_MSG_STATUS);
	ret = sr_talk(socket, &request, -1, &answer, &fd, ANSWER_MS);
	sr_sys_close(socket);
	if (!ret)
		ret = answer.error;
	if (ret && fd >= 0)
		sr_sys_close(fd);
	if (!ret && fd < 0)
		ret = -EPROTO;
	return ret ? ret : fd;
}
