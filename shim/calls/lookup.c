/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lookup.c: a program that looks a function up by dlsym or dlvsym gets the wrapper, as it does
 * when the dynamic linker binds the function.
 *
 * A look-up in a handle returns the wrapper if it finds the very function that a wrapper of
 * calls.def stands for.  So these are left alone: a function of that name in a library of the
 * program's own, an older version of a function (dlvsym), and an interposer's function.  An
 * interposer behind the shim that asks libc's handle for the next function does not get the shim
 * again.  Functions that the shim interposes by hand (malloc, dup, _exit and others) are not given
 * out: a program that asks libc's handle for malloc wants libc's.
 *
 * RTLD_DEFAULT and RTLD_NEXT find the wrappers by themselves, since the library is preloaded.
 * (For mmap and munmap RTLD_DEFAULT finds the functions behind the shim's.)  They mean "as seen
 * from the caller", which glibc takes from the return address: so the entries jump to the real
 * function, with nothing in between on the stack.
 *
 * If no verbs library is loaded, they find nothing, as without the shim.  (If one is loaded with
 * RTLD_LOCAL, they find the wrapper, although they would find nothing without the shim.)
 *
 * A library that was loaded with RTLD_DEEPBIND is bound without the shim.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/compiler.h"
#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/memory/heap.h"
#include "shim/calls/real.h"
#include "shim/core/symbols.h"
#include "shim/core/thread.h"

/* The entries jump to go_on with their arguments; if it is NULL, they return result. */
struct sr_answer {
	void *go_on;
	void *result;
};

struct sr_answer sr_look_up(void *handle, const char *name, const char *version)
    SR_HIDDEN __attribute__((used));

/* Both machines return a struct of two words in registers. */
#if defined(__x86_64__)
/* clang-format off */
#define ENTRY(name, version)                                                   \
	__asm__(                                                               \
	".text\n"                                                              \
	".globl " #name "\n"                                                   \
	".type " #name ", @function\n"                                         \
	#name ":\n"                                                            \
	"	.cfi_startproc\n"                                              \
	"	endbr64\n"                                                     \
	"	push %rdi\n"                                                   \
	"	.cfi_adjust_cfa_offset 8\n"                                    \
	"	push %rsi\n"                                                   \
	"	.cfi_adjust_cfa_offset 8\n"                                    \
	"	push %rdx\n"                                                   \
	"	.cfi_adjust_cfa_offset 8\n"                                    \
	version                                                                \
	"	call sr_look_up\n"                                             \
	"	mov %rdx, %rcx\n"                                              \
	"	pop %rdx\n"                                                    \
	"	.cfi_adjust_cfa_offset -8\n"                                   \
	"	pop %rsi\n"                                                    \
	"	.cfi_adjust_cfa_offset -8\n"                                   \
	"	pop %rdi\n"                                                    \
	"	.cfi_adjust_cfa_offset -8\n"                                   \
	"	test %rax, %rax\n"                                             \
	"	jz 1f\n"                                                       \
	"	jmp *%rax\n"                                                   \
	"1:	mov %rcx, %rax\n"                                              \
	"	ret\n"                                                         \
	"	.cfi_endproc\n"                                                \
	".size " #name ", . - " #name "\n")

ENTRY(dlsym, "	xor %edx, %edx\n");
ENTRY(dlvsym, "");
/* clang-format on */
#elif defined(__aarch64__)
/* clang-format off */
#define ENTRY(name, version)                                                   \
	__asm__(                                                               \
	".text\n"                                                              \
	".globl " #name "\n"                                                   \
	".type " #name ", %function\n"                                         \
	#name ":\n"                                                            \
	"	.cfi_startproc\n"                                              \
	"	stp x29, x30, [sp, #-48]!\n"                                   \
	"	.cfi_def_cfa_offset 48\n"                                      \
	"	.cfi_offset x29, -48\n"                                        \
	"	.cfi_offset x30, -40\n"                                        \
	"	stp x0, x1, [sp, #16]\n"                                       \
	"	str x2, [sp, #32]\n"                                           \
	version                                                                \
	"	bl sr_look_up\n"                                               \
	"	mov x16, x0\n"                                                 \
	"	mov x17, x1\n"                                                 \
	"	ldr x2, [sp, #32]\n"                                           \
	"	ldp x0, x1, [sp, #16]\n"                                       \
	"	ldp x29, x30, [sp], #48\n"                                     \
	"	.cfi_def_cfa_offset 0\n"                                       \
	"	.cfi_restore x29\n"                                            \
	"	.cfi_restore x30\n"                                            \
	"	cbz x16, 1f\n"                                                 \
	"	br x16\n"                                                      \
	"1:	mov x0, x17\n"                                                 \
	"	ret\n"                                                         \
	"	.cfi_endproc\n"                                                \
	".size " #name ", . - " #name "\n")
ENTRY(dlsym, "	mov x2, xzr\n");
ENTRY(dlvsym, "");
/* clang-format on */
#endif

static int compare_name(const void *name, const void *number)
{
	return strcmp(name, sr_calls[*(const uint16_t *)number].name);
}

/* The exported call of that name, or NULL. */
static const struct sr_call_desc *described(const char *name)
{
	const uint16_t *number = bsearch(name, sr_exported_calls, sr_exported_count,
					 sizeof(*sr_exported_calls), compare_name);

	return number ? &sr_calls[*number] : NULL;
}

static void *real_lookup(void *handle, const char *name, const char *version)
{
	return version ? sr_dlvsym(handle, name, version) : sr_dlsym(handle, name);
}

/* Fails as it would without the shim, dlerror included. */
static void *fail(const char *name, const char *version)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	return libc ? real_lookup(libc, name, version) : NULL;
}

struct sr_answer sr_look_up(void *handle, const char *name, const char *version)
{
	void *function = version ? sr_real_dlvsym() : sr_real_dlsym();
	const struct sr_call_desc *d = sr_self.depth ? NULL : described(name);
	struct sr_answer answer = {.go_on = function};

	if (handle == RTLD_DEFAULT && sr_engine && !sr_self.depth) {
		answer.result = sr_heap_next_mapper(name);
		if (answer.result)
			answer.go_on = NULL;
	}
	if (!d || handle == RTLD_NEXT)
		return answer;
	if (handle == RTLD_DEFAULT && sr_real_function(d))
		return answer;
	answer.go_on = NULL;
	if (handle == RTLD_DEFAULT) {
		/* Only the shim has it. */
		answer.result = fail(name, version);
		return answer;
	}
	answer.result = real_lookup(handle, name, version);
	if (answer.result == d->wrapper && !sr_real_function(d))
		answer.result = fail(name, version);
	else if ((sr_engine || sr_waiting) && answer.result && answer.result == sr_real_function(d))
		answer.result = d->wrapper;
	return answer;
}
