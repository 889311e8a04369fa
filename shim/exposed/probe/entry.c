/* SPDX-License-Identifier: BSD-2-Clause */
/* entry.c: the way from a stub to the handler and back. */
#include "shim/exposed/probe/aside.h"
#include "shim/exposed/probe/probe.h"
#include "shim/exposed/probe/probes.h"

#include <errno.h>
#include <sys/mman.h>

#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/exposed/x86/vector.h"
#include "shim/exposed/x86/word.h"

/* A stub that is entered so many times more often than it serves is in the way of other accesses. */
#define BAILS_MAX   64
#define BAILS_LEAST 2000

#define STACK_BYTES (64ul << 10)

static _Atomic uintptr_t next_stack = PROBE_STACKS_BASE;

/*
 * What a stub pushes, and what it calls with, lowest first.  The general registers are saved here, by their numbers
 * in instructions; the vector registers below, by xsave, since recording may use them.
 */
struct probe_frame {
	uint64_t r[16]; /* r[REGISTER_SP] is not used */
	uint64_t flags, back, index;
};

/* TF, DF, NT, RF, VM and what is above: AC, ID. */
#define OTHER_FLAGS 0xffff4500

#define STRING_OF(x) #x
#define STRING(x)   STRING_OF(x)

#define POP_REGISTERS                                                                            \
	"	pop %rax\n	pop %rcx\n	pop %rdx\n	pop %rbx\n	lea 8(%rsp), %rsp\n" \
	"	pop %rbp\n	pop %rsi\n	pop %rdi\n	pop %r8\n	pop %r9\n	pop %r10\n"       \
	"	pop %r11\n	pop %r12\n	pop %r13\n	pop %r14\n	pop %r15\n"

__asm__(".text\n"
	".globl sr_probe_entry, sr_probe_entry_end\n"
	".hidden sr_probe_entry, sr_probe_entry_end\n"
	".type sr_probe_entry, @function\n"
	"sr_probe_entry:\n"
	"	pushfq\n"
	"	push %r15\n	push %r14\n	push %r13\n	push %r12\n	push %r11\n	push %r10\n"
	"	push %r9\n	push %r8\n	push %rdi\n	push %rsi\n	push %rbp\n	push %rsp\n"
	"	push %rbx\n	push %rdx\n	push %rcx\n	push %rax\n"
	"	cld\n"
	"	mov %rsp, %rbx\n"
	"	mov %rsp, %rdi\n"
	"	and $-64, %rsp\n"
	"	call sr_probe_is_needed\n"
	"	test %al, %al\n"
	"	jz 1f\n"
	"	sub $" STRING(XSAVE_BYTES) ", %rsp\n"
	"	xor %eax, %eax\n"
	"	mov %rax, 512(%rsp)\n	mov %rax, 520(%rsp)\n	mov %rax, 528(%rsp)\n"
	"	mov %rax, 536(%rsp)\n	mov %rax, 544(%rsp)\n	mov %rax, 552(%rsp)\n"
	"	mov %rax, 560(%rsp)\n	mov %rax, 568(%rsp)\n"
	"	mov $" STRING(XSAVE_COMPONENTS) ", %eax\n"
	"	xor %edx, %edx\n"
	"	xsave64 (%rsp)\n"
	"	mov %rbx, %rdi\n"
	"	mov %rsp, %rsi\n"
	"	call sr_probe_serve\n"
	"	mov $" STRING(XSAVE_COMPONENTS) ", %eax\n"
	"	xor %edx, %edx\n"
	"	xrstor64 (%rsp)\n"
	"1:	mov %rbx, %rsp\n"
	/* popf takes longer than all the rest, and only a direction, an alignment check or a step needs it. */
	"	mov 128(%rsp), %eax\n"
	"	test $" STRING(OTHER_FLAGS) ", %eax\n"
	"	jnz 2f\n"
	"	mov %eax, %ecx\n"
	"	shr $11, %ecx\n"
	"	and $1, %ecx\n"
	"	mov %al, %ah\n"
	"	add $0x7f, %cl\n" /* the overflow flag becomes the bit that is in CL; */
	"	sahf\n"           /* the others of arithmetic follow */
	POP_REGISTERS
	"	lea 8(%rsp), %rsp\n"
	"	ret\n"
	"2:\n"
	POP_REGISTERS
	"	popfq\n"
	"	ret\n"
	"sr_probe_entry_end:\n"
	".size sr_probe_entry, .-sr_probe_entry\n");

