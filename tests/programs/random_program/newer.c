/* SPDX-License-Identifier: BSD-2-Clause */
/* newer.c: what newer kernels do for threads, processes and memory, and what libc makes of it. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <iconv.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wordexp.h>

#include "shared.h"

static void mix_result(struct self *s, long result)
{
	mix(s, result < 0 ? (uint64_t)errno << 32 : (uint64_t)result);
}

static void ends(struct self *s, pid_t child)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	mix(s, (uint64_t)status);
}

/* ----------------------------------------------------------------- threads */

struct shared {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	pthread_rwlock_t lock;
	uint64_t value;
	unsigned int turn, rounds, ready;
	_Atomic uint32_t words[2];
};

struct part {
	struct shared *shared;
	pthread_t thread;
	unsigned int number;
};

static void run_parts(struct shared *x, unsigned int n, void *(*run)(void *))
{
	struct part parts[4];

	for (unsigned int i = 0; i < n; i++) {
		parts[i] = (struct part){.shared = x, .number = i};
		pthread_create(&parts[i].thread, NULL, run, &parts[i]);
	}
	for (unsigned int i = 0; i < n; i++)
		pthread_join(parts[i].thread, NULL);
}

/* Ends while it holds the lock, or finds that another one did. */
static void *leave_lock(void *argument)
{
	struct part *p = argument;
	int result = pthread_mutex_lock(&p->shared->mutex);

	p->shared->value = p->shared->value * 31 + p->number + (unsigned int)result;
	if (result == EOWNERDEAD)
		pthread_mutex_consistent(&p->shared->mutex);
	if (p->number % 2)
		pthread_mutex_unlock(&p->shared->mutex);
	return NULL;
}

static void inherits_locks(struct self *s)
{
	struct shared x = {0};
	pthread_mutexattr_t attributes;
	int result;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	if (draw(s, 2))
		pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	if (draw(s, 2))
		pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&x.mutex, &attributes);
	run_parts(&x, 1 + draw(s, 4), leave_lock);
	mix(s, x.value);
	result = pthread_mutex_trylock(&x.mutex);
	mix(s, (uint64_t)result);
	if (result == EOWNERDEAD)
		pthread_mutex_consistent(&x.mutex);
	if (!result || result == EOWNERDEAD)
		pthread_mutex_unlock(&x.mutex);
}

static void *take_turn(void *argument)
{
	struct part *p = argument;
	struct shared *x = p->shared;
	struct timespec until;

	for (unsigned int i = 0; i < x->rounds; i++) {
		pthread_mutex_lock(&x->mutex);
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += p->number % 2;
		while (x->turn % 2 != p->number % 2 && x->turn < x->rounds) {
			int result = p->number ? pthread_cond_timedwait(&x->changed, &x->mutex, &until)
					       : pthread_cond_clockwait(&x->changed, &x->mutex, CLOCK_MONOTONIC, &until);

			x->value += (unsigned int)result;
			if (result)
				break;
		}
		x->value = x->value * 31 + p->number;
		x->turn++;
		pthread_cond_broadcast(&x->changed);
		pthread_mutex_unlock(&x->mutex);
	}
	return NULL;
}

static void waits_monotonic(struct self *s)
{
	struct shared x = {.rounds = 1 + draw(s, 8), .mutex = PTHREAD_MUTEX_INITIALIZER};
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&x.changed, &attributes);
	run_parts(&x, 1 + draw(s, 4), take_turn);
	mix(s, x.value);
	pthread_cond_destroy(&x.changed);
}

static void *read_or_write(void *argument)
{
	struct part *p = argument;
	struct shared *x = p->shared;
	struct timespec until;

	for (unsigned int i = 0; i < x->rounds; i++) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec = (until.tv_nsec + 100000) % 1000000000;
		switch ((i + p->number) % 4) {
		case 0:
			if (pthread_rwlock_timedwrlock(&x->lock, &until))
				continue;
			x->value = x->value * 31 + p->number;
			break;
		case 1:
			if (pthread_rwlock_tryrdlock(&x->lock))
				continue;
			break;
		case 2:
			if (pthread_rwlock_clockrdlock(&x->lock, CLOCK_MONOTONIC, &until))
				continue;
			break;
		default:
			if (pthread_rwlock_trywrlock(&x->lock))
				continue;
			x->value = x->value * 33 + p->number;
		}
		sched_yield();
		pthread_rwlock_unlock(&x->lock);
	}
	return NULL;
}

