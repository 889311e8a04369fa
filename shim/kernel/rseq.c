/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/kernel/rseq.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/rseq.h>

#include "logd/base/rawsys.h"

/* What glibc registers. */
#define REGISTERED_BYTES 32

/* A constant of ld.so's, in memory that only the kernel still writes. */
static void say_there_is_none(void)
{
	const unsigned int none = 0;
	long memory = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG("/proc/self/mem"), O_RDWR | O_CLOEXEC, 0, 0, 0);

	if (memory < 0)
		return;
	sr_syscall(SYS_pwrite64, memory, SR_ARG(&none), sizeof(none), SR_ARG(&__rseq_size), 0, 0);
	sr_sys_close((int)memory);
}

void sr_rseq_hide(void)
{
	struct rseq *area = (void *)((uintptr_t)__builtin_thread_pointer() + (uintptr_t)__rseq_offset);

	if (!__rseq_size || sr_syscall(SYS_rseq, SR_ARG(area), REGISTERED_BYTES, RSEQ_FLAG_UNREGISTER, RSEQ_SIG, 0, 0))
		return;
	*(volatile uint32_t *)&area->cpu_id = (uint32_t)RSEQ_CPU_ID_REGISTRATION_FAILED;
	say_there_is_none();
}