bool sr_probe_is_needed(struct probe_frame *f);
void sr_probe_serve(struct probe_frame *f, char *vectors);

/* The most frequent case: a loop polls, and finds that nothing has come. */
NO_VECTORS static bool is_over(struct probe_frame *f, struct probe *s, uintptr_t addr)
{
	bool aside = s->insn.class == INSN_VECTOR_LOAD || s->insn.class == INSN_OPERAND;
	bool vector_store = s->insn.class == INSN_VECTOR_STORE;

	if ((aside || vector_store) && !s->aside)
		return false;
	if (vector_store)
		((void (*)(void))s->aside)();
	if (!probe_handlers->quickly(&s->insn, s->pc, addr, f->r, &f->flags))
		return false;
	s->served++;
	exposed_self.probe.resume = aside ? s->aside : copy_of(s, 1);
	return true;
}

/* Would an exception of floating point be a signal?  That must come at the instruction itself, not at one aside. */
NO_VECTORS static bool may_signal(void)
{
	uint32_t mxcsr;

	__asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
	return ~mxcsr & MXCSR_MASKS;
}

/*
 * Would the instruction fault, and is there something to do?  This is asked without the lock.  If the answer changes
 * before the instruction is executed, it faults, or nothing is done.
 */
NO_VECTORS SR_HIDDEN __attribute__((used)) bool sr_probe_is_needed(struct probe_frame *f)
{
	struct probe *s = &probes[f->index];
	struct exposed_thread *t = &exposed_self;
	const struct operand *o = &s->operand;
	const struct page *p;
	uintptr_t addr = o->displacement;

	t->probe.current = s;
	t->probe.resume = s->copies;
	s->entered++;
	f->r[REGISTER_SP] = t->probe.sp;
	t->probe.give_up = false;
	if (s->breaks)
		return breakpoint_is_here(s->pc, f->r);
	t->probe.ticks = t->tick_due;
	if (t->probe.ticks || t->probe.interrupts)
		return true;
	if (o->base != NO_REGISTER)
		addr += f->r[o->base];
	if (o->index != NO_REGISTER)
		addr += f->r[o->index] << o->shift;
	t->probe.addr = addr;
	if (s->insn.signals && may_signal())
		return false;
	p = page_at(addr);
	t->probe.give_up = s->entered - s->served > BAILS_LEAST && s->entered / BAILS_MAX > s->served;
	if (t->probe.give_up)
		return true;
	if (!p || !fault_needs_handling(p, s->stores) || !is_in_one_page(addr, s->insn.size) || addr & s->insn.align)
		return false;
	if (is_partial(p) && probe_handlers->unregistered(&s->insn, addr, f->r, &f->flags)) {
		s->served++;
		t->probe.resume = copy_of(s, 1);
		return false;
	}
	return !is_over(f, s, addr);
}

/* The access is done.  A call has moved the stack pointer. */
static uintptr_t resume_at(const struct probe *s, const greg_t *g)
{
	exposed_self.probe.sp = (uint64_t)g[REG_RSP];
	if (is_transfer(&s->insn))
		return (uintptr_t)g[REG_RIP];
	return s->insn.class == INSN_OPERAND ? s->aside : copy_of(s, 1);
}

