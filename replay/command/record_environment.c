/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/record_environment.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/hex.h"
#include "replay/command/record_options.h"
#include "shim/core/settings.h"

#define TUNABLES "GLIBC_TUNABLES"

/* Unless the user has set this one of glibc's tunables. */
static void tune(const char *tunable, const char *value)
{
	const char *old = getenv(TUNABLES);
	char tunables[PATH_MAX];

	if (old && strstr(old, tunable))
		return;
	snprintf(tunables, sizeof(tunables), "%s%s%s=%s", old ? old : "", old && *old ? ":" : "", tunable, value);
	setenv(TUNABLES, tunables, 1);
}

/*
 * Under LD_AUDIT the thread-local variables of all libraries come out of what glibc keeps for
 * libraries that are loaded late.  That is too little for ours, and the program would not start.
 */
static void make_room_for_thread_locals(void)
{
	const char *audit = getenv("LD_AUDIT");

	if (audit && *audit)
		tune("glibc.rtld.optional_static_tls", "8192");
}

/*
 * A replay executes the same functions of libc only if its processor has their instructions.  String functions want
 * AVX512VL and AVX512BW; memcpy and memset take AVX512F unless something is preferred, whose name depends on glibc's
 * version.  With RTM there are variants without vzeroupper, or, if none is known, those of SSE2.  The vector functions of
 * libmvec look at other bits.
 */
static void choose_portable_functions(void)
{
#if defined(__x86_64__)
	tune("glibc.cpu.hwcaps", "-AVX512VL,-AVX512BW,Prefer_No_AVX512,Prefer_No_AVX512_Probing,-RTM,-Prefer_No_VZEROUPPER");
#endif
}

static void preload(const char *shim)
{
	const char *old = getenv("LD_PRELOAD");
	char libraries[2 * PATH_MAX];

	snprintf(libraries, sizeof(libraries), "%s%s%s", shim, old && *old ? ":" : "",
		 old ? old : "");
	setenv("LD_PRELOAD", libraries, 1);
}

static void set_variables(const struct sr_record_run *r)
{
	char session[2 * SR_SESSION_BYTES + 1];

	for (int i = 0; i < SR_SETTING_COUNT; i++)
		if (r->options->value[i])
			setenv(sr_setting_variable(i), r->options->value[i], 1);
	setenv(sr_setting_variable(SR_SETTING_SOCKET), r->socket_path, 1);
	sr_to_hex(session, r->session, SR_SESSION_BYTES);
	setenv(SR_ENV_SESSION, session, 1);
}

void sr_record_set_environment(const struct sr_record_run *r)
{
	preload(r->shim);
	make_room_for_thread_locals();
	if (!sr_record_native_libc(r->options))
		choose_portable_functions();
	set_variables(r);
}
