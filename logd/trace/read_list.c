/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of a rank's streams: a line with the thread's number for each, in any order. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/format.h"
#include "logd/trace/read_trace.h"
#include "logd/trace/safe_file.h"

/* Some million threads. */
#define LIST_MAX (16 << 20)

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* False: the line is no number. */
static bool parse_line(char **at, uint32_t *number)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(*at, &end, 10);
	if (end == *at || **at < '0' || **at > '9' || *end != '\n' || errno || n > INT32_MAX)
		return false;
	*number = (uint32_t)n;
	*at = end + 1;
	return true;
}

static size_t lines_of(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* Sorts, and drops those that come twice. */
static size_t put_in_order(uint32_t *numbers, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(numbers, n, sizeof(*numbers), compare);
	for (size_t i = 0; i < n; i++)
		if (!i || numbers[i] != numbers[kept - 1])
			numbers[kept++] = numbers[i];
	return kept;
}

int sr_trace_listed_threads(const struct sr_trace *t, int32_t rank, uint32_t **threads, size_t *n,
			    struct sr_error *err)
{
	char path[PATH_MAX], *text, *at;
	size_t size;
	int ret;

	*threads = NULL;
	*n = 0;
	sr_trace_rank_path(t, rank, SR_STREAMS_FILE, path, sizeof(path));
	ret = sr_safe_read(path, LIST_MAX, &text, &size);
	if (ret == -ENOENT) /* a trace from before there was such a list */
		return 0;
	if (ret)
		return sr_error_set(err, ret, "cannot read %s: %s", path, sr_safe_reason(ret));
	*threads = calloc(lines_of(text) + 1, sizeof(**threads));
	if (!*threads)
		ret = sr_error_set(err, -ENOMEM, "no memory to read %s", path);
	/* A last line without its end is still being written. */
	for (at = text; !ret && strchr(at, '\n');)
		if (!parse_line(&at, &(*threads)[(*n)++]))
			ret = sr_error_set(err, -EBADMSG, "%s: line %zu is damaged", path, *n);
	free(text);
	if (!ret)
		*n = put_in_order(*threads, *n);
	else
		free(*threads);
	return ret;
}
