/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inputs.c: copies in.txt to standard output and appends it to out.txt, removes
 * gone.txt and makes a directory; all where it runs.
 */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <infiniband/verbs.h>

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	FILE *in = fopen("in.txt", "r"), *out = fopen("out.txt", "a");
	char line[100];

	if (devices)
		ibv_free_device_list(devices);
	if (!in || !out)
		return 1;
	while (fgets(line, sizeof(line), in)) {
		fputs(line, stdout);
		fputs(line, out);
	}
	unlink("gone.txt");
	mkdir("made", 0755);
	fclose(in);
	return fclose(out) ? 2 : 7;
}
