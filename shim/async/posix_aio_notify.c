/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/async/posix_aio.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct sr_aio_list {
	int left;
	struct sigevent event;
};

struct event_function {
	void (*function)(union sigval value);
	union sigval value;
};

static void *call_function(void *argument)
{
	const struct event_function event = *(struct event_function *)argument;
	sigset_t none;

	free(argument);
	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	event.function(event.value);
	return NULL;
}

static void begin_thread(const struct sigevent *event)
{
	/* The program's heap: the thread's argument is compared. */
	struct event_function *f = malloc(sizeof(*f));
	pthread_attr_t detached;
	pthread_t thread;

	if (!f)
		return;
	*f = (struct event_function){event->sigev_notify_function, event->sigev_value};
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, event->sigev_notify_attributes ? event->sigev_notify_attributes : &detached, call_function, f))
		free(f);
	pthread_attr_destroy(&detached);
}

static void send_signal(const struct sigevent *event)
{
	siginfo_t info = {.si_signo = event->sigev_signo, .si_code = SI_ASYNCIO};

	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value = event->sigev_value;
	syscall(SYS_rt_sigqueueinfo, info.si_pid, event->sigev_signo, &info);
}

void sr_aio_notify(const struct sigevent *event)
{
	if (event->sigev_notify == SIGEV_THREAD)
		begin_thread(event);
	else if (event->sigev_notify == SIGEV_SIGNAL)
		send_signal(event);
}

/* -------------------------------------------------------------------- lists */

struct sr_aio_list *sr_aio_list_new(const struct sigevent *event)
{
	struct sr_aio_list *list = malloc(sizeof(*list));

	if (list)
		*list = (struct sr_aio_list){.left = 1, .event = *event};
	return list;
}

void sr_aio_list_grows(struct sr_aio_list *list)
{
	list->left++;
}

void sr_aio_list_ends(struct sr_aio_list *list)
{
	if (--list->left)
		return;
	sr_aio_notify(&list->event);
	free(list);
}
