# SPDX-License-Identifier: BSD-2-Clause
"""Emits wrappers.gen.c: the functions that replace the real ones, and sr_calls[]."""
from .codec import UNIONS
from .description import CONTAINERS, NO_WRAPPER
from .table import emit_table, system_calls, where_defined


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


def emit_head(call, attribute, name, out):
    signature = '%s%s(%s)' % (spaced(call.ret), name, parameters(call))
    if is_exported(call):
        out.append('#undef %s' % name)
        out.append('%s;' % signature)
    out.append('%s%s%s\n{' % ('SR_EXPORT ' if is_exported(call) else 'static ', attribute, signature))
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


def is_operation(call):
    """An operation of an object, which is captured whatever its arguments are."""
    return not is_exported(call) and not call.answer and not call.fails and 'when' not in call.attrs and 'fd' not in call.attrs


def emit_arguments(call, out):
    words = ', '.join('WORD(%s)' % (n + '.' + UNIONS[t] if t in UNIONS else n) for t, n in call.params) or '0'
    if call.attrs.get('receives'):
        words += ', WORD(&sr_self.received)'
    out.append('\tuint64_t a[] = { %s };' % words)


def emit_return(call, function, site, out):
    cast = '' if call.ret == 'void' else 'return (%s)%s' % (call.ret, '(uintptr_t)' if call.ret.endswith('*') else '')
    out.append('\n\t%s%s(SR_CALL_%s, a, %s);\n}\n' % (cast, function, call.name, site))


def emit_quick(call, out):
    if 'quick' in call.attrs:
        out.append('\t%sresult;' % spaced(call.ret))
        out.append('\n\tif (%s(a, site, &result))\n\t\treturn result;' % call.attrs['quick'])


def emit_body(call, out):
    emit_arguments(call, out)
    if 'quick' in call.attrs:
        out.append('\tvoid *site = __builtin_return_address(0);')
        emit_quick(call, out)
    emit_return(call, 'sr_direct_call' if call.fails else 'sr_call', '__builtin_return_address(0)', out)


def emit_body_apart(call, out):
    """The same on a call stack."""
    emit_arguments(call, out)
    out.append('\tvoid *site = sr_site_of_operation();')
    emit_quick(call, out)
    emit_return(call, 'sr_call_apart', 'site', out)


def emit_operation(call, out):
    name = 'op_' + call.name
    for suffix, emit_either in (('_beneath', emit_body), ('_apart', emit_body_apart)):
        emit_head(call, '__attribute__((used)) ', name + suffix, out)
        emit_either(call, out)
    out.append('SR_HIDDEN %s%s(%s);\nSR_ON_CALL_STACK(%s);\n' % (spaced(call.ret), name, parameters(call), name))


def emit_wrapper(call, out):
    if is_operation(call):
        emit_operation(call, out)
        return
    name = call.name if is_exported(call) else 'op_' + call.name
    emit_head(call, '', name, out)
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
            wrapper = []
            emit_wrapper(call, wrapper)
            out += where_defined(call, wrapper)
    out.append('/* A wrapper has the prototype of the pointer that it replaces. */')
    for call in calls.values():
        if call.op:
            out += where_defined(call, ['_Static_assert(__builtin_types_compatible_p(__typeof__(&op_%s), '
                                        '__typeof__(((%s *)0)->%s)), "%s");'
                                        % (call.name, CONTAINERS[call.lib], call.op, call.name)])
    emit_table(calls, out)
    return '\n'.join(out) + '\n'
