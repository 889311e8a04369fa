/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/describe.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>

#include "logd/base/hex.h"
#include "logd/base/highfd.h"
#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/files/inherited.h"
#include "shim/kernel/tsc.h"
#include "shim/kernel/user_dispatch.h"
#include "shim/memory/heap.h"
#include "shim/memory/huge_pages.h"
#include "shim/memory/images.h"
#include "shim/signals/kernel.h"
#include "shim/threads/main_stack.h"
#include "shim/threads/stdio_pin.h"
#include "shim/verbs/clocks/clocks.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

#define MAPS_BYTES (256ul << 10)

/* The first line that names one of these mappings begins with its address. */
static uintptr_t find_kernel_mapping(const char *maps)
{
	for (const char *line = maps; line && *line; line = strchr(line, '\n')) {
		const char *end;

		line += *line == '\n';
		end = strchr(line, '\n');
		for (const char *at = line; end && at < end; at++)
			if (!strncmp(at, "[vvar", 5) || !strncmp(at, "[vdso]", 6))
				return strtoul(line, NULL, 16);
	}
	return 0;
}

/* The beginning of a file, as a string. */
static void read_text(const char *path, char *text, size_t size)
{
	long fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(path), O_RDONLY | O_CLOEXEC, 0, 0, 0);
	size_t got = 0;
	long n;

	while (fd >= 0 && got < size - 1 && (n = sr_sys_read((int)fd, text + got, size - 1 - got)) > 0)
		got += (size_t)n;
	if (fd >= 0)
		sr_sys_close((int)fd);
	text[got] = 0;
}

/*
 * Libraries lie below ld.so, and below the kernel's own mappings where these are next to it.  (Some kernels put them next to
 * the stack.)
 */
static uintptr_t libraries_below(void)
{
	uintptr_t loader = getauxval(AT_BASE), lowest;
	char *maps = sr_alloc(MAPS_BYTES);

	if (!maps)
		return 0;
	read_text("/proc/self/maps", maps, MAPS_BYTES);
	lowest = find_kernel_mapping(maps);
	sr_free(maps);
	return loader && (!lowest || loader < lowest) ? loader : lowest;
}

