/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stalls.c: a program that a slow recorder would hold up or starve.
 *
 *   stalls fill THREADS RECORDS [MS]   each thread records so many pieces of 4,000 random bytes,
 *                                      and pauses for MS after each; says which piece took longest
 *   stalls together THREADS            so many threads live at once, and end together
 *   stalls leads RECORDS               the same as fill, and behind it lets another thread go on
 *   stalls inputs DIRECTORY FILES      reads a bit of DIRECTORY/0 and so on
 *   stalls replaced DIRECTORY          reads a bit of DIRECTORY/old when there is DIRECTORY/go, and has a child replace it
 *   stalls filter strict|list|all|own   restricts its system calls, to few or not at all, or traps them, and ends with 5
 *   stalls traced                      asks to be traced, and is told by a second try whether it is
 *   stalls dies                        of a signal, before its first call
 *   stalls descriptors THREADS         the same with 64 descriptors; a file can be opened meanwhile
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIECE 4000

static int records, pause_ms;
static _Atomic int64_t longest;

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000ll + now.tv_nsec / 1000;
}

static void note_duration(int64_t us)
{
	int64_t before = atomic_load(&longest);

	while (us > before && !atomic_compare_exchange_weak(&longest, &before, us))
		;
}

static uint64_t mix(uint64_t sum, const unsigned char *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		sum = (sum ^ data[i]) * 1099511628211ull;
	return sum;
}

static void *fill(void *argument)
{
	const struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000l};
	unsigned char piece[PIECE];
	uint64_t *sum = argument;
	int64_t begin = now_us(), longest_here = 0;

	for (int i = 0; i < records; i++) {
		if (getrandom(piece, sizeof(piece), 0) != sizeof(piece))
			abort();
		/* A pause is no stall; the wait for room in the ring comes at either call. */
		if (now_us() - begin > longest_here)
			longest_here = now_us() - begin;
		*sum = mix(*sum, piece, sizeof(piece));
		if (pause_ms)
			nanosleep(&pause, NULL);
		begin = now_us();
	}
	note_duration(longest_here);
	return NULL;
}

static int run_fill(int argc, char **argv)
{
	int n = atoi(argv[0]);
	pthread_t threads[n];
	uint64_t sums[n];

	records = atoi(argv[1]);
	pause_ms = argc > 2 ? atoi(argv[2]) : 0;
	puts("begins");
	fflush(stdout);
	for (int i = 0; i < n; i++) {
		sums[i] = (uint64_t)i;
		pthread_create(&threads[i], NULL, fill, &sums[i]);
	}
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		printf("%d: %016llx\n", i, (unsigned long long)sums[i]);
	}
	/* Whichever thread was last: what it says is said once all have ended. */
	printf("longest %lld ms\nends\n", (long long)(atomic_load(&longest) / 1000));
	return 0;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int waiting;
static bool may_end;

static void *wait_for_others(void *argument)
{
	unsigned char piece[8];

	if (getrandom(piece, sizeof(piece), 0) != sizeof(piece))
		abort();
	pthread_mutex_lock(&lock);
	waiting++;
	pthread_cond_broadcast(&changed);
	while (!may_end)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return argument;
}

static void *wait_to_end(void *argument)
{
	unsigned char piece[8];

	if (getrandom(piece, sizeof(piece), 0) != sizeof(piece))
		abort();
	pthread_rwlock_rdlock(argument);
	pthread_rwlock_unlock(argument);
	return NULL;
}

static void create(pthread_t *threads, int n, void *(*run)(void *), void *argument)
{
	pthread_attr_t small;
	int err = 0;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	for (int i = 0; i < n && !err; i++)
		err = pthread_create(&threads[i], &small, run, argument);
	if (err) {
		printf("cannot create a thread: %s\n", strerror(err));
		exit(1);
	}
}

static int run_together(int argc, char **argv)
{
	pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;
	int n = atoi(argv[0]);
	pthread_t *threads = calloc((size_t)n, sizeof(*threads));

	pthread_rwlock_wrlock(&gate);
	create(threads, n, wait_to_end, &gate);
	pthread_rwlock_unlock(&gate);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	puts("ends");
	return 0;
}

