# SPDX-License-Identifier: BSD-2-Clause
"""Emits wrappers.gen.c: the functions that replace the real ones, and sr_calls[]."""
from .codec import UNIONS
from .description import CONTAINERS, NO_WRAPPER
from .table import emit_table, system_calls


def is_exported(call):
    return call.op is None


def is_lock(call):
    """Is it a primitive of threads that does not block for long?"""
    return call.attrs.get('when') == 'sr_has_threads' and not any(
        call.attrs.get(k) for k in ('wait', 'cancel', 'blocks', 'syscall'))


def spaced(ctype):
    return ctype if ctype.endswith('*') else ctype + ' '


def parameters(call):
    if call.attrs.get('variadic'):
        # the last named argument is read from the variable ones
        return ', '.join(spaced(t) + n for t, n in call.params[:-1]) + ', ...'
    return ', '.join(spaced(t) + n for t, n in call.params) or 'void'


def emit_head(call, name, out):
    signature = '%s%s(%s)' % (spaced(call.ret), name, parameters(call))
    if is_exported(call):
        out.append('#undef %s' % name)
        out.append('%s;' % signature)
    out.append('%s%s\n{' % ('SR_EXPORT ' if is_exported(call) else 'static ', signature))
    if call.attrs.get('variadic'):
        ctype, last = call.params[-1]
        out.append('\tva_list ap;\n\tva_start(ap, %s);\n\t%s%s = va_arg(ap, %s);\n\tva_end(ap);'
                   % (call.params[-2][1], spaced(ctype), last, ctype))


def emit_shortcut(call, out):
    """A lock that is not recorded goes straight to the real function."""
    bare = 'sr_unrecorded' if 'invoke' in call.attrs else 'sr_unrecorded_or_nested'
    out.append('\t%s (*f)(%s) = %s(SR_CALL_%s);\n' % (call.ret, parameters(call), bare, call.name))
    out.append('\tif (f) {\n\t\t%sf(%s);%s\n\t}\n' %
               ('' if call.ret == 'void' else 'return ', ', '.join(n for _, n in call.params),
                '\n\t\treturn;' if call.ret == 'void' else ''))


def entry_of(call):
    """An operation of an object is captured whatever its arguments are."""
    always = not is_exported(call) and not call.fails and 'when' not in call.attrs and 'fd' not in call.attrs
    return 'sr_direct_call' if call.fails else 'sr_call_operation' if always else 'sr_call'


def emit_body(call, out):
    words = ', '.join('WORD(%s)' % (n + '.' + UNIONS[t] if t in UNIONS else n) for t, n in call.params) or '0'
    if call.attrs.get('receives'):
        words += ', WORD(&sr_self.received)'
    out.append('\tuint64_t a[] = { %s };\n' % words)
    if 'quick' in call.attrs:
        out.append('\t%s quick;\n' % call.ret)
        out.append('\tif (%s(a, __builtin_return_address(0), &quick))\n\t\treturn quick;' % call.attrs['quick'])
    result = '%s(SR_CALL_%s, a, __builtin_return_address(0))' % (entry_of(call), call.name)
    if call.ret == 'void':
        out.append('\t%s;' % result)
    elif call.ret.endswith('*'):
        out.append('\treturn (%s)(uintptr_t)%s;' % (call.ret, result))
    else:
        out.append('\treturn (%s)%s;' % (call.ret, result))
    out.append('}\n')


def emit_wrapper(call, out):
    name = call.name if is_exported(call) else 'op_' + call.name
    emit_head(call, name, out)
    if call.answer:
        out.append('\t%s%s;\n}\n' % ('' if call.ret == 'void' else 'return ', call.answer))
        return
    if is_lock(call):
        emit_shortcut(call, out)
    emit_body(call, out)
    for other in call.attrs['also'].split(',') if 'also' in call.attrs else ():
        out.append('#undef %s' % other)
        out.append('SR_EXPORT %s%s(%s) __attribute__((alias("%s")));\n'
                   % (spaced(call.ret), other, parameters(call), name))


def emit(calls):
    out = ['/* Made by gencalls.py from calls.def. */', '#include "shim/calls/wrapper.h"', '',
           '#define WORD(x) ((uint64_t)(uintptr_t)(x))', '']
    # aarch64 lacks the older half of the system calls.
    for name in system_calls(calls):
        out += ['#ifndef SYS_%s' % name, '#define SYS_%s (-1)' % name, '#endif']
    out += ['/* A narrow argument is widened as the ABI leaves its upper bits undefined. */', '']
    for call in calls.values():
        if call.lib not in NO_WRAPPER:
            emit_wrapper(call, out)
    out.append('/* A wrapper has the prototype of the pointer that it replaces. */')
    for call in calls.values():
        if call.op:
            out.append('_Static_assert(__builtin_types_compatible_p(__typeof__(&op_%s), '
                       '__typeof__(((%s *)0)->%s)), "%s");'
                       % (call.name, CONTAINERS[call.lib], call.op, call.name))
    emit_table(calls, out)
    return '\n'.join(out) + '\n'
