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
#include "shim/window/sites.h"

#define INT3 0xcc

bool code_of_file(const struct mapped_file *f, uint8_t *code, size_t n)
{
	long fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(f->path), O_RDONLY | O_CLOEXEC, 0, 0, 0), got;

	if (fd < 0)
		return false;
	got = sr_syscall(SYS_pread64, fd, SR_ARG(code), n, (long)f->offset, 0, 0);
	sr_sys_close((int)fd);
	return got == (long)n;
}

const uint8_t *code_at(uintptr_t pc)
{
	static uint8_t code[CODE_MAX];
	static uintptr_t of;
	struct mapped_file f;
	const uint8_t *original = sites_code(pc);

	if (original)
		return original;
	if (*(const uint8_t *)pc != INT3)
		return (const uint8_t *)pc;
	if (of != pc && !(map_file_of(pc, &f) && code_of_file(&f, code, sizeof(code))))
		return (const uint8_t *)pc;
	of = pc;
	return code;
}
