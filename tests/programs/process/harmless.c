/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * harmless.c: changes its surroundings in many ways, which its replay must not.
 *
 *	harmless CASE
 *
 * It runs in a directory with the files of harmless.py, and prints what it finds afterwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>
#include <wordexp.h>

extern char **environ;

static void say(const char *what, long result)
{
	printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
}

static void show(const char *path)
{
	char text[200] = "";
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	printf("%s has %zd: %s\n", path, n, n < 0 ? strerror(errno) : text);
	if (fd >= 0)
		close(fd);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	say(path, write(fd, text, strlen(text)));
	close(fd);
}

/* ------------------------------------------------------------------- files */

static void sizes(void)
{
	int fd = open("a.txt", O_RDWR);

	say("truncate", truncate("d/e.txt", 2));
	show("d/e.txt");
	say("ftruncate", ftruncate(fd, 5));
	show("a.txt");
	say("fallocate", fallocate(fd, 0, 0, 50));
	say("punch", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 2));
	say("at", lseek(fd, 0, SEEK_END));
	close(fd);
	show("a.txt");
}

static void attributes(void)
{
	struct timespec times[2] = {{.tv_sec = 5}, {.tv_sec = 6}};
	struct timeval older[2] = {{.tv_sec = 7}, {.tv_sec = 8}};
	struct utimbuf oldest = {.actime = 9, .modtime = 10};
	int fd = open("a.txt", O_RDONLY);
	char value[10] = "";

	say("fchmod", fchmod(fd, 0600));
	say("chmod", chmod("b.txt", 0640));
	say("chown", chown("a.txt", getuid(), getgid()));
	say("lchown", lchown("a.txt", getuid(), getgid()));
	say("fchown", fchown(fd, getuid(), getgid()));
	say("utimensat", utimensat(AT_FDCWD, "a.txt", times, 0));
	say("futimens", futimens(fd, times));
	say("utimes", utimes("d/e.txt", older));
	say("utime", utime("d/f/g.txt", &oldest));
	say("setxattr", setxattr("a.txt", "user.x", "y", 1, 0));
	say("fsetxattr", fsetxattr(fd, "user.z", "y", 1, 0));
	say("getxattr", getxattr("a.txt", "user.x", value, sizeof(value)));
	say("removexattr", removexattr("a.txt", "user.x"));
	close(fd);
}

static void names(void)
{
	int d = open("d", O_RDONLY | O_DIRECTORY), fd;
	char path[100];

	say("linkat", linkat(AT_FDCWD, "a.txt", d, "hard", 0));
	say("symlinkat", symlinkat("../a.txt", d, "soft"));
	say("mknodat", mknodat(d, "fifo", S_IFIFO | 0600, 0));
	say("renameat", renameat(d, "e.txt", AT_FDCWD, "up.txt"));
	say("exchange", syscall(SYS_renameat2, AT_FDCWD, "a.txt", AT_FDCWD, "b.txt", 2));
	show("up.txt");
	show("b.txt");
	show("d/soft");
	say("unlinkat", unlinkat(d, "hard", 0));
	fd = openat(d, ".", O_TMPFILE | O_RDWR, 0600);
	say("temporary", write(fd, "no name\n", 8));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	say("named", linkat(AT_FDCWD, path, d, "named", AT_SYMLINK_FOLLOW));
	show("d/named");
	close(fd);
	fd = open("d", O_TMPFILE | O_RDWR, 0600); /* it never has a name */
	say("temporary", write(fd, "no name\n", 8));
	close(fd);
	close(d);
}

static void writes(void)
{
	struct iovec two[2] = {{"ab", 2}, {"cd\n", 3}};
	int fd = open("new", O_RDWR | O_CREAT | O_EXCL, 0600),
	    log = open("a.txt", O_WRONLY | O_APPEND);
	int copy = dup(fd), from = open("b.txt", O_RDONLY);
	char text[20] = "";

	say("write", write(fd, "0123456789", 10));
	say("pwrite", pwrite(fd, "x", 1, 4));
	say("writev", writev(copy, two, 2));
	say("pwritev", pwritev(fd, two, 2, 1));
	say("append", write(log, "more\n", 5));
	say("sendfile", sendfile(fd, from, NULL, 12));
	say("copy", copy_file_range(from, NULL, fd, NULL, 13, 0));
	say("much", sendfile(fd, from, NULL, 100000));
	say("size", lseek(fd, 0, SEEK_END));
	say("dprintf", dprintf(log, "%s\n", "and more"));
	say("pread", pread(copy, text, sizeof(text) - 1, 0));
	puts(text);
	close(fd);
	close(copy);
	close(log);
	close(from);
	show("a.txt");
	show("new");
}

