# SPDX-License-Identifier: BSD-2-Clause
"""Emits tables of the calls: sr_calls[], call numbers, system calls, and the exported names."""
from collections import OrderedDict

from .description import CONTAINERS, NO_WRAPPER, ORDERS, SCALARS

# Functions that calls.def may name for a call, and what they look like.
HOOKS = {
    'when': 'bool %s(const uint64_t *a);',
    'invoke': 'uint64_t %s(const struct sr_call_desc *d, uint64_t *a);',
    'replayed': 'void %s(const struct sr_call_desc *d, uint64_t *a, uint64_t result);',
}

# Attributes that are bits of sr_call_desc.flags.
FLAGS = ('newfd', 'wait', 'opaque', 'opens', 'cancel', 'void', 'direct', 'outside', 'any', 'output', 'effect', 'children', 'thread', 'submits', 'pauses')

# Their wrappers are written by hand, in old_versions.c.
OLD_VERSIONS = [('ibv_open_device', 'IBVERBS_1.0'), ('mlx5dv_init_obj', 'MLX5_1.0')]


# --------------------------------------------------- what a pointer leads to

# Only libc uses these, by their addresses.
OPAQUE_TYPES = ('FILE',)

# The kernel follows these by itself.
FOLLOWED = {'struct iovec': 'SR_LENGTH_PIECES', 'struct msghdr': 'SR_LENGTH_MESSAGE',
            'struct mmsghdr': 'SR_LENGTH_MESSAGES'}

# Libraries access arguments as the program does.  Of this one they write much, and often.
COMPLETIONS = 'struct ibv_wc'

# Types whose size is known.
SIZED = ('pthread_mutex_t', 'pthread_cond_t', 'pthread_rwlock_t', 'pthread_barrier_t', 'pthread_spinlock_t', 'mtx_t',
         'cnd_t', 'sem_t', 'sigset_t', 'siginfo_t', 'stack_t', 'eventfd_t', 'int', 'socklen_t', 'time_t', 'timer_t', 'off_t',
         'struct timespec', 'struct timeval', 'struct itimerspec', 'struct itimerval', 'struct sigaction',
         'struct pollfd', 'struct epoll_event')


def pointee(ctype):
    return ctype.removeprefix('const ').rstrip('* ')


def size_behind(ctype, name):
    if (ctype, name) == ('int *', 'fds'): # of a pipe, or a socketpair
        return '2 * sizeof(int)'
    return 'sizeof(%s)' % pointee(ctype) if ctype.endswith('*') and pointee(ctype) in SIZED else '0'


def is_handed_back(call, n):
    """Does the program get the argument itself back, as what its thread is started with, or as a context? Nothing is accessed
    there, and another address of the same memory would not do."""
    ctype, name = call.params[n]
    starts = any(p == 'routine' for _, p in call.params)
    return ctype == 'void *' and (name in ('context', 'cq_context') or (name == 'arg' and starts))


def is_count(call, n):
    """Does argument n say how many there are? An int behind a pointer may as well be flags, or a descriptor."""
    return n < len(call.params) and call.params[n] in (('int', 'n'), ('int', 'size'), ('nfds_t', 'nfds'))


def length_behind(call, n):
    """How to get the length of the memory behind argument n; 0: the kernel accesses none, or the function that makes the call
    sees to it."""
    ctype, name = call.params[n]
    if is_handed_back(call, n) or call.attrs.get('invoke') == 'sr_invoke_futex':
        return '0'
    following = call.params[n + 1][0] if n + 1 < len(call.params) else ''
    if name == 'arg' and call.name in ('ioctl', 'fcntl'):
        return 'SR_LENGTH_STRUCT'
    if not ctype.endswith('*') or pointee(ctype) in OPAQUE_TYPES:
        return '0'
    if name == 'remote':
        return 'SR_LENGTH_PIECES_THERE'
    if pointee(ctype) in FOLLOWED:
        return FOLLOWED[pointee(ctype)]
    if ctype == 'const char *' and following in ('int', 'unsigned int'):
        return 'SR_LENGTH_TEXT'
    if following in ('size_t', 'socklen_t', 'unsigned int'):
        return str(n + 2)
    if is_count(call, n + 1):
        return 'SR_LENGTH_COUNT + %d' % (n + 2)
    return 'SR_LENGTH_TEXT' if pointee(ctype) == 'char' else 'SR_LENGTH_STRUCT'


# ------------------------------------------------------------------ sr_calls[]

def holder(call):
    """The object that has an operation: an argument, or a member of one at an offset."""
    name, _, member = call.op_holder.partition('->')
    n = [p for _, p in call.params].index(name)
    return n, 'offsetof(%s, %s)' % (call.params[n][0].rstrip('* '), member) if member else '-1'


def where_defined(call, lines, others=()):
    """The lines, for the compiler where it has the macro that the call's entry names."""
    if 'defined' not in call.attrs:
        return list(lines)
    return ['#ifdef ' + call.attrs['defined'], *lines] + (['#else', *others] if others else []) + ['#endif']


def source_of(call):
    """How the call finds the real function."""
    source = '\t\t.source = SR_SOURCE_%s,' % call.lib.upper()
    if call.op:
        lines = ['%s .wrapper = (void *)op_%s,' % (source, call.name),
                 '\t\t.op_offset = offsetof(%s, %s),' % (CONTAINERS[call.lib], call.op)]
        if not call.answer:
            lines.append('\t\t.holder_arg = %d, .holder_member = %s,' % holder(call))
        return where_defined(call, lines, ['\t\t.source = SR_SOURCE_SHIM,'])
    if call.lib in NO_WRAPPER:
        return [source]
    version = '"%s"' % call.version if call.version else 'NULL'
    return ['%s .version = %s, .wrapper = (void *)%s,' % (source, version, call.name)]


