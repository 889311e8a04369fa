# SPDX-License-Identifier: BSD-2-Clause
"""Reads calls.def (grammar: see its head).  Refuses unknown input, with the line number."""
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

# C type of an argument or result -> wire type
C_TO_WIRE = {
    'int': 'i32', 'unsigned int': 'u32', 'uint8_t': 'u8', 'uint16_t': 'u16', 'uint32_t': 'u32',
    'uint64_t': 'u64', 'int64_t': 'i64', 'size_t': 'u64', 'ssize_t': 'i64', 'long': 'i64',
    'unsigned long': 'u64', 'socklen_t': 'u32', 'pid_t': 'i32', 'time_t': 'i64', 'clockid_t': 'i32',
    'nfds_t': 'u64', 'useconds_t': 'u32', '__be16': 'x16', '__be32': 'x32', '__be64': 'x64',
    'off_t': 'i64', 'idtype_t': 'u32', 'id_t': 'u32', '__sighandler_t': 'ptr',
    '__itimer_which_t': 'u32', 'timer_t': 'ptr', 'uid_t': 'u32', 'gid_t': 'u32', 'clock_t': 'i64',
    'pthread_t': 'x64', 'thrd_t': 'x64', 'mode_t': 'u32',
}

# Wire types whose code is written by hand in codec/: what a reader of the trace sees.
BY_HAND = {
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
    'bad_send_wr': 'u32',
    'bad_recv_wr': 'u32',
    'pollfds': 'pollfd[]',
    'pollfds_out': 'pollfd[]',
    'sockaddr_out': 'sockaddr',
    'buf_list_checksum': 'x64',
    'inline_checksum': 'x64',
    'library_fds': 'library_fd[]',
    'cm_event': 'cm_id',
    'cm_sockaddr': 'bytes',
    'connect_param': 'rdma_conn_param?',
    'accept_param': 'rdma_conn_param?',
    'rdma_addrinfo': 'rdma_addrinfo?',
    'rdma_addrinfo_list': 'segment[]',
    'opened_list': 'opened[]',
    'opened_file': 'opened_file',
    'changed_files': 'opened_file[]',
    'locked_file': 'u8',
    'iov_room': 'u64',
    'iov_checksum': 'x64',
    'iov_data': 'bytes',
    'moved_output': 'output',
    'spliced': 'bytes',
    'mapped_output': 'output',
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
    'aio_requests': 'aio_request[]',
    'aio_events': 'aio_event[]',
    'passed_files': 'passed_file[]',
    'uring_requests': 'uring_request[]',
    'uring_completions': 'uring_completion[]',
}

# Where operation pointers are: kind -> C type of the struct.
CONTAINERS = {
    'context': 'struct ibv_context', 'verbs': 'struct verbs_context', 'qp': 'struct ibv_qp_ex',
    'cq': 'struct ibv_cq_ex', 'dm': 'struct ibv_dm',
}

# Calls without a function of their own.
NO_WRAPPER = ('shim', 'kernel')

# How a function of direct verbs fails -> the C type that it returns.
FAILURES = {'null': 'void *', 'errno': 'int', 'negative': 'int', 'minus': 'int', 'false': 'int', 'query': 'int'}
DIRECT_ATTRIBUTES = ('direct', 'opaque', 'opens')

# Attributes with and without a value; those without one are mostly bits of sr_call_desc.flags.
ORDERS = {
    'none': '0', 'entry': 'SR_ORDER_ENTRY', 'return': 'SR_ORDER_RETURN',
    'both': 'SR_ORDER_ENTRY | SR_ORDER_RETURN',
}
VALUED = ('fd', 'when', 'also', 'order', 'idle', 'invoke', 'quick', 'replayed', 'defined')
PLAIN = ('any', 'output', 'children', 'thread', 'submits', 'effect', 'newfd', 'wait', 'opens', 'outside', 'cancel', 'blocks', 'exposes', 'unexposes', 'posts', 'polls', 'variadic', 'opaque', 'receives', 'pauses', 'read')

DEF_PATH = 'calls.def'


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
        return raw_size(self.wire)


class Struct:
    def __init__(self, name, ctype):
        self.name, self.ctype, self.fields = name, ctype, []

    @property
    def func(self):
        """Its functions are sr_put_FUNC and sr_get_FUNC; without a C type, code by hand has the short name."""
        return self.name + ('' if self.ctype else '_fields')

    @property
    def c(self):
        return self.ctype or 'struct sr_wire_' + self.name


