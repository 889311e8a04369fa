/* SPDX-License-Identifier: BSD-2-Clause */
/* channel.c: open files of the device. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define DEVICE   "/dev/infiniband/rdma_cm"

/* What the epoll instance gives for a descriptor: an identifier's handle, or one of these. */
#define EVENT_FD (1ull << 32)
#define TIMER_FD (2ull << 32)

/* By descriptor; CM_MAX_CHANNELS is therefore the highest number of one. */
static struct cm_channel channels[CM_MAX_CHANNELS];
static _Atomic bool in_use[CM_MAX_CHANNELS];

long cm_sys(long number, ...)
{
	int before = errno;
	long a[6], ret;
	va_list list;

	va_start(list, number);
	for (int n = 0; n < 6; n++)
		a[n] = va_arg(list, long);
	va_end(list);
	ret = syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (ret == -1)
		ret = -errno;
	errno = before;
	return ret;
}

int cm_move_fd(int fd)
{
	struct rlimit limit = {.rlim_cur = 1024};
	long moved;

	if (fd < 0)
		return fd;
	cm_sys(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
	moved = cm_sys(SYS_fcntl, fd, F_DUPFD_CLOEXEC,
		       limit.rlim_cur < 8192 ? (long)limit.rlim_cur / 2 : 4096l);
	if (moved < 0)
		return fd;
	cm_sys(SYS_close, fd);
	return (int)moved;
}

static int control(const struct cm_channel *c, int operation, int fd, uint64_t data)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = data};

	return (int)cm_sys(SYS_epoll_ctl, c->fd, operation, fd, &e);
}

static void close_fds(struct cm_channel *c)
{
	atomic_store(&in_use[c->fd], false);
	if (c->event_fd >= 0)
		cm_sys(SYS_close, c->event_fd);
	if (c->timer_fd >= 0)
		cm_sys(SYS_close, c->timer_fd);
	cm_sys(SYS_close, c->fd);
}