static void let_end(void)
{
	pthread_mutex_lock(&lock);
	may_end = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static int run_leads(int argc, char **argv)
{
	pthread_t follower;
	uint64_t sum = 0;

	records = atoi(argv[0]);
	pause_ms = 1;
	create(&follower, 1, wait_for_others, NULL);
	puts("begins");
	fflush(stdout);
	fill(&sum);
	let_end();
	pthread_join(follower, NULL);
	puts("ends");
	return 0;
}

static int run_descriptors(int argc, char **argv)
{
	const struct rlimit few = {64, 64};
	int n = atoi(argv[0]), opened = 0;
	pthread_t *threads = calloc((size_t)n, sizeof(*threads));

	setrlimit(RLIMIT_NOFILE, &few);
	create(threads, n, wait_for_others, NULL);
	pthread_mutex_lock(&lock);
	while (waiting < n)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	while (opened < 40 && open("/dev/null", O_RDONLY) >= 0)
		opened++;
	printf("%d files opened\n", opened);
	let_end();
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	puts("ends");
	return 0;
}

static int run_inputs(int argc, char **argv)
{
	char path[4096], piece[16];
	long n = atol(argv[1]), bytes = 0;

	for (long i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%ld", argv[0], i);
		int fd = open(path, O_RDONLY);
		ssize_t got = fd < 0 ? -1 : read(fd, piece, sizeof(piece));

		if (got < 0)
			return 1;
		bytes += got;
		close(fd);
	}
	printf("%ld bytes\n", bytes);
	return 0;
}

static int run_replaced(int argc, char **argv)
{
	char piece[64];
	ssize_t got;
	int fd, status;
	pid_t child;

	puts("begins");
	fflush(stdout);
	if (chdir(argv[0]))
		return 1;
	while (access("go", F_OK))
		usleep(1000);
	fd = open("old", O_RDONLY);
	got = fd < 0 ? -1 : read(fd, piece, sizeof(piece));
	close(fd);
	child = fork();
	if (!child)
		_exit(rename("new", "old") != 0);
	if (got < 0 || waitpid(child, &status, 0) != child || status)
		return 1;
	printf("%.*s", (int)got, piece);
	return 0;
}

static int install(const struct sock_filter *filter, unsigned short n)
{
	const struct sock_fprog program = {n, (struct sock_filter *)filter};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

static char selector;

/* It runs on behalf of the call, and lets the others pass. */
static void instead(int signo)
{
	selector = SYSCALL_DISPATCH_FILTER_ALLOW;
	if (write(1, "after\n", 6) != 6)
		_exit(1);
}

static bool trap_own_calls(void)
{
	struct sigaction act = {.sa_handler = instead};

	sigaction(SIGSYS, &act, NULL);
	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector))
		return false;
	selector = SYSCALL_DISPATCH_FILTER_BLOCK;
	syscall(SYS_getpid);
	return selector == SYSCALL_DISPATCH_FILTER_ALLOW;
}

static int run_filter(int argc, char **argv)
{
	const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	const struct sock_filter list[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	    allow,
	};
	unsigned char piece[8];
	bool failed;

	if (getrandom(piece, sizeof(piece), 0) != sizeof(piece))
		return 1;
	if (write(1, "before\n", 7) != 7)
		return 1;
	if (!strcmp(argv[0], "own"))
		_exit(trap_own_calls() ? 5 : 1);
	if (!strcmp(argv[0], "strict"))
		failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	else if (!strcmp(argv[0], "list"))
		failed = install(list, sizeof(list) / sizeof(list[0]));
	else
		failed = install(&allow, 1);
	if (failed || write(1, "after\n", 6) != 6)
		return 1;
	/* What _exit calls is not in the strict mode. */
	if (!strcmp(argv[0], "strict"))
		syscall(SYS_exit, 5);
	_exit(5);
}

static int run_traced(int argc, char **argv)
{
	long first = ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	long second = ptrace(PTRACE_TRACEME, 0, NULL, NULL);

	printf("%ld %ld\n", first, second);
	return 6;
}

static int run_dies(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	__builtin_trap();
}

static const struct {
	const char *name;
	int arguments;
	int (*run)(int argc, char **argv);
} table[] = {
    {"fill", 2, run_fill},
    {"together", 1, run_together},
    {"leads", 1, run_leads},
    {"inputs", 2, run_inputs},
    {"replaced", 1, run_replaced},
    {"filter", 1, run_filter},
    {"traced", 0, run_traced},
    {"dies", 0, run_dies},
    {"descriptors", 1, run_descriptors},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(table) / sizeof(table[0]); i++)
		if (!strcmp(argv[1], table[i].name) && argc >= table[i].arguments + 2)
			return table[i].run(argc - 2, argv + 2);
	return 2;
}
