/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/record_end.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay/print/progress.h"
#include "replay/print/say.h"

/* A trace in the current directory by its name there. */
static const char *short_name(const char *trace)
{
	char cwd[PATH_MAX];
	size_t n;

	if (!getcwd(cwd, sizeof(cwd)))
		return trace;
	n = strlen(cwd);
	return !strncmp(trace, cwd, n) && trace[n] == '/' ? trace + n + 1 : trace;
}

static void say_unrecorded(const struct sr_session_end *end)
{
	const bool one = end->unrecorded == 1, by_one = end->processes == 1;

	sr_note("%u process%s that %s started %s not in %s: a replay does not start %s, and lacks what %s printed",
		end->unrecorded, one ? "" : "es", by_one ? "it" : "they", one ? "is" : "are",
		by_one ? "its recording" : "their recordings", one ? "it" : "them", one ? "it" : "they");
}

void sr_record_say_end(const char *trace, const struct sr_session_end *end)
{
	char size[32];

	sr_size_words((double)end->stored, size);
	/* All that ended did so under an earlier daemon, or none was recorded. */
	if (end->processes)
		sr_note("recorded %u rank%s to %s (%s)", end->processes,
			end->processes == 1 ? "" : "s", short_name(trace), size);
	if (end->processes && end->unrecorded)
		say_unrecorded(end);
	if (end->late)
		sr_note("%u process%s loaded libibverbs late and %s recorded from the first device on, which can be read but "
			"not replayed; to replay it, record with --from-start",
			end->late, end->late == 1 ? "" : "es", end->late == 1 ? "is" : "are");
}

/* ---- nothing ---- */

/* The first file of that name that PATH leads to. */
static int open_command(const char *command)
{
	const char *path = getenv("PATH"), *end;
	char file[PATH_MAX];

	if (strchr(command, '/') || !path)
		return open(command, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	for (; *path; path = *end ? end + 1 : end) {
		end = strchrnul(path, ':');
		snprintf(file, sizeof(file), "%.*s/%s", (int)(end - path), path, command);
		if (!access(file, X_OK))
			return open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	}
	return -1;
}

/* An ELF executable without an interpreter is not linked dynamically: nothing can be preloaded. */
static bool is_static(int fd)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;

	if (pread(fd, &e, sizeof(e), 0) != sizeof(e) || memcmp(e.e_ident, ELFMAG, SELFMAG) ||
	    e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_phentsize != sizeof(p))
		return false;
	for (int i = 0; i < e.e_phnum; i++)
		if (pread(fd, &p, sizeof(p), (off_t)(e.e_phoff + (uint64_t)i * sizeof(p))) !=
			sizeof(p) ||
		    p.p_type == PT_INTERP)
			return false;
	return e.e_phnum > 0;
}

void sr_record_say_nothing(const char *command, bool from_start)
{
	int fd;

	errno = 0;
	fd = open_command(command);
	/* Then it was not run either, and that is said. */
	if (fd < 0 && errno == ENOENT)
		return;
	if (fd >= 0 && is_static(fd))
		sr_note("nothing was recorded: %s is statically linked, so its calls cannot be "
			"intercepted",
			command);
	else if (from_start)
		sr_note("nothing was recorded: unless a line above says why, %s did not start with sreplay's library (its "
			"environment was cleared, or it runs with another user's rights)",
			command);
	else
		sr_note("nothing was recorded: no process of %s uses libibverbs; to record it all "
			"the same, add --from-start",
			command);
	if (fd >= 0)
		close(fd);
}
