"""Replies about the server and the connection, compared with redis-server's in what clients read off them: to the letter
where the answer is the same for all, in shape where the content is each server's own."""

import re
from collections.abc import Iterator

import pytest

from differential.frames import Reply, show
from differential.golden import ask, fields, is_in_order, line_fields, members_shape, raw, shape, text_of
from differential.history import Step
from differential.script import steps_of, words_of

# To the letter, but for the known differences; each line runs alone on empty servers.
EXACT = [
    "CLIENT GETNAME", "CLIENT SETNAME me|CLIENT GETNAME|CLIENT SETNAME \"\"|CLIENT GETNAME", "CLIENT NO-EVICT ON",
    "CLIENT NO-EVICT OFF", "CLIENT NO-EVICT", "CLIENT NO-EVICT x", "CLIENT KILL ID 99999999", "CLIENT KILL 127.0.0.1:1",
    "CLIENT KILL", "CLIENT KILL ID x", "CLIENT KILL TYPE x", "CLIENT KILL FOO x", "CLIENT KILL ID", "CLIENT KILL USER nobody",
    "CLIENT KILL ADDR 1.1.1.1:1", "CLIENT KILL TYPE pubsub", "CLIENT KILL SKIPME maybe", "CLIENT KILL ID 0", "CLIENT PAUSE x",
    "CLIENT PAUSE -1", "CLIENT PAUSE 1 x", "CLIENT PAUSE", "CLIENT PAUSE 0|PING", "CLIENT PAUSE 1 WRITE|CLIENT UNPAUSE|SET k v",
    "CLIENT UNPAUSE", "CLIENT LIST TYPE x", "CLIENT LIST ID x", "CLIENT LIST FOO", "CLIENT LIST TYPE pubsub",
    "CLIENT LIST ID 99999999", "CLIENT INFO x", "CLIENT REPLY", "CLIENT REPLY x", "CLIENT UNBLOCK", "CLIENT",
    "CLIENT UNBLOCK 99999999", "CLIENT NOSUCH a", "CLIENT ID x", "CONFIG GET nosuch", "CONFIG GET", "CONFIG SET nosuch 1",
    "CONFIG SET", "CONFIG SET maxmemory", "CONFIG SET maxmemory x", "CONFIG RESETSTAT", "CONFIG RESETSTAT x", "CONFIG NOSUCH",
    "CONFIG SET maxmemory-policy nosuch", "CONFIG REWRITE", "CONFIG SET maxmemory 0 nosuch 1", "CONFIG GET databases",
    "CONFIG SET slowlog-log-slower-than 10000|CONFIG GET slowlog-log-slower-than", "CONFIG SET slowlog-max-len x",
    "SLOWLOG RESET|SLOWLOG LEN|SLOWLOG GET", "SLOWLOG GET x", "SLOWLOG GET -2", "SLOWLOG GET 1 2", "SLOWLOG LEN x", "SLOWLOG",
    "SLOWLOG NOSUCH", "LATENCY LATEST", "LATENCY HISTORY command", "LATENCY RESET", "LATENCY RESET command", "LATENCY",
    "LATENCY HISTORY", "LATENCY NOSUCH", "LATENCY GRAPH command", "ROLE", "ROLE x", "MEMORY USAGE nosuch", "MEMORY USAGE",
    "MEMORY NOSUCH", "MEMORY", "SET k v|MEMORY USAGE k SAMPLES x", "SET k v|MEMORY USAGE k FOO", "MEMORY USAGE k SAMPLES -1",
    "SET k v|MEMORY USAGE k SAMPLES", "OBJECT FREQ k", "SET k v|OBJECT FREQ k", "OBJECT IDLETIME k", "OBJECT ENCODING k",
    "SET k v|OBJECT IDLETIME k", "OBJECT REFCOUNT k", "SET k v|OBJECT REFCOUNT k", "SET k 5|OBJECT ENCODING k", "OBJECT",
    "OBJECT NOSUCH k", "SET k v|OBJECT ENCODING k", "ACL WHOAMI", "ACL USERS", "ACL NOSUCH", "ACL", "ACL WHOAMI x", "ACL CAT nosuch",
    "ACL GETUSER nobody", "ACL GENPASS x", "ACL LOG RESET|ACL LOG", "WAIT 0 0", "WAIT x 0", "WAIT 0 -1", "WAIT 0 x", "WAIT 0", "TIME x",
    "LASTSAVE x", "DEBUG", "COMMAND COUNT x", "COMMAND INFO nosuch", "COMMAND GETKEYS GET k", "COMMAND GETKEYS SET k v EX 5",
    "COMMAND GETKEYS MSET a 1 b 2", "COMMAND GETKEYS PING", "COMMAND GETKEYS NOSUCH", "COMMAND GETKEYS GET", "COMMAND GETKEYS",
    "COMMAND LIST FILTERBY", "COMMAND LIST FILTERBY FOO x", "COMMAND DOCS nosuch", "COMMAND NOSUCH", "READONLY", "READWRITE",
    "ASKING", "CLUSTER INFO", "CLUSTER NODES", "CLUSTER SLOTS", "CLUSTER", "CLUSTER NOSUCH", "HELLO 1", "HELLO 4", "HELLO x",
    "HELLO 2 FOO", "HELLO 2 AUTH default", "HELLO 2 SETNAME", "HELLO 2 SETNAME \"a b\"", "AUTH", "AUTH x", "AUTH default x",
    "AUTH nobody x", "AUTH a b c", "HELLO 2 AUTH nobody x", "SELECT 0", "SELECT 1", "SELECT -1", "SELECT x", "SELECT 99999999999",
    "SELECT", "RESET", "PING", "PING a", "PING a b", "ECHO a", "ECHO", "RESET x", "QUIT x", "REPLICAOF",
    "DBSIZE x", "FLUSHALL x", "FLUSHALL ASYNC SYNC", "FLUSHDB SYNC", "INFO nosuch", "MONITOR x", "SHUTDOWN x", "SHUTDOWN NOSAVE x",
]  # fmt: skip

