#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Turns calls.def, the one description of what sreplay intercepts, into C.

    gencalls.py calls.def OUTDIR

writes into OUTDIR
    calls.gen.h      numbers of the calls
    ops.gen.h        the operation pointers among them, as a list for the preprocessor
    wire.gen.h       wire structs, their put and get functions
    codec.gen.c      per call: arguments to bytes, results to bytes, bytes to results
    wrappers.gen.c   the interposed functions and the table of operation pointers
    syscalls.gen.c   which call a system call is, for the net (net.h)
    schema.gen.c     the same description as JSON, stored in every trace
    exports.map      the version script of libsreplay_verbs.so

The grammar is described at the head of calls.def.
"""
import json
import os
import re
import sys
from collections import OrderedDict

# wire type -> (bytes, C type)
SCALARS = {
    'u8': (1, 'uint8_t'), 'u16': (2, 'uint16_t'), 'u32': (4, 'uint32_t'), 'u64': (8, 'uint64_t'),
    'i32': (4, 'int32_t'), 'i64': (8, 'int64_t'),
    'x8': (1, 'uint8_t'), 'x16': (2, 'uint16_t'), 'x32': (4, 'uint32_t'), 'x64': (8, 'uint64_t'),
    'ptr': (8, 'uint64_t'),
}

# Functions that calls.def may name for a call, and what they look like.
HOOKS = {
    'when': 'bool %s(const uint64_t *a);',
    'invoke': 'uint64_t %s(const struct sr_call_desc *d, uint64_t *a);',
    'replayed': 'void %s(const struct sr_call_desc *d, uint64_t *a, uint64_t result);',
}

# When a call of a process with threads draws numbers: see order.h.
ORDERS = {
    'none': '0', 'entry': 'SR_ORDER_ENTRY', 'return': 'SR_ORDER_RETURN',
    'both': 'SR_ORDER_ENTRY | SR_ORDER_RETURN',
}

# Where operation pointers are: kind -> C type of the struct.
CONTAINERS = {
    'context': 'struct ibv_context', 'verbs': 'struct verbs_context', 'qp': 'struct ibv_qp_ex',
    'cq': 'struct ibv_cq_ex', 'dm': 'struct ibv_dm',
}

# How one of direct verbs fails -> the C type that it returns.
FAILURES = {'null': 'void *', 'errno': 'int', 'negative': 'int', 'false': 'int'}
DIRECT_ATTRIBUTES = ('direct', 'opaque', 'opens')

# Calls that no function is made for.
NO_WRAPPER = ('shim', 'kernel')

# Attributes that are bits of sr_call_desc.flags.
FLAGS = ('newfd', 'wait', 'opaque', 'opens', 'cancel', 'void', 'direct', 'outside', 'any', 'effect')

# Wrappers by hand, in old_versions.c.
OLD_VERSIONS = [('ibv_open_device', 'IBVERBS_1.0'), ('mlx5dv_init_obj', 'MLX5_1.0')]

# C type of an argument or result -> wire type
C_TO_WIRE = {
    'int': 'i32', 'unsigned int': 'u32', 'uint8_t': 'u8', 'uint16_t': 'u16', 'uint32_t': 'u32',
    'uint64_t': 'u64', 'int64_t': 'i64', 'size_t': 'u64', 'ssize_t': 'i64', 'long': 'i64',
    'socklen_t': 'u32', 'pid_t': 'i32', 'time_t': 'i64', 'clockid_t': 'i32', 'nfds_t': 'u64',
    'useconds_t': 'u32', '__be16': 'x16', '__be32': 'x32', '__be64': 'x64', 'off_t': 'i64',
    'idtype_t': 'u32', 'id_t': 'u32', '__sighandler_t': 'ptr', '__itimer_which_t': 'u32', 'timer_t': 'ptr', 'uid_t': 'u32', 'gid_t': 'u32', 'clock_t': 'i64', 'pthread_t': 'x64', 'thrd_t': 'x64',
    'unsigned long': 'u64', 'mode_t': 'u32',
}


# Passed in a register, as a word -> its member that is one
UNIONS = {'const union sigval': 'sival_ptr'}


def fail(line_number, text):
    sys.exit('%s:%d: %s' % (DEF_PATH, line_number, text))


class Field:
    """One field of a wire struct."""

    def __init__(self, wire, path, condition=None):
        self.wire = wire          # scalar, rawN, bytes, string, NAME or NAME[]
        self.path = path          # C path below the struct: "grh.dgid"
        self.condition = condition

    @property
    def name(self):
        return self.path.replace('.', '_')

    @property
    def raw(self):
        m = re.fullmatch(r'raw(\d+)', self.wire)
        return int(m.group(1)) if m else 0


class Struct:
    def __init__(self, name, ctype):
        self.name, self.ctype, self.fields = name, ctype, []

    @property
    def func(self):
        """What sr_put_ and sr_get_ are called for it; wire structures have a hand-written caller."""
        return self.name + ('' if self.ctype else '_fields')

    @property
    def c(self):
        return self.ctype or 'struct sr_wire_' + self.name


class Entry(tuple):
    """A value of a call: wire type, expression, further expressions, condition; label in the schema."""

    label = None

    def __new__(cls, *values):
        return tuple.__new__(cls, values)


class Call:
    def __init__(self, ret, name, params):
        self.ret, self.name, self.params = ret, name, params
        self.lib = self.version = self.op = self.op_holder = None
        self.ins, self.outs = [], []    # (wire, expr, extra exprs, condition)
        self.trailer = None             # comes after the outs
        self.attrs = {}                 # fd, newfd, hook, inert, ...
        self.answer = None
        self.fails = None               # direct verbs: see FAILURES

    @property
    def ident(self):
        return self.name


def ctype_of(decl):
    """'struct ibv_qp *qp' -> ('struct ibv_qp *', 'qp')"""
    m = re.fullmatch(r'\s*(.*?)(\w+)\s*', decl)
    return m.group(1).strip(), m.group(2)


def wire_of(ctype, line_number):
    c = ctype.replace('const ', '').strip()
    if c.endswith('*'):
        return 'ptr'
    if c.startswith('enum '):
        return 'u32'
    if c not in C_TO_WIRE:
        fail(line_number, 'no wire type for C type "%s"' % ctype)
    return C_TO_WIRE[c]


def parse(path):
    structs, calls = OrderedDict(), OrderedDict()
    current = None
    with open(path) as f:
        lines = f.read().split('\n')
    i = 0
    while i < len(lines):
        number, line = i + 1, re.sub(r'(^|\s)#.*', '', lines[i]).rstrip()
        i += 1
        if not line.strip():
            continue
        if not line[0].isspace():
            while line.count('(') != line.count(')'):      # a prototype over several lines
                line += ' ' + re.sub(r'(^|\s)#.*', '', lines[i]).strip()
                i += 1
            words = line.split()
            if words[0] == 'struct':
                m = re.fullmatch(r'struct (\w+)(?: = (.*))?', line)
                if not m:
                    fail(number, 'expected: struct NAME [= C TYPE]')
                current = Struct(m.group(1), m.group(2))
                structs[current.name] = current
            elif words[0] == 'call':
                m = re.fullmatch(r'call (.*?)(\w+)\((.*)\)', line)
                if not m:
                    fail(number, 'expected: call TYPE NAME(ARGUMENTS)')
                params = [] if m.group(3).strip() == 'void' else \
                    [ctype_of(p) for p in m.group(3).split(',')]
                current = Call(m.group(1).strip(), m.group(2), params)
                if current.name in calls:
                    fail(number, 'call %s is described twice' % current.name)
                calls[current.name] = current
            elif words[0] == 'direct':
                current = parse_direct(words[1:], number)
                calls[current.name] = current
            else:
                fail(number, 'expected "struct", "call" or "direct", found "%s"' % words[0])
        elif isinstance(current, Struct):
            m = re.fullmatch(r'(\S+)\s+(\S+)(?:\s+if (.*))?', line.strip())
            if not m:
                fail(number, 'expected: TYPE FIELD [if CONDITION]')
            current.fields.append(Field(*m.groups()))
        elif isinstance(current, Call):
            parse_call_line(current, line.strip(), number, structs)
        else:
            fail(number, 'a field outside a struct or call')
    for call in calls.values():
        if call.trailer:
            call.outs.append(call.trailer)
    return structs, calls


def parse_direct(words, number):
    """direct LIBRARY FAILURE NAME VERSION [invoke=FUNCTION]"""
    if len(words) < 4 or words[1] not in FAILURES:
        fail(number, 'expected: direct LIBRARY FAILURE NAME VERSION [invoke=FUNCTION]')
    library, fails, name, version = words[:4]
    call = Call(FAILURES[fails], name, [('uint64_t', 'a%d' % n) for n in range(6)])
    call.lib, call.version, call.fails = library, version, fails
    call.attrs = dict.fromkeys(DIRECT_ATTRIBUTES, True)
    call.attrs.update(word.split('=') for word in words[4:])
    return call


def split_words(text):
    """By spaces, but for those in parentheses."""
    return re.findall(r'(?:[^\s(]|\([^()]*(?:\([^()]*\)[^()]*)*\))+', text)


def parse_call_line(call, line, number, structs):
    word, _, rest = line.partition(' ')
    rest = rest.strip()
    if word == 'from':
        call.lib, call.version = (rest.split() + [None])[:2]
        if call.lib == 'kernel':
            call.attrs['syscall'] = call.version or call.name
            call.version = None
        if call.lib == 'rdmacm':
            call.trailer = Entry('library_fds', '0', [], None)
            call.trailer.label = 'library_fds'
    elif word == 'op':
        m = re.fullmatch(r'(\w+) (\S+) of (\S+)', rest)
        if not m:
            fail(number, 'expected: op KIND FIELD of EXPRESSION')
        call.lib, call.op, call.op_holder = m.groups()
        if call.lib not in CONTAINERS:
            fail(number, 'no kind "%s"' % call.lib)
    elif word == 'answer':
        call.answer = rest
    elif word == 'is':
        for attr in rest.split():
            key, _, value = attr.partition('=')
            call.attrs[key] = value or (call.name if key == 'syscall' else True)
    elif word in ('in', 'out'):
        condition = None
        m = re.fullmatch(r'(.*?) if (.*)', rest)
        if m:
            rest, condition = m.groups()
        label = None
        m = re.fullmatch(r'(.*?) as (\w+)', rest)
        if m:
            rest, label = m.groups()
        words = split_words(rest)
        types = dict((n, t) for t, n in call.params)
        if word == 'in' and all(w in types for w in words):
            # plain arguments, the wire type follows from the C type
            for w in words:
                call.ins.append(Entry(wire_of(types[w], number), w, [], condition))
            return
        entry = Entry(words[0], words[1], words[2:], condition)
        entry.label = label
        (call.ins if word == 'in' else call.outs).append(entry)
    else:
        fail(number, 'unknown word "%s"' % word)


# ---------------------------------------------------------------- structs

def field_size(f, structs):
    """Bytes of a field whose encoding always has the same length, or 0."""
    if f.wire in structs:
        return struct_size(structs[f.wire], structs)
    return f.raw or SCALARS.get(f.wire, (0,))[0]


def struct_size(s, structs):
    sizes = [field_size(f, structs) for f in s.fields]
    return sum(sizes) if all(sizes) else 0


def value_of(s, f):
    """A scalar field as its wire type; 0 where it is not there."""
    value = '(%s)v->%s' % ('uintptr_t' if f.wire == 'ptr' and s.ctype else SCALARS[f.wire][1], f.path)
    return '%s ? %s : 0' % (f.condition, value) if f.condition else value


def emit_stores(fields, s, structs, out, indent):
    """Stores a run of fields of known sizes from p on; returns their bytes."""
    at = 0
    for f in fields:
        if f.raw:
            out.append('%s__builtin_memcpy(p + %d, &v->%s, %d);' % (indent, at, f.path, f.raw))
        elif f.wire in structs:
            out.append('%ssr_store_%s(p + %d, &v->%s);' % (indent, structs[f.wire].func, at, f.path))
        else:
            size, c = SCALARS[f.wire]
            out.append('%s__builtin_memcpy(p + %d, &(%s){%s}, %d);' % (indent, at, c, value_of(s, f), size))
        at += field_size(f, structs)
    return at


def put_with_list(s, size, element, element_size, out):
    """Fields of known sizes, and a list of such: a work request."""
    path = s.fields[-1].path
    out.append('\tuint8_t *p = sr_buf_room(b, %d + (size_t)v->%s_n * %d);\n' % (size + 4, path, element_size))
    out.append('\tif (!p)\n\t\treturn;\n\tsr_store_%s(p, v);' % s.func)
    out.append('\t__builtin_memcpy(p + %d, &v->%s_n, 4);' % (size, path))
    out.append('\tp += %d;' % (size + 4))
    out.append('\tfor (uint32_t i = 0; i < v->%s_n; i++, p += %d)\n\t\tsr_store_%s(p, &v->%s[i]);\n}\n'
               % (path, element_size, element.func, path))


def emit_put(s, structs, out):
    """Room is made, and the length moved on, once for all fields of known sizes in front: this is the
    hot path."""
    known = 0
    while known < len(s.fields) and field_size(s.fields[known], structs):
        known += 1
    stores = []
    size = emit_stores(s.fields[:known], s, structs, stores, '\t')
    if known:
        out.append('static inline void sr_store_%s(uint8_t *p, const %s *v)\n{' % (s.func, s.c))
        out += stores + ['}\n']
    out.append('static inline void sr_put_%s(struct sr_buf *b, const %s *v)\n{' % (s.func, s.c))
    rest = s.fields[known:]
    element = structs[rest[0].wire[:-2]] if len(rest) == 1 and rest[0].wire.endswith('[]') else None
    if known and element and struct_size(element, structs):
        put_with_list(s, size, element, struct_size(element, structs), out)
        return
    if known:
        out.append('\tuint8_t *p = sr_buf_room(b, %d);\n\n\tif (p)\n\t\tsr_store_%s(p, v);' % (size, s.func))
    for f in s.fields[known:]:
        if f.wire in ('bytes', 'string'):
            out.append('\tsr_put_bytes(b, v->%s.p, v->%s.n);' % (f.path, f.path))
        elif f.wire.endswith('[]'):
            out.append('\tsr_put_u32(b, v->%s_n);' % f.path)
            out.append('\tfor (uint32_t i = 0; i < v->%s_n; i++)\n\t\tsr_put_%s(b, &v->%s[i]);'
                       % (f.path, structs[f.wire[:-2]].func, f.path))
        elif f.raw:
            out.append('\tsr_put_raw(b, &v->%s, %d);' % (f.path, f.raw))
        elif f.wire in structs:
            out.append('\tsr_put_%s(b, &v->%s);' % (structs[f.wire].func, f.path))
        else:
            out.append('\tsr_put_u%d(b, %s);' % (SCALARS[f.wire][0] * 8, value_of(s, f)))
    out.append('}\n')


def emit_structs(structs, out):
    for s in structs.values():
        if not s.ctype:
            out.append('struct sr_wire_%s {' % s.name)
            for f in s.fields:
                if f.raw:
                    out.append('\tuint8_t %s[%d];' % (f.path, f.raw))
                elif f.wire in ('bytes', 'string'):
                    out.append('\tstruct sr_bytes %s;' % f.path)
                elif f.wire.endswith('[]'):
                    out.append('\tconst %s *%s;\n\tuint32_t %s_n;'
                               % (structs[f.wire[:-2]].c, f.path, f.path))
                elif f.wire in structs:
                    out.append('\t%s %s;' % (structs[f.wire].c, f.path))
                else:
                    out.append('\t%s %s;' % (SCALARS[f.wire][1], f.path))
            out.append('};\n')
        emit_put(s, structs, out)
        if any(f.wire.endswith('[]') for f in s.fields[:-1]):
            continue            # only ever an argument: nobody reads it back
        out.append('static inline void sr_get_%s(struct sr_cursor *c, %s *v)\n{' % (s.func, s.c))
        for f in s.fields:
            if f.condition:
                size, c = SCALARS[f.wire]
                out.append('\t%s field_%s = sr_get_u%d(c);' % (c, f.name, size * 8))
                out.append('\tif (%s)\n\t\tv->%s = (__typeof__(v->%s))%sfield_%s;' % (
                    f.condition, f.path, f.path, '(uintptr_t)' if f.wire == 'ptr' else '', f.name))
            elif f.raw:
                out.append('\tsr_get_raw(c, &v->%s, %d);' % (f.path, f.raw))
            elif f.wire in ('bytes', 'string'):
                out.append('\tv->%s = sr_get_bytes(c);' % f.path)
            elif f.wire.endswith('[]'):     # the last: the caller gets its elements
                out.append('\tv->%s = NULL;\n\tv->%s_n = sr_get_u32(c);' % (f.path, f.path))
            elif f.wire in structs:
                out.append('\tsr_get_%s(c, &v->%s);' % (structs[f.wire].func, f.path))
            elif f.wire == 'ptr' and s.ctype:
                out.append('\tv->%s = (void *)(uintptr_t)sr_get_u64(c);' % f.path)
            else:
                out.append('\tv->%s = (__typeof__(v->%s))sr_get_u%d(c);'
                           % (f.path, f.path, SCALARS[f.wire][0] * 8))
        out.append('}\n')


# ---------------------------------------------------------------- calls

def unpack(call, used):
    """Locals with the arguments' names and C types, taken from the words a[]."""
    lines = []
    text = ' '.join(used)
    for n, (ctype, name) in enumerate(call.params):
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


