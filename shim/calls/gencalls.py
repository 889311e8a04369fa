#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Turns calls.def, the one description of what sreplay intercepts, into C.

    gencalls.py calls.def OUTDIR

The grammar is described at the head of calls.def; gen/description.py reads it.
"""
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from gen import codec, description, readers, schema, structs, table, wrappers  # noqa: E402


def main():
    path, outdir = sys.argv[1:]
    wire, calls = description.parse(path)
    files = {
        'calls.gen.h': table.emit_numbers(calls),           # numbers of the calls
        'ops.gen.h': table.emit_operations(calls),          # operation pointers, as a list for the preprocessor
        'hooks.gen.h': table.emit_hooks(calls),             # functions by hand that calls.def names
        'wire.gen.h': structs.emit(wire),                   # wire structs, and functions to put and get them
        'codec.gen.c': codec.emit(wire, calls),             # arguments and results to bytes and back
        'wrappers.gen.c': wrappers.emit(calls),             # the interposed functions, and sr_calls[]
        'syscalls.gen.c': table.emit_syscalls(calls),       # which call a system call is, for the trap
        'schema.gen.c': schema.emit(wire, calls),           # the description as JSON, stored in every trace
        'schema_packed.gen.c': schema.emit_packed(wire, calls), # the same in the library, packed
        'records.gen.h': readers.emit(wire, calls),         # arguments and results, for readers of traces
        'exports.map': table.emit_export_map(calls),        # the version script of libsreplay_verbs.so
    }
    for name, text in files.items():
        with open(os.path.join(outdir, name), 'w') as f:
            f.write(text)


if __name__ == '__main__':
    main()
