/* SPDX-License-Identifier: BSD-2-Clause */
/* unrecorded.h: threads that do not come from pthread_create. */
#ifndef SHIM_THREADS_UNRECORDED_H
#define SHIM_THREADS_UNRECORDED_H

enum sr_unrecorded {
	SR_UNRECORDED_CLONE, /* by clone(2) itself: by the program, or by libc for getaddrinfo_a(3) */
	SR_UNRECORDED_EVENT, /* by libc, for events with SIGEV_THREAD (sigevent(7)) */
};

/* Such a thread is about to be made.  Says so once for each kind, and in the verdict of a replay.  Any thread. */
void sr_thread_is_unrecorded(enum sr_unrecorded why);

#endif
