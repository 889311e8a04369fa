/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/process/tracing.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

/* Of Linux 6.3; as PTRACE_GET_SYSCALL_INFO. */
#define GET_RSEQ_CONFIGURATION 0x420f

/* A result may be larger than what the program had room for. */
static size_t limited(long result, uint64_t room)
{
	return (uint64_t)result < room ? (size_t)result : (size_t)room;
}

size_t sr_ptrace_answer(uint64_t request, uint64_t address, const void *data, long result)
{
	switch (request) {
	case PTRACE_PEEKTEXT:
	case PTRACE_PEEKDATA:
	case PTRACE_PEEKUSER:
	case PTRACE_GETEVENTMSG:
		return sizeof(long);
	case PTRACE_GETREGS:
		return sizeof(struct user_regs_struct);
	case PTRACE_GETFPREGS:
		return sizeof(struct user_fpregs_struct);
	case PTRACE_GETREGSET:
		return sizeof(struct iovec);
	case PTRACE_GETSIGINFO:
		return sizeof(siginfo_t);
	case PTRACE_PEEKSIGINFO:
		return (size_t)result * sizeof(siginfo_t);
	case PTRACE_GETSIGMASK:
		return (size_t)address;
	case PTRACE_GET_SYSCALL_INFO:
	case GET_RSEQ_CONFIGURATION:
		return limited(result, address);
	case PTRACE_SECCOMP_GET_FILTER:
		return data ? (size_t)result * 8 : 0;
	default:
		return 0;
	}
}

void *sr_ptrace_registers(uint64_t request, const void *data)
{
	return request == PTRACE_GETREGSET ? ((const struct iovec *)data)->iov_base : NULL;
}

size_t sr_ptrace_register_bytes(uint64_t request, const void *data)
{
	return request == PTRACE_GETREGSET ? ((const struct iovec *)data)->iov_len : 0;
}
