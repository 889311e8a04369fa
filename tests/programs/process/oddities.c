/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * oddities.c: what programs do to terminals, descriptors and processes past the usual functions.
 *
 *	oddities CASE OUTPUT     prints into the file OUTPUT; without arguments: names the cases
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mqueue.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/sched.h>

static FILE *out;

static void on_terminal(int fd)
{
	struct termios settings;
	struct winsize size;
	int queued = -1;

	fprintf(out, "%d: group %d session %d terminal %d %s\n", fd, tcgetpgrp(fd) == getpgrp(),
		tcgetsid(fd) == getsid(0), isatty(fd), isatty(fd) ? ttyname(fd) : "-");
	fprintf(out, "size %d settings %d queued %d %d", ioctl(fd, TIOCGWINSZ, &size),
		tcgetattr(fd, &settings), ioctl(fd, TIOCOUTQ, &queued), queued);
	fprintf(out, " set %d", tcsetpgrp(fd, getpgrp()));
	fprintf(out, " flush %d\n", tcflush(fd, TCIOFLUSH));
}

/* Each of its descriptors, and copies of them. */
static void terminal(void)
{
	on_terminal(0);
	on_terminal(2);
	on_terminal(dup(2));
	on_terminal(fcntl(1, F_DUPFD, 40));
}

static void session(void)
{
	fprintf(out, "%d", setpgid(0, 0));
	fprintf(out, " %d", setsid() == getpid());
	fprintf(out, " %d %d\n", getsid(0) == getpid(), getpgrp() == getpid());
}

static void popen_writes(void)
{
	FILE *child = popen("cat >/dev/null; exit 3", "w");

	fprintf(child, "hello\n");
	fprintf(out, "wrote: %x\n", pclose(child));
}

static void popen_reads(void)
{
	FILE *child = popen("date +%N; exit 4", "r");
	char line[64] = "";

	fgets(line, sizeof(line), child);
	fprintf(out, "read: %s", line);
	fprintf(out, "status: %x\n", pclose(child));
}

/* Processes made by the system call itself. */
static void raw_processes(void)
{
	int status = 0;
	pid_t child = (pid_t)syscall(SYS_fork);

	if (!child)
		_exit(getpid() % 100);
	fprintf(out, "%d %d", child, (int)syscall(SYS_wait4, child, &status, 0, NULL) == child);
	fprintf(out, " %x\n", status);
}

static int thread_id;

static int raw_body(void *unused)
{
	syscall(SYS_exit, 0);
	return 0;
}

static void raw_thread(void)
{
	char *stack = malloc(65536);

	clone(raw_body, stack + 65536,
	      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
		  CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID,
	      NULL, &thread_id, NULL, &thread_id);
	while (__atomic_load_n(&thread_id, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &thread_id, FUTEX_WAIT, thread_id, NULL, NULL, 0);
	fprintf(out, "it ended\n");
}

static sem_t told;

static void tell(union sigval value)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	fprintf(out, "told %d at %ld by %d\n", value.sival_int, now.tv_nsec, (int)gettid());
	sem_post(&told);
}

/* A thread for each expiry. */
static void event_thread(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = tell, .sigev_value.sival_int = 4711};
	struct itimerspec soon = {.it_value.tv_nsec = 1000000, .it_interval.tv_nsec = 1000000};
	timer_t timer;

	sem_init(&told, 0, 0);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &soon, NULL);
	for (int i = 0; i < 5; i++)
		sem_wait(&told);
	fprintf(out, "deleted: %d\n", timer_delete(timer));
	usleep(20000);
}

/* A child that is waited for by a descriptor, which comes with it. */
static void child_by_descriptor(void)
{
	int descriptor = -1, number = -1;
	struct clone_args args = {.flags = CLONE_PIDFD | CLONE_PARENT_SETTID, .exit_signal = SIGCHLD, .pidfd = (uintptr_t)&descriptor,
				  .parent_tid = (uintptr_t)&number};
	siginfo_t info = {0};
	struct pollfd ends;
	long child = syscall(SYS_clone3, &args, sizeof(args));

	if (!child)
		_exit(9);
	ends = (struct pollfd){.fd = descriptor, .events = POLLIN};
	fprintf(out, "child %ld %d by %d, ends: %d", child, number, descriptor, poll(&ends, 1, 10000));
	fprintf(out, ", %d", waitid(P_PIDFD, (id_t)descriptor, &info, WEXITED));
	fprintf(out, ", status %d\n", info.si_status);
	close(descriptor);
}

/* libc makes one for a message. */
static void queue_thread(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = tell};
	char name[64];
	mqd_t queue;

	sem_init(&told, 0, 0);
	snprintf(name, sizeof(name), "/oddities-%d", (int)getpid());
	queue = mq_open(name, O_CREAT | O_RDWR, 0600, NULL);
	fprintf(out, "notified: %d\n", mq_notify(queue, &event));
	mq_unlink(name);
}

