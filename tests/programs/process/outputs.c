/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * outputs.c: writes what it reads from a file, by each call that can write.
 *
 *     outputs HOW INPUT OUTPUT
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char text[100000];
static size_t length;
static int in, out;
static const char *output;

static void by_write(void)
{
	write(out, text, length);
}

static void by_pwrite(void)
{
	pwrite(out, text, length, 10);
}

/* In pieces, of which some are empty, and that are shorter or longer than a block. */
static int cut(struct iovec *iov)
{
	static const size_t sizes[] = {0, 1, 70, 0, 300, 7};
	size_t at = 0;
	int n = 0;

	for (; n < 6 && at + sizes[n] < length; at += sizes[n++])
		iov[n] = (struct iovec){text + at, sizes[n]};
	iov[n++] = (struct iovec){text + at, length - at};
	return n;
}

static void by_writev(void)
{
	struct iovec iov[7];

	writev(out, iov, cut(iov));
}

static void by_pwritev(void)
{
	struct iovec iov[7];

	pwritev(out, iov, cut(iov), 5);
}

static void by_pwritev2(void)
{
	struct iovec iov[7];

	pwritev2(out, iov, cut(iov), -1, RWF_APPEND);
}

static void by_raw(void)
{
	syscall(SYS_write, out, text, length);
}

static void by_stdio(void)
{
	FILE *f = fdopen(dup(out), "w");

	fwrite(text, 1, length, f);
	fclose(f);
}

/* What exit writes. */
static void by_exit(void)
{
	fwrite(text, 1, length, stdout);
}

static void at_exit(void)
{
	write(out, text, length);
}

static void by_handler(void)
{
	atexit(at_exit);
}

static void by_dprintf(void)
{
	dprintf(out, "%s", text);
}

static void by_warnx(void)
{
	dup2(out, 2);
	warnx("%s", text);
}

static void by_sockets(void)
{
	struct iovec iov[7];
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = (size_t)cut(iov)};
	int s[2];

	socketpair(AF_UNIX, SOCK_STREAM, 0, s);
	if (getenv("SEND"))
		send(s[0], text, length, 0);
	else if (getenv("SENDTO"))
		sendto(s[0], text, length, 0, NULL, 0);
	else
		sendmsg(s[0], &m, 0);
}

static void by_pipe(void)
{
	int p[2];

	pipe(p);
	write(p[1], text, length);
}

/* At its position, which is the end now, and at an offset. */
static void by_sendfile(void)
{
	off_t at = 0;

	lseek(in, 0, SEEK_SET);
	while (at < (off_t)length && sendfile(out, in, &at, length - (size_t)at) > 0)
		;
	printf("%ld\n", (long)lseek(in, 0, SEEK_CUR));
	sendfile(1, in, NULL, 2 * length);
	printf("%ld\n", (long)lseek(in, 0, SEEK_CUR));
}

static void by_copy_file_range(void)
{
	off_t at = 0;

	lseek(in, 0, SEEK_SET);
	copy_file_range(in, NULL, out, &at, length, 0);
	printf("%ld %ld\n", (long)at, (long)lseek(in, 0, SEEK_CUR));
}

/* From the file into a pipe. */
static void by_splice(void)
{
	off_t at = 0;
	int p[2];

	pipe(p);
	splice(in, &at, p[1], NULL, length, 0);
	printf("%ld\n", (long)at);
}

static void by_vmsplice(void)
{
	struct iovec iov[7];
	int p[2];

	pipe(p);
	vmsplice(p[1], iov, (size_t)cut(iov), 0);
}

static char *map_output(int prot)
{
	out = open(output, O_RDWR);
	ftruncate(out, (off_t)length);
	return mmap(NULL, length, prot, MAP_SHARED, out, 0);
}

static void by_mapping(void)
{
	char *p = map_output(PROT_READ | PROT_WRITE);

	memcpy(p, text, length);
	munmap(p, length);
}

static void by_mapping_to_the_end(void)
{
	memcpy(map_output(PROT_READ | PROT_WRITE), text, length);
}