class Entry:
    """A value of a call."""

    def __init__(self, wire, expr, extra=(), condition=None, label=None):
        self.wire, self.expr, self.extra, self.condition = wire, expr, list(extra), condition
        self.given_label = label

    @property
    def label(self):
        """What a dump calls it."""
        return self.given_label or re.sub(r'^[*&(]+|\)+$', '', self.expr)


class Call:
    def __init__(self, ret, name, params):
        self.ret, self.name, self.params = ret, name, params    # params: (C type, name)
        self.lib = self.version = self.op = self.op_holder = None
        self.ins, self.outs = [], []
        self.attrs = {}
        self.answer = None
        self.fails = None               # direct verbs: see FAILURES

    def ret_wire(self):
        return 'ptr' if self.ret.endswith('*') else C_TO_WIRE.get(self.ret, 'i32')


def raw_size(wire):
    """N of rawN, or 0."""
    m = re.fullmatch(r'raw(\d+)', wire)
    return int(m.group(1)) if m else 0


def object_of(wire):
    """NAME of object[NAME], or None."""
    m = re.fullmatch(r'object\[(.*)\]', wire)
    return m.group(1) if m else None


def is_plain(structs, wire):
    """Is it a struct of the program, encoded field by field?  Others have code by hand."""
    return wire in structs and structs[wire].ctype


def seen_as(structs, entry):
    """The type that a reader of the trace sees.  "?": a byte in front says whether it is there."""
    if object_of(entry.wire):
        wire = 'bytes'
    else:
        wire = BY_HAND.get(entry.wire, entry.wire + ('?' if is_plain(structs, entry.wire) else ''))
    return wire + ('?' if entry.condition and not wire.endswith('?') else '')


# -------------------------------------------------------------------- parsing

def without_comment(line):
    return re.sub(r'(^|\s)#.*', '', line).rstrip()


def logical_lines(path):
    """Yields (number, text) of each line that is not empty; joins the lines of a prototype."""
    with open(path) as f:
        lines = [without_comment(line) for line in f.read().split('\n')]
    i = 0
    while i < len(lines):
        number, line = i + 1, lines[i]
        i += 1
        while line and not line[0].isspace() and line.count('(') != line.count(')') and i < len(lines):
            line += ' ' + lines[i].strip()
            i += 1
        if line.strip():
            yield number, line


def parse(path):
    """Returns the structs and the calls, by name, in the order of the file."""
    global DEF_PATH
    DEF_PATH = path
    structs, calls = OrderedDict(), OrderedDict()
    current = None
    for number, line in logical_lines(path):
        if line[0].isspace():
            parse_inner(current, line.strip(), number, structs)
            continue
        current = parse_head(line, number)
        known = structs if isinstance(current, Struct) else calls
        if current.name in known:
            fail(number, '%s is described twice' % current.name)
        known[current.name] = current
    for call in calls.values():
        # the descriptors that the library opened and closed come behind the other results
        if call.lib == 'rdmacm':
            call.outs.append(Entry('library_fds', '0', label='library_fds'))
    return structs, calls


def parse_head(line, number):
    word = line.split()[0]
    if word == 'struct':
        m = re.fullmatch(r'struct (\w+)(?: = (.*))?', line)
        if not m:
            fail(number, 'expected: struct NAME [= C TYPE]')
        return Struct(m.group(1), m.group(2))
    if word == 'call':
        m = re.fullmatch(r'call (.*?)(\w+)\((.*)\)', line)
        if not m:
            fail(number, 'expected: call RESULT NAME(ARGUMENTS)')
        arguments = [] if m.group(3).strip() == 'void' else m.group(3).split(',')
        return Call(m.group(1).strip(), m.group(2), [argument(a, number) for a in arguments])
    if word == 'direct':
        return parse_direct(line.split()[1:], number)
    fail(number, 'expected "struct", "call" or "direct", found "%s"' % word)


def argument(text, number):
    """'struct ibv_qp *qp' -> ('struct ibv_qp *', 'qp')"""
    m = re.fullmatch(r'\s*(.*?)(\w+)\s*', text)
    if not m or not m.group(1).strip():
        fail(number, 'an argument needs a type and a name: "%s"' % text.strip())
    return m.group(1).strip(), m.group(2)


