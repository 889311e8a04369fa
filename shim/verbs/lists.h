/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lists.h: calls that are given lists of memory (readv, recvmsg, sendmmsg) get lists of the shim's instead where any of it is
 * exposed: of aliases (lent.h), or, of what a call outputs, of copies that the program knows from then on.
 */
#ifndef SHIM_VERBS_LISTS_H
#define SHIM_VERBS_LISTS_H

#include "shim/verbs/lent.h"

/* list: the argument, which the number of its elements follows; or, of one message, that is all. */
void sr_lists_of_pieces(struct sr_pinned *p, uint64_t list[2]);
void sr_lists_of_message(struct sr_pinned *p, uint64_t *message);
void sr_lists_of_messages(struct sr_pinned *p, uint64_t list[2]);
/* Pieces at their own addresses: they may mean memory of another process. */
void sr_lists_in_place(struct sr_pinned *p, const struct iovec *pieces, size_t n);

/* The arguments are the program's again, and what the kernel has put into messages' headers is there. */
void sr_lists_end(struct sr_pinned *p);

#endif
