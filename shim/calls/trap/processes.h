/* SPDX-License-Identifier: BSD-2-Clause */
/* processes.h: trapped system calls that make processes, replace them and send them signals. */
#ifndef SHIM_CALLS_TRAP_PROCESSES_H
#define SHIM_CALLS_TRAP_PROCESSES_H

struct sr_trapped;

long sr_trapped_clone(const struct sr_trapped *c); /* clone, clone3 */
long sr_trapped_fork(const struct sr_trapped *c);  /* fork, vfork */
long sr_trapped_exec(const struct sr_trapped *c);
long sr_trapped_kill(const struct sr_trapped *c);  /* kill and its kin */
long sr_trapped_exit_group(const struct sr_trapped *c);

#endif
