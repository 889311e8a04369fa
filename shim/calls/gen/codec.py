# SPDX-License-Identifier: BSD-2-Clause
"""Emits codec.gen.c: encodes each call's arguments and results, and delivers recorded results."""
import re

from .description import SCALARS, is_plain, object_of, raw_size

# Passed in a register, as a word -> its member that is one
UNIONS = {'const union sigval': 'sival_ptr'}


# ---------------------------------------------------------------- expressions

def words_of(call):
    """The contents of the words a[]: the arguments, followed by the received bytes, if any."""
    return call.params + ([('struct sr_received *', 'received')] if call.attrs.get('receives') else [])


def unpack(call, used):
    """Declares locals with the arguments' names and C types, taken from the words a[]."""
    lines = []
    text = ' '.join(used)
    for n, (ctype, name) in enumerate(words_of(call)):
        if not re.search(r'\b%s\b' % name, text):
            continue
        cast = '(%s)' % ctype if not ctype.endswith('*') else '(%s)(uintptr_t)' % ctype
        sep = '' if ctype.endswith('*') else ' '
        if ctype in UNIONS:
            lines.append('\t%s %s = { .%s = (void *)(uintptr_t)a[%d] };' % (ctype, name, UNIONS[ctype], n))
            continue
        lines.append('\t%s%s%s = %sa[%d];' % (ctype, sep, name, cast, n))
    if re.search(r'\bret\b', text) and call.ret != 'void':
        cast = '(%s)' % call.ret if not call.ret.endswith('*') else '(%s)(uintptr_t)' % call.ret
        sep = '' if call.ret.endswith('*') else ' '
        lines.append('\t%s%sret = %sresult;' % (call.ret, sep, cast))
    return lines


def expressions(entries, with_conditions):
    for e in entries:
        yield e.expr
        yield from e.extra
        if e.condition and with_conditions:
            yield e.condition


# ------------------------------------------------------------------------- put

def put(structs, e):
    """Appends one value.  A byte in front of a conditional value says whether it is there."""
    if is_plain(structs, e.wire):
        expr = '%s ? %s : NULL' % (e.condition, e.expr) if e.condition else e.expr
        return ['\tsr_put_opt_%s(b, %s);' % (e.wire, expr)]
    statement = '\t' + put_value(e)
    if not e.condition:
        return [statement]
    return ['\tsr_put_u8(b, (%s) != 0);' % e.condition, '\tif (%s)' % e.condition, '\t' + statement]


def put_value(e):
    if e.wire in SCALARS:
        size, c = SCALARS[e.wire]
        return 'sr_put_u%d(b, (%s)%s);' % (size * 8, 'uintptr_t' if e.wire == 'ptr' else c, e.expr)
    if raw_size(e.wire):
        return 'sr_put_raw(b, %s, %d);' % (e.expr, raw_size(e.wire))
    if object_of(e.wire):
        return 'sr_put_bytes(b, %s, sizeof(struct %s));' % (e.expr, object_of(e.wire))
    return 'sr_put_%s(b, %s);' % (e.wire, ', '.join([e.expr] + e.extra))


def put_scalars(entries):
    """Appends a run of values of known sizes, with one check for room."""
    stores, at = [], 0
    for e in entries:
        size, c = SCALARS[e.wire]
        stores.append('\t\t__builtin_memcpy(p + %d, &(%s){(%s)%s}, %d);'
                      % (at, c, 'uintptr_t' if e.wire == 'ptr' else c, e.expr, size))
        at += size
    return ['\tuint8_t *p = sr_buf_room(b, %d);' % at, '', '\tif (p) {'] + stores + ['\t}']


def puts(structs, entries):
    """Appends all arguments or results of a call; most begin with a run of scalars."""
    run = 0
    while run < len(entries) and entries[run].wire in SCALARS and not entries[run].condition:
        run += 1
    lines = put_scalars(entries[:run]) if run > 1 else []
    for entry in entries[run if run > 1 else 0:]:
        lines += put(structs, entry)
    return lines