def parse_direct(words, number):
    if len(words) < 4 or words[1] not in FAILURES:
        fail(number, 'expected: direct LIBRARY FAILURE NAME VERSION [invoke=FUNCTION]')
    library, fails, name, version = words[:4]
    call = Call(FAILURES[fails], name, [('uint64_t', 'a%d' % n) for n in range(6)])
    call.lib, call.version, call.fails = library, version, fails
    call.attrs = dict.fromkeys(DIRECT_ATTRIBUTES, True)
    call.attrs.update(word.split('=') for word in words[4:])
    return call


def parse_inner(current, line, number, structs):
    if isinstance(current, Struct):
        m = re.fullmatch(r'(\S+)\s+(\S+)(?:\s+if (.*))?', line)
        if not m:
            fail(number, 'expected: TYPE FIELD [if CONDITION]')
        current.fields.append(Field(*m.groups()))
        return
    if not isinstance(current, Call):
        fail(number, 'a field outside a struct or call')
    word, _, rest = line.partition(' ')
    rest = rest.strip()
    if word == 'from':
        parse_from(current, rest)
    elif word == 'op':
        parse_op(current, rest, number)
    elif word == 'answer':
        current.answer = rest
    elif word == 'is':
        parse_is(current, rest, number)
    elif word == 'in':
        current.ins += parse_values(current, rest, number, structs, arguments_alone=True)
    elif word == 'out':
        current.outs += parse_values(current, rest, number, structs, arguments_alone=False)
    else:
        fail(number, 'expected from, op, answer, in, out or is, found "%s"' % word)


def parse_from(call, rest):
    call.lib, call.version = (rest.split() + [None])[:2]
    if call.lib == 'kernel':
        call.attrs['syscall'] = call.version or call.name
        call.version = None


def parse_op(call, rest, number):
    m = re.fullmatch(r'(\w+) (\S+) of (\S+)', rest)
    if not m:
        fail(number, 'expected: op CONTAINER FIELD of EXPRESSION')
    call.lib, call.op, call.op_holder = m.groups()
    if call.lib not in CONTAINERS:
        fail(number, 'no container "%s"; there are %s' % (call.lib, ', '.join(CONTAINERS)))


def parse_is(call, rest, number):
    for attr in rest.split():
        key, _, value = attr.partition('=')
        if key == 'syscall':
            value = value or call.name
        elif key in VALUED and not value or key in PLAIN and value or key not in VALUED + PLAIN:
            fail(number, 'no attribute "%s"; there are %s'
                 % (attr, ', '.join(['syscall[=NAME]'] + ['%s=...' % v for v in VALUED] + list(PLAIN))))
        if key == 'fd' and value not in [n for _, n in call.params]:
            fail(number, '%s has no argument "%s"' % (call.name, value))
        if key == 'order' and value not in ORDERS:
            fail(number, 'no order "%s"; there are %s' % (value, ', '.join(ORDERS)))
        call.attrs[key] = value or True


def parse_values(call, rest, number, structs, arguments_alone):
    """Parses what follows "in" or "out"."""
    condition = label = None
    m = re.fullmatch(r'(.*?) if (.*)', rest)
    if m:
        rest, condition = m.groups()
    m = re.fullmatch(r'(.*?) as (\w+)', rest)
    if m:
        rest, label = m.groups()
    words = split_words(rest)
    types = dict((n, t) for t, n in call.params)
    if arguments_alone and all(w in types for w in words):
        return [Entry(wire_of(types[w], number), w, condition=condition) for w in words]
    if len(words) < 2 or not is_wire_type(words[0], structs):
        fail(number, '"%s" is neither an argument of %s nor a wire type with an expression behind it'
             % (words[0], call.name))
    if any(re.fullmatch(r'[-+*/%&|<>=!?:]+', w) for w in words):
        fail(number, 'an expression has no blanks in it, unless they are in parentheses: "%s"' % rest)
    return [Entry(words[0], words[1], words[2:], condition, label)]


def is_wire_type(wire, structs):
    return (wire in SCALARS or wire in structs or wire in BY_HAND or wire in ('bytes', 'string', 'chars')
            or raw_size(wire) or object_of(wire))


def split_words(text):
    """Splits at spaces, except inside parentheses."""
    return re.findall(r'(?:[^\s(]|\([^()]*(?:\([^()]*\)[^()]*)*\))+', text)


def wire_of(ctype, number):
    c = ctype.replace('const ', '').strip()
    if c.endswith('*'):
        return 'ptr'
    if c.startswith('enum '):
        return 'u32'
    if c not in C_TO_WIRE:
        fail(number, 'no wire type is known for the C type "%s": add it to C_TO_WIRE in gen/description.py' % ctype)
    return C_TO_WIRE[c]
