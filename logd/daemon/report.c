/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/daemon/report.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "logd/daemon/recording.h"

static struct served_sums add_up(const struct recording *r)
{
	struct served_sums sum = r->ended;

	for (struct served *a = r->areas; a; a = a->next_mine)
		served_add_up(a, &sum);
	return sum;
}

static void write_report(FILE *out, const struct recordings *list, const char *socket_path)
{
	unsigned int n = 0;

	for (const struct recording *r = list->first; r; r = r->next)
		n++;
	fprintf(out, "sreplay-logd %s, process %d, on %s\n", SREPLAY_VERSION, (int)getpid(),
		socket_path);
	fprintf(out, "recording %u processes; %llu ended\n", n, (unsigned long long)list->ended);
	if (n)
		fprintf(out, "%8s %5s %8s %12s %14s %10s %8s  %s\n", "process", "rank", "threads",
			"records", "bytes written", "lag bytes", "dropped", "trace");
	for (const struct recording *r = list->first; r; r = r->next) {
		struct served_sums sum = add_up(r);

		fprintf(out, "%8d %5d %8llu %12llu %14llu %10llu %8llu  %s\n", (int)r->pid, r->rank,
			(unsigned long long)sum.threads, (unsigned long long)sum.records,
			(unsigned long long)sum.stored, (unsigned long long)sum.lag,
			(unsigned long long)sum.dropped,
			r->place.dir ? r->place.dir : "(not there yet)");
	}
}

int report_make(const struct recordings *list, const char *socket_path)
{
	int fd = memfd_create("sreplay-report", MFD_CLOEXEC);
	FILE *out = fd < 0 ? NULL : fdopen(dup(fd), "w");

	if (!out) {
		if (fd >= 0)
			close(fd);
		return -errno;
	}
	write_report(out, list, socket_path);
	fclose(out);
	return fd;
}