/* Where the heap of brk(2) began: the 47th field of /proc/self/stat (proc(5)).  The second one may have spaces and brackets. */
static uintptr_t program_break(void)
{
	char text[1024];
	const char *at;

	read_text("/proc/self/stat", text, sizeof(text));
	at = strrchr(text, ')');
	for (int field = 2; at && field < 47; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoul(at, NULL, 10) : 0;
}

/* The path by which the program was executed is the highest of the strings there; one null pointer is above it. */
static uintptr_t stack_top(void)
{
	const char *path = (const char *)getauxval(AT_EXECFN);

	return path ? sr_page_up((uintptr_t)path + strlen(path) + 1 + sizeof(void *)) : 0;
}

/* Where the kernel has put things, which may be random (replay/host/layout). */
static int describe_layout(char *extra, size_t size)
{
	return snprintf(extra, size,
			"\"libraries_below\":\"%#lx\",\"vdso\":\"%#lx\",\"program\":\"%#lx\",\"loader\":\"%#lx\","
			"\"program_break\":\"%#lx\",\"stack\":\"%#lx\",\"stack_top\":\"%#lx\",\"random_at\":\"%#lx\","
			"\"platform\":\"%#lx\",",
			libraries_below(), (unsigned long)sr_images_vdso(), getauxval(AT_ENTRY), getauxval(AT_BASE),
			program_break(), sr_main_stack_start(), stack_top(), getauxval(AT_RANDOM),
			getauxval(AT_PLATFORM));
}

/* Appends the last member of the JSON object. */
static void describe_processor(char *extra, size_t size)
{
	static struct sr_processor p;
	static const char name[] = ",\"cpuid\":\"", end[] = "\"}";
	size_t bytes;

	sr_processor_read(&p);
	bytes = p.entries * sizeof(p.entry[0]);
	if (sizeof(name) + 2 * bytes + sizeof(end) > size)
		bytes = 0;
	memcpy(extra, name, sizeof(name) - 1);
	sr_to_hex(extra + sizeof(name) - 1, p.entry, bytes);
	memcpy(extra + sizeof(name) - 1 + 2 * bytes, end, sizeof(end));
}

/* The signals that are ignored and blocked when the process starts. */
static void inherited_signals(uint64_t *ignored, uint64_t *blocked)
{
	struct sr_kernel_action a;

	*ignored = *blocked = 0;
	for (int signo = 1; signo <= SR_SIGNALS; signo++)
		if (!sr_kernel_action(signo, NULL, &a) && a.handler == (void *)SIG_IGN)
			*ignored |= SR_SIGNAL_BIT(signo);
	sr_kernel_mask(SIG_BLOCK, NULL, blocked);
}

/* The number that the process has, or is to get, among those with clocks; a child's is another one than its parent's. */
static int clock_number(const struct sr_settings *s, enum sr_record_from from)
{
	if (from == SR_RECORD_FROM_FORK)
		return sr_clocks_number();
	return s->clocks ? s->member : -1;
}

/*
 * Describes what a replay needs besides what the daemon finds in /proc: how standard output is
 * flushed; the signals that were ignored or blocked at the start; the path by which the program
 * was executed, which the kernel puts at the top of the stack; the stack limit, which decides
 * where mappings begin; where main's frame is; and whether the recording starts with the process.
 */
bool sr_record_describe(char *extra, size_t size, const struct sr_settings *s,
		     enum sr_record_from from)
{
	static const char *const begins[] = {
	    [SR_RECORD_FROM_START] = "start",
	    [SR_RECORD_FROM_OPEN] = "open",
	    [SR_RECORD_FROM_FORK] = "fork",
	};
	const char *path = (const char *)getauxval(AT_EXECFN);
	const uint8_t *random_bytes = (const uint8_t *)getauxval(AT_RANDOM);
	char random[2 * 16 + 1] = "";
	uint64_t stack[2] = {0}, ignored, blocked;
	uintptr_t main_stack = from == SR_RECORD_FROM_START ? sr_main_stack_choose() : 0;
	int n;

	sr_huge_pages_find();
	if (random_bytes)
		sr_to_hex(random, random_bytes, 16);
	sr_sys_getrlimit(RLIMIT_STACK, stack);
	inherited_signals(&ignored, &blocked);
	n = snprintf(extra, size,
		     "{\"recorded_from\":\"%s\",\"syscall_trap\":%s,\"tsc\":%s,\"pid\":%ld,\"member\":%d,\"order\":%s,\"sums\":%s,"
		     "\"places\":true,"
		     "\"stdout_line_buffered\":%s,"
		     "\"stack_limit\":\"%llu\",\"main_stack\":\"%#llx\","
		     "\"random\":\"%s\","
		     "\"descriptors\":\"%s\",\"descriptors_below\":%d,\"signal_frame\":\"%#lx\",\"huge_pages\":%s,\"threads\":\"%s\",\"ignored\":\"%#lx\",\"blocked\":\"%#lx\",",
		     begins[from],
		     sr_trap_is_on ? "true" : "false",
		     sr_tsc_traps ? "true" : "false", sr_sys_getpid(), clock_number(s, from), s->order ? "true" : "false",
		     s->order ? "true" : "false",
		     sr_stdio_line_buffered() ? "true" : "false", (unsigned long long)stack[0],
		     (unsigned long long)main_stack, random,
		     sr_inherited_text(), sr_fd_floor(), getauxval(AT_MINSIGSTKSZ),
		     sr_has_huge_pages ? "true" : "false", s->threads == SR_THREADS_SERIAL ? "serial" : "parallel", ignored, blocked);
	if (main_stack)
		sr_main_stack_pin(main_stack);
	n += describe_layout(extra + n, size - (size_t)n);
	n += snprintf(extra + n, size - (size_t)n, "\"executed_as\":{\"hex\":\"");
	/* In hexadecimal: a path need not be UTF-8. */
	for (; path && *path && n < (int)size - 8; path++)
		n += snprintf(extra + n, size - (size_t)n, "%02x", (unsigned char)*path);
	n += snprintf(extra + n, size - (size_t)n, "\"}");
	if (path && *path)
		return false;
	describe_processor(extra + n, size - (size_t)n);
	return path;
}