static void tries_locks(struct self *s)
{
	struct shared x = {.rounds = 1 + draw(s, 20)};
	pthread_rwlockattr_t attributes;

	pthread_rwlockattr_init(&attributes);
	pthread_rwlockattr_setkind_np(&attributes, draw(s, 2) ? PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP : PTHREAD_RWLOCK_PREFER_READER_NP);
	pthread_rwlock_init(&x.lock, &attributes);
	run_parts(&x, 1 + draw(s, 4), read_or_write);
	mix(s, x.value);
}

/* Two words at once: the thread goes on when another one has changed either. */
static void *wait_for_words(void *argument)
{
	struct part *p = argument;
	struct shared *x = p->shared;
	struct futex_waitv both[2] = {{.uaddr = (uintptr_t)&x->words[0], .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG},
				      {.uaddr = (uintptr_t)&x->words[1], .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG}};

	if (p->number) {
		usleep(50);
		atomic_store(&x->words[p->number % 2], 1);
		syscall(SYS_futex, &x->words[p->number % 2], FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
		return NULL;
	}
	while (!atomic_load(&x->words[0]) && !atomic_load(&x->words[1]))
		if (syscall(SYS_futex_waitv, both, 2, 0, NULL, 0) < 0 && errno == ENOSYS)
			break;
	x->value = 1;
	return NULL;
}

static void waits_for_several(struct self *s)
{
	struct shared x = {0};

	run_parts(&x, 2 + draw(s, 3), wait_for_words);
	mix(s, x.value);
}

/* What the kernel tells a thread of itself, and what it promises. */
static void asks_kernel(struct self *s)
{
	struct rlimit limit, other = {0};
	struct sched_param parameter = {0};
	cpu_set_t set;
	unsigned int cpu, node;

	mix_result(s, syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0));
	mix_result(s, syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0));
	mix_result(s, syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
	mix_result(s, getcpu(&cpu, &node));
	mix(s, cpu);
	mix_result(s, sched_getcpu());
	mix_result(s, prlimit(0, RLIMIT_NOFILE, NULL, &limit));
	mix(s, limit.rlim_cur);
	limit.rlim_cur = 1000 + draw(s, 20);
	mix_result(s, prlimit(getpid(), RLIMIT_NOFILE, &limit, &other));
	mix(s, other.rlim_cur);
	mix_result(s, sched_getaffinity(0, sizeof(set), &set));
	mix(s, (uint64_t)CPU_COUNT(&set));
	mix_result(s, sched_setaffinity(0, sizeof(set), &set));
	mix_result(s, sched_getscheduler(0));
	mix_result(s, sched_setscheduler(0, draw(s, 2) ? SCHED_BATCH : SCHED_OTHER, &parameter));
	mix_result(s, prctl(PR_SET_TIMERSLACK, 1 + draw(s, 100000)));
	mix_result(s, prctl(PR_GET_TIMERSLACK));
	mix_result(s, prctl(PR_GET_DUMPABLE));
	mix_result(s, getpriority(PRIO_PROCESS, 0));
}

/* --------------------------------------------------------------- processes */

/* A child's end by its descriptor. */
static void polls_child(struct self *s)
{
	pid_t child = fork();
	siginfo_t info = {0};
	struct pollfd p = {.events = POLLIN};

	if (!child) {
		usleep(draw(s, 300));
		_exit((int)draw(s, 100));
	}
	p.fd = (int)syscall(SYS_pidfd_open, child, 0);
	mix(s, (uint64_t)p.fd);
	if (draw(s, 2))
		mix_result(s, syscall(SYS_pidfd_send_signal, p.fd, draw(s, 2) ? SIGKILL : 0, NULL, 0));
	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	mix(s, (uint64_t)p.revents);
	mix_result(s, waitid(P_PIDFD, (id_t)p.fd, &info, WEXITED | (draw(s, 2) ? WNOWAIT : 0)));
	mix(s, (uint64_t)info.si_status + (uint64_t)info.si_code * 1000);
	mix_result(s, waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG));
	close(p.fd);
}

