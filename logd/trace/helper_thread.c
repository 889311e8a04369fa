/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/helper_thread.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

bool sr_helper_thread_start(void *(*run)(void *))
{
	sigset_t all, before;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	err = pthread_create(&thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!err)
		pthread_detach(thread);
	return !err;
}
