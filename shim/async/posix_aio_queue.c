/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/async/posix_aio.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "shim/core/call.h"
#include "shim/core/hooks.h"

/* As in libc: so many threads, and so long they wait for another request. */
#define THREADS   20
#define IDLE_TIME 1
/* Of a thread: the program runs nothing on it. */
#define STACK_SIZE (256 << 10)

struct waiting_request {
	struct waiting_request *next;
	struct aiocb *request;
	int fd, operation, priority;
	bool is_served;
	struct sr_aio_list *list;
};

struct waiter {
	struct waiter *next;
	sem_t ended;
};

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t more;
	long process;                  /* whose threads these are: a forked child has none at first */
	struct waiting_request *first; /* in the order in which they are served */
	struct waiter *waiters;        /* each is woken by each request that ends */
	int threads, idle, most;
} queue = {.mutex = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .most = THREADS};

/* What the parent's threads serve is the parent's. */
static void begin_in_child(void)
{
	queue.process = sr_sys_getpid();
	queue.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	queue.more = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	queue.first = NULL;
	queue.waiters = NULL;
	queue.threads = queue.idle = 0;
}

void sr_aio_lock(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, before);
	if (queue.process != sr_sys_getpid())
		begin_in_child();
	pthread_mutex_lock(&queue.mutex);
}

