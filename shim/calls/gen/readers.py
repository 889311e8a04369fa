# SPDX-License-Identifier: BSD-2-Clause
"""Emits records.gen.h for readers of traces.  For each call that calls.def marks "is read", it has

    struct sr_in_NAME,  sr_get_in_NAME      its arguments
    struct sr_out_NAME, sr_get_out_NAME     its results

SR_BYTES_in_NAME is their length if it is always the same.  Members are named as in a dump.
has_X says whether an optional X is there.  For a list the struct has its number of elements, X_n,
and the getter stops in front of the first one.  It also stops in front of a type that is decoded by
hand-written code.
"""
import re

from .description import SCALARS, object_of, raw_size, seen_as
from .structs import is_readable


class Reader:
    """Collects the members of a struct and the statements that fill them."""

    def __init__(self, structs):
        self.structs, self.members, self.statements = structs, [], []

    def add(self, e):
        """False where the getter has to end."""
        wire, name = seen_as(self.structs, e), re.sub(r'.*(->|\.)', '', e.label)
        optional = wire.endswith('?')
        wire = wire.rstrip('?')
        if wire.endswith('[]'):
            self.value(optional, name, 'uint32_t %s_n' % name, 'v->%s_n = sr_get_u32(c)' % name)
            return False
        if object_of(e.wire) or wire in ('bytes', 'string', 'chars'):
            self.value(optional, name, 'struct sr_bytes %s' % name, 'v->%s = sr_get_bytes(c)' % name)
        elif wire in SCALARS:
            size, c = SCALARS[wire]
            self.value(optional, name, '%s %s' % (c, name), 'v->%s = (%s)sr_get_u%d(c)' % (name, c, size * 8))
        elif raw_size(wire):
            self.value(optional, name, 'uint8_t %s[%d]' % (name, raw_size(wire)),
                       'sr_get_raw(c, v->%s, %d)' % (name, raw_size(wire)))
        elif wire in self.structs and is_readable(self.structs[wire]):
            s = self.structs[wire]
            self.value(optional, name, '%s %s' % (s.c, name), 'sr_get_%s(c, &v->%s)' % (s.func, name))
            return not s.fields[-1].wire.endswith('[]')
        else:
            if optional:
                self.value(False, name, 'bool has_%s' % name, 'v->has_%s = sr_get_u8(c)' % name)
            return False
        return True

    def value(self, optional, name, member, statement):
        if optional:
            self.members.append('bool has_%s' % name)
            self.statements.append('v->has_%s = sr_get_u8(c);\n\tif (v->has_%s)\n\t\t%s' % (name, name, statement))
        else:
            self.statements.append(statement)
        self.members.append(member)


def emit_side(structs, call, side, entries, out):
    reader = Reader(structs)
    for e in entries:
        if not reader.add(e):
            break
    if not reader.members:
        return
    name = '%s_%s' % (side, call.name)
    out.append('struct sr_%s {\n%s\n};\n' % (name, '\n'.join('\t%s;' % m for m in reader.members)))
    if all(e.wire in SCALARS and not e.condition for e in entries):
        out.append('#define SR_BYTES_%s %d\n' % (name, sum(SCALARS[e.wire][0] for e in entries)))
    out.append('static inline void sr_get_%s(struct sr_cursor *c, struct sr_%s *v)\n{' % (name, name))
    out.append('\tmemset(v, 0, sizeof(*v));')
    out += ['\t%s;' % s for s in reader.statements] + ['}\n']


def emit(structs, calls):
    out = ['/* Made by gencalls.py from calls.def. */', '#ifndef SR_RECORDS_GEN_H', '#define SR_RECORDS_GEN_H', '',
           '#include <stdbool.h>', '#include <string.h>', '', '#include "wire.gen.h"', '']
    for call in calls.values():
        if call.attrs.get('read'):
            emit_side(structs, call, 'in', call.ins, out)
            emit_side(structs, call, 'out', call.outs, out)
    out.append('#endif')
    return '\n'.join(out) + '\n'
