/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * run.c: pgasrun, which starts the ranks of a program and lets them exchange their
 * addresses.
 *
 *     pgasrun -n N [-w LIST COMMAND]... [-o DIR] [-t SECONDS] PROGRAM [ARGUMENT...]
 *
 * -w puts COMMAND before the program in the ranks of LIST ("0,2-3"), split into words at
 * blanks; %r in it becomes the rank. -o writes the standard output of rank R to DIR/R.out
 * and its standard error to DIR/R.err. -t ends all ranks after this time.
 *
 * The exit status is 0 if all ranks exited with 0, otherwise the status of the first rank
 * that did not; 124 after the time limit. When a rank fails (except with status 1, a wrong
 * answer), pgasrun ends the others, since they would wait for it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_RANKS    64
#define MAX_PREFIXES 8
#define MAX_WORDS    256
#define LOOK_MS      50 /* for ended ranks */
/* The status of a rank that ended, and that ends all others. */
#define WRONG_ANSWER 1

struct prefix {
	const char *ranks, *command;
};

static struct {
	int ranks, seconds;
	const char *directory;
	struct prefix prefixes[MAX_PREFIXES];
	int n_prefixes;
	char **program;
} options = {.ranks = 2};

static pid_t children[MAX_RANKS];
static int running, first_failure;

/* One exchange: which ranks have sent their part; answered when all have. */
static struct {
	int fds[MAX_RANKS], n;
	char *all;
	uint32_t bytes;
} round_;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "pgasrun: %s: %s\n", what, strerror(errno));
	for (int i = 0; i < options.ranks; i++)
		if (children[i] > 0)
			kill(-children[i], SIGKILL);
	exit(125);
}

static _Noreturn void usage(void)
{
	fprintf(stderr,
		"usage: pgasrun -n N [-w LIST COMMAND]... [-o DIR] [-t SECONDS] PROGRAM...\n");
	exit(125);
}

static void parse(int argc, char **argv)
{
	int i = 1;

	for (; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "-n") && i + 1 < argc)
			options.ranks = atoi(argv[++i]);
		else if (!strcmp(argv[i], "-o") && i + 1 < argc)
			options.directory = argv[++i];
		else if (!strcmp(argv[i], "-t") && i + 1 < argc)
			options.seconds = atoi(argv[++i]);
		else if (!strcmp(argv[i], "-w") && i + 2 < argc &&
			 options.n_prefixes < MAX_PREFIXES) {
			options.prefixes[options.n_prefixes++] =
			    (struct prefix){argv[i + 1], argv[i + 2]};
			i += 2;
		} else
			usage();
	}
	if (i == argc || options.ranks < 1 || options.ranks > MAX_RANKS)
		usage();
	options.program = argv + i;
}

/* ------------------------------------------------------------- starting ranks */

static bool listed(const char *list, int rank)
{
	while (*list) {
		char *end;
		long low = strtol(list, &end, 10), high = low;

		if (end == list)
			usage();
		if (*end == '-')
			high = strtol(end + 1, &end, 10);
		if (rank >= low && rank <= high)
			return true;
		list = *end ? end + 1 : end;
	}
	return false;
}

/* `word` with the rank inserted; never freed. */
static char *with_rank(const char *word, int rank)
{
	const char *mark = strstr(word, "%r");
	char *text;

	if (!mark)
		return strdup(word);
	if (asprintf(&text, "%.*s%d%s", (int)(mark - word), word, rank, mark + 2) < 0)
		fail("asprintf");
	return text;
}

static char **command_of(int rank)
{
	static char *words[MAX_WORDS];
	int n = 0;

	for (int i = 0; i < options.n_prefixes; i++) {
		char *text = strdup(options.prefixes[i].command), *place = NULL;

		if (!listed(options.prefixes[i].ranks, rank))
			continue;
		for (char *w = strtok_r(text, " ", &place); w && n < MAX_WORDS - 1;
		     w = strtok_r(NULL, " ", &place))
			words[n++] = with_rank(w, rank);
	}
	for (char **w = options.program; *w && n < MAX_WORDS - 1; w++)
		words[n++] = *w;
	words[n] = NULL;
	return words;
}

