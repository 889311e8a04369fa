/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loader.h: follows ld.so in a traced process until the shim is loaded and takes over.
 *
 * Where the kernel puts what ld.so maps depends on the kernel: on what it has mapped itself, on
 * randomisation, and on whether it aligns large files to large pages.  So the tracer gives each library
 * its recorded address.  Other mappings are left to the kernel, which puts them where the recorded one did, unless
 * addresses are random: then they get the highest gap below the recorded top, which is what every kernel
 * chooses (mm/mmap.c, top-down).
 */
#ifndef REPLAY_HOST_LAYOUT_LOADER_H
#define REPLAY_HOST_LAYOUT_LOADER_H

#include "replay/host/layout/cpuid.h"
#include "replay/host/layout/places.h"
#include "replay/host/layout/stopped.h"

/*
 * random: the kernel would choose other addresses than the recorded one.  Returns when the process has sent itself SIGSTOP (shim/replay/engine.c), still stopped, or has
 * ended.
 */
void sr_follow_loader(const struct sr_stopped *s, const struct sr_layout *l, const struct sr_cpuid_tracer *cpuid, bool random);

#endif
