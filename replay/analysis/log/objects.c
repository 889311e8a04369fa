/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/trace/elf_id.h"
#include "logd/trace/file_hash.h"

/* /proc/kcore has 128 TB. */
#define OBJECT_MAX (8ll << 30)

int sr_object_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err;
	struct stat st;

	if (fd < 0)
		return -errno;
	err = fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? 0 : -EMEDIUMTYPE;
	if (!err && st.st_size > OBJECT_MAX)
		err = -EFBIG;
	if (!err)
		return fd;
	close(fd);
	return err;
}

bool sr_object_is_same_file(int fd, const json_t *object, struct sr_object_identity *id)
{
	const char *build_id = json_string_value(json_object_get(object, "build_id"));
	const char *hash = json_string_value(json_object_get(object, "xxh3"));

	*id = (struct sr_object_identity){build_id ? "build id" : "content hash",
					  build_id ? build_id : hash, "none"};
	if (!id->recorded)
		return true;
	if (build_id)
		elf_build_id(fd, id->now, sizeof(id->now));
	else
		file_hash(fd, id->now);
	return !strcmp(id->now, id->recorded);
}