/* What control calls of System V's queues and semaphores write, and the kernel's clock. */
static void queues(void)
{
	unsigned short values[3] = {1, 2, 3}, found[3] = {0};
	int queue = msgget(IPC_PRIVATE, 0600), set = semget(IPC_PRIVATE, 3, 0600);
	struct timex clock = {.modes = 0};
	struct msqid_ds of_queue;
	struct semid_ds of_set;

	msgctl(queue, IPC_STAT, &of_queue);
	semctl(set, 0, SETALL, values);
	semctl(set, 0, GETALL, found);
	semctl(set, 0, IPC_STAT, &of_set);
	fprintf(out, "%ld %ld %hu %hu %hu\n", (long)of_queue.msg_ctime, (long)of_set.sem_ctime, found[0], found[1], found[2]);
	msgctl(queue, IPC_RMID, NULL);
	semctl(set, 0, IPC_RMID);
	adjtimex(&clock);
	fprintf(out, "%ld\n", (long)clock.time.tv_usec);
}

/* Code that is written at one place and executed at another one, as just-in-time compilers do. */
static void two_views(void)
{
	static const unsigned char returns_42[] = {0xb8, 42, 0, 0, 0, 0xc3};
	int fd = memfd_create("code", 0), file = open("/etc/passwd", O_RDONLY);
	char *text, *code, *written;

	ftruncate(fd, 8192);
	text = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
	code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	written = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memcpy(written, returns_42, sizeof(returns_42));
	fprintf(out, "%p %c %p %p %d\n", (void *)text, text[0], (void *)code, (void *)written, ((int (*)(void))(uintptr_t)code)());
	close(fd);
	close(file);
}

static void show(const char *what, long result)
{
	fprintf(out, "%s %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
}

/* What sreplay does not know writes to memory; the program looks at its result only. */
static void kernel_writes(void)
{
	char room[64];
	struct stat st;

	stat("/", &st);
	fprintf(out, "statistics: %ld\n", syscall(SYS_ustat, st.st_dev, room));
}

/* Old and rare calls that write to memory. */
static void old_entries(void)
{
	char room[4096];
	int fd = open("/", O_RDONLY | O_DIRECTORY);
	long n = syscall(SYS_getdents, fd, room, sizeof(room));

	/* A number and an offset of 8 bytes, a length of 2, the name. */
	fprintf(out, "%ld bytes: %.200s\n", n, room + 18);
	close(fd);
}

static void pipe_to_memory(void)
{
	char first[3] = "", second[40] = "";
	struct iovec room[] = {{first, 2}, {second, sizeof(second) - 1}};
	int p[2];

	pipe(p);
	dprintf(p[1], "%ld nanoseconds", clock());
	fprintf(out, "%zd:", vmsplice(p[0], room, 2, 0));
	fprintf(out, " %s%s\n", first, second);
}

/* Who gets the signals of a descriptor: not one of the replay's processes. */
static void owner(void)
{
	struct f_owner_ex now = {0};
	int fd = open("/dev/null", O_RDONLY);

	show("set", fcntl(fd, F_SETOWN, getpid()));
	show("get", fcntl(fd, F_GETOWN) == getpid());
	show("ask", fcntl(fd, F_GETOWN_EX, &now));
	fprintf(out, "%d %d\n", now.type, now.pid == getpid());
	show("group", fcntl(fd, F_SETOWN, -getpgrp()));
	close(fd);
}

/* What the kernel knows the thread by. */
static void thread_number(void)
{
	int *address = NULL;

	prctl(PR_GET_TID_ADDRESS, &address);
	show("same", address && syscall(SYS_set_tid_address, address) == gettid());
}

/* What it writes to its own memory by the kernel. */
static void own_memory(void)
{
	static char by_file[] = "old", by_call[] = "old";
	struct iovec new = {"NEW", 3}, old = {by_call, 3};
	int fd = open("/proc/self/mem", O_RDWR);

	show("file", pwrite(fd, "new", 3, (off_t)(uintptr_t)by_file));
	show("call", process_vm_writev(getpid(), &new, 1, &old, 1, 0));
	fprintf(out, "%s %s\n", by_file, by_call);
	close(fd);
}

/* As UCX 1.18 finds out whether it may read a peer's memory: what comes lies over the list that says where to. */
static void list_over_itself(void)
{
	struct iovec lists[2] = {{NULL, 1}, {NULL, 2}}, *list = &lists[0];
	struct iovec *nowhere = (struct iovec *)64;
	pid_t child = fork();

	if (!child)
		pause();
	*list = (struct iovec){list, sizeof(*list)};
	show("read", process_vm_readv(child, list, 1, list, 1, 0));
	show("place", list->iov_base == NULL);
	show("length", (long)list->iov_len);
	show("nowhere", process_vm_readv(child, nowhere, 1, nowhere, 1, 0));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* What a debugger reads of its program. */
static void traced_child(void)
{
	struct user_regs_struct all = {0}, part = {0};
	struct iovec room = {&part, sizeof(part)};
	siginfo_t why = {0};
	long word;
	int status;
	pid_t child = fork();

	if (!child) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGUSR1);
		_exit(7);
	}
	waitpid(child, &status, 0);
	fprintf(out, "stopped %d by %d\n", WIFSTOPPED(status), WSTOPSIG(status));
	show("registers", ptrace(PTRACE_GETREGS, child, NULL, &all));
	show("set", ptrace(PTRACE_GETREGSET, child, (void *)1 /* NT_PRSTATUS */, &room));
	show("reason", ptrace(PTRACE_GETSIGINFO, child, NULL, &why));
	word = ptrace(PTRACE_PEEKDATA, child, (void *)all.rsp, NULL);
	fprintf(out, "%d at %llx, %llx with %zu bytes: %lx\n", why.si_pid == child, all.rip, part.rsp, room.iov_len, word);
	show("goes on", ptrace(PTRACE_CONT, child, NULL, NULL));
	waitpid(child, &status, 0);
	fprintf(out, "ended with %d\n", WEXITSTATUS(status));
}

