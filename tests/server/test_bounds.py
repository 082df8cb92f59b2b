"""What comes in has limits: each gets its error, and whoever else is connected does not notice."""

import random

import pytest

from reply import Error
from server.wire import Closed, Wire, encode

MIB = 1 << 20
KEY_BYTES_MAX = 1024
BULK_BYTES_MAX = 64 * 1024
ARGUMENTS_MAX = 16_386

BROKEN_FRAMES = {
    "count_is_not_a_number": b"*abc\r\n",
    "count_overflows": b"*99999999999999999999999\r\n",
    "count_too_large": b"*1000000000\r\n",
    "count_without_end": b"*" + b"1" * 70_000,
    "not_a_bulk": b"*1\r\n:5\r\n",
    "length_is_not_a_number": b"*1\r\n$abc\r\n",
    "length_is_negative": b"*1\r\n$-1\r\n",
    "length_overflows": b"*1\r\n$99999999999999999999999\r\n",
    "length_without_end": b"*1\r\n$" + b"1" * 70_000,
    "name_of_a_gigabyte": b"*1\r\n$1073741824\r\n",
    "inline_without_end": b"P" * 200_000,
    "inline_quotes_do_not_close": b'PING "abc\r\n',
    "nested_arrays": b"*1\r\n" * 10_000,
}


def refused(wire: Wire, data: bytes) -> Error:
    """Sends bytes that must be answered with an error, whether or not the connection is kept."""
    try:
        wire.send_bytes(data)
    except Closed:
        pass
    reply = wire.read()
    assert isinstance(reply, Error), reply
    return reply


