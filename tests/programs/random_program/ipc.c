/* SPDX-License-Identifier: BSD-2-Clause */
/* ipc.c: what processes and threads tell each other by System V's and POSIX's objects. */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <semaphore.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shared.h"

struct text {
	long type;
	char bytes[64];
};

static void ends(struct self *s, pid_t child)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	mix(s, (uint64_t)status);
}

static void *send_texts(void *argument)
{
	struct text t;

	for (int i = 0; i < 5; i++) {
		t.type = 1 + i % 2;
		snprintf(t.bytes, sizeof(t.bytes), "thread's %d", i);
		while (msgsnd(*(int *)argument, &t, strlen(t.bytes) + 1, 0) && errno == EINTR)
			;
	}
	return NULL;
}

/* A thread and a child send, this thread takes them by their types. */
static void takes_messages(struct self *s)
{
	int queue = msgget(IPC_PRIVATE, 0600);
	struct msqid_ds state;
	struct text t;
	pthread_t thread;
	pid_t child = fork();

	if (!child) {
		t = (struct text){.type = 3, .bytes = "child's"};
		_exit(msgsnd(queue, &t, 8, 0) != 0);
	}
	pthread_create(&thread, NULL, send_texts, &queue);
	for (int i = 0; i < 6; i++) {
		ssize_t n = msgrcv(queue, &t, sizeof(t.bytes), draw(s, 3) || i > 3 ? 0 : -3, 0);

		if (n < 0 && errno == EINTR) {
			i--;
			continue;
		}
		mix(s, (uint64_t)n);
		mix(s, (uint64_t)t.type);
		mix_bytes(s, t.bytes, n > 0 ? (size_t)n : 0);
	}
	pthread_join(thread, NULL);
	ends(s, child);
	mix(s, (uint64_t)msgrcv(queue, &t, sizeof(t.bytes), 0, IPC_NOWAIT));
	mix(s, (uint64_t)msgctl(queue, IPC_STAT, &state));
	mix(s, state.msg_qnum);
	mix(s, (uint64_t)state.msg_lspid);
	msgctl(queue, IPC_RMID, NULL);
}

static int change(int set, unsigned short which, short by)
{
	struct sembuf op = {which, by, 0};
	int result;

	while ((result = semop(set, &op, 1)) && errno == EINTR)
		;
	return result;
}

/* Memory that a child and this process store into by turns. */
static void takes_turns(struct self *s)
{
	int set = semget(IPC_PRIVATE, 2, 0600), segment = shmget(IPC_PRIVATE, 4096, 0600 | IPC_CREAT), turns = 1 + (int)draw(s, 5);
	unsigned int *shared = shmat(segment, NULL, 0);
	struct shmid_ds state;
	pid_t child;

	semctl(set, 0, SETVAL, 1);
	semctl(set, 1, SETVAL, 0);
	shared[0] = decide(s, 1000);
	child = fork();
	if (!child) {
		for (int i = 0; i < turns; i++) {
			change(set, 0, -1);
			shared[0] = shared[0] * 7 + (unsigned int)getpid();
			change(set, 1, 1);
		}
		_exit(0);
	}
	for (int i = 0; i < turns; i++) {
		change(set, 1, -1);
		mix(s, shared[0]);
		shared[0] += decide(s, 100);
		change(set, 0, 1);
	}
	ends(s, child);
	mix(s, shared[0]);
	mix(s, (uint64_t)semctl(set, 0, GETVAL));
	mix(s, (uint64_t)shmctl(segment, IPC_STAT, &state));
	mix(s, state.shm_nattch);
	shmdt(shared);
	shmctl(segment, IPC_RMID, NULL);
	semctl(set, 0, IPC_RMID);
}

static mqd_t open_queue(struct self *s, char name[64], int flags)
{
	struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 64};

	snprintf(name, 64, "/random-%d-%d", (int)getpid(), s->number);
	return mq_open(name, O_CREAT | O_RDWR | flags, 0600, &attributes);
}

static void *send_numbers(void *argument)
{
	const mqd_t queue = *(mqd_t *)argument;
	char bytes[16];

	for (unsigned int i = 0; i < 10; i++) {
		snprintf(bytes, sizeof(bytes), "number %u", i);
		while (mq_send(queue, bytes, strlen(bytes) + 1, i % 3) && errno == EINTR)
			;
	}
	return NULL;
}

static void receives_by_priority(struct self *s)
{
	char name[64], bytes[64];
	mqd_t queue = open_queue(s, name, 0);
	unsigned int priority;
	struct timespec until;
	struct mq_attr state;
	pthread_t thread;

	mix(s, (uint64_t)queue);
	if (queue < 0)
		return;
	pthread_create(&thread, NULL, send_numbers, &queue);
	for (int i = 0; i < 10;) {
		ssize_t n;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += draw(s, 2) ? 10 : 0;
		n = mq_timedreceive(queue, bytes, sizeof(bytes), &priority, &until);
		mix(s, n < 0 ? (uint64_t)errno : priority);
		mix_bytes(s, bytes, n > 0 ? (size_t)n : 0);
		i += n > 0;
	}
	pthread_join(thread, NULL);
	mq_getattr(queue, &state);
	mix(s, (uint64_t)state.mq_curmsgs);
	mq_unlink(name);
	mq_close(queue);
}

/* A named semaphore and shared memory, of a child as well. */
static void uses_names(struct self *s)
{
	char name[64];
	unsigned int *shared;
	pid_t child;
	sem_t *sem;
	int fd, value;

	snprintf(name, sizeof(name), "/random-%d-%d", (int)getpid(), s->number);
	sem = sem_open(name, O_CREAT, 0600, 0);
	fd = shm_open(name, O_CREAT | O_RDWR, 0600);
	mix(s, (uint64_t)fd);
	mix(s, (uint64_t)ftruncate(fd, 4096));
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	shared[1] = decide(s, 1000);
	child = fork();
	if (!child) {
		shared[0] = shared[1] + (unsigned int)getpid();
		sem_post(sem);
		_exit(3);
	}
	while (sem_wait(sem) && errno == EINTR)
		;
	mix(s, shared[0]);
	ends(s, child);
	sem_getvalue(sem, &value);
	mix(s, (uint64_t)value);
	munmap(shared, 4096);
	sem_close(sem);
	mix(s, (uint64_t)sem_unlink(name));
	mix(s, (uint64_t)shm_unlink(name));
}

const struct step ipc_steps[] = {
    {"takes_messages", takes_messages, 2},
    {"takes_turns", takes_turns, 2},
    {"receives_by_priority", receives_by_priority, 3},
    {"uses_names", uses_names, 2},
    {0},
};
