/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/record_environment.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/hex.h"
#include "replay/command/record_options.h"
#include "shim/core/settings.h"

#define STATIC_TLS "glibc.rtld.optional_static_tls"

/*
 * Under LD_AUDIT the thread-local variables of all libraries come out of what glibc keeps for
 * libraries that are loaded late.  That is too little for ours, and the program would not start.
 */
static void make_room_for_thread_locals(void)
{
	const char *audit = getenv("LD_AUDIT"), *old = getenv("GLIBC_TUNABLES");
	char tunables[PATH_MAX];

	if (!audit || !*audit || (old && strstr(old, STATIC_TLS)))
		return;
	snprintf(tunables, sizeof(tunables), "%s%s" STATIC_TLS "=8192", old ? old : "",
		 old && *old ? ":" : "");
	setenv("GLIBC_TUNABLES", tunables, 1);
}

static void preload(const char *shim)
{
	const char *old = getenv("LD_PRELOAD");
	char libraries[2 * PATH_MAX];

	snprintf(libraries, sizeof(libraries), "%s%s%s", shim, old && *old ? ":" : "",
		 old ? old : "");
	setenv("LD_PRELOAD", libraries, 1);
	make_room_for_thread_locals();
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
	set_variables(r);
}
