/* SPDX-License-Identifier: BSD-2-Clause */
/* files.c: files of its own, one that all write, standard output, and what the system shows. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shared.h"

static pthread_mutex_t together = PTHREAD_MUTEX_INITIALIZER;

static void prints(struct self *s)
{
	printf("%d: %x\n", s->number, decide(s, 1u << 20));
}

static void writes_output(struct self *s)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%d> %x\n", s->number, decide(s, 1u << 20));

	fflush(stdout);
	mix(s, (uint64_t)write(1, text, (size_t)n));
}

static void writes_own(struct self *s)
{
	fprintf(s->file, "%x\n", decide(s, 1000));
	if (!draw(s, 5))
		fflush(s->file);
}

static void reads_own(struct self *s)
{
	char line[64];

	rewind(s->file);
	for (unsigned int n = draw(s, 5); n; n--)
		if (fgets(line, sizeof(line), s->file))
			mix_bytes(s, line, strlen(line));
	fseek(s->file, 0, SEEK_END);
	mix(s, (uint64_t)ftell(s->file));
}

/* Plain calls on a file that comes and goes. */
static void handles(struct self *s)
{
	char name[32], bytes[128];
	struct stat st;
	int fd;

	snprintf(name, sizeof(name), "file-%d-%u", s->number, draw(s, 3));
	fd = open(name, O_RDWR | O_CREAT | (draw(s, 4) ? 0 : O_TRUNC), 0600);
	memset(bytes, 'a' + (int)decide(s, 26), sizeof(bytes));
	mix(s, (uint64_t)fd);
	mix(s, (uint64_t)pwrite(fd, bytes, 1 + draw(s, 100), draw(s, 1000)));
	lseek(fd, draw(s, 200), SEEK_SET);
	mix(s, (uint64_t)read(fd, bytes, sizeof(bytes)));
	mix_bytes(s, bytes, sizeof(bytes));
	if (!draw(s, 4))
		mix(s, (uint64_t)ftruncate(fd, draw(s, 500)));
	fstat(fd, &st);
	mix(s, (uint64_t)st.st_size);
	close(fd);
}

static void renames(struct self *s)
{
	char from[32], to[32];

	snprintf(from, sizeof(from), "file-%d-%u", s->number, draw(s, 3));
	snprintf(to, sizeof(to), "file-%d-%u", s->number, draw(s, 3));
	mix(s, (uint64_t)(draw(s, 3) ? rename(from, to) : unlink(from)));
	mix(s, (uint64_t)access(from, F_OK));
}

/* All threads append to one file. */
static void appends(struct self *s)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%d %x\n", s->number, decide(s, 100000)), fd;
	struct iovec pieces[2] = {{text, 2}, {text + 2, (size_t)n - 2}};

	pthread_mutex_lock(&together);
	fd = open("together", O_WRONLY | O_CREAT | O_APPEND, 0600);
	mix(s, (uint64_t)writev(fd, pieces, 2));
	mix(s, (uint64_t)lseek(fd, 0, SEEK_END));
	close(fd);
	pthread_mutex_unlock(&together);
}

static void maps_file(struct self *s)
{
	char name[32];
	char *p;
	int fd;

	snprintf(name, sizeof(name), "mapped-%d", s->number);
	fd = open(name, O_RDWR | O_CREAT, 0600);
	mix(s, (uint64_t)ftruncate(fd, 4096));
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	mix(s, (uintptr_t)p);
	p[draw(s, 4096)] = (char)decide(s, 100);
	mix_bytes(s, p, 64);
	if (draw(s, 2))
		msync(p, 4096, MS_SYNC);
	munmap(p, 4096);
}

static void looks_around(struct self *s)
{
	static const char *const names[] = {"/proc/self/stat", "/proc/uptime", "/proc/loadavg",
					    "/proc/self/status", "/proc/meminfo"};
	FILE *f = fopen(names[draw(s, 5)], "r");
	char line[256];
	struct stat st;

	while (f && fgets(line, sizeof(line), f))
		mix_bytes(s, line, strlen(line));
	if (f)
		fclose(f);
	mix(s, (uint64_t)stat("/etc/passwd", &st));
	mix(s, (uint64_t)st.st_mtim.tv_nsec);
}

static void makes_directory(struct self *s)
{
	char name[32];
	DIR *d;

	snprintf(name, sizeof(name), "dir-%d-%u", s->number, draw(s, 2));
	mix(s, (uint64_t)(draw(s, 2) ? mkdir(name, 0700) : rmdir(name)));
	d = opendir(name);
	for (struct dirent *e; d && (e = readdir(d));)
		mix(s, strlen(e->d_name));
	if (d)
		closedir(d);
}

const struct step file_steps[] = {
    {"prints", prints, 6},
    {"writes_output", writes_output, 3},
    {"writes_own", writes_own, 5},
    {"reads_own", reads_own, 2},
    {"handles", handles, 5},
    {"renames", renames, 2},
    {"appends", appends, 4},
    {"maps_file", maps_file, 1},
    {"looks_around", looks_around, 2},
    {"makes_directory", makes_directory, 1},
    {0},
};
