/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * softdev_files.c: looks at the files of the software device by all functions of libc that take
 * path names.
 *
 * It prints a line for each function that does not find what it should.
 * tests/e2e/local/softdev_files.py starts it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICE  "/sys/class/infiniband/soft0"
#define GUID    DEVICE "/node_guid"
#define TEXT    "0100:0000:0000:0002\n"
#define VIRTUAL "/sys/devices/virtual/infiniband/soft0"

int __open_2(const char *path, int flags);
int __openat_2(int directory, const char *path, int flags);
int __xstat(int version, const char *path, struct stat *st);
int __lxstat(int version, const char *path, struct stat *st);
int __fxstatat(int version, int directory, const char *path, struct stat *st, int flags);
char *__realpath_chk(const char *path, char *result, size_t has);
ssize_t __readlink_chk(const char *path, char *text, size_t size, size_t has);

static int failures;

static void expect(bool right, const char *what)
{
	if (right)
		return;
	failures++;
	printf("%s: wrong (%s)\n", what, strerror(errno));
}
#define EXPECT(x) expect(x, #x)

static bool reads(int fd)
{
	char text[64] = "";
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	return n > 0 && !strcmp(text, TEXT);
}

static bool streams(FILE *f)
{
	char text[64] = "";
	bool right = f && fgets(text, sizeof(text), f) && !strcmp(text, TEXT);

	if (f)
		fclose(f);
	return right;
}

static void check_opens(void)
{
	int sys = open("/sys/class", O_RDONLY | O_DIRECTORY);

	EXPECT(reads(open(GUID, O_RDONLY)));
	EXPECT(reads(open64(GUID, O_RDONLY)));
	EXPECT(reads(__open_2(GUID, O_RDONLY)));
	EXPECT(reads(openat(sys, GUID, O_RDONLY)));
	EXPECT(reads(openat64(sys, GUID, O_RDONLY)));
	EXPECT(reads(__openat_2(sys, GUID, O_RDONLY)));
	EXPECT(streams(fopen(GUID, "r")));
	EXPECT(streams(fopen64(GUID, "r")));
	EXPECT(open(DEVICE "/nothing", O_RDONLY) < 0 && errno == ENOENT);
	close(sys);
}

static int skip_dots(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static void check_folders(void)
{
	struct dirent **list = NULL, *e;
	DIR *d = opendir("/sys/class/infiniband_verbs/uverbs0");
	bool found = false;
	glob_t g = {0};

	while (d && (e = readdir(d)))
		found |= !strcmp(e->d_name, "ibdev");
	EXPECT(found);
	if (d)
		closedir(d);
	EXPECT(scandir("/sys/class/infiniband", &list, skip_dots, alphasort) == 1 &&
	       !strcmp(list[0]->d_name, "soft0"));
	if (list)
		free(list[0]);
	free(list);
	EXPECT(!glob("/sys/class/infiniband/*/ports/1/gids/?", 0, NULL, &g) && g.gl_pathc == 2 &&
	       !strcmp(g.gl_pathv[1], DEVICE "/ports/1/gids/1"));
	globfree(&g);
	EXPECT(!chdir(DEVICE) && reads(open("node_guid", O_RDONLY)) && !chdir("/"));
}

static void check_attributes(void)
{
	struct stat st;
	struct stat64 st64;
	struct statx stx;

	EXPECT(!stat(GUID, &st) && S_ISREG(st.st_mode));
	EXPECT(!stat64(GUID, &st64) && S_ISREG(st64.st_mode));
	EXPECT(!lstat(DEVICE, &st) && S_ISLNK(st.st_mode));
	EXPECT(!fstatat(AT_FDCWD, GUID, &st, 0) && S_ISREG(st.st_mode));
	EXPECT(!statx(AT_FDCWD, GUID, 0, STATX_TYPE, &stx) && S_ISREG(stx.stx_mode));
	EXPECT(!__xstat(1, GUID, &st) && S_ISREG(st.st_mode));
	EXPECT(!__lxstat(1, DEVICE, &st) && S_ISLNK(st.st_mode));
	EXPECT(!__fxstatat(1, AT_FDCWD, GUID, &st, 0) && S_ISREG(st.st_mode));
	EXPECT(!stat("/dev/infiniband/uverbs0", &st) && S_ISCHR(st.st_mode));
	EXPECT(!access("/dev/infiniband/uverbs0", R_OK | W_OK));
	EXPECT(!faccessat(AT_FDCWD, GUID, R_OK, 0));
	EXPECT(!euidaccess(GUID, R_OK));
	EXPECT(access(DEVICE "/device", F_OK) && errno == ENOENT);
}

static void check_links(void)
{
	static const char target[] = "../../devices/virtual/infiniband/soft0";
	char text[PATH_MAX] = "", *path;

	EXPECT(readlink(DEVICE, text, sizeof(text)) == sizeof(target) - 1 &&
	       !memcmp(text, target, sizeof(target)));
	EXPECT(readlinkat(AT_FDCWD, DEVICE, text, sizeof(text)) == sizeof(target) - 1);
	EXPECT(__readlink_chk(DEVICE, text, sizeof(text), sizeof(text)) == sizeof(target) - 1);
	EXPECT(realpath(DEVICE, text) && !strcmp(text, VIRTUAL));
	EXPECT(__realpath_chk(DEVICE, text, sizeof(text)) && !strcmp(text, VIRTUAL));
	path = canonicalize_file_name(DEVICE "/ports");
	EXPECT(path && !strcmp(path, VIRTUAL "/ports"));
	free(path);
}

/* Other files are what they are without the library. */
static void check_others(void)
{
	char path[] = "/tmp/softdev_files.XXXXXX", text[PATH_MAX];
	int fd = mkstemp(path);
	struct stat st, there;

	EXPECT(write(fd, TEXT, strlen(TEXT)) == (ssize_t)strlen(TEXT) &&
	       reads(open(path, O_RDONLY)));
	EXPECT(!fstat(fd, &st) && !stat(path, &there) && st.st_ino == there.st_ino);
	close(fd);
	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0640);
	EXPECT(!fstat(fd, &st) && (st.st_mode & 0777) == 0640);
	close(fd);
	unlink(path);
	EXPECT(!stat("/sys", &st) && realpath("/sys", text) && !strcmp(text, "/sys"));
	EXPECT(access("/sys/class/infiniband_x", F_OK) && errno == ENOENT);
}

static void *check_all(void *unused)
{
	check_opens();
	check_attributes();
	check_links();
	check_others();
	return NULL;
}

int main(void)
{
	pthread_t thread;
	int status;
	pid_t pid;

	umask(0);
	check_all(NULL);
	check_folders();
	/* The fabric is known for good, whatever becomes of the environment. */
	clearenv();
	pthread_create(&thread, NULL, check_all, NULL);
	pthread_join(thread, NULL);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		check_all(NULL);
		fflush(stdout);
		_exit(failures != 0);
	}
	EXPECT(waitpid(pid, &status, 0) == pid && !status);
	printf("%d wrong\n", failures);
	return failures != 0;
}