def exprs(entries, with_conditions):
    for wire, expr, extra, condition in entries:
        yield expr
        yield from extra
        if condition and with_conditions:
            yield condition


def plain(structs, wire):
    """A structure of the program's, field by field; others have hand-written put and deliver."""
    return wire in structs and structs[wire].ctype


def put(structs, wire, expr, extra, condition):
    """Appends one value; in front of a conditional one goes a byte that says if it is there."""
    if plain(structs, wire):
        return ['\tsr_put_opt_%s(b, %s);' % (wire, '%s ? %s : NULL' % (condition, expr) if condition else expr)]
    statement = '\t' + put_value(wire, expr, extra)
    if not condition:
        return [statement]
    return ['\tsr_put_u8(b, (%s) != 0);' % condition, '\tif (%s)' % condition, '\t' + statement]


def put_value(wire, expr, extra):
    if wire in SCALARS:
        size, c = SCALARS[wire]
        return 'sr_put_u%d(b, (%s)%s);' % (size * 8, 'uintptr_t' if wire == 'ptr' else c, expr)
    m = re.fullmatch(r'raw(\d+)', wire)
    if m:
        return 'sr_put_raw(b, %s, %s);' % (expr, m.group(1))
    m = re.fullmatch(r'object\[(.*)\]', wire)
    if m:
        return 'sr_put_bytes(b, %s, sizeof(struct %s));' % (expr, m.group(1))
    return 'sr_put_%s(b, %s);' % (wire, ', '.join([expr] + extra))