static void mapped(void)
{
	int fd = open("b.txt", O_RDWR);
	char *text = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	memcpy(text, "MAPPED", 6);
	say("msync", msync(text, 4096, MS_SYNC));
	munmap(text, 4096);
	close(fd);
	printf("%.*s\n", 10, "");
	fd = open("b.txt", O_RDONLY);
	text = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	printf("%.20s\n", text);
}

static void shared(void)
{
	int fd = shm_open("/sreplay-harmless", O_RDWR | O_CREAT, 0600);
	sem_t *sem = sem_open("/sreplay-harmless", O_CREAT, 0600, 3);
	int value = -1;
	char *p;

	say("ftruncate", ftruncate(fd, 4096));
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	strcpy(p, "shared");
	puts(p);
	say("sem_wait", sem_wait(sem));
	sem_getvalue(sem, &value);
	say("value", value);
	say("shm_unlink", shm_unlink("/sreplay-harmless"));
	say("sem_unlink", sem_unlink("/sreplay-harmless"));
}

static void locks(void)
{
	struct flock all = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	int fd = open("a.txt", O_RDONLY);

	say("lock", fcntl(fd, F_SETLK, &all));
	say("flock", flock(fd, LOCK_EX | LOCK_NB));
	all.l_type = F_WRLCK;
	say("getlk", fcntl(fd, F_GETLK, &all));
	say("type", all.l_type);
	close(fd);
}

static void printed(void)
{
	puts("before");
	fflush(stdout);
	say("resized", ftruncate(1, 1000000));
	say("back", ftruncate(1, 0));
	fprintf(stderr, "said\n");
	fflush(stdout);
	say("out", access("/dev/stdout", W_OK));
}

static void devices(void)
{
	FILE *out = fopen("/dev/stdout", "a"), *err = fopen("/dev/stderr", "a");

	puts("first");
	fflush(stdout);
	fprintf(out, "by its device\n");
	fprintf(err, "errors by their device\n");
	fclose(out);
	fclose(err);
	puts("last");
}

static void directory(void)
{
	char name[] = "t.XXXXXX", here[1000];

	say("mkdtemp", mkdtemp(name) ? 0 : -1);
	say("chdir", chdir(name));
	put("x", "in it\n");
	show("x");
	show("../a.txt");
	say("unlink", unlink("x"));
	say("up", chdir(".."));
	say("rmdir", rmdir(name));
	say("here", getcwd(here, sizeof(here)) ? 0 : -1);
	put("after", "it\n");
}

static void much(void)
{
	static char block[1 << 20];
	int fd = open("big", O_RDWR | O_CREAT, 0600);

	for (int i = 0; i < 30; i++)
		if (write(fd, block, sizeof(block)) != sizeof(block))
			say("write", -1);
	say("size", lseek(fd, 0, SEEK_CUR));
	close(fd);
	say("unlink", unlink("big"));
}

/* Written, removed and made anew: the file system may give the inode again. */
static void again(void)
{
	char text[20];

	for (int i = 0; i < 5; i++) {
		snprintf(text, sizeof(text), "round %d\n", i);
		put("temporary", text);
		show("temporary");
		unlink("temporary");
	}
	show("temporary");
}

/* ---------------------------------------------------------------- children */

