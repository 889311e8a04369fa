/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cpu_share.h: does the calling thread have to share its CPU?
 *
 * The kernel counts how long a thread has run, and how long it could have run and waited for a CPU.
 */
#ifndef LOGD_WRITER_CPU_SHARE_H
#define LOGD_WRITER_CPU_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* One thread's. */
struct cpu_share {
	int fd; /* of its schedstat */
	uint64_t ran, waited; /* ns, when it was last judged */
	bool is_short;
};

/* Call it in the thread. */
void cpu_share_begin(struct cpu_share *s);
void cpu_share_end(struct cpu_share *s);

/* Has it lately waited longer than it ran?  False where the kernel does not tell. */
bool cpu_share_is_short(struct cpu_share *s);

#endif