def is_scalar(entry):
    return entry[0] in SCALARS and not entry[3]


def put_scalars(entries):
    """A run of values of known sizes: room is made once."""
    stores, at = [], 0
    for wire, expr, *_ in entries:
        size, c = SCALARS[wire]
        stores.append('\t\t__builtin_memcpy(p + %d, &(%s){(%s)%s}, %d);' % (at, c, 'uintptr_t' if wire == 'ptr' else c, expr, size))
        at += size
    return ['\tuint8_t *p = sr_buf_room(b, %d);' % at, '', '\tif (p) {'] + stores + ['\t}']


def puts(structs, entries):
    """All values of one side of a call; the run of scalars that most begin with, at once."""
    run = 0
    while run < len(entries) and is_scalar(entries[run]):
        run += 1
    lines = put_scalars(entries[:run]) if run > 1 else []
    for entry in entries[run if run > 1 else 0:]:
        lines += put(structs, *entry)
    return lines


def gets(structs, entries):
    return [line for entry in entries for line in get(structs, *entry)]


def get(structs, wire, expr, extra, condition):
    """Delivers one value to where the program expects it."""
    if plain(structs, wire):
        return ['\tsr_get_opt_%s(c, %s);' % (wire, expr)]
    statement = '\t' + get_value(wire, expr, extra)
    return ['\tif (sr_get_u8(c))', '\t' + statement] if condition else [statement]


