/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/host/files.h"
#include "replay/host/rank/replayed.h"
#include "replay/print/say.h"

/*
 * The directory of this rank's private files (shim/files/private.c), which its images share: what one
 * has written, the next one reads.
 */
static int make_private(const char *files, int32_t rank, uint32_t image)
{
	char dir[PATH_MAX], before[32];
	int fd;

	snprintf(dir, sizeof(dir), "%s/rank-%d", files, rank);
	if (mkdir(dir, 0700) && (!image || errno != EEXIST))
		return -1;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || (mkdirat(fd, "empty", 0700) && (!image || errno != EEXIST)))
		return -1;
	/* Each image has its own. */
	snprintf(before, sizeof(before), "before-%u", image);
	if (image && (renameat(fd, "kept", fd, before) || (unlinkat(fd, "journal", 0) && errno != ENOENT)) &&
	    errno != ENOENT)
		return -1;
	return mkdirat(fd, "kept", 0700) ? -1 : fd;
}

static bool open_journal(struct sr_replayed_rank *r)
{
	r->journal_fd = openat(r->files_fd, "journal", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	r->control->journal_fd = r->journal_fd;
	if (r->journal_fd >= 0 && (!mkdir(r->options->output, 0777) || errno == EEXIST))
		return true;
	return !sr_fail("cannot make %s: %s", r->options->output, strerror(errno));
}

/*
 * The last first, because a number that two of the processes have used is the child's: the parent's
 * is a file that it read after the fork.
 */
static bool link_kept(const struct sr_replayed_rank *r)
{
	int kept = openat(r->files_fd, "kept", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool linked = kept >= 0;

	for (size_t i = r->forks.n; linked && i--;)
		linked = sr_files_link(r->forks.trace[i], r->forks.rank[i], r->forks.dir[i], kept);
	close(kept);
	return linked;
}

static bool check_files(const struct sr_replayed_rank *r, bool kept)
{
	bool good = true;

	for (size_t i = 0; good && i < r->forks.n; i++)
		good = sr_files_check(r->forks.trace[i], r->forks.rank[i], kept);
	return good;
}

bool sr_replayed_open_files(struct sr_replayed_rank *r)
{
	const struct sr_rank_options *o = r->options;

	if (!o->files)
		return check_files(r, false);
	if (!r->recorded.trap)
		return !sr_fail("rank %s was recorded without the system-call trap, so a replay cannot "
				"keep apart what it writes: --live-files lets it write to the "
				"files of this machine",
				sr_trace_rank_name(r->trace, o->rank));
	r->files_fd = r->control->files_fd = make_private(o->files, o->rank, sr_trace_image(r->trace, o->rank));
	if (r->files_fd < 0)
		return !sr_fail("cannot make %s/rank-%d: %s", o->files, o->rank, strerror(errno));
	if (o->output && !open_journal(r))
		return false;
	return link_kept(r) && check_files(r, true);
}
