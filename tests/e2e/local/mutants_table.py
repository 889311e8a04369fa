# SPDX-License-Identifier: BSD-2-Clause
"""The mutants of mutants.py: `edits` of `file` take one synchronisation out of what is run; `races` are the pairs of functions that access the same
memory without it (main: only what it does itself), and perhaps the race's class; `known`: races that the program has anyway."""

BARRIER = "\n\tpgas_barrier();"


def mutant(run, ranks, file, edits, races, **more):
    return dict(run=run, ranks=ranks, file=file, edits=edits, races=races, **more)


UPDATES = [("update", "update", "data"), ("update", "update", "fence")]

MUTANTS = {
    # is: the counts, and the keys, are there.
    "is-counts": mutant("is 256 2", 3, "is.c", [("row, row, bytes);" + BARRIER, "row, row, bytes);")],
                        [("tell_counts", "send_keys|count"), ("send_keys", "send_keys|sort_received")]),
    "is-keys": mutant("is 256 2", 3, "is.c", [("from += outgoing[receiver];\n\t}" + BARRIER, "from += outgoing[receiver];\n\t}")],
                      [("send_keys", "sort_received")]),
    # laplace: the edges of neighbours.
    "laplace-wait": mutant("laplace 16 10", 3, "laplace.c", [("pgas_wait_for(h->iteration, iteration);", ";")], [("send_edge", "receive_edge")]),
    "laplace-flag-first": mutant("laplace 16 10", 3, "laplace.c",
                                 [("pgas_start_put(neighbour, h->row, out, width * sizeof(*row));", ""),
                                  ("pgas_put(neighbour, h->iteration, &iteration, sizeof(iteration));",
                                   "pgas_start_put(neighbour, h->iteration, &iteration, 8);\n"
                                   "\tpgas_start_put(neighbour, h->row, out, width * sizeof(*row));\n\tpgas_quiet();")],
                                 [("send_edge", "receive_edge")]),
    "laplace-one-halo": mutant("laplace 16 10", 3, "laplace.c",
                               [("iteration % 2][1 - side]", "0][1 - side]"), ("iteration % 2][side]", "0][side]")], [("send_edge", "receive_edge")]),
    "laplace-completion": mutant("laplace 80 10", 3, "laplace.c", [("pgas_put(neighbour, h->iteration", "pgas_start_put(neighbour, h->iteration")],
                                 [("send_edge", "send_edge", "in-flight")]),
    # mcop, knapsack, dht, cg: what others have made.
    "mcop-barrier": mutant("mcop 8", 3, "mcop.c", [("best(i, i + length);\n\t\t}\n\t\tpgas_barrier();", "best(i, i + length);\n\t\t}")],
                           [("together", "get_shorter|main")]),
    "mcop-quiet": mutant("mcop 8", 3, "mcop.c", [("sizeof(uint64_t));\n\t}\n\tpgas_quiet();", "sizeof(uint64_t));\n\t}")],
                         [("get_shorter", "best|get_shorter", "in-flight")]),
    "knapsack-things": mutant("knapsack corrected 6 40", 4, "knapsack.c", [("if (!race)\n\t\tpgas_barrier();", "")], [("make_things", "first_row")]),
    "knapsack-first-row": mutant("knapsack corrected 6 40", 4, "knapsack.c",
                                 [("(uint64_t)c < weight ? 0 : value;" + BARRIER, "(uint64_t)c < weight ? 0 : value;")], [("first_row", "next_row")]),
    "knapsack-next-row": mutant("knapsack corrected 6 40", 4, "knapsack.c",
                                [("with > without ? with : without;\n\t}" + BARRIER, "with > without ? with : without;\n\t}")],
                                [("next_row", "next_row|build_table")]),
    "dht-barrier": mutant("dht 200", 3, "dht.c", [("insert(word_at(i), genome[i + WORD]);" + BARRIER, "insert(word_at(i), genome[i + WORD]);")],
                          [("insert", "look_up")]),
    "cg-before": mutant("cg 24 2", 3, "cg.c", [("pgas_barrier(); /* everybody's part of the vector is there */", "")],
                        [("multiply", "solve|check|main")]),
    "cg-after": mutant("cg 24 2", 3, "cg.c", [("pgas_barrier(); /* nobody needs it any more */", "")], [("multiply", "solve|check")]),
    "cg-quiet": mutant("cg 24 2", 3, "cg.c", [("sizeof(double));\n\tpgas_quiet();", "sizeof(double));")], [("multiply", "multiply", "in-flight")]),
    # A lock, and a flag.  (Thieves of nqueens, uts and fib steal by chance: what does not happen is not found.)
    "lock": mutant("races write-write-lock", 3, "races/writes.c",
                   [("pgas_lock(OWNER, &shared->lock);\n\tput(OWNER);\n\tpgas_unlock(OWNER, &shared->lock);", "put(OWNER);")],
                   [("write_write_lock", "write_write_lock")]),
    "raised-early": mutant("races write-write-flag", 3, "races/writes.c",
                           [("static void write_write_flag(void)\n{\n\tif (is(0)) {\n\t\tput(OWNER);\n\t\traise_flag();",
                             "static void write_write_flag(void)\n{\n\tif (is(0)) {\n\t\traise_flag();\n\t\tput(OWNER);")],
                           [("write_write_flag", "write_write_flag")]),
    # The patterns of one-sided programming.
    "flag-wait": mutant("patterns flag 10 1", 2, "patterns.c", [("expect(data[w] == payload(i, w));\n\t\tsaw(near[0]);\n\t\tpgas_put",
                                                                   "expect(data[w] == payload(i, w));\n\t\tpgas_put"),
                                                                  ("uint64_t words = 1 + i % FEW_WORDS;\n\n\t\twhile (near[0] < i)\n\t\t\t;\n",
                                                                   "uint64_t words = 1 + i % FEW_WORDS;\n")],
                        [("flag_reader", "flag_writer")]),
    "flag-taken": mutant("patterns flag 10 1", 2, "patterns.c", [("pgas_wait_for(taken, i);", "pgas_wait_for(taken, i > 2 ? i - 2 : 0);")], [("flag_writer", "flag_reader")]),
    "flag-first": mutant("patterns flag 10 1", 2, "patterns.c",
                         [("pgas_start_put(0, data + 1, out + 1, words * sizeof(*out));\n\t\tpgas_start_put(0, near, out, sizeof(*out));",
                           "pgas_start_put(0, near, out, sizeof(*out));\n\t\tpgas_start_put(0, data + 1, out + 1, words * sizeof(*out));")],
                         [("flag_writer", "flag_reader")]),
    "ring-full": mutant("patterns ring 80 1", 2, "patterns.c", [("while (head - tail >= RING) {", "while (head - tail >= RING + 8) {")], [("ring_writer", "ring_reader")]),
    "amount-last": mutant("patterns steal 20 1", 3, "patterns.c",
                          [("pgas_start_put((int)thief - 1, &s->amount, &out[0], sizeof(*out));\n"
                            "\t\tpgas_start_put((int)thief - 1, &s->address, &out[1], sizeof(*out));",
                            "pgas_start_put((int)thief - 1, &s->address, &out[1], sizeof(*out));\n"
                            "\t\tpgas_start_put((int)thief - 1, &s->amount, &out[0], sizeof(*out));")],
                          [("steal_victim", "steal_thief")], known=[("steal_victim", "steal_thief")]),
    # Messages and blocks.
    # In a run that polls each completion before the next round there is no race (P -> X -> C -> store): with 10 rounds 1 of 4 recordings had none.
    "messages-sent": mutant("messages 40 4", 3, "messages.c", [("return sends_done >= round * (uint64_t)(pgas.ranks - 1);", "return true;")],
                            [("send", "make|send", "in-flight"), ("do_round", "do_round|pgas_load")], must=[("send", "make|send", "in-flight")],
                            known=[("do_round", "do_round|pgas_load")]),
    "blocks-wait": mutant("blocks 4", 3, "blocks.c", [("pgas_wait_for(&box->round[from], (uint64_t)round);", ";")], [("put_blocks", "read_part|see")]),
    "blocks-barrier": mutant("blocks 4", 3, "blocks.c", [("read_part(from);\n\t\tpgas_barrier();", "read_part(from);")],
                             [("put_blocks", "read_part|see"), ("put_blocks|put_round", "fill|put_round", "in-flight")]),
    "blocks-flag-first": mutant("blocks 4", 3, "blocks.c",
                                [("put_blocks(to, box->part[pgas_rank()], slot);\n", ""),
                                 ("pgas_start_put(to, &box->round[pgas_rank()], from, sizeof(*from));",
                                  "pgas_start_put(to, &box->round[pgas_rank()], from, sizeof(*from));\n"
                                  "\tput_blocks(to, box->part[pgas_rank()], slot);")],
                                [("put_blocks", "read_part|see")]),
    # steal: two queue pairs, completions, and who waits.
    "steal-two-queues": mutant("steal fenced 3", 2, "steal.c", [('racing = !strcmp(argv[1], "racing");', "racing = true;")], [("give_work", "receive")]),
    "steal-completion": mutant("steal fenced 3", 3, "steal.c", [('thief);\n\tpgas_quiet();', "thief);")], [("give_work", "fill", "in-flight")]),
    "steal-waiting": mutant("steal fenced 3", 2, "steal.c",
                               [("pgas_store(&shared->loot.begin, WAITING);", ";")], [("receive", "give_work")]),
    "steal-wait": mutant("steal fenced 3", 2, "steal.c",
                         [("while (__atomic_load_n(&loot->begin, __ATOMIC_ACQUIRE) == WAITING)\n\t\tpgas_relax(&patience);", "(void)patience;")],
                         [("receive", "give_work"), ("ask", "give_work")]),
    # guppie: its updates race anyway.
    "guppie-undo": mutant("guppie 6 64", 3, "guppie.c", [("update(updates);" + BARRIER, "update(updates);")],
                          [("update", "undo|main")] + UPDATES, must=[("update", "undo")], known=UPDATES),
    "guppie-first-values": mutant("guppie 6 64", 3, "guppie.c", [(BARRIER + "\n\tupdate(updates);", "\n\tupdate(updates);")],
                                  [("main", "update")] + UPDATES, must=[("main", "update")], known=UPDATES),
    "guppie-quiet": mutant("guppie 6 64", 3, "guppie.c", [("&table[p[i].word], sizeof(*batch));\n\t\t}\n\t\tpgas_quiet();\n\t\tfor",
                                                             "&table[p[i].word], sizeof(*batch));\n\t\t}\n\t\tfor")],
                           [("update", "update", "in-flight")] + UPDATES, must=[("update", "update", "in-flight")], known=UPDATES),
    # The runtime: barriers, reductions, completions.
    "barrier-quiet": mutant("is 256 2", 4, "sync.c", [("pgas_quiet();\n\tsync_state.number++;", "sync_state.number++;")],
                            [("tell_counts|send_keys", "count|send_keys|sort_received|pack"), ("pgas_gather", "pgas_gather")]),
    "barrier-rounds": mutant("mcop 8", 4, "sync.c", [("1 << round < pgas.ranks", "2 << round < pgas.ranks")], [("together", "get_shorter|main")]),
    "barrier-at-once": mutant("mcop 8", 4, "sync.c",
                              [("if (pgas.ranks > 1)\n\t\ttell(0);", "for (int round = 0; 1 << round < pgas.ranks; round++)\n\t\ttell(round);"),
                               ("if (round > 0)\n\t\t\ttell(round);", "")], [("together", "get_shorter|main")]),
    "barrier-wait": mutant("knapsack corrected 6 40", 4, "sync.c", [("pgas_wait_for(&sync_state.told[round], sync_state.number);", ";")],
                           [("make_things", "first_row|next_row|alone|build_table"), ("first_row|next_row", "next_row|build_table")]),
    "gather-sets": mutant("cg 24 2", 3, "sync.c", [("sync_state.reductions++ % 2 * PGAS_MAX_RANKS", "sync_state.reductions++ % 1")],
                          [("pgas_gather", "pgas_gather")]),
    "gather-barrier": mutant("laplace 16 4", 3, "sync.c", [("&set[pgas.rank], sizeof(mine));" + BARRIER, "&set[pgas.rank], sizeof(mine));")],
                             [("pgas_gather", "pgas_gather")]),
    "get-completion": mutant("dht 200", 3, "transfer.c", [("drain(&pgas.peers[rank], 0);\n\t\tif (!direct)", "if (!direct)")],
                             [("pgas_get", "pgas_get", "in-flight")]),
    "atomic-completion": mutant("patterns ticket 10 1", 3, "transfer.c", [("pgas.atomics++;\n\tdrain(&pgas.peers[rank], 0);", "pgas.atomics++;")],
                                [("atomic", "atomic")]),
}