def get_value(wire, expr, extra):
    if wire in SCALARS:
        size, c = SCALARS[wire]
        if wire == 'ptr':
            return '%s = (void *)(uintptr_t)sr_get_u64(c);' % expr
        return '%s = (__typeof__(%s))sr_get_u%d(c);' % (expr, expr, size * 8)
    m = re.fullmatch(r'raw(\d+)', wire)
    if m:
        return 'sr_get_raw(c, %s, %s);' % (expr, m.group(1))
    m = re.fullmatch(r'object\[(.*)\]', wire)
    if m:
        return 'sr_place_object(c, %s, sizeof(struct %s));' % (expr, m.group(1))
    return 'sr_deliver_%s(c, %s);' % (wire, ', '.join([expr] + extra))


def emit_codec(structs, calls):
    out = ['/* Made by gencalls.py from calls.def. */', '#include "shim/calls/codec/custom.h"', '']
    optional = set()
    for call in calls.values():
        for wire, *_ in call.ins + call.outs:
            if plain(structs, wire):
                optional.add(wire)
    for name in structs:
        if name not in optional:
            continue
        s = structs[name]
        out += ['static void __attribute__((unused)) sr_put_opt_%s(struct sr_buf *b, const %s *v)'
                % (name, s.c),
                '{', '\tsr_put_u8(b, v != NULL);', '\tif (v)', '\t\tsr_put_%s(b, v);' % name, '}', '',
                'static void __attribute__((unused)) sr_get_opt_%s(struct sr_cursor *c, %s *v)'
                % (name, s.c),
                '{', '\tif (sr_get_u8(c) && v)', '\t\tsr_get_%s(c, v);' % name, '}', '']
    for call in calls.values():
        for suffix, entries, how in (('in', call.ins, puts), ('out', call.outs, puts),
                                     ('deliver', call.outs, gets)):
            if not entries:
                continue
            first = 'struct sr_cursor *c' if suffix == 'deliver' else 'struct sr_buf *b'
            tail = '' if suffix == 'in' else ', uint64_t result'
            out.append('static void %s_%s(%s, const uint64_t *a%s)\n{' % (call.ident, suffix, first, tail))
            lines = unpack(call, list(exprs(entries, suffix != 'deliver')))
            body = how(structs, entries)
            out += lines + ([''] if lines and not body[0].startswith('\tuint8_t *p') else []) + body
            out.append('}\n')
    out.append('const struct sr_call_codec sr_call_codecs[SR_CALL_COUNT] = {')
    for call in calls.values():
        parts = ['.put_in = %s_in' % call.ident] if call.ins else []
        if call.outs:
            parts += ['.put_out = %s_out' % call.ident, '.deliver = %s_deliver' % call.ident]
        out.append('\t[SR_CALL_%s] = { %s },' % (call.ident, ', '.join(parts)))
    out.append('};')
    return '\n'.join(out) + '\n'


