/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kill_storm: sends SIGKILL to recorded processes, and to the daemon, at random moments.
 * Every committed record must be in the trace, once and in order.
 *
 *     kill_storm producer [COUNT [SEED]]    (or SREPLAY_KILLS, SREPLAY_SEED)
 *     kill_storm daemon   [COUNT [SEED]]
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "pattern.h"

#define THREADS 3

/* Shared with the process that will be killed. */
struct progress {
	_Atomic uint64_t begun[THREADS];
	_Atomic uint64_t committed[THREADS];
	_Atomic bool added[THREADS];
	_Atomic bool stop;
};

static struct progress *progress;
static struct harness h;
static struct sr_client client;
static struct sr_ring rings[THREADS]; /* the client knows them longer than their threads live */
static uint64_t seed;

static uint64_t stream_seed(int32_t rank, uint32_t thread)
{
	return mix(seed + (uint64_t)rank * 16 + thread);
}

struct job {
	int32_t rank;
	uint32_t thread;
	unsigned int pause_us; /* after each 64 records */
};

static void *produce(void *argument)
{
	const struct job *job = argument;
	uint32_t t = job->thread;
	struct sr_ring *ring = &rings[t];

	if (sr_client_open_ring(&client, t, (64 << 10) << (t % 2), ring))
		_exit(3);
	atomic_store(&progress->added[t], true);
	for (uint64_t n = 0; !atomic_load(&progress->stop); n++) {
		atomic_store(&progress->begun[t], n + 1);
		if (!pattern_write(ring, stream_seed(job->rank, t), n))
			_exit(4);
		atomic_store(&progress->committed[t], n + 1);
		if (job->pause_us && n % 64 == 63)
			sleep_us(job->pause_us);
	}
	return NULL;
}

