/* SPDX-License-Identifier: BSD-2-Clause */
/* with_sanitizer.c: a program that uses verbs and is compiled with -fsanitize=address or thread. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	printf("%d device, %d argument\n", n, argc - 1);
	if (list)
		ibv_free_device_list(list);
	return getenv("LD_PRELOAD") && *getenv("LD_PRELOAD") ? 1 : 3;
}
