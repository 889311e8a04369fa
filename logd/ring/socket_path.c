/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/ring/socket_path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "logd/base/rawsys.h"

#define ADDRESS_BYTES sizeof(((struct sockaddr_un *)NULL)->sun_path)

int sr_socket_absolute(char *path, size_t size, const char *given)
{
	char directory[PATH_MAX] = "";
	long err = 0;
	int n;

	if (*given != '/')
		err = sr_syscall(SYS_getcwd, (long)(intptr_t)directory, sizeof(directory), 0, 0, 0,
				 0);
	if (err < 0)
		return (int)err;
	n = snprintf(path, size, "%s%s%s", directory, *given == '/' ? "" : "/", given);
	return n < 0 || (size_t)n >= size || (size_t)n >= ADDRESS_BYTES ? -ENAMETOOLONG : 0;
}

int sr_socket_path(char *path, size_t size)
{
	const char *given = getenv("SREPLAY_SOCKET"), *runtime = getenv("XDG_RUNTIME_DIR");
	int n;

	if (given && *given)
		return sr_socket_absolute(path, size, given);
	if (runtime && *runtime)
		n = snprintf(path, size, "%s/sreplay/logd.sock", runtime);
	else
		n = snprintf(path, size, "/tmp/sreplay-%u/sreplay/logd.sock",
			     (unsigned int)getuid());
	return n < 0 || (size_t)n >= size || (size_t)n >= ADDRESS_BYTES ? -ENAMETOOLONG : 0;
}
