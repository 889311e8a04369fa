/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * code.c: the instruction at a fault.
 *
 * A debugger that is to step over a breakpoint, and is told of a SIGSEGV, puts a
 * breakpoint where the handler will return to: over the very instruction that the
 * handler is about to decode.  What was there is still in the program's file.
 */
#include <fcntl.h>

#include "logd/rawsys.h"
#include "shim/window/decode.h"
#include "shim/window/map.h"

#define INT3 0xcc

static bool read_file(uintptr_t pc, uint8_t code[CODE_MAX])
{
	char path[512];
	uint64_t offset;
	long fd, got;

	if (!map_file_of(pc, path, sizeof(path), &offset))
		return false;
	fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(path), O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return false;
	got = sr_syscall(SYS_pread64, fd, SR_ARG(code), CODE_MAX, (long)offset, 0, 0);
	sr_sys_close((int)fd);
	return got > 0;
}

const uint8_t *code_at(uintptr_t pc)
{
	static uint8_t code[CODE_MAX];
	static uintptr_t of;

	if (*(const uint8_t *)pc != INT3)
		return (const uint8_t *)pc;
	if (of != pc && !read_file(pc, code))
		return (const uint8_t *)pc;
	of = pc;
	return code;
}
