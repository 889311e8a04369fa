/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fixed_address.c: an executable that is not position-independent and takes malloc's address, so that it has a stub of
 * that name.  A lookup fails, and libibverbs makes the next one, which frees what is known of the failure.  As node does, it
 * has a copy of a variable of ld.so's, which is filled after all libraries have been relocated.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

typedef void *allocator(size_t);

extern void *__libc_stack_end;

int main(void)
{
	allocator *volatile allocate = malloc;
	int n;

	if (!__libc_stack_end || dlopen("there-is-no-such-library.so", RTLD_NOW) || !ibv_get_device_list(&n))
		return 1;
	for (size_t size = 8; size < 128; size += 8)
		printf("%zu bytes at %p\n", size, allocate(size));
	return 0;
}
