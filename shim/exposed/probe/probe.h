/* SPDX-License-Identifier: BSD-2-Clause */
/* probe.h: a probe, and the table of all of them: for the files of this folder. */
#ifndef SHIM_EXPOSED_PROBE_PROBE_H
#define SHIM_EXPOSED_PROBE_PROBE_H

#include "shim/exposed/page/thread.h"
#include "shim/exposed/probe/code.h"
#include "shim/exposed/x86/decode.h"
#include "shim/exposed/x86/relocate.h"

/*
 * hlt: the one instruction of one byte that no program may ever execute.  I/O, and the flag of interrupts, can be
 * allowed to it (iopl).
 */
#define PROBE_TRAP 0xf4

#define OPCODE_RET 0xc3

#define SHORT_JUMP_BYTES  2
#define SPRINGBOARD_BYTES (SHORT_JUMP_BYTES + JUMP_BYTES)

struct probe_handlers;

enum probe_state {
	PROBE_CHANGING, /* the jump, or the original, is being written */
	PROBE_PATCHED,
	PROBE_REFUSED,
	PROBE_GIVEN_UP, /* the original is back; a thread that is in the stub goes on there */
};

struct probe {
	uintptr_t pc;
	uint8_t state;
	bool stores;
	struct insn insn; /* its address is another one each time */
	struct operand operand;
	struct group group;
	/*
	 * The jump is longer than the instruction, and what is behind that stays as it is: its bytes are the highest of
	 * the jump's distance.  So a branch may lead there.
	 */
	bool punned;
	uint8_t code[GROUP_BYTES_MAX + CODE_MAX]; /* the original bytes, and what follows them */
	uintptr_t at; /* where its jump is: at pc, or in front of its copy if the instruction lies under another probe's jump */
	uint8_t was[JUMP_BYTES], jump[JUMP_BYTES]; /* what is there without and with the jump */
	/* The jump is one of two bytes to a springboard, a nop with a jump over itself and the one to the stub (springboard.c). */
	struct {
		uintptr_t at;   /* 0: there is none */
		uint8_t length; /* of the nop */
		uint8_t was[SPRINGBOARD_BYTES], jump[SPRINGBOARD_BYTES];
	} springboard;
	struct copies copy; /* offsets from `copies` */
	uint32_t traps;
	uint32_t given_up;      /* how often it was in the way of other accesses */
	uint64_t entered, served;
	uintptr_t stub, copies, end;
	uintptr_t back; /* where the copies lead to */
	/*
	 * The instruction, with the thread's `operand` as its operand. Behind it is a jump to the next one (INSN_OPERAND,
	 * INSN_VECTOR_LOAD: the thread goes there) or ret (INSN_EXCHANGE, INSN_VECTOR_STORE: it is called).  0: there is none.
	 */
	uintptr_t aside;
	uint8_t counter; /* it reads the time-stamp counter (counter.h): its length; 0: another probe */
	bool breaks;     /* it is a breakpoint (breakpoint.h) ... */
	uint8_t told_by; /* ... whose stub compares this ... */
	uint8_t comparison; /* ... with its first so many bytes */
};

/*
 * Instructions for which a jump was tried.  MPI programs have over a thousand: those of the MPI library, of UCX, of the
 * provider and of libc.
 */
#define PROBES_MAX 4096

extern struct probe *probes;
extern uint32_t probes_n;        /* used */
extern _Atomic uint32_t patched_n; /* how many jumps were ever written */
extern bool probes_stopped;
extern const struct probe_handlers *probe_handlers;

/* May instructions be replaced? */
bool probes_are_wanted(void);
/* Is the processor suited? */
bool probes_are_possible(void);
/* Makes the pages of a stub executable, and notes where it is. */
bool probe_finish_stub(struct probe *s, uintptr_t pages, size_t copies);

/* table.c */
/* The next entry of the table, in which nothing is yet; NULL: there is none. */
struct probe *probe_next(void);
/* It is filled in as far as others may see it, and found by its instruction from now on. */
void probe_add(const struct probe *s);
/* The last one that was made for it. */
struct probe *probe_at(uintptr_t pc);
/* Have threads come to the middle of its jump, again and again? */
bool probe_has_trapped(const struct probe *s);
/* Does another probe's jump have bytes of this one's? */
bool overlaps_another(const struct probe *s);
/* Has another probe a jump with bytes in this range? */
bool has_jump_within(uintptr_t begin, uintptr_t end, const struct probe *than);
/* Gives up the probes of accesses whose jumps lead around instructions in this range.  The caller has the lock. */
void give_up_within(uintptr_t begin, uintptr_t end);
/* Is what is there now, n bytes of it, the same? */
bool begins_with(uintptr_t pc, const uint8_t *bytes, unsigned int n);
/* Has another probe's jump this instruction's bytes in its distance?  They must stay. */
bool is_shared_by_another(const struct probe *s);
/* In whose stub is it? */
struct probe *probe_of_stub(uintptr_t at);
void probe_note_stub(const struct probe *s);
/*
 * The probe under whose jump the instruction at pc lies, if there is a gap before its copy, for another jump.  k: which
 * instruction of the group it is.
 */
