/* SPDX-License-Identifier: BSD-2-Clause */
/* begins_early.c: prints what early_allocator.c, its malloc, read when it was first used. */
#include "early_allocator.h"

#include <inttypes.h>
#include <stdio.h>

int main(void)
{
	struct timespec now = {0};
	int err = early_allocator_thread(&now);

	printf("began %" PRId64 ", seed %" PRIx64 ", in a thread %lld.%09ld\n", early_allocator.began, early_allocator.seed,
	       (long long)now.tv_sec, now.tv_nsec);
	return err ? 1 : 3;
}