# In shape: the types of all that is answered.
SHAPES = [
    "CLIENT ID", "CLIENT INFO", "CLIENT LIST", "COMMAND COUNT", "TIME", "INFO", "INFO server",
    "INFO everything", "INFO server clients", "MEMORY DOCTOR", "LATENCY DOCTOR", "SET k v|MEMORY USAGE k", "SET k 5|MEMORY USAGE k SAMPLES 5",
    "ROLE", "ACL WHOAMI", "CONFIG GET maxmemory", "CONFIG GET maxmemory maxmemory-policy",
    "CONFIG GET maxclients", "CONFIG GET timeout", "CONFIG GET save", "CONFIG GET appendonly", "CONFIG GET slowlog-max-len",
    "CONFIG GET databases", "CONFIG GET port", "CONFIG GET bind", "CONFIG GET latency-monitor-threshold", "CONFIG GET MAXMEMORY",
    "COMMAND INFO get", "COMMAND GETKEYS MSET a 1 b 2", "DBSIZE", "RANDOMKEY",
]  # fmt: skip
# The types of the members, where how many there are is the server's own.
LISTS = [
    "COMMAND LIST", "CLIENT HELP", "OBJECT HELP", "CONFIG HELP", "MEMORY HELP", "SLOWLOG HELP", "LATENCY HELP", "COMMAND HELP",
    "ACL CAT", "ACL USERS", "ACL LIST", "CONFIG GET *", "COMMAND LIST FILTERBY PATTERN get*",
]  # fmt: skip
COMMANDS = (
    "get set setnx setex psetex getset getdel getex mget mset strlen append incr decr incrby decrby incrbyfloat expire pexpire "
    "expireat pexpireat expiretime pexpiretime ttl pttl persist del unlink exists touch type rename copy scan keys randomkey "
    "dbsize flushdb flushall multi exec discard watch unwatch ping echo select hello auth quit reset time role"
).split()
# Parts of a row of COMMAND: name, arity, flags, first key, last key, step, categories, tips, key specifications, subcommands.
FLAGS, SPECIFICATIONS = 2, 8
POSITIONS = (0, 1, 3, 4, 5)
# Words that are right or wrong for everybody; the others say how a server works inside.
COMMON_FLAGS = {b"write", b"readonly"}

