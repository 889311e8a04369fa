/* SPDX-License-Identifier: BSD-2-Clause */
/* processes.h: trapped system calls that create, replace or end processes, or signal them. */
#ifndef SHIM_CALLS_TRAP_PROCESSES_H
#define SHIM_CALLS_TRAP_PROCESSES_H

struct sr_trapped;

long sr_trapped_clone(const struct sr_trapped *c); /* clone, clone3 */
long sr_trapped_fork(const struct sr_trapped *c);  /* fork, vfork */
long sr_trapped_exec(const struct sr_trapped *c);
long sr_trapped_kill(const struct sr_trapped *c);  /* kill, tkill, tgkill, rt_sigqueueinfo, ... */
long sr_trapped_exit_group(const struct sr_trapped *c);

#endif