/* vfork, clone3, and programs of their own. */
static void begins_otherwise(struct self *s)
{
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
	} how = {.exit_signal = SIGCHLD};
	const int status = (int)draw(s, 100);
	pid_t child;

	if (draw(s, 2)) {
		child = vfork();
		if (!child)
			_exit(status);
	} else {
		child = (pid_t)syscall(SYS_clone3, &how, sizeof(how));
		if (!child)
			_exit(status);
	}
	mix(s, (uint64_t)child);
	ends(s, child);
}

/* A child that is traced: stopped, looked at, changed, let go. */
static void traces_child(struct self *s)
{
	static volatile long looked_at;
	int status = 0;
	pid_t child;

	looked_at = (long)decide(s, 1000);
	child = fork();
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		_exit((int)(looked_at % 100));
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	mix(s, (uint64_t)status);
	if (WIFSTOPPED(status)) {
		errno = 0;
		mix(s, (uint64_t)ptrace(PTRACE_PEEKDATA, child, &looked_at, NULL));
		mix_result(s, ptrace(PTRACE_POKEDATA, child, &looked_at, (void *)(uintptr_t)draw(s, 100)));
		mix_result(s, ptrace(draw(s, 2) ? PTRACE_CONT : PTRACE_DETACH, child, NULL, NULL));
		ends(s, child);
	}
}

static pthread_mutex_t forking = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void)
{
	pthread_mutex_lock(&forking);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&forking);
}

static void set_handlers(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

static void *fork_once(void *argument)
{
	struct part *p = argument;
	pid_t child = fork();
	int status = 0;

	if (!child)
		_exit((int)p->number + 3);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	pthread_mutex_lock(&p->shared->mutex);
	p->shared->value = p->shared->value * 31 + (unsigned int)status;
	pthread_mutex_unlock(&p->shared->mutex);
	return NULL;
}

/* Several threads fork at once; handlers run around each, which a replay leaves out: they change nothing. */
static void forks_in_threads(struct self *s)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct shared x = {.mutex = PTHREAD_MUTEX_INITIALIZER};

	pthread_once(&once, set_handlers);
	run_parts(&x, 1 + draw(s, 3), fork_once);
	mix(s, x.value);
}

/* ------------------------------------------------------------------ memory */

