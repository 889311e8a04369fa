/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/hex.h"
#include "nicclock/clock.h"
#include "logd/base/say.h"
#include "shim/core/variables.h"
#include "shim/core/modes.h"

/* Where launchers say which rank a process is, the most specific first. */
static const char *const launcher_ranks[] = {
    "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID",
};

static int number(const char *name, const char *text, long least, long most, long *value)
{
	char *end;
	long v = strtol(text, &end, 10);

	if (end == text || *end || v < least || v > most) {
		sr_say("%s=%s is not a number from %ld to %ld; this process is not recorded", name,
		       text, least, most);
		return -EINVAL;
	}
	*value = v;
	return 0;
}

static int read_rank(struct sr_settings *s)
{
	const char *name = SR_ENV_RANK, *text = sr_variable(name);
	long rank = 0;

	for (size_t i = 0; !text && i < sizeof(launcher_ranks) / sizeof(launcher_ranks[0]); i++) {
		name = launcher_ranks[i];
		text = sr_variable(name);
	}
	if (text && number(name, text, 0, 1 << 20, &rank))
		return -EINVAL;
	s->rank = (int)rank;
	return 0;
}

/* "0,2-5": is the rank in it? */
static int read_group(struct sr_settings *s)
{
	const char *list = sr_variable(SR_ENV_GROUP), *p = list;
	bool in = false;
	char *end;

	s->in_group = !list || !*list;
	s->member = s->in_group ? s->rank : 0;
	while (p && *p) {
		long first = strtol(p, &end, 10), last = first;

		if (end == p || first < 0)
			goto bad;
		if (*end == '-') {
			p = end + 1;
			last = strtol(p, &end, 10);
			if (end == p || last < first)
				goto bad;
		}
		if (*end && *end != ',')
			goto bad;
		if (s->rank >= first && s->rank <= last) {
			s->in_group = true;
			s->member += (int)(s->rank - first);
			in = true;
		}
		if (!in)
			s->member += (int)(last - first + 1);
		s->members += (int)(last - first + 1);
		p = *end ? end + 1 : end;
	}
	if (s->member >= SR_CLOCK_MEMBERS)
		s->member = -1;
	return 0;
bad:
	sr_say("%s=%s is not a list of ranks such as 0,2-5; this process is not recorded",
	       SR_ENV_GROUP, list);
	return -EINVAL;
}

/* Somebody else's idea of a session is none. */
static void read_session(struct sr_settings *s)
{
	const char *text = sr_variable(SR_ENV_SESSION);

	if (text && !sr_from_hex(text, s->session, sizeof(s->session)))
		memset(s->session, 0, sizeof(s->session));
}

static int read_exposed(struct sr_settings *s)
{
	static const char *const modes[] = {
	    [SR_REGIONS_PROTECT] = "protect",
	    [SR_REGIONS_COMPARE] = "compare",
	    [SR_REGIONS_OFF] = "off",
	};
	const char *text = sr_variable(SR_ENV_EXPOSED);

	for (s->exposed = SR_REGIONS_PROTECT; text && s->exposed <= SR_REGIONS_OFF; s->exposed++)
		if (!strcmp(text, modes[s->exposed]))
			return 0;
	if (!text)
		return 0;
	sr_say("%s=%s is not protect, compare or off; this process is not recorded", SR_ENV_EXPOSED,
	       text);
	return -EINVAL;
}

static int read_threads(struct sr_settings *s)
{
	const char *text = sr_variable(SR_ENV_THREADS);

	s->serial = text && !strcmp(text, "serial");
	if (!text || s->serial || !strcmp(text, "parallel"))
		return 0;
	sr_say("%s=%s is neither parallel nor serial; this process is not recorded", SR_ENV_THREADS,
	       text);
	return -EINVAL;
}

int sr_settings_read(struct sr_settings *s)
{
	const char *ring = sr_variable(SR_ENV_RING);
	const char *lossy = sr_variable(SR_ENV_LOSSY), *clocks = sr_variable(SR_ENV_CLOCKS);
	const char *direct = sr_variable(SR_ENV_DIRECT);
	const char *from_start = sr_variable(SR_ENV_START);
	const char *files = sr_variable(SR_ENV_FILES), *trap = sr_variable(SR_ENV_SYSCALL_TRAP),
		   *tsc = sr_variable(SR_ENV_TSC), *patch = sr_variable(SR_ENV_PROBES);
	long bytes = 4 << 20, drop = 0, allow = 0, keep = 0, how = 0, caught = 1, start = 0, jumps = 1;

	*s = (struct sr_settings){.trace = sr_variable(SR_ENV_TRACE)};
	if (!s->trace || !*s->trace) {
		s->trace = NULL;
		return 0;
	}
	if (s->trace[0] != '/') {
		sr_say("%s=%s is not an absolute path; this process is not recorded", SR_ENV_TRACE,
		       s->trace);
		return -EINVAL;
	}
	if (ring && number(SR_ENV_RING, ring, 64 << 10, 1 << 30, &bytes))
		return -EINVAL;
	if (lossy && number(SR_ENV_LOSSY, lossy, 0, 1, &drop))
		return -EINVAL;
	if (direct && number(SR_ENV_DIRECT, direct, 0, 1, &allow))
		return -EINVAL;
	s->allow_direct = allow;
	if (files && number(SR_ENV_FILES, files, 0, 1, &keep))
		return -EINVAL;
	if (from_start && number(SR_ENV_START, from_start, 0, 1, &start))
		return -EINVAL;
	s->from_start = start;
	if (trap && number(SR_ENV_SYSCALL_TRAP, trap, 0, 1, &caught))
		return -EINVAL;
	s->trap = caught;
	if (patch && number(SR_ENV_PROBES, patch, 0, 1, &jumps))
		return -EINVAL;
	s->patch = jumps;
	if (tsc && strcmp(tsc, "native") && strcmp(tsc, "trap")) {
		sr_say("%s=%s is neither trap nor native; this process is not recorded", SR_ENV_TSC,
		       tsc);
		return -EINVAL;
	}
	s->native_tsc = tsc && !strcmp(tsc, "native");
	s->ring_bytes = (size_t)bytes;
	s->lossy = drop;
	if (clocks && number(SR_ENV_CLOCKS, clocks, 0, 2, &how))
		return -EINVAL;
	s->clocks = how > 0;
	s->clocks_with_oneself = how == 2;
	s->key = sr_variable(SR_ENV_KEY);
	s->hosts = sr_variable(SR_ENV_HOSTS);
	s->keep_files = keep;
	read_session(s);
	if (read_exposed(s) || read_threads(s) || read_rank(s))
		return -EINVAL;
	return read_group(s);
}
