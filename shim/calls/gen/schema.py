# SPDX-License-Identifier: BSD-2-Clause
"""Emits schema.gen.c: the description of the records in calls.def, as JSON for each trace; and schema_packed.gen.c, the same, packed."""
import json
from collections import Counter, OrderedDict

from .description import seen_as

LINE = 90
BYTES_IN_LINE = 24
FIRST = 128 # of the bytes that stand for pairs; the text is ASCII


def packed(text):
    """The text in which bytes from FIRST on stand for the most frequent pairs, and the pairs."""
    pairs = []
    for byte in range(FIRST, 256):
        for pair, _ in Counter(zip(text, text[1:])).most_common(1):
            text = text.replace(bytes(pair), bytes([byte]))
            pairs.append(bytes(pair))
    return text, b''.join(pairs)


def array(name, data):
    lines = ['\t' + ' '.join('%d,' % byte for byte in data[n:n + BYTES_IN_LINE]) for n in range(0, len(data), BYTES_IN_LINE)]
    return ['const uint8_t %s[] = {' % name] + lines + ['};']


BEGIN = ['/* Made by gencalls.py from calls.def. */', '#include "shim/core/schema.h"', '']


def emit_packed(structs, calls):
    text = schema_of(structs, calls)
    short, pairs = packed(text.encode('ascii'))
    out = BEGIN + array('sr_schema_packed', short) + array('sr_schema_pairs', pairs)
    out += ['const size_t sr_schema_packed_size = sizeof(sr_schema_packed);', 'const size_t sr_schema_unpacked_size = %d;' % len(text)]
    return '\n'.join(out) + '\n'


def emit(structs, calls):
    text = schema_of(structs, calls)
    out = BEGIN + ['const char sr_schema[] =']
    out += ['\t' + json.dumps(text[n:n + LINE]) for n in range(0, len(text), LINE)]
    out[-1] += ';'
    out.append('const size_t sr_schema_size = sizeof(sr_schema) - 1;')
    return '\n'.join(out) + '\n'


def schema_of(structs, calls):
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
        if call.attrs.get('pauses'):
            described['pauses'] = True
        schema['calls'].append(described)
    return json.dumps(schema, separators=(',', ':'))
