/* SPDX-License-Identifier: BSD-2-Clause */
/* over_corpus: the fuzz target over kept inputs, for builds without libFuzzer. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static int run_one(const char *path)
{
	static uint8_t data[1 << 20];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof(data));

	if (fd >= 0)
		close(fd);
	if (n < 0) {
		perror(path);
		return 1;
	}
	LLVMFuzzerTestOneInput(data, (size_t)n);
	return 0;
}

int main(int argc, char **argv)
{
	DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
	char path[PATH_MAX];
	struct dirent *e;
	int n = 0, failed = 0;

	if (!d) {
		fprintf(stderr, "usage: %s CORPUS_DIR\n", argv[0]);
		return 2;
	}
	LLVMFuzzerInitialize(&argc, &argv);
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", argv[1], e->d_name);
		failed |= run_one(path);
		n++;
	}
	closedir(d);
	printf("%s 1 - the reader takes each of %d inputs\n1..1\n", failed || !n ? "not ok" : "ok", n);
	return failed || !n;
}
