/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/start/answer.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

bool sr_traced_stops(pid_t child, int *status)
{
	siginfo_t info = {0};

	while (waitid(P_PID, (id_t)child, &info, WEXITED | WSTOPPED | WNOWAIT))
		if (errno != EINTR)
			return false;
	if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED)
		return false;
	return waitpid(child, status, WUNTRACED) == child && WIFSTOPPED(*status);
}

#if defined(__x86_64__)

static bool answer(pid_t child, int memory, const struct sr_processor *recorded,
		   const struct sr_processor *here)
{
	struct user_regs_struct regs;
	uint32_t reg[4];
	uint8_t code[2];

	if (ptrace(PTRACE_GETREGS, child, NULL, &regs) ||
	    pread(memory, code, sizeof(code), (off_t)regs.rip) != sizeof(code) || code[0] != 0x0f ||
	    code[1] != 0xa2)
		return false;
	sr_processor_ask_for_libc(recorded, here, (uint32_t)regs.rax, (uint32_t)regs.rcx, reg);
	regs.rax = reg[0];
	regs.rbx = reg[1];
	regs.rcx = reg[2];
	regs.rdx = reg[3];
	regs.rip += sizeof(code);
	return !ptrace(PTRACE_SETREGS, child, NULL, &regs);
}

void sr_answer_cpuid(pid_t child, int memory, const struct sr_processor *recorded)
{
	static struct sr_processor here;
	int status, signo = 0;

	sr_processor_read(&here);
	while (!ptrace(PTRACE_CONT, child, NULL, signo) && sr_traced_stops(child, &status)) {
		signo = WSTOPSIG(status);
		if (signo == SIGSTOP)
			return;
		if (status >> 16 || (signo == SIGSEGV && answer(child, memory, recorded, &here)))
			signo = 0;
	}
}

#else

void sr_answer_cpuid(pid_t child, int memory, const struct sr_processor *recorded)
{
}

#endif