/* What was there at the msync counts. */
static void by_mapping_synced(void)
{
	char *p = map_output(PROT_READ | PROT_WRITE);

	memcpy(p, text, length);
	msync(p, length, MS_SYNC);
	memset(p, 'x', length);
}

static void by_mapping_made_writable(void)
{
	char *p = map_output(PROT_READ);

	mprotect(p, length, PROT_READ | PROT_WRITE);
	memcpy(p, text, length);
}

static void by_mapping_moved(void)
{
	char *p = map_output(PROT_READ | PROT_WRITE);

	p = mremap(p, length, length + (1 << 20), MREMAP_MAYMOVE);
	memcpy(p, text, length);
}

static void by_mapping_and_exec(void)
{
	memcpy(map_output(PROT_READ | PROT_WRITE), text, length);
	execl("/bin/true", "true", (char *)NULL);
}

/* These are not compared. */
static void by_mapping_of_child(void)
{
	char *p = map_output(PROT_READ | PROT_WRITE);
	pid_t child = fork();

	if (child)
		waitpid(child, NULL, 0);
	else
		memcpy(p, text, length);
	if (!child)
		_exit(0);
}

static void by_mapping_until_killed(void)
{
	memcpy(map_output(PROT_READ | PROT_WRITE), text, length);
	raise(SIGKILL);
}

static void by_high_descriptor(void)
{
	int high = fcntl(out, F_DUPFD, 550);

	write(high, text, length);
	close(high);
}

static void splice_to(int to)
{
	int p[2];

	pipe(p);
	write(p[1], "from a pipe", 11);
	splice(p[0], NULL, to, NULL, 11, 0);
}

static void from_pipe(void)
{
	splice_to(out);
}

static void from_pipe_to_stdout(void)
{
	splice_to(STDOUT_FILENO);
}

static void for_ever(void)
{
	by_write();
	printf("begun\n");
	fflush(stdout);
	for (;;)
		__asm__ volatile("");
}

/* All that fits is written; what is not is no output. */
static void in_part(void)
{
	int p[2];
	ssize_t n;

	pipe2(p, O_NONBLOCK);
	n = write(p[1], text, length);
	printf("%zd %d\n", n, n < 0 ? errno : 0);
	n = write(p[1], text, length);
	printf("%zd %d\n", n, n < 0 ? errno : 0);
}

static void to_full_disk(void)
{
	int fd = open("/dev/full", O_WRONLY);
	ssize_t n = write(fd, text, length);

	printf("%zd %d\n", n, errno);
}

static void ignored_sigpipe(void)
{
	int p[2];
	ssize_t n;

	signal(SIGPIPE, SIG_IGN);
	pipe(p);
	close(p[0]);
	n = write(p[1], text, length);
	printf("%zd %d\n", n, errno);
}

static void *one_writer(void *unused)
{
	write(out, text, length);
	return NULL;
}

static void by_thread(void)
{
	pthread_t t;

	pthread_create(&t, NULL, one_writer, NULL);
	pthread_join(t, NULL);
}

/* main has ended before. */
static void *last_writer(void *main_thread)
{
	pthread_join(*(pthread_t *)main_thread, NULL);
	write(out, text, length);
	return NULL;
}

static void by_last_thread(void)
{
	static pthread_t self;
	pthread_t t;

	self = pthread_self();
	pthread_create(&t, NULL, last_writer, &self);
	pthread_exit(NULL);
}

/* Each writes its lines, and nothing orders them. */
static void *line_writer(void *name)
{
	char line[64];

	for (int i = 0; i < 300; i++) {
		int n = sprintf(line, "%s %d\n", (char *)name, i);

		if (i % 3 == 1)
			warnx("%s %d", (char *)name, i);
		else if (i % 3)
			write(1, line, (size_t)n);
		else
			dprintf(1, "%s", line);
	}
	return NULL;
}

