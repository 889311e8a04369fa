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
 * RTLD_DEFAULT finds the wrappers by itself, since the library is preloaded, and so does RTLD_NEXT in
 * the executable. A library behind the shim would find libc's function by RTLD_NEXT (jemalloc finds
 * pthread_create so), and gets the wrapper. (For mmap and munmap RTLD_DEFAULT finds the functions
 * behind the shim's.) Both mean "as seen from the caller", which glibc takes from the return address:
 * so the entries jump to the real function, with nothing in between on the stack.
 *
 * If no verbs library is loaded, they find nothing, as without the shim.  (If one is loaded with
 * RTLD_LOCAL, they find the wrapper, although they would find nothing without the shim.)
 *
 * A function of the vDSO is libc's of the same name, with or without a prefix. It would answer from memory that the kernel
 * writes, and from the processor, which no trap sees. (Where the kernel's function returns an error, the wrapper returns -1.)
 *
 * A library that was loaded with RTLD_DEEPBIND is bound without the shim.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/compiler.h"
#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/memory/heap.h"
#include "shim/memory/images.h"
#include "shim/calls/real.h"
#include "shim/core/plain_text.h"
#include "shim/core/symbols.h"
#include "shim/core/thread.h"

/* The entries jump to go_on with their arguments; if it is NULL, they return result. */
struct sr_answer {
	void *go_on;
	void *result;
};

struct sr_answer sr_look_up(void *handle, const char *name, const char *version, const void *caller)
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
	"	mov 24(%rsp), %rcx\n"                                          \
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
	"	mov x3, x30\n"                                                 \
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
	return sr_plain_compare(name, sr_calls[*(const uint16_t *)number].name);
}

/* The exported call of that name, or NULL. */
static const struct sr_call_desc *described(const char *name)
{
	const uint16_t *number = bsearch(name, sr_exported_calls, sr_exported_count,
					 sizeof(*sr_exported_calls), compare_name);

	return number ? &sr_calls[*number] : NULL;
}

#define VDSO_PREFIX "__vdso_"

/* In the vDSO's own handle alone do names have the prefix. */
static const char *name_in_libc(void *handle, const char *name)
{
	const size_t n = sizeof(VDSO_PREFIX) - 1;

	return handle != RTLD_DEFAULT && handle != RTLD_NEXT && !strncmp(name, VDSO_PREFIX, n) ? name + n : name;
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

static const struct link_map *library_of(const void *address)
{
	struct link_map *library = NULL;
	Dl_info info;

	return address && dladdr1(address, &info, (void **)&library, RTLD_DL_LINKMAP) ? library : NULL;
}

/*
 * Does RTLD_NEXT mean the function that the wrapper stands for? That is the first definition behind the shim. So it is
 * for the libraries in between, but not for the one that defines it: an interposer, who asks for what is behind itself.
 */
static bool is_next(const struct sr_call_desc *d, const char *version, const void *caller)
{
	const struct link_map *definer = library_of(sr_real_function(d)), *asker = library_of(caller);
	const struct link_map *l = definer && asker ? library_of((void *)is_next) : NULL;
	bool is_behind_shim = false;

	if (version && (!d->version || strcmp(version, d->version)))
		return false;
	for (l = l ? l->l_next : NULL; l && l != definer; l = l->l_next)
		is_behind_shim |= l == asker;
	return l && is_behind_shim;
}

struct sr_answer sr_look_up(void *handle, const char *name, const char *version, const void *caller)
{
	void *function = version ? sr_real_dlvsym() : sr_real_dlsym();
	const struct sr_call_desc *d = sr_self.depth ? NULL : described(name_in_libc(handle, name));
	struct sr_answer answer = {.go_on = function};

	if (handle == RTLD_DEFAULT && sr_engine && !sr_self.depth) {
		answer.result = sr_heap_next_mapper(name);
		if (answer.result)
			answer.go_on = NULL;
	}
	if (!d)
		return answer;
	if (handle == RTLD_NEXT) {
		if ((sr_engine || sr_waiting) && d->source == SR_SOURCE_LIBC && is_next(d, version, caller)) {
			answer.go_on = NULL;
			answer.result = d->wrapper;
		}
		return answer;
	}
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
	else if ((sr_engine || sr_waiting) && answer.result &&
		 (answer.result == sr_real_function(d) || sr_is_vdso(answer.result)))
		answer.result = d->wrapper;
	return answer;
}
