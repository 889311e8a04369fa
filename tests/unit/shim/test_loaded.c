/* SPDX-License-Identifier: BSD-2-Clause */
/* Without glibc's function (2.35 and later have it) the same objects are found. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "shim/core/loaded.h"
#include "shim/core/next.h"

/* Stands in for the shim's, which passes by the shim's own wrappers: here are none. */
void *sr_next(struct sr_next_function *next)
{
	return dlsym(RTLD_DEFAULT, next->name);
}

static int failed;

static void check(const char *what, bool is_right)
{
	static int n;

	failed += !is_right;
	printf("%sok %d - %s\n", is_right ? "" : "not ", ++n, what);
}

static bool is_same(const void *address)
{
	struct sr_loaded a = {0}, b = {0};

	return sr_loaded_at((uintptr_t)address, &a) &&
	       sr_loaded_at_by_list((uintptr_t)address, &b) && a.base == b.base &&
	       !strcmp(a.name, b.name) && a.begin <= (uintptr_t)address &&
	       (uintptr_t)address < a.end && b.begin <= (uintptr_t)address &&
	       (uintptr_t)address < b.end;
}

static bool is_none(const void *address)
{
	struct sr_loaded object;

	return !sr_loaded_at((uintptr_t)address, &object) &&
	       !sr_loaded_at_by_list((uintptr_t)address, &object);
}

static bool count(const struct sr_loaded *object, void *argument)
{
	int *left = argument;

	return !--*left;
}

int main(void)
{
	int on_stack, two = 2;

	printf("1..5\n");
	check("the program", is_same((const void *)main));
	check("a library", is_same(dlsym(RTLD_DEFAULT, "strtol")));
	check("nothing on the stack", is_none(&on_stack));
	check("nothing at 0", is_none(NULL));
	sr_loaded_each(count, &two);
	check("a search ends when it is told so", !two);
	return failed != 0;
}
