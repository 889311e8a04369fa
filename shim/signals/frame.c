/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/signals/frame.h"

#include <alloca.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "logd/base/page.h"
#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"

#if defined(__x86_64__)

/* The kernel reads and writes nothing of a ucontext_t past this mask. */
#define CONTEXT_BYTES (offsetof(ucontext_t, uc_sigmask) + sizeof(uint64_t))

/*
 * struct rt_sigframe of arch/x86/include/asm/sigframe.h; the FPU's state lies above it. The
 * last three members are for what follows the handler.
 */
struct frame {
	void *restorer;
	unsigned char context[CONTEXT_BYTES];
	siginfo_t info;
	uintptr_t after_top;
	void (*after)(ucontext_t *uc, void *kept, uintptr_t frame);
	unsigned char kept[SR_FRAME_KEPT];
};

/* The offset that sr_frame_leave uses: when a handler returns, the stack pointer is at the context. */
_Static_assert(offsetof(struct frame, after_top) - offsetof(struct frame, context) == 432, "432");

const uint64_t sr_frame_all_signals SR_HIDDEN __attribute__((used)) = UINT64_MAX;

#define LEGACY_BYTES  512
/*
 * Offset in the reserved part of the FXSAVE area that says how much follows
 * (arch/x86/include/uapi/asm/sigcontext.h).
 */
#define EXTENDED_AT   464
#define XSTATE_MAGIC  0x46505853u
#define XSTATE_ALIGN  64

/* CPU flags that are clear when a handler begins: direction, resume, trap. */
#define CLEARED_FLAGS (0x400 | 0x10000 | 0x100)

/*
 * Describes to unwinders where the interrupted registers are saved: each expression is an
 * offset within the context, from the stack pointer.
 */
/* clang-format off */
#define REGISTER(number, offset) "	.cfi_escape 0x10, " number ", " offset "\n"
#define SIGNAL_FRAME \
	"	.cfi_startproc simple\n" \
	"	.cfi_signal_frame\n" \
	"	.cfi_escape 0x0f, 4, 0x77, 0xa0, 1, 0x06\n" \
	REGISTER("8",  "2, 0x77, 0x28") \
	REGISTER("9",  "2, 0x77, 0x30") \
	REGISTER("10", "2, 0x77, 0x38") \
	REGISTER("11", "3, 0x77, 0xc0, 0") \
	REGISTER("12", "3, 0x77, 0xc8, 0") \
	REGISTER("13", "3, 0x77, 0xd0, 0") \
	REGISTER("14", "3, 0x77, 0xd8, 0") \
	REGISTER("15", "3, 0x77, 0xe0, 0") \
	REGISTER("5",  "3, 0x77, 0xe8, 0") \
	REGISTER("4",  "3, 0x77, 0xf0, 0") \
	REGISTER("6",  "3, 0x77, 0xf8, 0") \
	REGISTER("3",  "3, 0x77, 0x80, 1") \
	REGISTER("1",  "3, 0x77, 0x88, 1") \
	REGISTER("0",  "3, 0x77, 0x90, 1") \
	REGISTER("2",  "3, 0x77, 0x98, 1") \
	REGISTER("7",  "3, 0x77, 0xa0, 1") \
	REGISTER("16", "3, 0x77, 0xa8, 1")
/* clang-format on */

__asm__(".pushsection .text\n"
	".type sr_frame_restorer, @function\n"
	".hidden sr_frame_restorer\n"
	".globl sr_frame_restorer\n"
	SIGNAL_FRAME
	/* Unwinders look up the byte before a return address. */
	"	nop\n"
	"sr_frame_restorer:\n"
	"	mov $15, %rax\n"
	"	syscall\n"
	"	.cfi_endproc\n"
	".size sr_frame_restorer, . - sr_frame_restorer\n"
	".popsection\n");

/* A moved handler returns here. This code uses nothing of the stack on which it starts. */
void sr_frame_leave(void) SR_HIDDEN;
/* clang-format off */
__asm__(".pushsection .text\n"
	".type sr_frame_leave, @function\n"
	".hidden sr_frame_leave\n"
	".globl sr_frame_leave\n"
	SIGNAL_FRAME
	"	nop\n"
	"sr_frame_leave:\n"
	"	mov $2, %edi\n" /* SIG_SETMASK */
	"	lea sr_frame_all_signals(%rip), %rsi\n"
	"	xor %edx, %edx\n"
	"	mov $8, %r10d\n"
	"	mov $14, %eax\n" /* rt_sigprocmask */
	"	syscall\n"
	"	mov %rsp, %rdi\n"
	"	mov 432(%rsp), %rsp\n"
	"	call sr_frame_left\n"
	"	.cfi_endproc\n"
	".size sr_frame_leave, . - sr_frame_leave\n"
	".popsection\n");
/* clang-format on */

bool sr_frame_leaves(uintptr_t pc)
{
	return pc == (uintptr_t)sr_frame_leave;
}

bool sr_frame_supported(void)
{
	return true;
}

uintptr_t sr_frame_stack_pointer(const ucontext_t *uc)
{
	return (uintptr_t)uc->uc_mcontext.gregs[REG_RSP];
}

static bool is_syscall_instruction(uintptr_t at)
{
	uint16_t code;

	/*
	 * The caller checks that both bytes are on the page that is executing; others may not
	 * be mapped.
	 */
	memcpy(&code, (const void *)at, sizeof(code));
	return code == 0x050f;
}

bool sr_frame_is_interrupted_call(const ucontext_t *uc)
{
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];

	return uc->uc_mcontext.gregs[REG_RAX] == -EINTR && pc % PAGE >= 2 &&
	       is_syscall_instruction(pc - 2);
}