/* Pages that move, go and come back. */
static void moves_pages(struct self *s)
{
	const size_t page = 4096, n = 4 + draw(s, 8);
	unsigned char *p = mmap(NULL, n * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;
	unsigned char there[16] = {0};

	for (size_t i = 0; i < n; i++)
		if (draw(s, 3))
			p[i * page + draw(s, 4096)] = (unsigned char)decide(s, 256);
	mix_result(s, madvise(p + page, page, draw(s, 2) ? MADV_DONTNEED : MADV_WILLNEED));
	mix_result(s, mincore(p, n * page, there));
	mix(s, there[1] & 1);
	mix_bytes(s, p + page, 64);
	q = mremap(p, n * page, 2 * n * page, MREMAP_MAYMOVE);
	mix(s, (uintptr_t)q);
	q[(2 * n - 1) * page] = 1;
	mix_result(s, mprotect(q + page, page, PROT_READ));
	mix_result(s, mlock(q, page));
	mix_result(s, munlock(q, page));
	if (draw(s, 2)) {
		p = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		mix(s, (uintptr_t)mremap(q, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, p));
		mix_bytes(s, p, 100);
		munmap(p, page);
	} else {
		mix_bytes(s, q, page);
	}
	mix_result(s, munmap(q + page, (2 * n - 1) * page));
	mix(s, (uintptr_t)mmap(NULL, 3 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

/* ------------------------------------------------------------------- libc */

static void *load_library(void *argument)
{
	struct part *p = argument;

	for (unsigned int i = 0; i < p->shared->rounds; i++) {
		void *library = dlopen((i + p->number) % 2 ? "libresolv.so.2" : "libcrypt.so.1", RTLD_NOW | RTLD_LOCAL);
		void *symbol = library ? dlsym(library, "crypt") : NULL;

		pthread_mutex_lock(&p->shared->mutex);
		p->shared->value = p->shared->value * 31 + (library != NULL) + (uintptr_t)symbol;
		pthread_mutex_unlock(&p->shared->mutex);
		if (library)
			dlclose(library);
	}
	return NULL;
}

static void loads_in_threads(struct self *s)
{
	struct shared x = {.mutex = PTHREAD_MUTEX_INITIALIZER, .rounds = 1 + draw(s, 4)};

	run_parts(&x, 1 + draw(s, 4), load_library);
	mix(s, x.value);
}

static void converts(struct self *s)
{
	static const char *const names[] = {"UTF-16", "ISO-8859-15", "UTF-32LE", "KOI8-R", "SHIFT_JIS"};
	char text[32], out[256] = "", *from = text, *to = out;
	size_t left, room = sizeof(out);
	iconv_t with = iconv_open(names[draw(s, 5)], "UTF-8");

	mix(s, with == (iconv_t)-1);
	if (with == (iconv_t)-1)
		return;
	snprintf(text, sizeof(text), "gr\xc3\xbc\xc3\x9f %x", decide(s, 1000));
	left = strlen(text);
	mix_result(s, (long)iconv(with, &from, &left, &to, &room));
	mix(s, left * 1000 + room);
	mix_bytes(s, out, sizeof(out));
	iconv_close(with);
}

/* The first look-up loads libraries, under a lock of libc's whose order is not recorded (docs/user/limits.md). */
void prepare_newer(void)
{
	struct addrinfo *found = NULL;

	if (!getaddrinfo("localhost", "ssh", NULL, &found))
		freeaddrinfo(found);
}

static void resolves(struct self *s)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "::1", "ip6-localhost", "256.1.1.1"};
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = draw(s, 2) ? AI_NUMERICHOST : 0}, *found = NULL;
	char host[64] = "", service[32] = "";
	int result = getaddrinfo(names[draw(s, 5)], draw(s, 2) ? "80" : "ssh", &hints, &found);

	mix(s, (uint64_t)result);
	for (struct addrinfo *a = found; a; a = a->ai_next) {
		mix_bytes(s, a->ai_addr, a->ai_addrlen);
		mix(s, (uint64_t)getnameinfo(a->ai_addr, a->ai_addrlen, host, sizeof(host), service, sizeof(service), NI_NUMERICHOST));
		mix_bytes(s, host, strlen(host));
		mix_bytes(s, service, strlen(service));
	}
	if (found)
		freeaddrinfo(found);
}

/* Words of a shell, temporary files. */
static void expands(struct self *s)
{
	static const char *const texts[] = {"a $HOME 'b c'", "$(echo from a shell)", "thread-*", "~root ${NOTHING:-x}", "$((3 * 7))"};
	wordexp_t words;
	FILE *file = tmpfile();
	int result;

	pthread_rwlock_wrlock(&environment_lock);
	result = wordexp(texts[draw(s, 3) ? 0 : draw(s, 5)], &words, 0);
	pthread_rwlock_unlock(&environment_lock);
	mix(s, (uint64_t)result);
	for (size_t i = 0; !result && i < words.we_wordc; i++)
		mix_bytes(s, words.we_wordv[i], strlen(words.we_wordv[i]));
	if (!result)
		wordfree(&words);
	mix(s, file != NULL);
	if (!file)
		return;
	fprintf(file, "%x and more\n", decide(s, 1000));
	rewind(file);
	mix_result(s, (long)fseek(file, draw(s, 5), SEEK_SET));
	mix(s, (uint64_t)fgetc(file));
	mix(s, (uint64_t)ftell(file));
	fclose(file);
}

const struct step newer_steps[] = {
    {"inherits_locks", inherits_locks, 3},
    {"waits_monotonic", waits_monotonic, 3},
    {"tries_locks", tries_locks, 3},
    {"waits_for_several", waits_for_several, 2},
    {"asks_kernel", asks_kernel, 2},
    {"polls_child", polls_child, 2},
    {"begins_otherwise", begins_otherwise, 2},
    {"traces_child", traces_child, 1},
    {"forks_in_threads", forks_in_threads, 1},
    {"moves_pages", moves_pages, 3},
    {"loads_in_threads", loads_in_threads, 1},
    {"converts", converts, 2},
    {"resolves", resolves, 1},
    {"expands", expands, 1},
    {0},
};