static void redirect(int rank, const char *suffix, int to)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%d.%s", options.directory, rank, suffix);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	if (fd < 0)
		fail(path);
	dup2(fd, to);
	close(fd);
}

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

static void start(int rank, int port)
{
	char **command;

	children[rank] = fork();
	if (children[rank] < 0)
		fail("fork");
	if (children[rank]) {
		running++;
		return;
	}
	setpgid(0, 0);
	set_number("PGAS_RANK", rank);
	set_number("PGAS_RANKS", options.ranks);
	set_number("PGAS_PORT", port);
	if (options.directory) {
		redirect(rank, "out", STDOUT_FILENO);
		redirect(rank, "err", STDERR_FILENO);
	}
	command = command_of(rank);
	execvp(command[0], command);
	fprintf(stderr, "pgasrun: %s: %m\n", command[0]);
	_exit(127);
}

/* ------------------------------------------------------------------ exchanges */

static int listen_anywhere(int *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, MAX_RANKS) ||
	    getsockname(fd, (struct sockaddr *)&a, &length))
		fail("cannot listen");
	*port = ntohs(a.sin_port);
	return fd;
}

static bool receive_all(int fd, void *data, size_t bytes)
{
	return recv(fd, data, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

static void answer_all(void)
{
	size_t bytes = (size_t)options.ranks * round_.bytes, sent;

	for (int i = 0; i < round_.n; i++) {
		for (sent = 0; sent < bytes;) {
			ssize_t n =
			    send(round_.fds[i], round_.all + sent, bytes - sent, MSG_NOSIGNAL);

			if (n <= 0)
				break; /* it died: seen by its exit status */
			sent += (size_t)n;
		}
		close(round_.fds[i]);
	}
	free(round_.all);
	round_.all = NULL;
	round_.n = 0;
}

static void take_one(int listener)
{
	uint32_t head[2]; /* rank, bytes */
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0 || !receive_all(fd, head, sizeof(head)) || head[0] >= (uint32_t)options.ranks) {
		close(fd);
		return;
	}
	if (!round_.all) {
		round_.bytes = head[1];
		round_.all = calloc((size_t)options.ranks, round_.bytes);
		if (!round_.all)
			fail("no memory");
	}
	if (head[1] != round_.bytes ||
	    !receive_all(fd, round_.all + (size_t)head[0] * round_.bytes, round_.bytes)) {
		close(fd);
		return;
	}
	round_.fds[round_.n++] = fd;
	if (round_.n == options.ranks)
		answer_all();
}

/* --------------------------------------------------------------------- ends */

static void end_all(void)
{
	for (int i = 0; i < options.ranks; i++)
		if (children[i] > 0)
			kill(-children[i], SIGKILL);
}

static void print_peak(int rank, const struct rusage *used)
{
	if (getenv("PGAS_STATISTICS"))
		fprintf(stderr, "pgasrun: rank %d took at most %ld kB\n", rank, used->ru_maxrss);
}

static void ended(pid_t pid, int status, const struct rusage *used)
{
	int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);

	for (int i = 0; i < options.ranks; i++) {
		if (children[i] != pid)
			continue;
		children[i] = 0;
		running--;
		print_peak(i, used);
		if (!code || first_failure)
			continue;
		fprintf(stderr, "pgasrun: rank %d ended with status %d\n", i, code);
		first_failure = code;
		if (code != WRONG_ANSWER)
			end_all();
	}
}

static time_t seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

int main(int argc, char **argv)
{
	int port, status, listener;
	time_t started = seconds();
	struct rusage used;
	pid_t pid;

	parse(argc, argv);
	listener = listen_anywhere(&port);
	for (int rank = 0; rank < options.ranks; rank++)
		start(rank, port);
	while (running) {
		struct pollfd p = {.fd = listener, .events = POLLIN};

		if (poll(&p, 1, LOOK_MS) > 0)
			take_one(listener);
		while ((pid = wait4(-1, &status, WNOHANG, &used)) > 0)
			ended(pid, status, &used);
		if (options.seconds && seconds() - started > options.seconds && !first_failure) {
			fprintf(stderr, "pgasrun: %d s are over\n", options.seconds);
			first_failure = 124;
			end_all();
		}
	}
	return first_failure;
}