def array(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


@pytest.mark.smoke
@pytest.mark.parametrize("name", BROKEN_FRAMES)
def test_a_broken_frame_is_answered_and_ends_only_its_connection(wire, name, server):
    with server.connect() as other:
        reply = refused(other, BROKEN_FRAMES[name])
        assert reply.startswith("ERR Protocol error"), reply
        assert other.is_closed()
    assert wire("PING") == "PONG"


@pytest.mark.parametrize("data", [b"\r\n", b"*0\r\n", b"*-1\r\n", b"\n", b"   \r\n"])
def test_empty_requests_are_passed_over(wire, data):
    wire.send_bytes(data + array(b"PING"))
    assert wire.read() == "PONG"


def test_the_replies_before_a_broken_frame_are_sent(wire, server):
    with server.connect() as other:
        other.send_bytes(array(b"PING") * 3 + b"*x\r\n" + array(b"FLUSHALL"))
        replies = [other.read() for _ in range(4)]
        assert replies[:3] == ["PONG"] * 3
        assert replies[3].startswith("ERR Protocol error")
        assert other.is_closed()


def test_the_largest_bulk_is_taken_and_one_byte_more_is_not(wire, server):
    largest = b"x" * BULK_BYTES_MAX
    assert wire(["ECHO", largest]) == largest
    with server.connect() as other:
        error = refused(other, array(b"ECHO", largest + b"x"))
        assert error == f"ERR Protocol error: invalid bulk length, at most {BULK_BYTES_MAX} bytes (proto-max-bulk-len)"


def test_who_sends_a_far_too_long_value_gets_to_read_why(server):
    with server.connect() as other:
        error = refused(other, array(b"SET", b"big", b"x" * 8_000_000))
        assert "(proto-max-bulk-len)" in error


@pytest.mark.parametrize(
    "words", [["RL.SLIDE", "{key}", "5", "1"], ["DEL", "{key}"], ["PTTL", "{key}"], ["TYPE", "{key}"]]
)
def test_the_longest_key_is_taken_and_one_byte_more_is_not(wire, words):
    longest = "k" * KEY_BYTES_MAX
    assert not isinstance(wire([word.format(key=longest) for word in words]), Error)
    reply = wire([word.format(key=longest + "k") for word in words])
    assert isinstance(reply, Error) and reply.code == "ERR" and "key" in reply
    assert wire("PING") == "PONG"


def test_a_long_key_in_a_group_is_refused_whole(wire):
    reply = wire(["RL.ALL", "a", "SLIDE", "5", "1", "1", "k" * (KEY_BYTES_MAX + 1), "SLIDE", "5", "1", "1"])
    assert isinstance(reply, Error) and "key" in reply
    assert wire("EXISTS a") == 0


def test_the_most_arguments_are_taken_and_one_more_is_not(wire, server):
    assert wire(["EXISTS", *["k"] * (ARGUMENTS_MAX - 1)]) == 0
    with server.connect() as other:
        assert refused(other, array(b"EXISTS", *[b"k"] * ARGUMENTS_MAX)).code == "ERR"


def test_a_command_of_more_than_a_mebibyte_is_refused(wire, server):
    with server.connect() as other:
        assert refused(other, array(b"EXISTS", *[b"k" * 1000] * 1100)).code == "ERR"


def test_sixty_four_groups_are_taken_and_one_more_is_not(wire):
    groups = [word for number in range(65) for word in (f"g:{number}", "SLIDE", "5", "1", "1")]
    assert wire(["RL.ALL", *groups[: 64 * 5]])[0] == 1
    reply = wire(["RL.ALL", *groups])
    assert isinstance(reply, Error) and reply.code == "ERR"
    assert wire("EXISTS g:64") == 0


@pytest.mark.smoke
def test_echoed_input_loses_control_characters_and_is_cut(wire):
    reply = wire(["\x1b[31m\x00\x07\r\nCOMMAND" + "A" * 1000, "x\r\n:1", "B" * 1000])
    assert isinstance(reply, Error) and reply.code == "ERR"
    assert all(32 <= ord(character) < 127 for character in reply), reply
    assert reply.count("A") <= 128 and reply.count("B") <= 128
    assert wire("PING") == "PONG"


@pytest.mark.parametrize("command", ["RL.SLIDE k 5 {word}", "CLIENT {word}", "CONFIG {word}", "RL.ALL k {word} 1 1 1"])
def test_no_error_carries_control_characters(wire, command):
    reply = wire([part.format(word="\r\n+OK\x1b\x9b") for part in command.split()])
    assert isinstance(reply, Error)
    assert all(32 <= ord(character) < 127 for character in reply), reply
    assert wire("PING") == "PONG"


@pytest.mark.smoke
@pytest.mark.parametrize(
    "request_line",
    [b"POST / HTTP/1.1\r\nHost: localhost\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"Host: localhost\r\n"],
)
def test_http_is_cut_off(wire, server, request_line):
    wire("RL.SLIDE kept 5 1h")
    with server.connect() as browser:
        browser.send_bytes(request_line + b"Content-Type: text/plain\r\n\r\nFLUSHALL\r\n")
        assert b"+OK" not in browser.rest()
    assert wire("EXISTS kept") == 1


def test_declared_lengths_take_no_memory(start, cores):
    """A thousand clients, not authenticated, declare as much as they may or more and then say nothing."""
    server = start(cores, "--requirepass", "secret", "--maxclients", "2000")
    before = server.memory_bytes()
    declared = [b"*10\r\n$4\r\nECHO\r\n$4096\r\nab", b"*1\r\n$4096\r\n", b"*10\r\n", b"*10\r\n$4\r\n"]
    declared += [b"*1\r\n$999999999\r\nab", b"*16386\r\n$65536\r\n", b"*1000000000\r\n$1000000000\r\n"]
    crowd = [server.connect() for _ in range(1000)]
    for number, wire in enumerate(crowd):
        wire.send_bytes(declared[number % len(declared)])
    assert server.ask("AUTH secret") == "OK"
    assert server.memory_bytes() - before < 16 * MIB
    for wire in crowd:
        wire.close()


def test_authenticated_declarations_take_no_memory(start, cores):
    server = start(cores)
    before = server.memory_bytes()
    crowd = [server.connect() for _ in range(300)]
    for wire in crowd:
        wire.send_bytes(b"*16386\r\n$6\r\nEXISTS\r\n$65536\r\nab")
    assert server.ask("PING") == "PONG"
    assert server.memory_bytes() - before < 16 * MIB
    for wire in crowd:
        wire.close()


def test_a_client_that_never_reads_is_bounded(start, cores):
    """Unread output stops the reading of its requests, so its memory stays bounded and others are served."""
    server = start(cores)
    before = server.memory_bytes()
    request = array(b"COMMAND") * 100
    with server.connect() as greedy:
        greedy.socket.settimeout(1.0)
        sent = 0
        try:
            while sent < 64 * MIB:
                sent += greedy.socket.send(request)
        except OSError:
            pass
        assert sent < 64 * MIB
        assert server.memory_bytes() - before < 40 * MIB
        assert server.ask("RL.SLIDE other 5 1")[0] == 1


def test_clients_beyond_the_limit_are_told(start, cores, gone):
    server = start(cores, "--maxclients", "20")
    gone(server, 0)
    crowd = [server.connect() for _ in range(20)]
    assert [wire("PING") for wire in crowd] == ["PONG"] * 20
    with server.connect() as late:
        assert late.rest().startswith(b"-ERR max number of clients reached\r\n")
    assert crowd[0]("PING") == "PONG"
    for wire in crowd:
        wire.close()


SAMPLES = [
    encode("RL.SLIDE key 100 1 COST 5 PARTIAL"),
    encode("RL.ALL a SLIDE 1 60 1 c TOKEN 5 1 1"),
    encode("CL.THROTTLE key 15 30 60 1"),
    encode("HELLO 3 AUTH default x SETNAME y"),
    encode("SCAN 0 MATCH a*[b-c]?\\\\d COUNT 10 TYPE rl.slide"),
    encode("COMMAND GETKEYS RL.ALL a SLIDE 1 60 1"),
    encode("RL.GET key"),
    b'rl.slide inline 5 1\r\nPING "quoted \\x41"\r\n',
]
PIECES = [
    b"\r\n",
    b"*",
    b"$",
    b"-1",
    b"0",
    b"99999999999",
    b"\x00",
    b"\xff",
    b":1\r\n",
    b"18446744073709551616",
    b"'",
    b'"',
]


def damaged(rng: random.Random) -> bytes:
    """A few samples with bytes changed, cut out, doubled or put in."""
    data = bytearray(b"".join(rng.choices(SAMPLES, k=rng.randint(1, 4))))
    for _ in range(rng.randint(1, 6)):
        position = rng.randrange(len(data) + 1)
        match rng.randrange(4):
            case 0:
                data[position : position + 1] = bytes([rng.randrange(256)])
            case 1:
                del data[position : position + rng.randint(1, 8)]
            case 2:
                data[position:position] = rng.choice(PIECES)
            case _:
                data[position:position] = data[position : position + rng.randint(1, 30)]
    return bytes(data)


@pytest.mark.smoke
def test_no_input_ends_the_process(server, cores):
    rng = random.Random(cores)
    before = server.memory_bytes()
    for _ in range(1500):
        with server.connect() as wire:
            try:
                wire.send_bytes(damaged(rng))
            except Closed:
                pass
    assert server.ask("PING") == "PONG"
    assert server.memory_bytes() - before < 8 * MIB
