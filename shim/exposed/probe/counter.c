/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/probe/counter.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/exposed/probe/probe.h"

static const struct counter_handlers *handlers;

/* --------------------------------------------------------- from a stub and back */

/*
 * What a stub pushes, and what it calls with, lowest first.  The registers that C keeps are not here, but rbx, which
 * keeps the frame's address.
 */
struct counter_frame {
	uint64_t rbx, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax;
	uint64_t flags, back, index;
};

/* Of the flags that an instruction leaves alone: step, direction, alignment. */
#define FLAGS_RARE 0x40500

#define STRING_OF(x) #x
#define STRING(x)    STRING_OF(x)

/*
 * popf takes some 20 cycles, so the flags are computed: an addition sets the overflow flag, and sahf the others.  The
 * rare ones are as they were, unless one of them was set.
 */
__asm__(".text\n"
	".globl sr_counter_entry, sr_counter_entry_end\n"
	".hidden sr_counter_entry, sr_counter_entry_end\n"
	".type sr_counter_entry, @function\n"
	"sr_counter_entry:\n"
	"	pushfq\n"
	"	push %rax\n	push %rcx\n	push %rdx\n	push %rsi\n	push %rdi\n"
	"	push %r8\n	push %r9\n	push %r10\n	push %r11\n	push %rbx\n"
	"	cld\n"
	"	mov %rsp, %rbx\n"
	"	and $-64, %rsp\n"
	"	call sr_counter_stack\n"
	"	movq $0, -8(%rsp)\n" /* the address that it returned to */
	"	test %rax, %rax\n"
	"	jz 4f\n"
	"	mov (%rbx), %rcx\n	mov %rcx, (%rax)\n	mov %rbp, 8(%rax)\n"
	"	mov %r12, 16(%rax)\n	mov %r13, 24(%rax)\n	mov %r14, 32(%rax)\n	mov %r15, 40(%rax)\n"
	"	mov %rbx, 48(%rax)\n"
	"	mov %rax, %rsp\n"
	"	and $-64, %rsp\n"
	"4:	mov %rbx, %rdi\n"
	"	call sr_counter_fast\n"
	"	test %al, %al\n"
	"	jz 3f\n"
	"1:	mov %rbx, %rsp\n"
	"	pop %rbx\n	pop %r11\n	pop %r10\n	pop %r9\n	pop %r8\n"
	"	pop %rdi\n	pop %rsi\n	pop %rdx\n	pop %rcx\n"
	"	testl $" STRING(FLAGS_RARE) ", 8(%rsp)\n"
	"	jnz 2f\n"
	"	movb 9(%rsp), %al\n"
	"	movb 8(%rsp), %ah\n"
	"	shrb $3, %al\n"
	"	andb $1, %al\n"
	"	addb $0x7f, %al\n"
	"	sahf\n"
	"	mov (%rsp), %rax\n"
	"	lea 16(%rsp), %rsp\n"
	"	ret\n"
	"2:	pop %rax\n"
	"	popfq\n"
	"	ret\n"
	"3:	sub $" STRING(XSAVE_BYTES) ", %rsp\n"
	"	and $-64, %rsp\n"
	"	xor %eax, %eax\n"
	"	mov %rax, 512(%rsp)\n	mov %rax, 520(%rsp)\n	mov %rax, 528(%rsp)\n"
	"	mov %rax, 536(%rsp)\n	mov %rax, 544(%rsp)\n	mov %rax, 552(%rsp)\n"
	"	mov %rax, 560(%rsp)\n	mov %rax, 568(%rsp)\n"
	"	mov $" STRING(XSAVE_COMPONENTS) ", %eax\n"
	"	xor %edx, %edx\n"
	"	xsave64 (%rsp)\n"
	"	mov %rbx, %rdi\n"
	"	call sr_counter_serve\n"
	"	mov $" STRING(XSAVE_COMPONENTS) ", %eax\n"
	"	xor %edx, %edx\n"
	"	xrstor64 (%rsp)\n"
	"	jmp 1b\n"
	"sr_counter_entry_end:\n"
	".size sr_counter_entry, .-sr_counter_entry\n");

void *sr_counter_stack(void);
bool sr_counter_fast(struct counter_frame *f);
void sr_counter_serve(struct counter_frame *f);

#define AUX_DONE (1ull << 32) /* in rdx: fast() has left something to do */

NO_VECTORS static void give_back(struct counter_frame *f, const struct counter_read *r)
{
	f->rax = (uint32_t)r->value;
	f->rdx = r->value >> 32;
	if (r->with_aux)
		f->rcx = r->aux;
}

/* On the program's stack: it leaves nothing there but the address that it returns to, which the entry clears. */
NO_VECTORS SR_HIDDEN __attribute__((used)) void *sr_counter_stack(void)
{
	return handlers->stack();
}

NO_VECTORS SR_HIDDEN __attribute__((used)) bool sr_counter_fast(struct counter_frame *f)
{
	const struct probe *s = &probes[f->index];
	struct counter_read r;
	bool done;

	r.pc = s->pc;
	r.with_aux = s->counter == 3;
	r.is_done = false;
	done = handlers->fast(&r);
	if (done || r.is_done)
		give_back(f, &r);
	if (!done)
		f->index |= r.is_done ? AUX_DONE : 0;
	return done;
}

SR_HIDDEN __attribute__((used)) void sr_counter_serve(struct counter_frame *f)
{
	const struct probe *s = &probes[(uint32_t)f->index];
	struct counter_read r = {.pc = s->pc, .with_aux = s->counter == 3, .is_done = f->index & AUX_DONE};
	int saved = errno;

	handlers->serve(&r);
	if (!r.is_done)
		give_back(f, &r);
	errno = saved;
}

