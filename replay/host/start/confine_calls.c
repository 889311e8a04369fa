/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/start/confine_calls.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Calls that the system headers may not name yet. */
#define CALL_FCHMODAT2   452
#define CALL_SETXATTRAT  463
#define CALL_REMOVEXATTRAT 466
#define CALL_FILE_SETATTR 469

/* The other kinds of system calls of this processor: x32. */
#define X32_BIT 0x40000000

static const uint16_t denied[] = {
    /* the network, and whoever listens at a path */
    SYS_socket, SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_sendmmsg,
    /* calls that make others, past this filter */
    SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
    /* other processes */
    SYS_ptrace, SYS_process_vm_writev, SYS_pidfd_getfd, SYS_pidfd_send_signal, SYS_tkill,
    SYS_process_madvise, SYS_move_pages, SYS_migrate_pages, SYS_kcmp, SYS_setpriority,
    SYS_ioprio_set, SYS_setpgid, SYS_setns, SYS_unshare,
    /* memory and queues that others share by a number or a name */
    SYS_shmget, SYS_shmat, SYS_shmctl, SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl,
    SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_mq_open, SYS_mq_unlink, SYS_keyctl,
    SYS_add_key, SYS_request_key,
    /* what Landlock leaves: modes, owners, times, attributes */
    SYS_chmod, SYS_fchmod, SYS_fchmodat, CALL_FCHMODAT2, SYS_chown, SYS_fchown, SYS_lchown,
    SYS_fchownat, SYS_utime, SYS_utimes, SYS_futimesat, SYS_utimensat, SYS_setxattr, SYS_lsetxattr,
    SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, CALL_SETXATTRAT,
    CALL_REMOVEXATTRAT, CALL_FILE_SETATTR, SYS_fanotify_init, SYS_open_by_handle_at,
    /* the machine */
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_move_mount, SYS_open_tree, SYS_fsopen,
    SYS_fsmount, SYS_fsconfig, SYS_fspick, SYS_mount_setattr, SYS_swapon, SYS_swapoff, SYS_reboot,
    SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_kexec_file_load,
    SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_iopl, SYS_ioperm, SYS_quotactl,
    SYS_quotactl_fd, SYS_acct, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex,
    SYS_clock_adjtime, SYS_sethostname, SYS_setdomainname, SYS_syslog, SYS_vhangup,
    SYS_modify_ldt, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid,
    SYS_setresgid, SYS_setgroups, SYS_setfsuid, SYS_setfsgid, SYS_capset,
};

/* Calls that are for this process alone: the argument is its number, or 0. */
static const struct {
	uint16_t call, argument;
} own_only[] = {
    {SYS_kill, 0},	      {SYS_tgkill, 0},		{SYS_rt_sigqueueinfo, 0},
    {SYS_rt_tgsigqueueinfo, 0}, {SYS_process_vm_readv, 0}, {SYS_prlimit64, 0},
    {SYS_sched_setaffinity, 0}, {SYS_sched_setscheduler, 0},
};

/* Requests by which a terminal gets input, as if it was typed. */
static const uint32_t terminal_requests[] = {TIOCSTI, 0x541c /* TIOCLINUX */};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define FIELD(name)  ((uint32_t)offsetof(struct seccomp_data, name))
#define LOW(n)	     (FIELD(args) + 8 * (n))

struct program {
	struct sock_filter at[512];
	unsigned short n;
};

static void add(struct program *p, struct sock_filter f)
{
	p->at[p->n++] = f;
}

static void load(struct program *p, uint32_t offset)
{
	add(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

static void answer(struct program *p, uint32_t what)
{
	add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

#define DENY  (SECCOMP_RET_ERRNO | EPERM)
#define ALLOW SECCOMP_RET_ALLOW

/* If the loaded word is not k, goes on behind the next `skip` instructions. */
static void unless(struct program *p, uint32_t k, uint8_t skip)
{
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, skip));
}

static void deny(struct program *p, uint32_t call)
{
	unless(p, call, 1);
	answer(p, DENY);
}

/* The number of a process is an int: the upper half of the register does not count. */
static void deny_of_others(struct program *p, uint32_t call, unsigned int argument, uint32_t self)
{
	unless(p, call, 6);
	load(p, LOW(argument));
	unless(p, self, 1);
	answer(p, ALLOW);
	unless(p, 0, 1);
	answer(p, call == SYS_kill ? DENY : ALLOW); /* kill: 0 is the process group */
	answer(p, DENY);
}

static void deny_requests(struct program *p)
{
	unless(p, SYS_ioctl, 2 + 2 * (uint8_t)COUNT(terminal_requests));
	load(p, LOW(1));
	for (size_t i = 0; i < COUNT(terminal_requests); i++)
		deny(p, terminal_requests[i]);
	answer(p, ALLOW);
}

static void write_program(struct program *p, uint32_t self)
{
	load(p, FIELD(arch));
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
	answer(p, SECCOMP_RET_KILL_PROCESS);
	load(p, FIELD(nr));
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1));
	answer(p, SECCOMP_RET_ERRNO | ENOSYS);
	for (size_t i = 0; i < COUNT(denied); i++)
		deny(p, denied[i]);
	for (size_t i = 0; i < COUNT(own_only); i++)
		deny_of_others(p, own_only[i].call, own_only[i].argument, self);
	deny_requests(p);
	answer(p, ALLOW);
}

bool sr_confine_calls(void)
{
	static struct program p;
	struct sock_fprog program;

	p.n = 0;
	write_program(&p, (uint32_t)getpid());
	program = (struct sock_fprog){.len = p.n, .filter = p.at};
	return !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}
