/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/ring/socket_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

int sr_socket_path(char *path, size_t size)
{
	const size_t address = sizeof(((struct sockaddr_un *)NULL)->sun_path);
	const char *given = getenv("SREPLAY_SOCKET"), *runtime = getenv("XDG_RUNTIME_DIR");
	int n;

	if (given && *given)
		n = snprintf(path, size, "%s", given);
	else if (runtime && *runtime)
		n = snprintf(path, size, "%s/sreplay/logd.sock", runtime);
	else
		n = snprintf(path, size, "/tmp/sreplay-%u/sreplay/logd.sock",
			     (unsigned int)getuid());
	return n < 0 || (size_t)n >= size || (size_t)n >= address ? -ENAMETOOLONG : 0;
}
