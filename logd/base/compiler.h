/* SPDX-License-Identifier: BSD-2-Clause */
/* compiler.h: attributes that more than one file needs. */
#ifndef LOGD_BASE_COMPILER_H
#define LOGD_BASE_COMPILER_H

/* A function of libsreplay_verbs.so that the program calls in place of the real one. */
#define SR_EXPORT       __attribute__((visibility("default")))

/*
 * On a declaration: the variable or function is in this library.  -fvisibility=hidden says it of
 * definitions only; without this each access goes through the global offset table.
 */
#define SR_HIDDEN       __attribute__((visibility("hidden")))

/* On a thread-local variable: its access never allocates, so that a signal handler may make it. */
#define SR_INITIAL_EXEC __attribute__((tls_model("initial-exec")))

/* On a function that runs while the program's values are in the vector registers. */
#define NO_VECTORS      __attribute__((target("general-regs-only")))

#endif