# --------------------------------------------------------------------- deliver

def get(structs, e):
    """Delivers one value to where the program expects it."""
    if is_plain(structs, e.wire):
        return ['\tsr_get_opt_%s(c, %s);' % (e.wire, e.expr)]
    statement = '\t' + get_value(e)
    return ['\tif (sr_get_u8(c))', '\t' + statement] if e.condition else [statement]


def get_value(e):
    if e.wire == 'ptr':
        return '%s = (void *)(uintptr_t)sr_get_u64(c);' % e.expr
    if e.wire in SCALARS:
        return '%s = (__typeof__(%s))sr_get_u%d(c);' % (e.expr, e.expr, SCALARS[e.wire][0] * 8)
    if raw_size(e.wire):
        return 'sr_get_raw(c, %s, %d);' % (e.expr, raw_size(e.wire))
    if object_of(e.wire):
        return 'sr_place_object(c, %s, sizeof(struct %s));' % (e.expr, object_of(e.wire))
    return 'sr_deliver_%s(c, %s);' % (e.wire, ', '.join([e.expr] + e.extra))


def gets(structs, entries):
    return [line for entry in entries for line in get(structs, entry)]


# ------------------------------------------------------------------- functions

def emit_optional(structs, calls, out):
    """Emits functions for the program's structs that a call may have or not."""
    used = {e.wire for call in calls.values() for e in call.ins + call.outs}
    for name, s in structs.items():
        if name not in used or not s.ctype:
            continue
        out += ['static void __attribute__((unused)) sr_put_opt_%s(struct sr_buf *b, const %s *v)' % (name, s.c),
                '{', '\tsr_put_u8(b, v != NULL);', '\tif (v)', '\t\tsr_put_%s(b, v);' % name, '}', '',
                'static void __attribute__((unused)) sr_get_opt_%s(struct sr_cursor *c, %s *v)' % (name, s.c),
                '{', '\tif (sr_get_u8(c) && v)', '\t\tsr_get_%s(c, v);' % name, '}', '']


def emit_call(structs, call, out):
    for suffix, entries, how in (('in', call.ins, puts), ('out', call.outs, puts), ('deliver', call.outs, gets)):
        if not entries:
            continue
        first = 'struct sr_cursor *c' if suffix == 'deliver' else 'struct sr_buf *b'
        tail = '' if suffix == 'in' else ', uint64_t result'
        out.append('static void %s_%s(%s, const uint64_t *a%s)\n{' % (call.name, suffix, first, tail))
        lines = unpack(call, list(expressions(entries, suffix != 'deliver')))
        body = how(structs, entries)
        out += lines + ([''] if lines and not body[0].startswith('\tuint8_t *p') else []) + body
        out.append('}\n')


def reads_memory(call):
    """Does the kernel check the pointers that are followed for the arguments? A verbs library does not."""
    return call.lib in ('libc', 'kernel') and any(
        e.wire not in SCALARS or re.search(r'->|\[|\*', e.expr) for e in call.ins)


def emit(structs, calls):
    out = ['/* Made by gencalls.py from calls.def. */', '#include "shim/calls/codec/custom.h"', '']
    emit_optional(structs, calls, out)
    for call in calls.values():
        emit_call(structs, call, out)
    out.append('const struct sr_call_codec sr_call_codecs[SR_CALL_COUNT] = {')
    for call in calls.values():
        parts = ['.put_in = %s_in' % call.name] if call.ins else []
        if reads_memory(call):
            parts.append('.reads_memory = true')
        if call.outs:
            parts += ['.put_out = %s_out' % call.name, '.deliver = %s_deliver' % call.name]
        out.append('\t[SR_CALL_%s] = { %s },' % (call.name, ', '.join(parts)))
    out.append('};')
    return '\n'.join(out) + '\n'