def flags_of(call):
    flags = [k for k in FLAGS if call.attrs.get(k)]
    if call.ret == 'void':
        flags.append('void')
    if any(call.attrs.get(k) for k in ('wait', 'cancel', 'blocks')):
        flags.append('blocks')
    return ' | '.join('SR_CALL_%s' % f.upper() for f in dict.fromkeys(flags)) or '0'


def fd_argument(call):
    names = [n for _, n in call.params]
    return names.index(call.attrs['fd']) if 'fd' in call.attrs else -1


ORDER_BITS = {'idle': 'SR_ORDER_IDLE', 'exposes': 'SR_ORDER_EXPOSES', 'unexposes': 'SR_ORDER_UNEXPOSES', 'posts': 'SR_ORDER_POSTS',
              'polls': 'SR_ORDER_POLLS'}


def order_of(call):
    order = ORDERS[call.attrs.get('order', 'both')]
    return ' | '.join([order] + [bit for key, bit in ORDER_BITS.items() if key in call.attrs])


def describe(call):
    lines = ['\t\t.name = "%s", .nargs = %d,' % (call.name, len(call.params))] + source_of(call)
    if call.fails:
        lines.append('\t\t.fails = SR_FAILS_%s,' % call.fails.upper())
    syscall = call.attrs.get('syscall')
    lines.append('\t\t.nr = %s,' % ('SYS_' + syscall if syscall else '-1'))
    lines.append('\t\t.flags = %s, .fd_arg = %d,' % (flags_of(call), fd_argument(call)))
    numbers = range(len(call.params))
    if call.op and any(pointee(ctype) == COMPLETIONS for ctype, _ in call.params):
        lengths = ['SR_LENGTH_COMPLETIONS' if pointee(ctype) == COMPLETIONS else '0' for ctype, _ in call.params]
        lines.append('\t\t.length_of = { %s },' % ', '.join(lengths))
    if call.lib in ('libc', 'kernel'):
        lines.append('\t\t.length_of = { %s },' % (', '.join(length_behind(call, n) for n in numbers) or '0'))
        lines.append('\t\t.size_of = { %s },' % (', '.join(size_behind(t, name) for t, name in call.params) or '0'))
    if call.ret != 'void':
        wire = call.ret_wire()
        lines.append('\t\t.ret_size = %d, .ret_signed = %d,' % (SCALARS[wire][0], wire[0] == 'i'))
    if 'idle' in call.attrs:
        lines.append('\t\t.idle = %s,' % call.attrs['idle'])
    lines.append('\t\t.order = %s,' % order_of(call))
    return lines + ['\t\t.%s = %s,' % (hook, call.attrs[hook]) for hook in HOOKS if call.attrs.get(hook)]


def emit_table(calls, out):
    out.append('const struct sr_call_desc sr_calls[SR_CALL_COUNT] = {')
    for call in calls.values():
        out += ['\t[SR_CALL_%s] = {' % call.name] + describe(call) + ['\t},']
    out.append('};')
    names = sorted((c.name for c in calls.values() if not c.op and not c.answer and c.lib not in NO_WRAPPER),
                   key=str.encode)
    out.append('\nconst uint16_t sr_exported_calls[] = {')
    out += ['\tSR_CALL_%s,' % name for name in names]
    out.append('};\nconst size_t sr_exported_count = %d;' % len(names))


# -------------------------------------------------------------- smaller tables

def emit_numbers(calls):
    out = ['/* Made by gencalls.py from calls.def. */', '#ifndef SR_CALLS_GEN_H', '#define SR_CALLS_GEN_H', '',
           'enum sr_call_number {']
    out += ['\tSR_CALL_%s,' % name for name in calls]
    return '\n'.join(out + ['\tSR_CALL_COUNT', '};', '', '#endif']) + '\n'


def emit_operations(calls):
    out = ['/* Made by gencalls.py from calls.def: SR_OP(kind, struct, field) for each. */']
    for c in calls.values():
        if c.op:
            out += where_defined(c, ['SR_OP(%s, %s, %s)' % (c.lib.upper(), CONTAINERS[c.lib], c.op)])
    return '\n'.join(out) + '\n'


def emit_hooks(calls):
    """Declares the hand-written functions that calls.def names."""
    declared = OrderedDict()
    for call in calls.values():
        for hook, prototype in HOOKS.items():
            if call.attrs.get(hook):
                declared[prototype % call.attrs[hook]] = True
    return '\n'.join(['/* Made by gencalls.py from calls.def. */'] + list(declared)) + '\n'


def system_calls(calls):
    return sorted({call.attrs['syscall'] for call in calls.values() if call.attrs.get('syscall')})


def emit_syscalls(calls):
    """The compiler leaves out the system calls that a machine does not have."""
    out = ['/* Made by gencalls.py from calls.def: which call a system call is. */',
           '#include "shim/calls/trap/table.h"', '', 'const uint16_t sr_trap_calls[SR_TRAP_CALLS] = {']
    for call in calls.values():
        name = call.attrs.get('syscall')
        if name:
            out += ['#ifdef SYS_%s' % name, '\t[SYS_%s] = SR_CALL_%s + 1,' % (name, call.name), '#endif']
    out.append('};')
    return '\n'.join(out) + '\n'


def emit_export_map(calls):
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