/* Some programs ask the kernel in this way whether there is memory. */
static void no_memory(void)
{
	void *volatile address = (void *)8; /* the compiler is not to see it */
	void *nowhere = address;
	struct iovec piece = {nowhere, 10};
	struct msghdr message = {.msg_iov = nowhere, .msg_iovlen = 1};
	int pipes[2], pair[2];

	show("pipe", pipe(pipes));
	show("pair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	show("open", open(nowhere, O_RDONLY));
	show("rename", rename(nowhere, nowhere));
	show("write", write(pipes[1], nowhere, 10));
	show("writev", writev(pipes[1], &piece, 1));
	show("writev", writev(pipes[1], nowhere, 3));
	show("poll", poll(nowhere, 2, 0));
	show("select", select(4, nowhere, NULL, NULL, NULL));
	show("connect", connect(pair[0], nowhere, 16));
	show("sendmsg", sendmsg(pair[0], nowhere, 0));
	show("sendmsg", sendmsg(pair[0], &message, 0));
	show("recvmsg", recvmsg(pair[0], nowhere, MSG_DONTWAIT));
	show("splice", syscall(SYS_splice, 0, nowhere, pipes[1], nowhere, 10, 0));
	show("sendfile", syscall(SYS_sendfile, pipes[1], 0, nowhere, 10));
	show("nanosleep", syscall(SYS_nanosleep, nowhere, 0));
	show("execve", execve(nowhere, nowhere, nowhere));
	show("clone3", syscall(SYS_clone3, nowhere, 88));
	show("prlimit", syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, nowhere, 0));
	show("capget", syscall(SYS_capget, nowhere, 0));
	show("sigaction", syscall(SYS_rt_sigaction, SIGUSR1, nowhere, 0, 8));
	show("sigaction", syscall(SYS_rt_sigaction, SIGUSR1, 0, nowhere, 8));
	show("sigprocmask", syscall(SYS_rt_sigprocmask, ~0, nowhere, 0, 8));
	show("sigaltstack", syscall(SYS_sigaltstack, nowhere, 0));
}

static void show_scheduling(pid_t pid)
{
	struct sched_param param = {0};

	show("policy", sched_getscheduler(pid));
	show("param", sched_getparam(pid, &param));
	show("nice", getpriority(PRIO_PROCESS, (id_t)pid));
	show("class", syscall(SYS_ioprio_get, 1, pid));
}

/* A replay has no such child. */
/* No such block can be had.  What is mapped afterwards can still move. */
static void too_large(void)
{
	void *volatile block; /* the compiler is to try */
	char *p, *moved;

	for (size_t size = 1ull << 40; size < 1ull << 62; size <<= 1) {
		block = malloc(size);
		free(block);
	}
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	moved = mremap(p, 8192, 1 << 20, MREMAP_MAYMOVE);
	fprintf(out, "%p %p\n", (void *)p, (void *)moved);
	if (moved == MAP_FAILED)
		_exit(1);
	memset(moved, 1, 1 << 20);
}

static void scheduling(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[2] = {0};
	struct sched_param param = {0};
	pid_t child = fork();

	if (!child) {
		pause();
		_exit(0);
	}
	show_scheduling(0);
	show_scheduling(child);
	show("set policy", sched_setscheduler(child, SCHED_BATCH, &param));
	show("set nice", setpriority(PRIO_PROCESS, (id_t)child, 5));
	show("set class", syscall(SYS_ioprio_set, 1, child, 3 << 13));
	show_scheduling(child);
	header.pid = child;
	show("rights", syscall(SYS_capget, &header, sets));
	fprintf(out, "%x\n", sets[0].effective);
	kill(child, SIGKILL);
	wait(NULL);
	show_scheduling(child);
	show("rights", syscall(SYS_capget, &header, sets));
}