static void run_process(int32_t rank, unsigned int pause_us)
{
	struct job jobs[THREADS];
	pthread_t threads[THREADS];
	char error[400] = "";

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (connect_as(&h, &client, rank, error, sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		_exit(2);
	}
	for (uint32_t t = 0; t < THREADS; t++) {
		jobs[t] = (struct job){rank, t, pause_us};
		pthread_create(&threads[t], NULL, produce, &jobs[t]);
	}
	for (uint32_t t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	_exit(sr_client_finish(&client, 20000) ? 5 : 0);
}

static bool check_thread(int32_t rank, uint32_t t, uint32_t mark)
{
	uint64_t begun = atomic_load(&progress->begun[t]);
	uint64_t committed = atomic_load(&progress->committed[t]);
	struct stream_check found;

	if (!atomic_load(&progress->added[t]))
		return true;
	if (!check_stream(h.trace, rank, t, stream_seed(rank, t), &found))
		return false;
	if (found.records >= committed && found.records <= begun && found.mark == mark &&
	    !found.warning[0])
		return true;
	fprintf(stderr,
		"rank %d thread %u: %llu records, %llu were committed, %llu begun; mark %u %s\n",
		rank, t, (unsigned long long)found.records, (unsigned long long)committed,
		(unsigned long long)begun, found.mark, found.warning);
	return false;
}

static uint64_t total_committed(void)
{
	uint64_t total = 0;

	for (uint32_t t = 0; t < THREADS; t++)
		total += atomic_load(&progress->committed[t]);
	return total;
}

static bool check_process(int32_t rank, uint32_t mark)
{
	bool good = true;

	for (uint32_t t = 0; t < THREADS; t++)
		good &= check_thread(rank, t, mark);
	return good;
}

static pid_t start_process(int32_t rank, unsigned int pause_us)
{
	pid_t pid;

	memset(progress, 0, sizeof(*progress));
	pid = fork();
	if (pid == 0)
		run_process(rank, pause_us);
	return pid;
}

/* ---- the two storms ---- */

static bool kill_one_producer(int32_t rank)
{
	pid_t pid = start_process(rank, 0);
	int status;

	/* Some processes die during their hello, most of them at work. */
	sleep_us((unsigned int)(mix(seed ^ (uint64_t)rank) % 15000));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	if (WIFEXITED(status)) {
		fprintf(stderr, "rank %d ended by itself with %d\n", rank, WEXITSTATUS(status));
		return false;
	}
	if (!access(h.trace, F_OK))
		wait_written(&h);
	return check_process(rank, SR_MARK_DIED);
}

/*
 * The traces of a thousand processes are checked and dropped one by one: as a whole, since the daemon may only now make the
 * directory of one that was killed in its hello.
 */
static void forget_rank(int32_t rank)
{
	static const char *const files[] = {"process.json", "schema.json", "streams", "seal"};
	char path[320], gone[256];

	snprintf(path, sizeof(path), "%s/rank-%d", h.trace, rank);
	snprintf(gone, sizeof(gone), "%s.gone", h.trace);
	if (rename(path, gone))
		return;
	for (uint32_t t = 0; t < THREADS; t++) {
		snprintf(path, sizeof(path), "%s/thread-%u.srs", gone, t);
		unlink(path);
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		snprintf(path, sizeof(path), "%s/%s", gone, files[i]);
		unlink(path);
	}
	if (rmdir(gone))
		fprintf(stderr, "rank %d: something is left in %s\n", rank, gone);
}

static int storm_of_producers(int count)
{
	uint64_t records = 0;

	daemon_start(&h, NULL);
	for (int i = 0; i < count; i++) {
		if (!kill_one_producer(i)) {
			fprintf(stderr, "kill %d of seed %llu\n", i, (unsigned long long)seed);
			return 1;
		}
		records += total_committed();
		forget_rank(i);
	}
	printf("ok 1 - %d processes killed, %llu records committed by them, none lost or doubled\n1..1\n", count,
	       (unsigned long long)records);
	return 0;
}

/*
 * A process without a daemon at its start is not recorded, by design; this test is not about that.
 */
static void wait_until_recorded(void)
{
	for (uint32_t t = 0; t < THREADS; t++) {
		for (int ms = 0; !atomic_load(&progress->added[t]) && ms < 10000; ms++)
			sleep_us(1000);
	}
}

/*
 * A process whose rings stay full for longer than the stall timeout is on its own, by design.  So one of some daemons lives until
 * a thread goes on, however long a busy machine takes to start it.
 */
static void wait_until_served(void)
{
	uint64_t before = total_committed();

	for (int ms = 0; total_committed() == before && ms < 10000; ms++)
		sleep_us(1000);
}

static int storm_over_daemon(int count)
{
	pid_t pid;
	int status;

	daemon_start(&h, NULL);
	pid = start_process(0, 300);
	wait_until_recorded();
	for (int i = 0; i < count; i++) {
		sleep_us((unsigned int)(mix(seed ^ (uint64_t)i) % 60000));
		if (i % 4 == 3)
			wait_until_served();
		daemon_kill(&h, SIGKILL);
		/* Sometimes no daemon runs for a while: rings fill, and producers wait. */
		if (i % 16 == 0)
			sleep_us(100000);
		daemon_start(&h, NULL);
	}
	atomic_store(&progress->stop, true);
	waitpid(pid, &status, 0);
	if (status) {
		fprintf(stderr, "the process ended with status %x\n", status);
		return 1;
	}
	wait_written(&h);
	if (!check_process(0, SR_MARK_DIED)) /* it wrote no SR_REC_EXIT */
		return 1;
	printf("ok 1 - %d daemons killed, %llu records committed meanwhile, none lost or doubled\n1..1\n", count,
	       (unsigned long long)total_committed());
	return 0;
}

static uint64_t number(int argc, char **argv, int i, const char *variable, uint64_t otherwise)
{
	const char *text = argc > i ? argv[i] : getenv(variable);

	return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

int main(int argc, char **argv)
{
	bool daemon = argc > 1 && !strcmp(argv[1], "daemon");
	int count = (int)number(argc, argv, 2, "SREPLAY_KILLS", daemon ? 20 : 100), ret;

	seed = number(argc, argv, 3, "SREPLAY_SEED", 1);
	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (progress == MAP_FAILED)
		return 99;
	harness_begin(&h);
	ret = daemon ? storm_over_daemon(count) : storm_of_producers(count);
	if (ret)
		fprintf(stderr, "seed %llu; the trace is left in %s\n", (unsigned long long)seed,
			h.trace);
	else
		harness_end(&h);
	return ret;
}
