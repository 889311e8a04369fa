/* SPDX-License-Identifier: BSD-2-Clause */
/* stub.c: the code that a probe's jump leads to. */
#include "shim/exposed/probe/probe.h"

#include <stddef.h>
#include <string.h>

struct writer {
	uint8_t *p;
};

static void put(struct writer *w, const void *bytes, size_t n)
{
	memcpy(w->p, bytes, n);
	w->p += n;
}

int32_t distance_from_fs(const void *tls)
{
	return (int32_t)((intptr_t)tls - (intptr_t)__builtin_thread_pointer());
}

/* An instruction whose operand is the thread-local word, by its distance from FS; an immediate may follow. */
static void put_fs_of(struct writer *w, const uint8_t *code, size_t n, const void *tls)
{
	int32_t distance = distance_from_fs(tls);

	put(w, code, n);
	put(w, &distance, sizeof(distance));
}

static void put_fs(struct writer *w, const uint8_t code[5], const void *tls)
{
	put_fs_of(w, code, 5, tls);
}

static const uint8_t rcx_to_fs[5] = {0x64, 0x48, 0x89, 0x0c, 0x25}, fs_to_rcx[5] = {0x64, 0x48, 0x8b, 0x0c, 0x25},
		     rsp_to_fs[5] = {0x64, 0x48, 0x89, 0x24, 0x25}, fs_to_rsp[5] = {0x64, 0x48, 0x8b, 0x24, 0x25};

static void put_inside(struct writer *w, uint8_t yes)
{
	static const uint8_t byte_to_fs[4] = {0x64, 0xc6, 0x04, 0x25};

	put_fs_of(w, byte_to_fs, sizeof(byte_to_fs), &exposed_self.probe.inside);
	put(w, &yes, 1);
}

static void put_no_stack(struct writer *w)
{
	static const uint8_t word_to_fs[5] = {0x64, 0x48, 0xc7, 0x04, 0x25}, zero[4];

	put_fs(w, word_to_fs, &exposed_self.probe.stack);
	put(w, zero, 4);
}

/*
 * A stub switches to a stack of the thread's own, since the program may use memory below its stack pointer.  None of
 * its instructions changes a flag.  It says itself that the thread is inside, not C code: a signal that comes in
 * between recognises the thread by its RIP (probes_is_section).  A thread without a stack, because it has just begun
 * or is inside already, goes on to the copies.
 *
 * Returns where the copies begin.
 */
uint8_t *put_stub(uint8_t *at, uint32_t index)
{
	static const uint8_t jrcxz[1] = {0xe3}, rcx_to_rsp[3] = {0x48, 0x89, 0xcc}, push[1] = {0x68},
			     call[6] = {0xff, 0x15, 0x02, 0x00, 0x00, 0x00}, over[2] = {0xeb, 0x08};
	static const uint8_t fs_jump[4] = {0x64, 0xff, 0x24, 0x25};
	const uint64_t entry = (uint64_t)sr_probe_entry;
	struct exposed_thread *t = &exposed_self;
	struct writer w = {at};
	uint8_t *branch;

	put_fs(&w, rcx_to_fs, &t->probe.rcx);
	put_fs(&w, fs_to_rcx, &t->probe.stack);
	put(&w, jrcxz, 1);
	branch = w.p++;
	put_fs(&w, rsp_to_fs, &t->probe.sp);
	put(&w, rcx_to_rsp, 3);
	put_fs(&w, fs_to_rcx, &t->probe.rcx);
	put_inside(&w, 1);
	put_no_stack(&w);
	put(&w, push, 1);
	put(&w, &index, sizeof(index));
	put(&w, call, 6);
	put(&w, over, 2);
	put(&w, &entry, sizeof(entry));
	/* On the way back the stack may be used again from here on. */
	put_fs(&w, rcx_to_fs, &t->probe.rcx);
	put_fs(&w, fs_to_rcx, &t->probe.top);
	put_fs(&w, rcx_to_fs, &t->probe.stack);
	put_fs(&w, fs_to_rcx, &t->probe.rcx);
	put_fs(&w, fs_to_rsp, &t->probe.sp);
	put_inside(&w, 0);
	put_fs_of(&w, fs_jump, sizeof(fs_jump), &t->probe.resume);
	*branch = (uint8_t)(w.p - branch - 1);
	put_fs(&w, fs_to_rcx, &t->probe.rcx);
	return w.p;
}