def emit_header(structs, calls):
    out = ['/* Made by gencalls.py from calls.def. */', '#ifndef SR_CALLS_GEN_H', '#define SR_CALLS_GEN_H', '',
           'enum sr_call_number {']
    for call in calls.values():
        out.append('\tSR_CALL_%s,' % call.ident)
    out += ['\tSR_CALL_COUNT', '};', '', '#endif']
    return '\n'.join(out) + '\n'


def emit_ops(calls):
    out = ['/* Made by gencalls.py from calls.def: SR_OP(kind, struct, field) for each. */']
    for call in calls.values():
        if call.op:
            out.append('SR_OP(%s, %s, %s)' % (call.lib.upper(), CONTAINERS[call.lib], call.op))
    return '\n'.join(out) + '\n'


def emit_wire(structs):
    out = ['/* Made by gencalls.py from calls.def. */', '#ifndef SR_WIRE_GEN_H', '#define SR_WIRE_GEN_H', '',
           '#include "shim/core/codec.h"', '']
    emit_structs(structs, out)
    out.append('#endif')
    return '\n'.join(out) + '\n'


def holder(call):
    """The object that has an operation: which argument it is, or is a member of, and where in that."""
    name, _, member = call.op_holder.partition('->')
    n = [p for _, p in call.params].index(name)
    return n, 'offsetof(%s, %s)' % (call.params[n][0].rstrip('* '), member) if member else '-1'


def is_lock(call):
    """Of the threads' primitives, those that do not block for long."""
    return call.attrs.get('when') == 'sr_has_threads' and not any(
        call.attrs.get(k) for k in ('wait', 'cancel', 'blocks', 'syscall'))