SHOWN = 400

# Bytes as they are, and how many replies to wait for; after the last a connection may be closed.
RAW = [
    (b"PING\r\n", 1), (b"PING\n", 1), (b"ping hello\r\n", 1), (b"\r\n\r\nPING\r\n", 1), (b'SET k "a b"\r\nGET k\r\n', 2),
    (b"SET k 'it is'\r\nPING\r\n", 2), (b'SET k "unbalanced\r\n', 2), (b"SET k 'it\\'s'\r\nGET k\r\n", 2), (b'ECHO "\\x41\\n"\r\n', 1),
    (b'ECHO "a"b\r\n', 2), (b"  PING  \r\n", 1), (b"*0\r\nPING\r\n", 1), (b"*-1\r\nPING\r\n", 1),
    (b"*x\r\n", 2), (b"*1\r\n$x\r\n", 2), (b"*1\r\nPING\r\n", 2), (b"*1\r\n$-1\r\n", 2), (b"*1\r\n:1\r\n", 2), (b"*99999999999\r\n", 2),
    (b"*1\r\n$99999999999\r\n", 2), (b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", 1), (b"*1\r\n$4\r\nQUIT\r\nPING\r\n", 2), (b"QUIT\r\n", 2),
    (b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\na\r\nbc\r\n", 1), (b"*1\r\n$0\r\n\r\n", 1), (b"+PING\r\n", 1), (b"$4\r\nPING\r\n", 2),
]  # fmt: skip


@pytest.fixture
def sides(lockstep):
    """A connection to each server, both empty."""
    lockstep.begin()
    yield lockstep.connections[0].sides
    lockstep.end()


def ask_all(side, text: str) -> Reply:
    """The reply of the last command."""
    *before, last = [words for _, words in steps_of(text.split("|"))]
    for words in before:
        side.ask(*words)
    return ask(side, last)


def assert_none(faults: list[str]) -> None:
    """All that differs is told at once."""
    assert not faults, f"{len(faults)} differences\n" + "\n".join(faults)


def test_to_the_letter(lockstep):
    """Each line for itself, so that what one changes is gone before the next."""
    faults = []
    for text in EXACT:
        steps = [Step(0, tuple(words)) for _, words in steps_of(text.split("|"))]
        faults += [f"{text}: {fault}" for fault in lockstep.differences(steps)]
    assert_none(faults)


def test_shapes(sides):
    asked = [(text, *(ask_all(side, text) for side in sides)) for text in SHAPES]
    assert_none([unequal(text, left, right) for text, left, right in asked if shape(left) != shape(right)])


def test_shapes_of_members(sides):
    asked = [(text, *(members_shape(ask_all(side, text)) for side in sides)) for text in LISTS]
    assert_none([f"{text}: {left} {right}" for text, left, right in asked if left != right])


def unequal(text: str, left: Reply, right: Reply) -> str:
    return f"{text}\n    redis    {show(left)[:SHOWN]}\n    tollgate {show(right)[:SHOWN]}"


@pytest.mark.parametrize("version", ["2", "3"])
def test_hello(sides, version):
    """The same names in the same order, the same types; the version and the number are the server's own."""
    left, right = (ask(side, [b"HELLO", version.encode()]) for side in sides)
    assert shape(right) == shape(left)
    ours, theirs = fields(right), fields(left)
    assert list(ours) == list(theirs)
    same = [name for name in theirs if name not in (b"version", b"id")]
    assert [ours[name] for name in same] == [theirs[name] for name in same]


def test_command_info(sides):
    """What a client routes by: arity and key positions to the letter, whether it writes, and the types of all ten."""
    faults = []
    for name in COMMANDS:
        left, right = (ask(side, [b"COMMAND", b"INFO", name.encode()]).value[0] for side in sides)
        faults += [f"{name}: {fault}" for fault in row_faults(left, right)]
    assert_none(faults)


def row_faults(left: Reply, right: Reply) -> Iterator[str]:
    if shape(right)[:1] != shape(left)[:1] or len(right.value) != len(left.value):
        yield f"{show(left)[:SHOWN]} but {show(right)[:SHOWN]}"
        return
    for part, (theirs, ours) in enumerate(zip(left.value, right.value)):
        if ours.kind != theirs.kind or (part in POSITIONS and ours != theirs):
            yield f"part {part} is {show(ours)}, not {show(theirs)}"
        elif theirs.value and isinstance(theirs.value, list):
            if not {member.kind for member in ours.value} <= {member.kind for member in theirs.value}:
                yield f"part {part} holds {show(ours)[:SHOWN]}, not {show(theirs)[:SHOWN]}"
    theirs, ours = ({flag.value for flag in row.value[FLAGS].value} & COMMON_FLAGS for row in (left, right))
    if ours != theirs:
        yield f"flags {ours}, not {theirs}"
    if bool(right.value[SPECIFICATIONS].value) != bool(left.value[SPECIFICATIONS].value):
        yield f"key specifications {show(right.value[SPECIFICATIONS])}"


def test_command_docs(sides):
    """A page on a command is a map of the same types; it holds at least what redis-cli prints."""
    left, right = (fields(ask(side, [b"COMMAND", b"DOCS", b"get"]))[b"get"] for side in sides)
    assert right.kind == left.kind
    theirs = fields(left)
    for name, reply in fields(right).items():
        assert name not in theirs or reply.kind == theirs[name].kind, name
    assert {b"summary", b"since", b"group", b"arguments"} <= set(fields(right))


@pytest.mark.parametrize("command", ["CLIENT LIST", "CLIENT INFO"])
def test_client_lines(sides, command):
    """All of redis-server 7.0's fields in its order; ours may have more."""
    left, right = (ask_all(side, f"CLIENT SETNAME me|{command}") for side in sides)
    assert right.kind == left.kind and right.value.endswith(b"\n")
    (theirs, *_), (ours, *others) = ([line_fields(line) for line in text_of(reply).splitlines()] for reply in (left, right))
    assert is_in_order(theirs, ours), [name for name in theirs if name not in ours]
    assert all(names == ours for names in others)


def test_slowlog_entries(sides):
    """Six parts: number, time, microseconds, arguments, address, name. Long arguments and many are cut alike."""
    long, many = b"x" * 300, [b"k%d" % number for number in range(60)]
    entries = []
    for side in sides:
        for words in (b"CLIENT SETNAME me", b"CONFIG SET slowlog-log-slower-than 0", b"SLOWLOG RESET"):
            assert side.ask(*words.split()) == b"+OK\r\n", words
        ask(side, [b"SET", b"k", long])
        ask(side, [b"EXISTS", *many])
        entries.append(ask(side, words_of("SLOWLOG GET 2")))
        assert ask(side, words_of("SLOWLOG GET -1")).kind == "*" and ask(side, words_of("SLOWLOG LEN")).kind == ":"
        side.ask(*words_of("CONFIG SET slowlog-log-slower-than 10000"))
        side.ask(*words_of("SLOWLOG RESET"))
    left, right = entries
    assert shape(right) == shape(left)
    for ours, theirs in zip(right.value, left.value):
        assert ours.value[3] == theirs.value[3] and ours.value[5] == theirs.value[5]


def test_memory_stats(sides):
    """A map from names to numbers, with the names that clients print first."""
    left, right = (ask(side, [b"MEMORY", b"STATS"]) for side in sides)
    assert right.kind == left.kind
    theirs, ours = fields(left), fields(right)
    assert {b"peak.allocated", b"total.allocated", b"keys.count"} <= set(ours)
    for name in set(theirs) & set(ours):
        assert ours[name].kind == theirs[name].kind, name


def test_bytes_as_they_are(lockstep):
    """Inline commands and broken requests; where redis-server closes the connection so does Tollgate."""
    faults = []
    for data, replies in RAW:
        lockstep.begin()
        left, right = (raw(side, data, replies) for side in lockstep.connections[0].sides)
        # Tollgate also says what the bound is and which setting moves it.
        if [re.sub(rb", at most \d+ bytes \(proto-max-bulk-len\)", b"", reply) for reply in right] != left:
            faults.append(f"{data}\n    redis    {left}\n    tollgate {right}")
    lockstep.end()
    assert_none(faults)
