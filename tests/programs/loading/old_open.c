/* SPDX-License-Identifier: BSD-2-Clause */
/* old_open.c: a program of 2006 that only opens a device; see also old_verbs.c. */
#include <stdio.h>

#include <infiniband/verbs.h>

void **old_get_device_list(int *n);
void *old_open_device(void *device);
__asm__(".symver old_get_device_list, ibv_get_device_list@IBVERBS_1.0");
__asm__(".symver old_open_device, ibv_open_device@IBVERBS_1.0");

int main(void)
{
	void **list = old_get_device_list(NULL);

	printf("opened: %d\n", list && list[0] && old_open_device(list[0]));
	return 3;
}