int softdev_cm_open(const char *path, int flags)
{
	struct cm_channel *c;
	int fd, error;

	if (strcmp(path, DEVICE))
		return -2;
	fd = (int)cm_sys(SYS_epoll_create1, flags & O_CLOEXEC ? EPOLL_CLOEXEC : 0);
	if (fd >= CM_MAX_CHANNELS) {
		cm_sys(SYS_close, fd);
		fd = -EMFILE;
	}
	if (fd < 0) {
		errno = -fd;
		return -1;
	}
	if (flags & O_NONBLOCK)
		cm_sys(SYS_fcntl, fd, F_SETFL, O_NONBLOCK);
	cm_lock();
	c = &channels[fd];
	*c = (struct cm_channel){.fd = fd, .last = &c->first};
	c->owner = (pid_t)cm_sys(SYS_getpid);
	c->event_fd = cm_move_fd((int)cm_sys(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK));
	c->timer_fd = cm_move_fd(
	    (int)cm_sys(SYS_timerfd_create, CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	error = c->event_fd < 0 ? c->event_fd : c->timer_fd < 0 ? c->timer_fd : 0;
	if (!error)
		error = control(c, EPOLL_CTL_ADD, c->event_fd, EVENT_FD);
	if (!error)
		error = control(c, EPOLL_CTL_ADD, c->timer_fd, TIMER_FD);
	if (error)
		close_fds(c);
	else
		atomic_store(&in_use[fd], true);
	cm_unlock();
	if (error)
		errno = -error;
	return error ? -1 : fd;
}

bool cm_may_be_channel(int fd)
{
	return fd >= 0 && fd < CM_MAX_CHANNELS &&
	       atomic_load_explicit(&in_use[fd], memory_order_acquire);
}

/* The number may be another file's by now, if it was closed by a bare system call. */
struct cm_channel *cm_channel_find(int fd)
{
	if (!cm_may_be_channel(fd))
		return NULL;
	if (!control(&channels[fd], EPOLL_CTL_MOD, channels[fd].event_fd, EVENT_FD))
		return &channels[fd];
	atomic_store(&in_use[fd], false);
	return NULL;
}

static void destroy_one(struct cm_id *id, void *unused)
{
	cm_id_destroy(id);
}

/* In a forked child: the files are still the parent's, and must stay as they are. */
static void forget_one(struct cm_id *id, void *unused)
{
	if (id->sock >= 0)
		cm_sys(SYS_close, id->sock);
	id->sock = -1;
	id->watched = false;
	cm_id_destroy(id);
}

void cm_channel_close(struct cm_channel *c)
{
	bool mine = c->owner == cm_sys(SYS_getpid);

	if (!mine) {
		cm_sys(SYS_close, c->event_fd);
		cm_sys(SYS_close, c->timer_fd);
		c->event_fd = c->timer_fd = -1;
	}
	cm_id_each(c, mine ? destroy_one : forget_one, NULL);
	close_fds(c);
}

void cm_channel_watch(struct cm_channel *c, struct cm_id *id)
{
	if (!id->watched)
		id->watched = !control(c, EPOLL_CTL_ADD, id->sock, id->handle);
}

/* A forked child may have the socket too: it then stays in the epoll instance after a close. */
void cm_channel_unwatch(struct cm_id *id)
{
	if (id->watched)
		control(id->channel, EPOLL_CTL_DEL, id->sock, 0);
	id->watched = false;
}

/* The eventfd is readable while an event is queued. */
void cm_channel_signal(struct cm_channel *c)
{
	uint64_t n = 1;

	if (c->first)
		cm_sys(SYS_write, c->event_fd, &n, sizeof(n));
	else
		cm_sys(SYS_read, c->event_fd, &n, sizeof(n));
}

static void find_earliest(struct cm_id *id, void *p)
{
	uint64_t *earliest = p;

	if (id->deadline && (!*earliest || id->deadline < *earliest))
		*earliest = id->deadline;
}

void cm_channel_set_timer(struct cm_channel *c)
{
	struct itimerspec when = {0};
	uint64_t earliest = 0;

	cm_id_each(c, find_earliest, &earliest);
	when.it_value.tv_sec = (time_t)(earliest / 1000000000);
	when.it_value.tv_nsec = (long)(earliest % 1000000000);
	cm_sys(SYS_timerfd_settime, c->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void expire(struct cm_id *id, void *p)
{
	const uint64_t *now = p;

	if (id->deadline && id->deadline <= *now) {
		id->deadline = 0;
		cm_timer_expired(id);
	}
}

#define READY 64

static long wait_for_nothing(struct cm_channel *c, struct epoll_event *ready)
{
	return cm_sys(SYS_epoll_pwait, c->fd, ready, READY, 0, NULL, 8);
}

static struct cm_id *id_of_ready(const struct cm_channel *c, const struct epoll_event *ready)
{
	struct cm_id *id = ready->data.u64 < EVENT_FD ? cm_id_find((uint32_t)ready->data.u64) : NULL;

	return id && id->channel == c ? id : NULL;
}

/* Their requests are then messages as all others.  Returns whether there were any. */
static bool take_connections(struct cm_channel *c, const struct epoll_event *ready, long n)
{
	bool any = false;

	for (long i = 0; i < n; i++) {
		struct cm_id *id = id_of_ready(c, &ready[i]);

		if (id && id->state == CM_LISTENING) {
			cm_take_connections(id);
			any = true;
		}
	}
	return any;
}

/* Messages become events in the order in which they were sent, whatever connections they are of. */
static void receive_earliest(struct cm_channel *c, const struct epoll_event *ready, long n)
{
	struct cm_id *earliest = NULL;
	uint64_t least = 0;

	for (long i = 0; i < n; i++) {
		struct cm_id *id = id_of_ready(c, &ready[i]);
		uint64_t sent;

		if (!id || id->state == CM_LISTENING)
			continue;
		sent = cm_next_sent(id);
		if (!earliest || sent < least) {
			earliest = id;
			least = sent;
		}
	}
	if (earliest)
		cm_receive_one(earliest);
}

/* Makes events of what happened. Returns false if nothing did. */
static bool look(struct cm_channel *c)
{
	struct epoll_event ready[READY];
	long n = wait_for_nothing(c, ready);
	uint64_t now = cm_now();

	if (take_connections(c, ready, n))
		n = wait_for_nothing(c, ready);
	for (long i = 0; i < n; i++) {
		if (ready[i].data.u64 == EVENT_FD)
			cm_channel_signal(c);
		if (ready[i].data.u64 == TIMER_FD) {
			cm_id_each(c, expire, &now);
			cm_channel_set_timer(c);
		}
	}
	receive_earliest(c, ready, n);
	return n > 0;
}

/* Would the kernel interrupt a call that may be restarted? It does not say which signal came. */
static bool has_interrupting_handler(void)
{
	for (long n = 1; n < 65; n++) {
		/* The kernel's struct sigaction. */
		struct {
			void (*handler)(int);
			unsigned long flags;
			void *restorer;
			uint64_t mask;
		} action = {0};

		if (!cm_sys(SYS_rt_sigaction, n, NULL, &action, 8l) && action.handler != SIG_DFL &&
		    action.handler != SIG_IGN && !(action.flags & SA_RESTART))
			return true;
	}
	return false;
}

/* Without the lock. As in the kernel's write(), a thread may be cancelled here. */
static int wait_for_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int type;
	long n;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	n = cm_sys(SYS_ppoll, &p, 1, NULL, NULL, 8l);
	pthread_setcanceltype(type, NULL);
	if (n == -EINTR && !has_interrupting_handler())
		return 0;
	return n < 0 ? (int)n : 0;
}

struct cm_event *cm_channel_take_event(int fd, struct cm_channel **channel, int *error)
{
	struct cm_channel *c = *channel;
	struct cm_event *e;

	*error = 0;
	while (!c->first) {
		if (look(c))
			continue;
		if (cm_sys(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK) {
			*error = -EAGAIN;
			return NULL;
		}
		cm_unlock();
		*error = wait_for_readable(fd);
		cm_lock();
		*channel = c = cm_channel_find(fd);
		if (!c)
			*error = -EBADF;
		if (*error)
			return NULL;
	}
	e = c->first;
	c->first = e->next;
	if (!c->first) {
		c->last = &c->first;
		cm_channel_signal(c);
	}
	return e;
}