SR_HIDDEN __attribute__((used)) void sr_probe_serve(struct probe_frame *f, char *vectors)
{
	struct exposed_thread *t = &exposed_self;
	struct probe *s = &probes[f->index];
	greg_t *g = t->probe.uc.uc_mcontext.gregs;
	int saved = errno;

	if (t->probe.give_up) {
		if (try_to_give_up(s))
			s->given_up++;
		errno = saved;
		return;
	}
	s->served++;
	if (s->breaks) {
		breakpoint_stop(s, f->r, vectors);
		errno = saved;
		return;
	}
	/* The thread comes here again. */
	if (t->probe.interrupts) {
		probe_interrupt(s->at);
		errno = saved;
		return;
	}
	decode_registers_to(g, f->r, f->flags);
	g[REG_RIP] = (greg_t)s->pc;
	/* The copy of the instruction faults if that has protected its page. */
	if (t->probe.ticks) {
		probe_handlers->tick(&t->probe.uc);
		errno = saved;
		return;
	}
	vector_frame(&t->probe.uc, vectors, XSAVE_BYTES);
	probe_handlers->fault(&t->probe.uc, t->probe.addr, s->stores);
	decode_registers_from(g, f->r, &f->flags);
	if ((uintptr_t)g[REG_RIP] != s->pc)
		t->probe.resume = resume_at(s, g);
	/* Amidst an instruction that is executed aside nothing may come. */
	if (t->probe.interrupts && copy_at(s, t->probe.resume) >= 0)
		probe_interrupt(t->probe.resume);
	errno = saved;
}

bool probes_is_section(const ucontext_t *uc)
{
	uintptr_t at = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	const struct probe *s;

	if (exposed_self.probe.inside || aside_goes_on())
		return true;
	if (!atomic_load_explicit(&patched_n, memory_order_acquire))
		return false;
	s = probe_of_stub(at);
	/* The copy of a call has pushed one half of the return address, up to its end. */
	return (s && copy_at(s, at) < 0) ||
	       (at >= (uintptr_t)sr_probe_entry && at < (uintptr_t)sr_probe_entry_end) ||
	       (at >= (uintptr_t)sr_counter_entry && at < (uintptr_t)sr_counter_entry_end);
}

void probes_step_over(ucontext_t *uc)
{
	uintptr_t at = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];

	if (at > (uintptr_t)sr_probe_entry && at < (uintptr_t)sr_probe_entry_end)
		uc->uc_mcontext.gregs[REG_EFL] &= ~FLAG_STEP;
}

/* Without a stack, a stub goes on to the copies, and has only overwritten the places of RCX and RAX. */
void probes_guard_begin(struct probes_guard *g)
{
	struct exposed_thread *t = &exposed_self;

	*g = (struct probes_guard){.rcx = t->probe.rcx, .rax = t->probe.rax};
	if (!t->probe.guards++)
		t->probe.first_guard = g;
	t->probe.stack = 0;
	/* This very thread's next signal or call must find it so. */
	atomic_signal_fence(memory_order_seq_cst);
}

void probes_guard_drop(void)
{
	struct exposed_thread *t = &exposed_self;

	atomic_signal_fence(memory_order_seq_cst);
	/* A thread that is still on its way through a stub gets the stack back there. */
	if (!--t->probe.guards && !t->probe.inside)
		t->probe.stack = t->probe.top;
}

void probes_guard_end(const struct probes_guard *g)
{
	struct exposed_thread *t = &exposed_self;

	atomic_signal_fence(memory_order_seq_cst);
	t->probe.rcx = g->rcx;
	t->probe.rax = g->rax;
	probes_guard_drop();
}

uint32_t probes_handler_begins(void)
{
	struct exposed_thread *t = &exposed_self;
	uint32_t others = t->probe.guards ? t->probe.guards - 1 : 0;

	t->probe.guards -= others;
	return others;
}

void probes_handler_ends(uint32_t guards)
{
	exposed_self.probe.guards += guards;
}

void probes_make_stack(void)
{
	struct exposed_thread *t = &exposed_self;
	char *p;

	if (t->probe.base || t->probe.inside || (!probes_are_wanted() && !breakpoints_on))
		return;
	/* An unmapped page lies between two stacks. */
	p = (char *)atomic_fetch_add(&next_stack, STACK_BYTES + PAGE);
	p = sr_sys_mmap(p, STACK_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (sr_sys_is_error(p))
		return;
	t->probe.base = p;
	t->probe.top = (uint64_t)p + STACK_BYTES - 64;
}

void probes_thread_ends(void)
{
	struct exposed_thread *t = &exposed_self;
	char *base = t->probe.base;

	if (t->probe.inside)
		return;
	t->probe.stack = t->probe.top = 0;
	t->probe.base = NULL;
	if (base)
		sr_sys_munmap(base, STACK_BYTES);
}