static void ran(int status)
{
	printf("ended: %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

static void by_system(void)
{
	put("in", "b\na\n");
	ran(system("sort in > out; echo changed > in; rm a.txt"));
	show("out");
	show("in");
	show("a.txt");
	ran(system("sort -o out in; echo and >> in"));
	show("out");
	show("in");
	unlink("out");
}

static void by_popen(void)
{
	char text[100];
	FILE *p = popen("sort b.txt | head -2; touch touched", "r");

	while (fgets(text, sizeof(text), p))
		fputs(text, stdout);
	ran(pclose(p));
	p = popen("sort > out", "w");
	fputs("two\none\n", p);
	ran(pclose(p));
	show("out");
	say("touched", access("touched", F_OK));
	unlink("out");
}

static void by_wordexp(void)
{
	wordexp_t words;
	int err = wordexp("$(touch by-wordexp; echo one two)", &words, 0);

	say("wordexp", err);
	for (size_t i = 0; !err && i < words.we_wordc; i++)
		puts(words.we_wordv[i]);
}

static void by_fork(void)
{
	int status, fds[2];
	char text[20] = "";
	pid_t pid;

	say("pipe", pipe(fds));
	pid = fork();
	if (!pid) {
		put("by-fork", "child\n");
		dprintf(fds[1], "from the child");
		_exit(3);
	}
	say("read", read(fds[0], text, sizeof(text) - 1));
	puts(text);
	waitpid(pid, &status, 0);
	ran(status);
	show("by-fork");
	say("unlink", unlink("by-fork"));
}

static void by_raw_fork(void)
{
	int status;
	pid_t pid = (pid_t)syscall(SYS_fork);

	if (!pid) {
		int fd =
		    (int)syscall(SYS_openat, AT_FDCWD, "by-raw-fork", O_CREAT | O_WRONLY, 0600);

		syscall(SYS_write, fd, "child\n", 6);
		syscall(SYS_exit_group, 4);
	}
	wait4(pid, &status, 0, NULL);
	ran(status);
	show("by-raw-fork");
}

static void by_spawn(void)
{
	char *const argv[] = {"sh", "-c", "echo spawned > by-spawn; exit 6", NULL};
	int status;
	pid_t pid;

	say("spawn", posix_spawnp(&pid, "sh", NULL, NULL, argv, environ));
	waitpid(pid, &status, 0);
	ran(status);
	show("by-spawn");
}

/* The file is open while a child changes it. */
static void by_descriptor(void)
{
	int fd = open("mine", O_RDWR | O_CREAT, 0600);
	char text[50] = "";

	say("write", write(fd, "z\ny\nx\n", 6));
	ran(system("sort mine > sorted; cat sorted > mine; echo w >> mine; rm sorted"));
	say("read", pread(fd, text, sizeof(text) - 1, 0));
	puts(text);
	close(fd);
}

static void in_the_background(void)
{
	puts("going");
	fflush(stdout);
	if (daemon(1, 1))
		say("daemon", -1);
	for (int i = 0; i < 20; i++) {
		int fd = open("daemon.log", O_CREAT | O_WRONLY | O_APPEND, 0600);

		dprintf(fd, "%d\n", i);
		close(fd);
		usleep(10000);
	}
}

static void killed(void)
{
	put("new", "half\n");
	raise(SIGKILL);
}

static void signals(void)
{
	pid_t pid = fork();

	if (!pid) {
		pause();
		_exit(0);
	}
	say("kill", kill(pid, SIGTERM));
	say("group", kill(-pid, 0));
	say("tkill", syscall(SYS_tkill, pid, 0));
	ran(({
		int s;
		waitpid(pid, &s, 0);
		s;
	}));
}

static void semaphores(void)
{
	struct sembuf up = {.sem_op = 2};
	int id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);

	say("semop", semop(id, &up, 1));
	say("semctl", semctl(id, 0, GETVAL));
	say("remove", semctl(id, 0, IPC_RMID));
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
    {"sizes", sizes},
    {"attributes", attributes},
    {"names", names},
    {"writes", writes},
    {"mapped", mapped},
    {"shared", shared},
    {"locks", locks},
    {"printed", printed},
    {"devices", devices},
    {"directory", directory},
    {"much", much},
    {"again", again},
    {"system", by_system},
    {"popen", by_popen},
    {"wordexp", by_wordexp},
    {"fork", by_fork},
    {"raw fork", by_raw_fork},
    {"spawn", by_spawn},
    {"descriptor", by_descriptor},
    {"daemon", in_the_background},
    {"killed", killed},
    {"signals", signals},
    {"semaphores", semaphores},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc > 1 && !strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			return 0;
		}
		if (argc == 1)
			puts(cases[i].name);
	}
	return argc > 1;
}
