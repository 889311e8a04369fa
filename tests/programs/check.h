/* SPDX-License-Identifier: BSD-2-Clause */
/* check.h: what a program cannot do without. */
#ifndef APPS_CHECK_H
#define APPS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

static inline void *check(void *p, const char *what)
{
	if (!p) {
		perror(what);
		exit(1);
	}
	return p;
}

#endif