/* One of these descriptors has the number that the process has in a replay. */
static void proc_paths(void)
{
	char path[64];

	for (int n = getpid(); n < getpid() + 3000; n++) {
		snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", getpid(), n);
		if (open(path, O_RDONLY) >= 0)
			show(path, 0);
	}
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", getpid(), gettid());
	show("comm", open(path, O_RDONLY));
}

/* Past libc's functions, which have wrappers. */
static void raw_timers(void)
{
	struct itimerspec longer = {.it_value = {.tv_sec = 100}}, left;
	struct itimerval value = {.it_value = {.tv_sec = 100}};
	struct sigevent event = {.sigev_notify = SIGEV_NONE};
	uint64_t set = 1 << (SIGUSR1 - 1), pending = 0;
	struct timespec none = {0};
	int timer = -1;

	show("create", syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer));
	syscall(SYS_timer_settime, timer, 0, &longer, NULL);
	syscall(SYS_setitimer, ITIMER_REAL, &value, NULL);
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	show("get", syscall(SYS_timer_gettime, timer, &left));
	fprintf(out, "%d: %ld.%09ld left\n", timer, left.it_value.tv_sec, left.it_value.tv_nsec);
	show("get", syscall(SYS_getitimer, ITIMER_REAL, &value));
	fprintf(out, "%ld.%06ld left\n", value.it_value.tv_sec, value.it_value.tv_usec);
	show("alarm", syscall(SYS_alarm, 0));
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, 8);
	kill(getpid(), SIGUSR1);
	syscall(SYS_rt_sigpending, &pending, 8);
	fprintf(out, "pending %lx\n", pending);
	show("waited", syscall(SYS_rt_sigtimedwait, &set, NULL, &none, 8));
}

/* A file in the recording, which has something in it already; a pipe in the replay. */
static void standard_output(void)
{
	long at = lseek(1, 0, SEEK_CUR), sought, end;

	write(1, "abc", 3);
	sought = lseek(1, at + 1, SEEK_SET);
	end = lseek(1, 0, SEEK_END);
	fprintf(out, "%ld %ld %ld %d %d %d\n", at, sought, end, fsync(1), fdatasync(1), posix_fadvise(1, 0, 0, POSIX_FADV_SEQUENTIAL));
}

/* libaudit sets it to -1. */
static void odd_errno(void)
{
	const int values[] = {-1, -2, 4096, INT_MAX};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		errno = values[i];
		getppid();
		close(dup(1));
		fprintf(out, "%d\n", errno);
	}
}

/* As setpriv does: it keeps the right to change the group when it has become another user, and then gives that up. */
static void identity(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[2] = {{.effective = 1 << CAP_SETGID, .permitted = 1 << CAP_SETGID}};
	uid_t real, effective, saved;

	show("keep", prctl(PR_SET_KEEPCAPS, 1));
	show("groups", setgroups(0, NULL));
	show("user", setresuid(65534, 65534, 65534));
	show("capabilities", syscall(SYS_capset, &header, sets));
	show("group", setresgid(65534, 65534, 65534));
	getresuid(&real, &effective, &saved);
	fprintf(out, "%d %d %d\n", (int)real, (int)effective, (int)saved);
	show("back", setuid(0));
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
    {"terminal", terminal},           {"session", session},
    {"popen_writes", popen_writes},   {"popen_reads", popen_reads},
    {"raw_processes", raw_processes}, {"raw_thread", raw_thread},
    {"event_thread", event_thread},   {"queue_thread", queue_thread}, {"child_by_descriptor", child_by_descriptor}, {"queues", queues},
    {"two_views", two_views},         {"kernel_writes", kernel_writes},
    {"old_entries", old_entries},     {"pipe_to_memory", pipe_to_memory}, {"traced_child", traced_child},
    {"own_memory", own_memory},       {"owner", owner},
    {"list_over_itself", list_over_itself},
    {"thread_number", thread_number},
    {"no_memory", no_memory},         {"scheduling", scheduling},
    {"raw_timers", raw_timers},       {"proc_paths", proc_paths},       {"standard_output", standard_output},
    {"odd_errno", odd_errno},         {"identity", identity},         {"too_large", too_large},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc < 3) {
			puts(cases[i].name);
		} else if (!strcmp(argv[1], cases[i].name)) {
			out = fopen(argv[2], "w");
			cases[i].run();
			fclose(out);
		}
	}
	return 0;
}
