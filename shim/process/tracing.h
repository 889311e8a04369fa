/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tracing.h: what a system call ptrace writes into the memory of the program that makes it.
 *
 * The recorder's codec calls these functions, as the program's debugger (gdb, strace) makes the calls.
 */
#ifndef SHIM_PROCESS_TRACING_H
#define SHIM_PROCESS_TRACING_H

#include <stddef.h>
#include <stdint.h>

/* How many bytes a successful request has written at its last argument. address: the one before. */
size_t sr_ptrace_answer(uint64_t request, uint64_t address, const void *data, long result);

/* The registers that PTRACE_GETREGSET has written where its last argument, an iovec, says. */
void *sr_ptrace_registers(uint64_t request, const void *data);
size_t sr_ptrace_register_bytes(uint64_t request, const void *data);

#endif