/* If the kernel will restart the call, it has set the instruction pointer back to it. */
bool sr_frame_is_in_call(const ucontext_t *uc)
{
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];

	return sr_frame_is_interrupted_call(uc) ||
	       (pc % PAGE <= PAGE - 2 && is_syscall_instruction(pc));
}

static size_t fpu_bytes(const void *fpu)
{
	struct {
		uint32_t magic, extended_size;
	} reserved;

	memcpy(&reserved, (const char *)fpu + EXTENDED_AT, sizeof(reserved));
	return reserved.magic == XSTATE_MAGIC ? reserved.extended_size : LEGACY_BYTES;
}

/* Goes on at the context, by rt_sigreturn.  Below the context a claimed signal may come in between. */
static void __attribute__((noreturn)) go_on(const unsigned char *context)
{
	__asm__ volatile("mov %0, %%rsp\n\t"
			 "mov $15, %%eax\n\t" /* rt_sigreturn */
			 "syscall"
			 :
			 : "r"(context)
			 : "memory");
	__builtin_unreachable();
}

/*
 * On after_top, with all signals blocked: the kernel must not begin another handler there.  From here on all is in a copy
 * on this stack: the next handler's frame may come where this one's is, as soon as the thread has its stacks back.
 */
void sr_frame_left(ucontext_t *uc) SR_HIDDEN __attribute__((noreturn, used));
void sr_frame_left(ucontext_t *uc)
{
	struct frame *frame = (struct frame *)((char *)uc - offsetof(struct frame, context)), *copy;
	const stack_t none = {.ss_flags = SS_DISABLE};
	void *fpu = uc->uc_mcontext.fpregs;
	size_t bytes = fpu ? fpu_bytes(fpu) : 0;
	char *room;

	sr_syscall(SYS_sigaltstack, SR_ARG(&none), 0, 0, 0, 0, 0);
	copy = alloca(sizeof(*copy) + XSTATE_ALIGN + bytes);
	*copy = *frame;
	uc = (ucontext_t *)copy->context;
	if (fpu) {
		room = (char *)(((uintptr_t)(copy + 1) + XSTATE_ALIGN - 1) & ~(XSTATE_ALIGN - 1ul));
		memcpy(room, fpu, bytes);
		uc->uc_mcontext.fpregs = (fpregset_t)room;
	}
	copy->after(uc, copy->kept, (uintptr_t)frame);
	go_on(copy->context);
}

void sr_frame_clear(uintptr_t address)
{
	struct frame *frame = (struct frame *)address;
	char *fpu = (void *)((const ucontext_t *)frame->context)->uc_mcontext.fpregs;

	/* The handler may have replaced it by its own. */
	if (fpu - (char *)frame - sizeof(*frame) < XSTATE_ALIGN)
		memset(fpu, 0, fpu_bytes(fpu));
	memset(frame, 0, sizeof(*frame));
}

static uintptr_t fpu_place(const void *fpu, uintptr_t top)
{
	return fpu ? (top - fpu_bytes(fpu)) & ~(uintptr_t)(XSTATE_ALIGN - 1) : top;
}

/* The stack is aligned as after a call: the return address is 8 bytes below a multiple of 16. */
uintptr_t sr_frame_place(const ucontext_t *uc, uintptr_t top)
{
	return ((fpu_place(uc->uc_mcontext.fpregs, top) - sizeof(struct frame)) & ~15ul) - 8;
}

void sr_frame_move(ucontext_t *uc, const siginfo_t *info, const struct sr_frame_plan *plan)
{
	greg_t *regs = uc->uc_mcontext.gregs;
	void *fpu = uc->uc_mcontext.fpregs;
	struct frame *frame = (struct frame *)sr_frame_place(uc, plan->top);

	if (fpu) {
		void *to = (void *)fpu_place(fpu, plan->top);

		memcpy(to, fpu, fpu_bytes(fpu));
		uc->uc_mcontext.fpregs = to;
	}
	frame->restorer = (void *)sr_frame_leave;
	memcpy(frame->context, uc, CONTEXT_BYTES);
	frame->info = *info;
	frame->after = plan->after;
	frame->after_top = plan->after_top & ~15ul;
	memcpy(frame->kept, plan->kept, SR_FRAME_KEPT);

	regs[REG_RIP] = (greg_t)(uintptr_t)plan->handler;
	regs[REG_RSP] = (greg_t)(uintptr_t)frame;
	regs[REG_RDI] = plan->signo;
	regs[REG_RSI] = (greg_t)(uintptr_t)&frame->info;
	regs[REG_RDX] = (greg_t)(uintptr_t)frame->context;
	regs[REG_RAX] = 0;
	regs[REG_EFL] &= ~(greg_t)CLEARED_FLAGS;
	/*
	 * With no FPU state in the context, the kernel gives the handler a fresh one, as it
	 * always does.
	 */
	uc->uc_mcontext.fpregs = NULL;
	sr_frame_set_mask(uc, plan->mask);
}

#else

bool sr_frame_supported(void)
{
	return false;
}

void sr_frame_restorer(void)
{
}

uintptr_t sr_frame_stack_pointer(const ucontext_t *uc)
{
	return 0;
}

bool sr_frame_is_in_call(const ucontext_t *uc)
{
	return false;
}

bool sr_frame_is_interrupted_call(const ucontext_t *uc)
{
	return false;
}

uintptr_t sr_frame_place(const ucontext_t *uc, uintptr_t top)
{
	return top;
}

void sr_frame_clear(uintptr_t frame)
{
}

void sr_frame_move(ucontext_t *uc, const siginfo_t *info, const struct sr_frame_plan *plan)
{
}

#endif
