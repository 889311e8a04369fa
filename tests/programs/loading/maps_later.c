/* SPDX-License-Identifier: BSD-2-Clause */
/* maps_later.c: loads a library by its name, and shows where memory comes to lie that it maps afterwards. */
#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>

int main(void)
{
	void *library = dlopen("libanl.so.1", RTLD_NOW), *memory;

	if (!library) {
		puts(dlerror());
		return 1;
	}
	memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	printf("%p\n", memory);
	return 0;
}