struct probe *probe_over(uintptr_t pc, unsigned int *k);
bool probe_has_jump(const struct probe *s);
/* Which instruction of the group, but for the first one, begins there; 0: none. */
unsigned int under_begin(const struct group *g, uintptr_t at);
/* The address of the i-th instruction's copy. */
uintptr_t copy_of(const struct probe *s, unsigned int i);
/* Which instruction's copy begins there, the jump back being the last one; -1: none. */
int copy_at(const struct probe *s, uintptr_t at);
/* Gives up a probe.  False: the lock is held; then the next time. */
bool try_to_give_up(struct probe *s);

/* Of how many bytes is the jump at the instruction?  A trap is of one: behind a short instruction another probe may begin. */
static inline unsigned int jump_bytes(const struct probe *s)
{
	if (s->jump[0] == PROBE_TRAP)
		return 1;
	return s->springboard.at ? SHORT_JUMP_BYTES : JUMP_BYTES;
}

/* Where the jump is that leads to the stub. */
static inline uintptr_t jump_from(const struct probe *s)
{
	return s->springboard.at ? s->springboard.at + SHORT_JUMP_BYTES : s->at;
}

/* springboard.c */
/* Chooses a nop that a jump of two bytes reaches, in text of which the file's bytes are known.  False: there is none. */
bool springboard_find(struct probe *s, const struct text *t);
/* Makes the bytes of both jumps.  False: the stub is too far. */
bool springboard_put(struct probe *s, uintptr_t stub);
/* Writes the springboard, once.  False: it is as it was. */
bool springboard_write(const struct probe *s);
bool springboard_is_there(const struct probe *s);
/* Has any springboard bytes in this range? */
bool springboard_overlaps(uintptr_t begin, uintptr_t end);
/* The probe whose springboard's jump to the stub is at this address: the thread counts as being at the instruction. */
const struct probe *springboard_probe(uintptr_t at);
/* Has a thread come to the nop while the springboard was being written? */
bool springboard_trapped(const struct probe *s, uintptr_t at);
/* Puts the nops into a copy of n bytes of the code at `from`. */
void springboard_originals(uintptr_t from, uint8_t *code, size_t n);

/* entry.c: where stubs lead to. */

/* Of the processor's extended state it saves SSE, AVX, and the three of AVX-512.  No C code here touches the x87's. */
#define XSAVE_COMPONENTS 0xe6
#define XSAVE_BYTES      3008

void sr_probe_entry(void);
extern const char sr_probe_entry_end[];

/* stub.c: writes the stub, and returns where the copies begin. */
uint8_t *put_stub(uint8_t *at, uint32_t index);
/* A thread-local word's distance from FS. */
int32_t distance_from_fs(const void *tls);

/* place.c: maps two pages for the stub, which may lie at the end of the first.  NULL: there is no place. */
uint8_t *place_stub(const struct probe *s);
/* Can a jump over this group lead to any stub? */
bool place_is_possible(uintptr_t pc, const struct group *g);

/* counter.c: what the stub of such a probe calls. */
void sr_counter_entry(void);
extern const char sr_counter_entry_end[];

/* breakpoint.c: what the stub of a breakpoint calls; see breakpoint.h. */
bool breakpoint_is_here(uintptr_t pc, const uint64_t r[16]) NO_VECTORS;
void breakpoint_stop(const struct probe *s, const uint64_t r[16], const char *vectors);
void breakpoint_lost(const struct probe *s);
/* The thread is to be interrupted before it goes on there. */
void probe_interrupt(uintptr_t before);
extern bool breakpoints_on;

/* patch.c: false: nothing is changed. write_over_nop: a springboard. */
bool write_code(const struct probe *s, const uint8_t *bytes);
bool write_over_nop(const struct probe *s);
void give_up(struct probe *s);
/* The program is about to change the code in this range: the originals are put back where the jumps still are. */
void give_up_code(uintptr_t begin, uintptr_t end);

#endif