void sr_aio_unlock(const sigset_t *before)
{
	pthread_mutex_unlock(&queue.mutex);
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

void sr_aio_set_threads(int n)
{
	queue.most = n > 0 ? n : 1;
}

/* ----------------------------------------------------------------------- ends */

static void set_state(struct aiocb *request, int error, ssize_t result)
{
	request->__return_value = result;
	__atomic_store_n(&request->__error_code, error, __ATOMIC_RELEASE);
}

/* The call aio_ended: a thread that finds the state has a later place in the order. */
uint64_t sr_invoke_aio_ended(const struct sr_call_desc *d, uint64_t *a)
{
	set_state((struct aiocb *)a[0], (int)a[1], (ssize_t)a[2]);
	return 0;
}

void sr_replayed_aio_ended(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	sr_invoke_aio_ended(d, a);
}

static void take_out(struct waiting_request *w)
{
	struct waiting_request **at = &queue.first;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
}

/* The program may use the request again, or free it, as soon as it sees the state. */
static void end_request(struct waiting_request *w, int error, ssize_t result)
{
	const struct sigevent event = w->request->aio_sigevent;
	uint64_t words[] = {(uintptr_t)w->request, (uint64_t)error, (uint64_t)result};

	take_out(w);
	sr_call(SR_CALL_aio_ended, words, (void *)end_request);
	sr_aio_notify(&event);
	if (w->list)
		sr_aio_list_ends(w->list);
	for (struct waiter *waiter = queue.waiters; waiter; waiter = waiter->next)
		sem_post(&waiter->ended);
	free(w);
}

/* -------------------------------------------------------------------- threads */

static ssize_t transfer(const struct aiocb *r, int operation)
{
	void *const buf = (void *)r->aio_buf;
	ssize_t n;

	switch (operation) {
	case LIO_READ:
		n = pread(r->aio_fildes, buf, r->aio_nbytes, r->aio_offset);
		return n < 0 && errno == ESPIPE ? read(r->aio_fildes, buf, r->aio_nbytes) : n;
	case LIO_WRITE:
		n = pwrite(r->aio_fildes, buf, r->aio_nbytes, r->aio_offset);
		return n < 0 && errno == ESPIPE ? write(r->aio_fildes, buf, r->aio_nbytes) : n;
	case SR_AIO_SYNC:
		return fsync(r->aio_fildes);
	case SR_AIO_DSYNC:
		return fdatasync(r->aio_fildes);
	default:
		errno = EINVAL;
		return -1;
	}
}

/* One thread at a time serves a descriptor, so that its requests are served in their order. */
static bool is_fd_served(int fd)
{
	for (const struct waiting_request *w = queue.first; w; w = w->next)
		if (w->is_served && w->fd == fd)
			return true;
	return false;
}

static struct waiting_request *next_to_serve(void)
{
	for (struct waiting_request *w = queue.first; w; w = w->next)
		if (!w->is_served && !is_fd_served(w->fd))
			return w;
	return NULL;
}

static void serve(struct waiting_request *w)
{
	ssize_t result;
	int error;

	w->is_served = true;
	pthread_mutex_unlock(&queue.mutex);
	result = transfer(w->request, w->operation);
	error = result < 0 ? errno : 0;
	pthread_mutex_lock(&queue.mutex);
	end_request(w, error, result);
}

/* False: none came. */
static bool wait_for_more(void)
{
	struct timespec until;
	int err;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += IDLE_TIME;
	queue.idle++;
	err = pthread_cond_timedwait(&queue.more, &queue.mutex, &until);
	queue.idle--;
	return err != ETIMEDOUT;
}

static void *serve_all(void *unused)
{
	struct waiting_request *w;

	pthread_mutex_lock(&queue.mutex);
	while ((w = next_to_serve()) || wait_for_more())
		if (w)
			serve(w);
	queue.threads--;
	pthread_mutex_unlock(&queue.mutex);
	return NULL;
}

/* With signals blocked, as the thread is to have them. */
static int begin_thread(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int err;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	err = pthread_create(&thread, &attributes, serve_all, NULL);
	pthread_attr_destroy(&attributes);
	if (!err)
		queue.threads++;
	return err;
}

/* ------------------------------------------------------------------- requests */

/* Behind those of its priority and of higher ones; what has to be on disk by a sync is what was there before it. */
static void put_into_queue(struct waiting_request *new)
{
	struct waiting_request **at = &queue.first;

	while (*at && ((*at)->is_served || (*at)->priority >= new->priority || new->operation >= SR_AIO_SYNC))
		at = &(*at)->next;
	new->next = *at;
	*at = new;
}

static int refuse(struct aiocb *request, int error)
{
	set_state(request, error, -1);
	return error;
}

int sr_aio_begin(struct aiocb *request, int operation, struct sr_aio_list *list)
{
	struct waiting_request *w;

	if (operation < SR_AIO_SYNC && (request->aio_reqprio < 0 || request->aio_reqprio > AIO_PRIO_DELTA_MAX))
		return refuse(request, EINVAL);
	w = malloc(sizeof(*w));
	if (!w || (!queue.idle && queue.threads < queue.most && begin_thread() && !queue.threads)) {
		free(w);
		return refuse(request, EAGAIN);
	}
	*w = (struct waiting_request){.request = request, .fd = request->aio_fildes, .operation = operation, .list = list};
	if (operation < SR_AIO_SYNC)
		w->priority = -request->aio_reqprio;
	set_state(request, EINPROGRESS, 0);
	put_into_queue(w);
	if (list)
		sr_aio_list_grows(list);
	pthread_cond_signal(&queue.more);
	return 0;
}

int sr_aio_cancel_waiting(int fd, struct aiocb *request)
{
	struct waiting_request *w, *next;
	int found = AIO_ALLDONE;

	for (w = queue.first; w; w = next) {
		next = w->next;
		if (w->fd != fd || (request && w->request != request))
			continue;
		if (w->is_served) {
			found = AIO_NOTCANCELED;
			continue;
		}
		end_request(w, ECANCELED, -1);
		if (found == AIO_ALLDONE)
			found = AIO_CANCELED;
	}
	return found;
}

/* ----------------------------------------------------------------------- waits */

static bool have_ended(struct aiocb *const requests[], int n, bool all)
{
	bool one = false;

	for (int i = 0; i < n; i++) {
		if (!requests[i])
			continue;
		if (requests[i]->__error_code != EINPROGRESS)
			one = true;
		else if (all)
			return false;
	}
	return all || one;
}

static void leave(void *argument)
{
	struct waiter *waiter = argument, **at = &queue.waiters;

	while (*at != waiter)
		at = &(*at)->next;
	*at = waiter->next;
}

/* The thread is cancelled while the queue is unlocked. */
static void leave_cancelled(void *waiter)
{
	sigset_t before;

	sr_aio_lock(&before);
	leave(waiter);
	sr_aio_unlock(&before);
}

static int sleep_once(struct waiter *waiter, const struct timespec *until, const sigset_t *before)
{
	sigset_t unused;
	int err;

	sr_aio_unlock(before);
	pthread_cleanup_push(leave_cancelled, waiter);
	err = until ? sem_clockwait(&waiter->ended, CLOCK_MONOTONIC, until) : sem_wait(&waiter->ended);
	err = err ? errno : 0;
	pthread_cleanup_pop(0);
	sr_aio_lock(&unused);
	return err == ETIMEDOUT ? EAGAIN : err;
}

int sr_aio_wait(struct aiocb *const requests[], int n, bool all, const struct timespec *until, const sigset_t *before)
{
	struct waiter waiter = {.next = queue.waiters};
	int err = 0;

	if (have_ended(requests, n, all))
		return 0;
	sem_init(&waiter.ended, 0, 0);
	queue.waiters = &waiter;
	while (!err && !have_ended(requests, n, all))
		err = sleep_once(&waiter, until, before);
	leave(&waiter);
	sem_destroy(&waiter.ended);
	return err;
}
