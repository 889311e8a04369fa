/* SPDX-License-Identifier: BSD-2-Clause */
/* patch.c: writes a jump over the program's code, and the original back. */
#include "shim/exposed/probe/probe.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/probe/write.h"

#include <fcntl.h>
#include <linux/membarrier.h>
#include <string.h>

#include "logd/base/rawsys.h"
#include "shim/exposed/page/lock.h"

bool code_fetch_anew(void)
{
	static bool registered;

	if (!registered)
		registered = !sr_syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0, 0, 0, 0);
	return registered && !sr_syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0, 0, 0, 0);
}

int code_open(void)
{
	return (int)sr_syscall(SYS_openat, AT_FDCWD, SR_ARG("/proc/self/mem"), O_RDWR | O_CLOEXEC, 0, 0, 0);
}

bool code_put(int memory, uintptr_t at, const uint8_t *bytes, size_t n)
{
	return sr_syscall(SYS_pwrite64, memory, SR_ARG(bytes), (long)n, (long)at, 0, 0) == (long)n;
}

/* So many of the jump's bytes are not those of an instruction that stays. */
static unsigned int own_bytes(const struct probe *s)
{
	return s->punned ? s->group.length : jump_bytes(s);
}

/*
 * Writes the bytes with which instructions of the group begin, except the first; or the others.  In runs, since each
 * write takes long.
 */
static bool put_under(int memory, const struct probe *s, const uint8_t *bytes, bool begins)
{
	unsigned int from, to, end = own_bytes(s);
	bool done = true;

	for (from = 1; from < end && done; from = to + 1) {
		for (to = from; to < end && !under_begin(&s->group, to) != begins; to++)
			;
		if (to > from)
			done = code_put(memory, s->at + from, bytes + from, to - from);
	}
	return done;
}

/*
 * Other threads may be executing these bytes.  First each instruction of the group begins with a byte that faults, so
 * that a thread that comes goes on in the copies (the Intel manual's cross-modifying code, volume 3, 9.1.3: no
 * processor may fetch what is half written).  The bytes in between are written next, and the first byte last.
 */
static bool put_while_others_run(int memory, const struct probe *s, const uint8_t *bytes)
{
	static const uint8_t traps[JUMP_BYTES] = {PROBE_TRAP, PROBE_TRAP, PROBE_TRAP, PROBE_TRAP, PROBE_TRAP};

	if (!code_put(memory, s->at, traps, 1) || !put_under(memory, s, traps, true))
		return false;
	code_fetch_anew();
	if (!put_under(memory, s, bytes, false))
		return false;
	code_fetch_anew();
	if (s->group.n > 1) {
		if (!put_under(memory, s, bytes, true))
			return false;
		code_fetch_anew();
	}
	if (!code_put(memory, s->at, bytes, 1))
		return false;
	code_fetch_anew();
	return true;
}

/* Whether there is a barrier is known before anything is written. */
bool write_code(const struct probe *s, const uint8_t *bytes)
{
	int memory = code_open();
	bool done;

	if (memory < 0)
		return false;
	done = code_fetch_anew() && put_while_others_run(memory, s, bytes);
	if (!done)
		code_put(memory, s->at, s->was, own_bytes(s));
	sr_sys_close(memory);
	return done;
}

/* A thread that comes to the nop traps until the nop's first byte is a jump over it.  The other bytes are written in between. */
static bool put_over_nop_while_others_run(int memory, const struct probe *s)
{
	static const uint8_t trap[1] = {PROBE_TRAP};

	if (!code_put(memory, s->springboard.at, trap, 1))
		return false;
	code_fetch_anew();
	if (!code_put(memory, s->springboard.at + 1, s->springboard.jump + 1, SPRINGBOARD_BYTES - 1))
		return false;
	code_fetch_anew();
	if (!code_put(memory, s->springboard.at, s->springboard.jump, 1))
		return false;
	code_fetch_anew();
	return true;
}

bool write_over_nop(const struct probe *s)
{
	int memory = code_open();
	bool done;

	if (memory < 0)
		return false;
	done = code_fetch_anew() && put_over_nop_while_others_run(memory, s);
	if (!done)
		code_put(memory, s->springboard.at, s->springboard.was, SPRINGBOARD_BYTES);
	sr_sys_close(memory);
	return done;
}

/* The originals are written like a jump: a thread that comes meanwhile goes on in the copies. */
void give_up(struct probe *s)
{
	if (s->state != PROBE_PATCHED || !probe_has_jump(s))
		return;
	s->state = PROBE_CHANGING;
	write_code(s, s->was);
	s->state = PROBE_GIVEN_UP;
}

/* The code may have been unmapped meanwhile. */
static bool still_has_jump(int memory, const struct probe *s)
{
	uint8_t now[JUMP_BYTES];

	if (s->state != PROBE_PATCHED && s->state != PROBE_CHANGING)
		return false;
	return sr_syscall(SYS_pread64, memory, SR_ARG(now), sizeof(now), (long)s->at, 0, 0) == sizeof(now) &&
	       (s->state == PROBE_CHANGING || !memcmp(now, s->jump, jump_bytes(s)));
}

void give_up_code(uintptr_t begin, uintptr_t end)
{
	int memory = probes_n ? code_open() : -1;

	for (struct probe *s = probes; memory >= 0 && s < probes + probes_n; s++) {
		if (s->state != PROBE_PATCHED || s->at >= end || s->at + JUMP_BYTES <= begin)
			continue;
		if (still_has_jump(memory, s))
			give_up(s);
		s->state = PROBE_GIVEN_UP;
		if (s->breaks)
			breakpoint_lost(s);
	}
	if (memory >= 0)
		sr_sys_close(memory);
}

void (*probes_on_stop)(void);

void probes_stop(void)
{
	uint64_t mask;
	int memory;

	exposed_lock(&mask);
	probes_stopped = true;
	memory = probes_n ? code_open() : -1;
	for (uint32_t i = 0; i < probes_n && memory >= 0; i++)
		if (still_has_jump(memory, &probes[i]))
			give_up(&probes[i]);
	if (memory >= 0)
		sr_sys_close(memory);
	exposed_unlock(&mask);
	if (probes_on_stop)
		probes_on_stop();
}

/* There is no other thread, and one that held the lock may have been left behind. */
void probes_stop_in_child(void)
{
	int memory = probes_n ? code_open() : -1;

	probes_stopped = true;
	for (uint32_t i = 0; i < probes_n && memory >= 0; i++)
		if (still_has_jump(memory, &probes[i]) && code_put(memory, probes[i].at, probes[i].was, own_bytes(&probes[i])))
			probes[i].state = PROBE_GIVEN_UP;
	if (memory >= 0)
		sr_sys_close(memory);
}