def emit_wrappers(calls):
    out = ['/* Made by gencalls.py from calls.def. */', '#include "shim/calls/wrapper.h"', '',
           '#define WORD(x) ((uint64_t)(uintptr_t)(x))', '']
    # aarch64 lacks the older half of the system calls.
    for name in system_calls(calls):
        out += ['#ifndef SYS_%s' % name, '#define SYS_%s (-1)' % name, '#endif']
    out += ['/* A narrow argument is widened as the ABI leaves its upper bits undefined. */', '']
    for call in calls.values():
        if call.lib in NO_WRAPPER:
            continue
        exported = call.op is None
        params = ', '.join('%s%s%s' % (t, '' if t.endswith('*') else ' ', n) for t, n in call.params) or 'void'
        if call.attrs.get('variadic'):
            # the last named argument is read from the variable ones
            params = ', '.join('%s%s%s' % (t, '' if t.endswith('*') else ' ', n)
                               for t, n in call.params[:-1]) + ', ...'
        name = call.name if exported else 'op_' + call.name
        storage = 'SR_EXPORT ' if exported else 'static '
        sep = '' if call.ret.endswith('*') else ' '
        if exported:
            out.append('#undef %s' % name)
            out.append('%s%s%s(%s);' % (call.ret, sep, name, params))
        out.append('%s%s%s%s(%s)\n{' % (storage, call.ret, sep, name, params))
        if call.attrs.get('variadic'):
            ctype, pname = call.params[-1]
            out.append('\tva_list ap;\n\tva_start(ap, %s);\n\t%s%s%s = va_arg(ap, %s);\n\tva_end(ap);'
                       % (call.params[-2][1], ctype, '' if ctype.endswith('*') else ' ', pname, ctype))
        if call.answer:
            out.append('\t%s%s;\n}\n' % ('' if call.ret == 'void' else 'return ', call.answer))
            continue
        if is_lock(call):
            bare = 'sr_unrecorded' if 'invoke' in call.attrs else 'sr_unrecorded_or_nested'
            out.append('\t%s (*f)(%s) = %s(SR_CALL_%s);\n' % (call.ret, params, bare, call.ident))
            out.append('\tif (f) {\n\t\t%sf(%s);%s\n\t}\n' %
                       ('' if call.ret == 'void' else 'return ', ', '.join(n for _, n in call.params),
                        '\n\t\treturn;' if call.ret == 'void' else ''))
        words = ', '.join('WORD(%s)' % (n + '.' + UNIONS[t] if t in UNIONS else n)
                          for t, n in call.params) or '0'
        out.append('\tuint64_t a[] = { %s };\n' % words)
        # an operation of an object, whatever its arguments are
        always = not exported and not call.fails and 'when' not in call.attrs and 'fd' not in call.attrs
        entry = 'sr_direct_call' if call.fails else 'sr_call_operation' if always else 'sr_call'
        result = '%s(SR_CALL_%s, a, __builtin_return_address(0))' % (entry, call.ident)
        if call.ret == 'void':
            out.append('\t%s;' % result)
        elif call.ret.endswith('*'):
            out.append('\treturn (%s)(uintptr_t)%s;' % (call.ret, result))
        else:
            out.append('\treturn (%s)%s;' % (call.ret, result))
        out.append('}\n')
        for other in call.attrs['also'].split(',') if 'also' in call.attrs else ():
            out.append('#undef %s' % other)
            out.append('SR_EXPORT %s%s%s(%s) __attribute__((alias("%s")));\n'
                       % (call.ret, sep, other, params, name))
    out.append('/* A wrapper has the prototype of the pointer that it replaces. */')
    for call in calls.values():
        if call.op:
            out.append('_Static_assert(__builtin_types_compatible_p(__typeof__(&op_%s), '
                       '__typeof__(((%s *)0)->%s)), "%s");'
                       % (call.name, CONTAINERS[call.lib], call.op, call.name))
    # how each call finds the function it stands for
    out.append('const struct sr_call_desc sr_calls[SR_CALL_COUNT] = {')
    for call in calls.values():
        out.append('\t[SR_CALL_%s] = {' % call.ident)
        out.append('\t\t.name = "%s", .nargs = %d,' % (call.name, len(call.params)))
        if call.op:
            out.append('\t\t.source = SR_SOURCE_%s, .wrapper = (void *)op_%s,' % (call.lib.upper(), call.name))
            out.append('\t\t.op_offset = offsetof(%s, %s),' % (CONTAINERS[call.lib], call.op))
            if not call.answer:
                out.append('\t\t.holder_arg = %d, .holder_member = %s,' % holder(call))
        elif call.lib in NO_WRAPPER:
            out.append('\t\t.source = SR_SOURCE_%s,' % call.lib.upper())
        else:
            out.append('\t\t.source = SR_SOURCE_%s, .version = %s, .wrapper = (void *)%s,'
                       % (call.lib.upper(), '"%s"' % call.version if call.version else 'NULL', call.name))
        if call.fails:
            out.append('\t\t.fails = SR_FAILS_%s,' % call.fails.upper())
        name = call.attrs.get('syscall')
        out.append('\t\t.nr = %s,' % ('SYS_' + name if name else '-1'))
        flags = [k for k in FLAGS if call.attrs.get(k)]
        if call.ret == 'void':
            flags.append('void')
        if any(call.attrs.get(k) for k in ('wait', 'cancel', 'blocks')):
            flags.append('blocks')
        flags = ' | '.join('SR_CALL_%s' % f.upper() for f in dict.fromkeys(flags)) or '0'
        out.append('\t\t.flags = %s, .fd_arg = %s,' % (flags, fd_arg(call)))
        if call.lib in ('libc', 'kernel'):
            out.append('\t\t.length_of = { %s },' % ', '.join(lengths(call)))
            out.append('\t\t.size_of = { %s },' % ', '.join(sizes(call)))
        if call.ret != 'void':
            wire = 'ptr' if call.ret.endswith('*') else C_TO_WIRE.get(call.ret, 'i32')
            out.append('\t\t.ret_size = %d, .ret_signed = %d,' % (SCALARS[wire][0], wire[0] == 'i'))
        order = ORDERS[call.attrs.get('order', 'both')]
        if 'idle' in call.attrs:
            order += ' | SR_ORDER_IDLE'
            out.append('\t\t.idle = %s,' % call.attrs['idle'])
        out.append('\t\t.order = %s,' % order)
        for hook in HOOKS:
            if call.attrs.get(hook):
                out.append('\t\t.%s = %s,' % (hook, call.attrs[hook]))
        out.append('\t},')
    out.append('};')
    emit_exported(calls, out)
    return '\n'.join(out) + '\n'


