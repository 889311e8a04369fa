# SPDX-License-Identifier: BSD-2-Clause
"""Emits wire.gen.h: the wire structs, their sizes, and functions to encode and decode them."""
from .description import SCALARS


def field_size(f, structs):
    """The number of bytes of a field whose encoding always has the same length; otherwise 0."""
    if f.wire in structs:
        return struct_size(structs[f.wire], structs)
    return f.raw or SCALARS.get(f.wire, (0,))[0]


def struct_size(s, structs):
    sizes = [field_size(f, structs) for f in s.fields]
    return sum(sizes) if all(sizes) else 0


def emit(structs):
    out = ['/* Made by gencalls.py from calls.def. */', '#ifndef SR_WIRE_GEN_H', '#define SR_WIRE_GEN_H', '',
           '#include "shim/core/codec.h"', '']
    for s in structs.values():
        if not s.ctype:
            declare(s, structs, out)
        emit_put(s, structs, out)
        if is_readable(s):
            emit_get(s, structs, out)
    out.append('#endif')
    return '\n'.join(out) + '\n'


def declare(s, structs, out):
    out.append('struct sr_wire_%s {' % s.name)
    for f in s.fields:
        if f.raw:
            out.append('\tuint8_t %s[%d];' % (f.path, f.raw))
        elif f.wire in ('bytes', 'string', 'chars'):
            out.append('\tstruct sr_bytes %s;' % f.path)
        elif f.wire.endswith('[]'):
            out.append('\tconst %s *%s;\n\tuint32_t %s_n;' % (structs[f.wire[:-2]].c, f.path, f.path))
        elif f.wire in structs:
            out.append('\t%s %s;' % (structs[f.wire].c, f.path))
        else:
            out.append('\t%s %s;' % (SCALARS[f.wire][1], f.path))
    out.append('};\n')


# ------------------------------------------------------------------------- put

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
    """Emits fields of known sizes and a list of such fields: a work request."""
    path = s.fields[-1].path
    out.append('\tuint8_t *p = sr_buf_room(b, %d + (size_t)v->%s_n * %d);\n' % (size + 4, path, element_size))
    out.append('\tif (!p)\n\t\treturn;\n\tsr_store_%s(p, v);' % s.func)
    out.append('\t__builtin_memcpy(p + %d, &v->%s_n, 4);' % (size, path))
    out.append('\tp += %d;' % (size + 4))
    out.append('\tfor (uint32_t i = 0; i < v->%s_n; i++, p += %d)\n\t\tsr_store_%s(p, &v->%s[i]);\n}\n'
               % (path, element_size, element.func, path))


def put_field(s, f, structs, out):
    if f.wire in ('bytes', 'string', 'chars'):
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


def emit_put(s, structs, out):
    """On the hot path, all leading fields of known sizes need only one check for room."""
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
    for f in rest:
        put_field(s, f, structs, out)
    out.append('}\n')


# ------------------------------------------------------------------------- get

def is_readable(s):
    """A list can only come last: the getter reads its length, the caller its elements."""
    return not any(f.wire.endswith('[]') for f in s.fields[:-1])


def get_field(s, f, structs, out):
    if f.condition:
        size, c = SCALARS[f.wire]
        out.append('\t%s field_%s = sr_get_u%d(c);' % (c, f.name, size * 8))
        out.append('\tif (%s)\n\t\tv->%s = (__typeof__(v->%s))%sfield_%s;' % (
            f.condition, f.path, f.path, '(uintptr_t)' if f.wire == 'ptr' else '', f.name))
    elif f.raw:
        out.append('\tsr_get_raw(c, &v->%s, %d);' % (f.path, f.raw))
    elif f.wire in ('bytes', 'string', 'chars'):
        out.append('\tv->%s = sr_get_bytes(c);' % f.path)
    elif f.wire.endswith('[]'):
        out.append('\tv->%s = NULL;\n\tv->%s_n = sr_get_u32(c);' % (f.path, f.path))
    elif f.wire in structs:
        out.append('\tsr_get_%s(c, &v->%s);' % (structs[f.wire].func, f.path))
    elif f.wire == 'ptr' and s.ctype:
        out.append('\tv->%s = (void *)(uintptr_t)sr_get_u64(c);' % f.path)
    else:
        out.append('\tv->%s = (__typeof__(v->%s))sr_get_u%d(c);' % (f.path, f.path, SCALARS[f.wire][0] * 8))


def emit_get(s, structs, out):
    out.append('static inline void sr_get_%s(struct sr_cursor *c, %s *v)\n{' % (s.func, s.c))
    for f in s.fields:
        get_field(s, f, structs, out)
    out.append('}\n')
