/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plain_text.h: strings without libc. A sanitizer's runtime has functions of libc's names. The first call of one starts the
 * runtime, which looks libc's functions up by our dlsym, and calls its own before it has found libc's if we call it there.
 */
#ifndef SHIM_CORE_PLAIN_TEXT_H
#define SHIM_CORE_PLAIN_TEXT_H

#include <stdbool.h>
#include <stddef.h>

static inline int sr_plain_compare(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return (unsigned char)*a - (unsigned char)*b;
}

/* The first byte behind the prefix, or NULL. */
static inline const char *sr_plain_behind(const char *text, const char *prefix)
{
	while (*prefix)
		if (*text++ != *prefix++)
			return NULL;
	return text;
}

/* Volatile, or the compiler makes a call of strlen of it. */
static inline size_t sr_plain_length(const char *text)
{
	size_t n = 0;

	while (((const volatile char *)text)[n])
		n++;
	return n;
}

/* What is behind the last slash. */
static inline const char *sr_plain_file(const char *path)
{
	const char *file = path;

	for (; *path; path++)
		if (*path == '/')
			file = path + 1;
	return file;
}

#endif