def emit_exported(calls, out):
    names = sorted((c.name for c in calls.values() if not c.op and not c.answer and c.lib not in NO_WRAPPER),
                   key=str.encode)
    out.append('\nconst uint16_t sr_exported_calls[] = {')
    out += ['\tSR_CALL_%s,' % name for name in names]
    out.append('};\nconst size_t sr_exported_count = %d;' % len(names))


# What libc alone knows by its address.
OWN = ('FILE', 'struct addrinfo')

# What the kernel follows by itself.
FOLLOWED = {'struct iovec': 'SR_LENGTH_PIECES', 'struct msghdr': 'SR_LENGTH_MESSAGE',
            'struct mmsghdr': 'SR_LENGTH_MESSAGES'}


# Of these the size is known.
OBJECTS = ('pthread_mutex_t', 'pthread_cond_t', 'pthread_rwlock_t', 'pthread_barrier_t', 'pthread_spinlock_t', 'mtx_t',
           'cnd_t', 'sem_t', 'sigset_t', 'siginfo_t', 'stack_t', 'eventfd_t', 'int', 'socklen_t', 'time_t', 'timer_t',
           'struct timespec', 'struct timeval', 'struct itimerspec', 'struct itimerval', 'struct sigaction',
           'struct pollfd')


def sizes(call):
    """Of each argument: the size of what it leads to, if that is known."""
    types = [ctype.removeprefix('const ').rstrip('* ') if ctype.endswith('*') else '' for ctype, _ in call.params]
    return ['sizeof(%s)' % t if t in OBJECTS else '0' for t in types] or ['0']


def lengths(call):
    """Of each argument: 0, or where the length is of what the kernel finds behind it."""
    result = []
    for n, (ctype, name) in enumerate(call.params):
        following = call.params[n + 1][0] if n + 1 < len(call.params) else ''
        pointee = ctype.removeprefix('const ').rstrip('* ')
        if name == 'arg' and call.name in ('ioctl', 'fcntl'):
            result.append('SR_LENGTH_STRUCT')
        elif not ctype.endswith('*'):
            result.append('0')
        elif pointee in OWN:
            result.append('0')
        elif pointee in FOLLOWED:
            result.append(FOLLOWED[pointee])
        elif following in ('size_t', 'socklen_t', 'unsigned int'):
            result.append(str(n + 2))
        elif following in ('int', 'nfds_t'):
            result.append('SR_LENGTH_COUNT + %d' % (n + 2))
        elif pointee == 'char':
            result.append('SR_LENGTH_TEXT')
        else:
            result.append('SR_LENGTH_STRUCT')
    return result or ['0']


def system_calls(calls):
    return sorted({call.attrs['syscall'] for call in calls.values() if call.attrs.get('syscall')})


def emit_syscalls(calls):
    """The compiler leaves out what a machine does not have."""
    out = ['/* Made by gencalls.py from calls.def: which call a system call is. */',
           '#include "shim/calls/trap/trap.h"', '', 'const uint16_t sr_trap_calls[SR_TRAP_CALLS] = {']
    for call in calls.values():
        name = call.attrs.get('syscall')
        if name:
            out += ['#ifdef SYS_%s' % name, '\t[SYS_%s] = SR_CALL_%s + 1,' % (name, call.ident), '#endif']
    out.append('};')
    return '\n'.join(out) + '\n'


def fd_arg(call):
    if 'fd' not in call.attrs:
        return '-1'
    names = [n for _, n in call.params]
    return str(names.index(call.attrs['fd']))


def hook_declarations(calls):
    names = []
    for call in calls.values():
        for hook in HOOKS:
            v = call.attrs.get(hook)
            if v and (hook, v) not in names:
                names.append((hook, v))
    out = []
    for hook, v in names:
        out.append(HOOKS[hook] % v)
    return '\n'.join(out) + '\n'