static void by_racing_threads(void)
{
	static char *const names[] = {"first", "second", "third", "fourth"};
	pthread_t t[4];

	dup2(1, 2);
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, line_writer, names[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

static void *endless_writer(void *name)
{
	char line[32];

	for (int i = 0;; i++)
		write(1, line, (size_t)sprintf(line, "%s %d\n", (char *)name, i));
	return NULL;
}

/* The process ends, or becomes another program, while other threads write. */
static void begin_endless_writers(void)
{
	static char *const names[] = {"first", "second", "third"};
	pthread_t t;

	for (int i = 0; i < 3; i++)
		pthread_create(&t, NULL, endless_writer, names[i]);
	usleep(2000);
}

static void by_exit_amid_writes(void)
{
	begin_endless_writers();
	exit(0);
}

static void by__exit_amid_writes(void)
{
	begin_endless_writers();
	_exit(0);
}

static void by_exec_amid_writes(void)
{
	begin_endless_writers();
	execlp("true", "true", (char *)NULL);
}

static void by_failing_exec_amid_writes(void)
{
	begin_endless_writers();
	for (int i = 0; i < 20; i++)
		execlp("/no/program", "no program", (char *)NULL);
	dprintf(1, "that failed\n");
	exit(0);
}

static void by_perror(void)
{
	int fd = open("/dev/null", O_WRONLY);

	errno = ENOENT;
	perror("perror");
	printf("may be read: %d %d\n", fcntl(2, F_GETFL) & O_ACCMODE, fcntl(dup(2), F_GETFL) & O_ACCMODE);
	fcntl(fd, F_SETFL, O_APPEND);
	printf("%#x\n", fcntl(fd, F_GETFL));
}

static volatile long counter;

static void *count(void *unused)
{
	for (int i = 0; i < 300000; i++)
		counter++;
	return NULL;
}

static void by_racing_count(void)
{
	pthread_t a, b;

	pthread_create(&a, NULL, count, NULL);
	pthread_create(&b, NULL, count, NULL);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	printf("%ld\n", counter);
}

static void by_status(void)
{
	exit(text[0]);
}

static void by_status_at_once(void)
{
	_exit(text[0]);
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {
    {"write", by_write},
    {"pwrite", by_pwrite},
    {"writev", by_writev},
    {"pwritev", by_pwritev},
    {"pwritev2", by_pwritev2},
    {"raw", by_raw},
    {"stdio", by_stdio},
    {"exit", by_exit},
    {"handler", by_handler},
    {"dprintf", by_dprintf},
    {"warnx", by_warnx},
    {"sockets", by_sockets},
    {"pipe", by_pipe},
    {"sendfile", by_sendfile},
    {"copy_file_range", by_copy_file_range},
    {"splice", by_splice},
    {"vmsplice", by_vmsplice},
    {"mapping", by_mapping},
    {"mapping_to_the_end", by_mapping_to_the_end},
    {"mapping_synced", by_mapping_synced},
    {"mapping_made_writable", by_mapping_made_writable},
    {"mapping_moved", by_mapping_moved},
    {"mapping_and_exec", by_mapping_and_exec},
    {"mapping_of_child", by_mapping_of_child},
    {"mapping_until_killed", by_mapping_until_killed},
    {"high", by_high_descriptor},
    {"from_pipe", from_pipe},
    {"from_pipe_to_stdout", from_pipe_to_stdout},
    {"for_ever", for_ever},
    {"part", in_part},
    {"full", to_full_disk},
    {"sigpipe", ignored_sigpipe},
    {"thread", by_thread},
    {"last_thread", by_last_thread},
    {"racing_threads", by_racing_threads},
    {"perror", by_perror},
    {"exit_amid_writes", by_exit_amid_writes},
    {"_exit_amid_writes", by__exit_amid_writes},
    {"exec_amid_writes", by_exec_amid_writes},
    {"failing_exec_amid_writes", by_failing_exec_amid_writes},
    {"racing_count", by_racing_count},
    {"status", by_status},
    {"status_at_once", by_status_at_once},
};

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	in = open(argv[2], O_RDONLY);
	output = argv[3];
	out = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC, 0644);
	length = (size_t)read(in, text, sizeof(text) - 1);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (!strcmp(argv[1], ways[i].name)) {
			ways[i].run();
			return 0;
		}
	}
	return 2;
}
