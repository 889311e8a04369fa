/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/daemon/hello.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sreplay/trace.h>

#include "logd/daemon/shared_layouts.h"
#include "logd/service/proc.h"
#include "logd/trace/format.h"
#include "logd/writer/process.h"
#include "logd/writer/trace_dir.h"

static bool take_origin(const struct sr_message *hello, uint32_t flag,
			struct sr_image_origin *origin)
{
	memset(origin, 0, sizeof(*origin));
	if (!(hello->flags & flag))
		return false;
	memcpy(origin, hello->text, sizeof(*origin));
	return true;
}

bool hello_image(const struct sr_message *hello, struct sr_image_origin *image)
{
	return take_origin(hello, SR_MESSAGE_IMAGE, image);
}

bool hello_parent(const struct sr_message *hello, struct sr_image_origin *parent)
{
	return take_origin(hello, SR_MESSAGE_CHILD, parent);
}

int hello_check(const struct sr_message *hello, int body_fd, char *error, size_t error_size)
{
	struct sr_image_origin image, parent;

	if (body_fd < 0)
		return -EPROTO;
	if (hello->trace_version != SR_TRACE_VERSION) {
		snprintf(
		    error, error_size,
		    "the process writes traces of version %u, and this sreplay-logd of version "
		    "%d: use both of one release",
		    hello->trace_version, SR_TRACE_VERSION);
		return -EPROTO;
	}
	if (hello->rank < 0) {
		snprintf(error, error_size, "rank %d is not a rank: ranks begin at 0", hello->rank);
		return -EINVAL;
	}
	if (hello_image(hello, &image) && (!image.number || image.number > SR_IMAGES_MAX))
		return -EPROTO;
	if (hello_parent(hello, &parent) && (!parent.number || hello_image(hello, &image)))
		return -EPROTO;
	return 0;
}

struct hello_texts {
	struct sr_hello_body body;
	char *text; /* all of them */
	const char *trace_dir, *schema, *extra;
	struct iovec own[SR_FACTS];
	char dir[PATH_MAX]; /* absolute */
};

static int read_texts(struct hello_texts *t, int fd)
{
	uint64_t size;
	char *at;

	if (pread(fd, &t->body, sizeof(t->body), 0) != sizeof(t->body))
		return -EPROTO;
	size = (uint64_t)t->body.trace_dir_size + t->body.schema_size + t->body.extra_size;
	for (int i = 0; i < SR_FACTS; i++)
		size += t->body.fact_sizes[i];
	if (size > SR_HELLO_MAX_TEXT || t->body.trace_dir_size >= PATH_MAX ||
	    !t->body.trace_dir_size)
		return -EPROTO;
	t->text = malloc(size + 1);
	if (!t->text)
		return -ENOMEM;
	if (pread(fd, t->text, size, sizeof(t->body)) != (ssize_t)size)
		return -EPROTO;
	t->trace_dir = t->text;
	t->schema = t->trace_dir + t->body.trace_dir_size;
	t->extra = t->schema + t->body.schema_size;
	at = t->text + t->body.trace_dir_size + t->body.schema_size + t->body.extra_size;
	for (int i = 0; i < SR_FACTS; i++) {
		t->own[i] = (struct iovec){at, t->body.fact_sizes[i]};
		at += t->own[i].iov_len;
	}
	return 0;
}

static int find_dir(struct hello_texts *t, pid_t pid)
{
	char given[PATH_MAX];

	memcpy(given, t->trace_dir, t->body.trace_dir_size);
	given[t->body.trace_dir_size] = 0;
	return process_path(pid, given, t->dir, sizeof(t->dir));
}

static int identify(struct trace_place *place)
{
	struct stat st;

	if (fstat(place->trace_fd, &st))
		return -errno;
	place->device = st.st_dev;
	place->inode = st.st_ino;
	return 0;
}

/* Describing the process is the expensive part. */
static int describe(struct rank_claim *c, pid_t pid, const struct sr_message *hello,
		    const struct hello_texts *t, _Atomic unsigned int *steps, char *error,
		    size_t error_size)
{
	struct sr_image_origin parent;
	const struct process_facts facts = {
	    .image = c->image,
	    .parent = hello_parent(hello, &parent) ? &parent : NULL,
	    .pid = pid,
	    .rank = hello->rank,
	    .flags = hello->hello_flags,
	    .stack = hello->value,
	    .id = hello->process,
	    .extra = t->extra,
	    .extra_size = t->body.extra_size,
	    .own = t->own,
	    .steps = steps,
	};

	c->description = process_describe(&facts, error, error_size);
	return c->description ? 0 : -EINVAL;
}

static int claim(struct trace_place *place, pid_t pid, const struct sr_message *hello,
		 const struct hello_texts *t, _Atomic unsigned int *steps, char *error,
		 size_t error_size)
{
	struct sr_image_origin image;
	struct rank_claim c = {
	    .dir = t->dir,
	    .image = hello_image(hello, &image) ? &image : NULL,
	    .rank = hello->rank,
	    .process = hello->process,
	    .schema = t->schema,
	    .schema_size = t->body.schema_size,
	    .steps = steps,
	};
	int err = -ENOENT;

	/* An earlier daemon has described it, but where it died within that. */
	if (hello->flags & SR_MESSAGE_RESUME)
		err = trace_dir_claim(&c, &place->trace_fd, &place->rank_fd, error, error_size);
	if (err && !(err = describe(&c, pid, hello, t, steps, error, error_size)))
		err = trace_dir_claim(&c, &place->trace_fd, &place->rank_fd, error, error_size);
	json_decref(c.description);
	return err ? err : identify(place);
}

int hello_claim(struct trace_place *place, pid_t pid, const struct sr_message *hello, int body_fd,
		_Atomic unsigned int *steps, char *error, size_t error_size)
{
	struct hello_texts t = {0};
	int err = read_texts(&t, body_fd);

	*place = (struct trace_place){.trace_fd = -1, .rank_fd = -1};
	if (!err)
		err = find_dir(&t, pid);
	if (!err && !(place->dir = strdup(t.dir)))
		err = -ENOMEM;
	if (!err)
		place->layouts = shared_layouts_take(t.schema, t.body.schema_size);
	if (!err)
		err = claim(place, pid, hello, &t, steps, error, error_size);
	free(t.text);
	return err;
}

void trace_place_free(struct trace_place *place)
{
	if (place->rank_fd >= 0)
		close(place->rank_fd);
	if (place->trace_fd >= 0)
		close(place->trace_fd);
	shared_layouts_drop(place->layouts);
	free(place->dir);
}