def emit_schema(structs, calls):
    schema = OrderedDict(structs=OrderedDict(), calls=[])
    for s in structs.values():
        schema['structs'][s.name] = [OrderedDict(name=f.path, type=f.wire) for f in s.fields]
    for number, call in enumerate(calls.values()):
        def fields(entries):
            result = []
            for entry in entries:
                wire, expr, extra, condition = entry
                wire = re.sub(r'object\[(.*)\]', 'bytes', wire)
                name = entry.label or re.sub(r'^[*&(]+|\)+$', '', expr)
                wire = CUSTOM_SCHEMA.get(wire, wire + '?' if plain(structs, wire) else wire)
                if condition and not wire.endswith('?'):
                    wire += '?'
                result.append(OrderedDict(name=name, type=wire))
            return result
        ret = 'void' if call.ret == 'void' else 'ptr' if call.ret.endswith('*') else C_TO_WIRE.get(call.ret, 'i32')
        described = OrderedDict(number=number, name=call.name, ret=ret,
                                **{'in': fields(call.ins), 'out': fields(call.outs)})
        if call.fails:
            described['direct'] = True
        schema['calls'].append(described)
    text = json.dumps(schema, separators=(',', ':'))
    out = ['/* Made by gencalls.py from calls.def. */', '#include "shim/core/schema.h"', '',
           'const char sr_schema[] =']
    for n in range(0, len(text), 90):
        out.append('\t' + json.dumps(text[n:n + 90]))
    out[-1] += ';'
    out.append('const size_t sr_schema_size = sizeof(sr_schema) - 1;')
    return '\n'.join(out) + '\n'


# Wire types whose code is by hand in codec_custom.c: what they look like to a reader of the trace.
CUSTOM_SCHEMA = {
    'checksum': 'x64',
    'readable_checksum': 'x64',
    'at': 'ptr',
    'grh': 'bytes',
    'sockaddr': 'bytes',
    'data': 'bytes',
    'text': 'string',
    'send_wr_list': 'send_wr[]',
    'recv_wr_list': 'recv_wr[]',
    'sge_array': 'ibv_sge[]',
    'wc_array': 'ibv_wc[]',
    'arrived': 'segment[]',
    'device_list': 'device[]',
    'context': 'context?',
    'qp_ex': 'qp_ex?',
    'ops': 'x64',
    'qp_attr_masked': 'ibv_qp_attr',
    'sockaddr_room': 'u32',
    'option': 'bytes',
    'address_vector': 'ibv_ah_attr',
    'addrinfo_list': 'addrinfo[]',
    'bad_send_wr': 'u32',
    'bad_recv_wr': 'u32',
    'pollfds': 'pollfd[]',
    'pollfds_out': 'pollfd[]',
    'sockaddr_out': 'sockaddr',
    'buf_list_checksum': 'x64',
    'library_fds': 'library_fd[]',
    'cm_event': 'cm_id',
    'cm_sockaddr': 'bytes',
    'connect_param': 'rdma_conn_param?',
    'accept_param': 'rdma_conn_param?',
    'rdma_addrinfo': 'rdma_addrinfo?',
    'rdma_addrinfo_list': 'segment[]',
    'opened_list': 'opened[]',
    'iov_room': 'u64',
    'iov_checksum': 'x64',
    'iov_data': 'bytes',
    'fd_numbers': 'bytes',
    'signal_set': 'x64',
    'fdset': 'bytes',
    'message_room': 'u32',
    'messages_room': 'u32[]',
    'messages': 'received[]',
    'sent_messages': 'sent_message[]',
    'message_lengths': 'u32[]',
    'ioctl_answer': 'bytes',
    'shm_change': 'bytes',
}


def emit_map(calls):
    """Exports the libraries' own version nodes: a reference to ibv_x@IBVERBS_1.1 must find ours, and
    one to the older ibv_x@IBVERBS_1.0, another ABI, must not."""
    nodes = OrderedDict()
    for call in calls.values():
        if call.op is None and call.version and call.lib != 'libc':
            nodes.setdefault(call.version, []).append(call.name)
    for name, version in OLD_VERSIONS:
        nodes.setdefault(version, [])

    def place(version):
        family, number = version.rsplit('_', 1)
        return family, [int(x) for x in number.split('.')]

    out, previous = [], None
    for version in sorted(nodes, key=place):
        after = ' ' + previous if previous and place(previous)[0] == place(version)[0] else ''
        names = ''.join('\t\t%s;\n' % n for n in sorted(nodes[version]))
        out.append('%s {\n\tglobal:\n%s}%s;\n' % (version, names, after))
        previous = version
    return '\n'.join(out)


def main():
    global DEF_PATH
    DEF_PATH, outdir = sys.argv[1], sys.argv[2]
    structs, calls = parse(DEF_PATH)
    files = {
        'calls.gen.h': emit_header(structs, calls),
        'wire.gen.h': emit_wire(structs),
        'hooks.gen.h': '/* Made by gencalls.py from calls.def. */\n' + hook_declarations(calls),
        'codec.gen.c': emit_codec(structs, calls),
        'wrappers.gen.c': emit_wrappers(calls),
        'schema.gen.c': emit_schema(structs, calls),
        'exports.map': emit_map(calls),
        'ops.gen.h': emit_ops(calls),
        'syscalls.gen.c': emit_syscalls(calls),
    }
    for name, text in files.items():
        with open(os.path.join(outdir, name), 'w') as f:
            f.write(text)


if __name__ == '__main__':
    main()