/* -------------------------------------------------------------------- the stub */

/*
 * It changes no flag, and no memory that the function may use below its stack pointer.  Below that it leaves what the registers
 * were: the probe's number, and where the stub lies, are others in a replay, and places are told by what is on the stack.
 */
static uint8_t *put_counter_stub(uint8_t *at, uint32_t index)
{
	static const uint8_t below[] = {0x48, 0x8d, 0x64, 0x24, 0x80},       /* lea -128(%rsp), %rsp */
	    call[] = {0xff, 0x15, 0x02, 0x00, 0x00, 0x00, 0xeb, 0x08},       /* call *2(%rip); jmp over it */
	    clear[] = {0x48, 0xc7, 0x44, 0x24, 0xf8, 0, 0, 0, 0,             /* movq $0, -8(%rsp): where it came back to */
		       0x48, 0xc7, 0x04, 0x24, 0, 0, 0, 0},                  /* movq $0, (%rsp): the number */
	    back[] = {0x48, 0x8d, 0xa4, 0x24, 0x88, 0x00, 0x00, 0x00};       /* lea 136(%rsp), %rsp */
	const uint64_t entry = (uint64_t)sr_counter_entry;

	memcpy(at, below, sizeof(below));
	at += sizeof(below);
	*at++ = 0x68; /* push */
	memcpy(at, &index, sizeof(index));
	at += sizeof(index);
	memcpy(at, call, sizeof(call));
	at += sizeof(call);
	memcpy(at, &entry, sizeof(entry));
	at += sizeof(entry);
	memcpy(at, clear, sizeof(clear));
	at += sizeof(clear);
	memcpy(at, back, sizeof(back));
	return at + sizeof(back);
}

/*
 * The instructions behind the first one are copied.  Where a thread that traps at the first one goes on, there is a
 * jump to the stub.
 */
static size_t put_copies(struct probe *s, uint8_t *copies, uintptr_t stub)
{
	const struct group *g = &s->group;
	struct group tail = {.n = g->n - 1, .length = g->length - s->counter};
	struct copies copy;
	size_t n;

	for (unsigned int i = 1; i <= g->n; i++)
		tail.at[i - 1] = g->at[i] - s->counter;
	n = relocate(s->code + s->counter, s->pc + s->counter, &tail, copies, &copy, s->back);
	if (!n || !put_jump(copies + n, (uintptr_t)copies + n, stub))
		return 0;
	s->copy.at[0] = (uint8_t)n;
	for (unsigned int i = 1; i <= g->n; i++)
		s->copy.at[i] = copy.at[i - 1];
	s->copy.gaps = (uint8_t)(copy.gaps << 1);
	return n + JUMP_BYTES;
}

static bool make_counter_stub(struct probe *s)
{
	uint8_t *stub = place_stub(s), *copies;
	size_t n;

	if (!stub)
		return false;
	copies = put_counter_stub(stub, (uint32_t)(s - probes));
	s->stub = (uintptr_t)stub;
	s->copies = (uintptr_t)copies;
	n = put_copies(s, copies, s->stub);
	if (!put_jump(s->jump, s->at, s->stub))
		n = 0;
	return probe_finish_stub(s, s->stub & PAGE_MASK, n);
}

/* ---------------------------------------------------------------------- probes */

bool counter_probes_start(const struct counter_handlers *h)
{
	handlers = h;
	return probes_are_possible();
}

static bool take_counter(struct probe *s, unsigned int length, const uint8_t *text, uintptr_t begin, size_t n)
{
	size_t at = s->pc - begin;

	if (n - at < sizeof(s->code))
		return false;
	memcpy(s->code, text + at, sizeof(s->code));
	s->counter = (uint8_t)length;
	s->group = (struct group){.n = 1, .length = (uint8_t)length, .at = {0, (uint8_t)length}};
	if (!group_extend(s->code, s->pc, &s->group) || is_branched_into(text, n, at, &s->group))
		return false;
	s->at = s->pc;
	s->back = s->pc + s->group.length;
	memcpy(s->was, s->code, sizeof(s->was));
	s->was[0] = PROBE_TRAP;
	return !overlaps_another(s);
}

/* Its jump was given up, or the library was unloaded and is there again. */
static bool probe_again(struct probe *s, unsigned int length, const uint8_t *text, uintptr_t begin, size_t n)
{
	size_t at = s->pc - begin;

	return s->state == PROBE_PATCHED && s->counter == length && n - at >= s->group.length &&
	       !memcmp(s->code, text + at, s->group.length) && !overlaps_another(s);
}

bool counter_probe(uintptr_t pc, unsigned int length, const uint8_t *text, uintptr_t begin, size_t n)
{
	struct probe *s = probe_at(pc);

	if (probes_stopped || !handlers)
		return false;
	if (s) {
		if (!probe_again(s, length, text, begin, n))
			return false;
	} else {
		s = probe_next();
		if (!s)
			return false;
		*s = (struct probe){.pc = pc, .state = PROBE_REFUSED};
		probe_add(s);
		if (!take_counter(s, length, text, begin, n) || !make_counter_stub(s))
			return false;
	}
	s->state = PROBE_CHANGING;
	atomic_fetch_add_explicit(&patched_n, 1, memory_order_release);
	if (!write_code(s, s->jump)) {
		s->state = PROBE_GIVEN_UP;
		return false;
	}
	s->state = PROBE_PATCHED;
	return true;
}

bool counter_is_stub(uintptr_t at)
{
	return atomic_load_explicit(&patched_n, memory_order_acquire) && probe_of_stub(at);
}
