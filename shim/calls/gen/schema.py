# SPDX-License-Identifier: BSD-2-Clause
"""Emits schema.gen.c: the description of the records in calls.def, as JSON for each trace."""
import json
from collections import OrderedDict

from .description import seen_as

LINE = 90


def emit(structs, calls):
    schema = OrderedDict(structs=OrderedDict(), calls=[])
    for s in structs.values():
        schema['structs'][s.name] = [OrderedDict(name=f.path, type=f.wire) for f in s.fields]

    def fields(entries):
        return [OrderedDict(name=e.label, type=seen_as(structs, e)) for e in entries]

    for number, call in enumerate(calls.values()):
        described = OrderedDict(number=number, name=call.name, ret='void' if call.ret == 'void' else call.ret_wire(),
                                **{'in': fields(call.ins), 'out': fields(call.outs)})
        if call.fails:
            described['direct'] = True
        schema['calls'].append(described)
    text = json.dumps(schema, separators=(',', ':'))
    out = ['/* Made by gencalls.py from calls.def. */', '#include "shim/core/schema.h"', '', 'const char sr_schema[] =']
    out += ['\t' + json.dumps(text[n:n + LINE]) for n in range(0, len(text), LINE)]
    out[-1] += ';'
    out.append('const size_t sr_schema_size = sizeof(sr_schema) - 1;')
    return '\n'.join(out) + '\n'
