/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/calls/trap/filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "shim/kernel/readable.h"

/* What the recorder calls in the program's threads, once it records. */
static const uint16_t needed[] = {
    SYS_read,	       SYS_write,     SYS_close,      SYS_fcntl,	SYS_openat,
    SYS_readlinkat,    SYS_statx,     SYS_fstatfs,    SYS_mmap,		SYS_munmap,
    SYS_mprotect,      SYS_madvise,   SYS_futex,      SYS_membarrier,	SYS_nanosleep,
    SYS_clock_gettime, SYS_getpid,    SYS_gettid,     SYS_tgkill,	SYS_socket,
    SYS_connect,       SYS_sendmsg,   SYS_recvmsg,    SYS_getsockopt,	SYS_ppoll,
    SYS_rt_sigreturn,  SYS_sigaltstack, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_prctl,
    SYS_prlimit64,     SYS_memfd_create, SYS_sendfile,   SYS_newfstatat,     SYS_fstat,
};

/* The registers of a classic BPF program. */
struct machine {
	uint32_t a, x, memory[BPF_MEMWORDS];
};

static uint32_t compute(uint16_t code, uint32_t a, uint32_t b)
{
	switch (BPF_OP(code)) {
	case BPF_ADD:
		return a + b;
	case BPF_SUB:
		return a - b;
	case BPF_MUL:
		return a * b;
	case BPF_DIV:
		return b ? a / b : 0;
	case BPF_AND:
		return a & b;
	case BPF_OR:
		return a | b;
	case BPF_XOR:
		return a ^ b;
	case BPF_LSH:
		return b < 32 ? a << b : 0;
	case BPF_RSH:
		return b < 32 ? a >> b : 0;
	default:
		return -a; /* BPF_NEG */
	}
}

static bool compare(uint16_t code, uint32_t a, uint32_t b)
{
	switch (BPF_OP(code)) {
	case BPF_JEQ:
		return a == b;
	case BPF_JGT:
		return a > b;
	case BPF_JGE:
		return a >= b;
	default:
		return a & b; /* BPF_JSET */
	}
}

static uint32_t load(const struct machine *m, const struct sock_filter *f,
		     const struct seccomp_data *d)
{
	uint32_t word = 0;

	switch (BPF_MODE(f->code)) {
	case BPF_ABS:
		if (f->k <= sizeof(*d) - sizeof(word))
			memcpy(&word, (const char *)d + f->k, sizeof(word));
		return word;
	case BPF_MEM:
		return m->memory[f->k % BPF_MEMWORDS];
	case BPF_LEN:
		return sizeof(*d);
	default:
		return f->k; /* BPF_IMM */
	}
}

/* What a filter answers; a program that the kernel would refuse may get any answer. */
static uint32_t run(const struct sock_fprog *p, const struct seccomp_data *d)
{
	struct machine m = {0};

	for (uint32_t at = 0; at < p->len; at++) {
		const struct sock_filter *f = &p->filter[at];
		uint32_t operand = BPF_SRC(f->code) == BPF_X ? m.x : f->k;

		switch (BPF_CLASS(f->code)) {
		case BPF_LD:
			m.a = load(&m, f, d);
			break;
		case BPF_LDX:
			m.x = load(&m, f, d);
			break;
		case BPF_ST:
			m.memory[f->k % BPF_MEMWORDS] = m.a;
			break;
		case BPF_STX:
			m.memory[f->k % BPF_MEMWORDS] = m.x;
			break;
		case BPF_ALU:
			m.a = compute(f->code, m.a, operand);
			break;
		case BPF_JMP:
			if (BPF_OP(f->code) == BPF_JA)
				at += f->k;
			else
				at += compare(f->code, m.a, operand) ? f->jt : f->jf;
			break;
		case BPF_RET:
			return BPF_RVAL(f->code) == BPF_A ? m.a : f->k;
		default: /* BPF_MISC */
			if (BPF_MISCOP(f->code) == BPF_TAX)
				m.x = m.a;
			else
				m.a = m.x;
		}
	}
	return SECCOMP_RET_ALLOW;
}

bool sr_filter_forbids(const void *program)
{
	struct seccomp_data d = {.arch = AUDIT_ARCH_X86_64};
	struct sock_fprog p;
	uint32_t action;

	if (!sr_is_readable(program, sizeof(p)))
		return false;
	memcpy(&p, program, sizeof(p));
	if (!p.len || !sr_is_readable(p.filter, p.len * sizeof(*p.filter)))
		return false;
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		d.nr = needed[i];
		action = run(&p, &d) & SECCOMP_RET_ACTION_FULL;
		if (action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_LOG)
			return true;
	}
	return false;
}
