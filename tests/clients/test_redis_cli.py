"""redis-cli 7.0 in all its modes: ordinary commands, statistics, scanning, mass insertion, a person at a terminal."""

import re
import select
import subprocess
import time

import pytest

from server.test_redis_cli import Terminal, cli

SECONDS = 20.0
PROMPT = r"127\.0\.0\.1:\d+> "


@pytest.fixture
def empty(server):
    """The shared server, with no keys."""
    assert server.ask("FLUSHALL") == "OK"
    return server


def encoded(*words: str) -> str:
    """A command as it stands on the wire."""
    return "".join([f"*{len(words)}\r\n", *(f"${len(word.encode())}\r\n{word}\r\n" for word in words)])


# What is typed, and what redis-cli shows to a person.
SESSION = [
    (["SET", "k", 'a "quoted"\tword'], "OK"),
    (["GET", "k"], r'"a \"quoted\"\tword"'),
    (["GET", "nobody"], "(nil)"),
    (["SET", "k", "new", "NX"], "(nil)"),
    (["SET", "k", "100", "EX", "60", "GET"], r'"a \"quoted\"\tword"'),
    (["TTL", "k"], "(integer) 60"),
    (["INCR", "k"], "(integer) 101"),
    (["EXPIRE", "k", "30"], "(integer) 1"),
    (["PTTL", "k"], "(integer) 30000"),
    (["PERSIST", "k"], "(integer) 1"),
    (["TTL", "k"], "(integer) -1"),
    (["TTL", "nobody"], "(integer) -2"),
    (["INCRBYFLOAT", "k", "0.5"], '"101.5"'),
    (["INCR", "k"], "(error) ERR value is not an integer or out of range"),
    (["MSET", "a", "1", "b", "2"], "OK"),
    (["MGET", "a", "nobody", "b"], '1) "1"\n2) (nil)\n3) "2"'),
    (["EXISTS", "a", "b", "nobody"], "(integer) 2"),
    (["DEL", "a", "b", "nobody"], "(integer) 2"),
    (["TYPE", "k"], "string"),
    (["OBJECT", "ENCODING", "k"], '"embstr"'),
    (["NO.SUCH", "a"], "(error) ERR unknown command 'NO.SUCH', with args beginning with: 'a'"),
    (["GET"], "(error) ERR wrong number of arguments for 'get' command"),
    (["EXEC"], "(error) ERR EXEC without MULTI"),
    (["LPUSH", "k", "1"], "(error) ERR unknown command 'LPUSH', with args beginning with: 'k' '1'"),
    (["RL.SLIDE", "rl:{ak_42}", "1", "60"], "1) (integer) 1\n2) (integer) 1\n3) (integer) 0\n4) (integer) 0"),
    (["RL.SLIDE", "rl:{ak_42}", "1", "60"], "1) (integer) 0\n2) (integer) 1\n3) (integer) 0\n4) (integer) 60001"),
    (["GET", "rl:{ak_42}"], "(error) WRONGTYPE Operation against a key holding the wrong kind of value"),
    (["TYPE", "rl:{ak_42}"], "rl.slide"),
    (["RL.TOKEN", "k", "5", "1"], "(error) WRONGTYPE Operation against a key holding the wrong kind of value"),
    (["RL.CLOCK", "ADVANCE", "60001ms"], "OK"),
    (["RL.SLIDE", "rl:{ak_42}", "1", "60"], "1) (integer) 1"),
    # On to the next whole minute, for the tests that come after.
    (["RL.CLOCK", "ADVANCE", "59999ms"], "OK"),
]


@pytest.mark.smoke
def test_a_session_of_commands(empty):
    for words, expected in SESSION:
        shown = cli(empty, "--no-raw", *words)
        assert shown.startswith(expected), (words, shown)


def test_a_transaction_typed_into_a_pipe(empty):
    lines = ["MULTI", "SET a 5", "INCR a", "RL.SLIDE s 5 60", "GET a", "EXEC", "MULTI", "SET a 9", "DISCARD", "GET a"]
    shown = cli(empty, "--csv", text="\n".join(lines) + "\n").splitlines()
    assert shown == [
        *['"OK"', *['"QUEUED"'] * 4, '"OK",6,1,5,4,0,120000,"6"'],
        *['"OK"', '"QUEUED"', '"OK"', '"6"'],
    ]
    shown = cli(empty, text="MULTI\nINCR a\nNO.SUCH\nEXEC\nGET a\n").split("\n")
    assert "EXECABORT Transaction discarded because of previous errors." in shown and "6" in shown


def test_formats(empty):
    cli(empty, "MSET", "a", "1", "b", "zwei")
    assert cli(empty, "--csv", "MGET", "a", "nobody", "b") == '"1",NULL,"zwei"\n'
    assert cli(empty, "--json", "MGET", "a", "nobody", "b") == '["1",null,"zwei"]\n'
    assert cli(empty, "--json", "EXISTS", "a") == "1\n"
    assert cli(empty, "-3", "--json", "CONFIG", "GET", "maxmemory-policy") == '{"maxmemory-policy":"noeviction"}\n'
    assert cli(empty, "-2", "CONFIG", "GET", "maxmemory-policy") == "maxmemory-policy\nnoeviction\n"
    assert cli(empty, "-3", "--no-raw", "HGET", "a", "b").startswith("(error) ERR unknown command 'HGET'")
    assert cli(empty, "--json", "RL.FIXED", "f", "5", "60") == "[1,5,4,0,60000]\n"
    assert cli(empty, "-u", f"redis://127.0.0.1:{empty.port}/0", "-n", "0", "GET", "b") == "zwei\n"


def test_a_value_from_standard_input(empty):
    assert cli(empty, "-x", "SET", "k", text="line one\nline two") == "OK\n"
    assert cli(empty, "GET", "k") == "line one\nline two\n"
    assert cli(empty, "STRLEN", "k") == "17\n"


def test_an_error_ends_with_its_code_where_asked(empty):
    command = ["redis-cli", "-p", str(empty.port), "-e"]
    for words, code in [(["SET", "k", "text"], 0), (["INCR", "k"], 1), (["NO.SUCH"], 1), (["GET", "k"], 0)]:
        assert subprocess.run([*command, *words], capture_output=True, timeout=SECONDS).returncode == code, words


def test_repeated_at_an_interval(empty):
    assert cli(empty, "-r", "5", "-i", "0.01", "INCR", "n") == "1\n2\n3\n4\n5\n"
    shown = cli(empty, "-r", "3", "--csv", "RL.FIXED", "f", "2", "60").splitlines()
    assert shown == ["1,2,1,0,60000", "1,2,0,0,60000", "0,2,0,60000,60000"]


def fill(server, strings: int, limits: int) -> None:
    """Keys of both kinds, the longest value being that of the last string."""
    with server.connect() as wire:
        wire.pipeline([["SET", f"string:{number}", "x" * number] for number in range(1, strings + 1)])
        wire.pipeline([f"RL.SLIDE limit:{number} 5 1h" for number in range(1, limits + 1)])


def test_scan(empty):
    fill(empty, 300, 200)
    everything = cli(empty, "--scan").split()
    assert len(everything) == len(set(everything)) == 500
    assert sorted(cli(empty, "--scan", "--pattern", "string:1?").split()) == [f"string:{n}" for n in range(10, 20)]
    assert len(cli(empty, "--scan", "--pattern", "limit:*").split()) == 200
    assert cli(empty, "--scan", "--pattern", "nobody*") == ""
    assert cli(empty, "--scan", "--pattern", "string:300", "--quoted-pattern", "string:299") == "string:299\n"


def test_bigkeys(empty):
    fill(empty, 120, 40)
    shown = cli(empty, "--bigkeys")
    assert "Sampled 160 keys in the keyspace!" in shown
    assert "Biggest string found '\"string:120\"' has 120 bytes" in shown
    assert f"120 strings with {sum(range(1, 121))} bytes (75.00% of keys" in shown
    assert re.search(r"40 rl\.slides with 0 \S+ \(25\.00% of keys", shown), shown


def test_memkeys(empty):
    fill(empty, 120, 40)
    for samples in [[], ["--memkeys-samples", "3"]]:
        shown = cli(empty, "--memkeys", *samples)
        assert "Sampled 160 keys in the keyspace!" in shown
        biggest = re.search(r"Biggest string found '\"(string:\d+)\"' has (\d+) bytes", shown)
        assert biggest and int(biggest[2]) >= 120, shown
        limits = re.search(r"40 rl\.slides with (\d+) bytes", shown)
        assert limits and int(limits[1]) >= 40 * 24, shown


def lines_of(server, *arguments: str, count: int) -> list[str]:
    """The first lines of a mode that never ends by itself."""
    command = ["stdbuf", "-oL", "redis-cli", "-p", str(server.port), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            deadline, lines = time.monotonic() + SECONDS, []
            while len(lines) < count:
                ready, _, _ = select.select([process.stdout], [], [], max(0, deadline - time.monotonic()))
                assert ready, lines
                lines.append(process.stdout.readline().rstrip())
            return lines
        finally:
            process.kill()


def test_stat(empty):
    fill(empty, 100, 100)
    lines = lines_of(empty, "--stat", "-i", "0.05", count=7)
    assert lines[0].startswith("------- data ------")
    rows = [line.split() for line in lines[2:]]
    for keys, memory, clients, blocked, requests, since, connections in rows:
        assert keys == "200" and re.fullmatch(r"\d+(\.\d+)?[BKMG]", memory)
        assert int(clients) >= 1 and blocked == "0" and int(connections) >= 1
        assert int(requests) > 200 and re.fullmatch(r"\(\+\d+\)", since)
    # Each INFO is a request by itself.
    assert int(rows[-1][4]) - int(rows[0][4]) >= len(rows) - 1


def test_latency(empty):
    least, most, average, samples = cli(empty, "--latency", "-i", "0.2", "--raw").split()
    assert 0 <= int(least) <= float(average) <= int(most) and int(samples) >= 5
    assert re.fullmatch(r"\d+,\d+,\d+\.\d+,\d+\n", cli(empty, "--latency", "-i", "0.1", "--csv"))


def test_mass_insertion(empty):
    count = 20_000
    sets = "".join(encoded("SET", f"pipe:{number}", f"värde {number}") for number in range(count))
    limits = "".join(encoded("RL.SLIDE", f"limit:{number % 100}", "150", "1h") for number in range(count))
    assert f"errors: 0, replies: {count}" in cli(empty, "--pipe", text=sets)
    assert f"errors: 0, replies: {count}" in cli(empty, "--pipe", text=limits)
    assert cli(empty, "DBSIZE") == f"{count + 100}\n"
    assert cli(empty, "GET", f"pipe:{count - 1}") == f"värde {count - 1}\n"
    assert cli(empty, "RL.SLIDE", "limit:7", "150", "1h", "PEEK").split()[:3] == ["0", "150", "0"]


def test_mass_insertion_counts_errors(empty):
    requests = encoded("SET", "k", "text") + encoded("INCR", "k") * 3 + encoded("NO.SUCH") + encoded("INCR", "n")
    command = ["redis-cli", "-p", str(empty.port), "--pipe"]
    done = subprocess.run(command, input=requests, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 1 and "errors: 4, replies: 6" in done.stdout
    assert empty.ask("GET n") == b"1"


def test_what_is_not_offered_is_refused_and_nothing_hangs(empty):
    for arguments in [["--rdb", "/dev/null"], ["--eval", "/dev/null"], ["--functions-rdb", "/dev/null"]]:
        command = ["redis-cli", "-p", str(empty.port), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        assert "ERR" in done.stdout + done.stderr or done.returncode != 0, (arguments, done)
    assert cli(empty, "PING") == "PONG\n"


def test_monitor(empty):
    """Each command of others is a line with its time, its sender and its words quoted; a password never is."""
    command = ["stdbuf", "-oL", "redis-cli", "-p", str(empty.port), "MONITOR"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "OK\n"
            cli(empty, "SET", "k", 'a "b"')
            cli(empty, "RL.SLIDE", "rl:{u}", "5", "60")
            cli(empty, "-a", "secret", "PING")
            words = []
            while '"PING"' not in words:
                line = process.stdout.readline()
                parts = re.fullmatch(r"\d+\.\d{6} \[0 127\.0\.0\.1:\d+\] (.*)\n", line)
                assert parts, line
                words.append(parts[1])
        finally:
            process.kill()
    assert r'"SET" "k" "a \"b\""' in words and '"RL.SLIDE" "rl:{u}" "5" "60"' in words
    assert not any("secret" in line for line in words)


def test_an_interactive_session(empty):
    """Hints as a command is typed, a transaction's prompt, help, and errors that end nothing."""
    terminal = Terminal(empty)
    terminal.wait_for(PROMPT)
    in_transaction = r"127\.0\.0\.1:\d+\(TX\)> "
    # What is typed, what is shown, and the prompt after it; none where the line goes on.
    for typed, shown, prompt in [
        ("set ", "key value", None),
        ("k 5\r", "OK", PROMPT),
        ("incr k\r", r"\(integer\) 6", PROMPT),
        ("expire ", "key seconds", None),
        ("k 100\r", r"\(integer\) 1", PROMPT),
        ("mget k nobody\r", r'1\) "6"\s+2\) \(nil\)', PROMPT),
        ("no.such\r", r"\(error\) ERR unknown command", PROMPT),
        ("multi\r", "OK", in_transaction),
        ("incr k\r", "QUEUED", in_transaction),
        ("exec\r", r"1\) \(integer\) 7", PROMPT),
        ("rl.slide ", "limit", None),
        ("typed 100 1\r", r"3\) \(integer\) 99", PROMPT),
        ("help set\r", "summary:", PROMPT),
        ("help @string\r", "INCRBY", PROMPT),
        ("3 get k\r", r'"7"\s+"7"\s+"7"', PROMPT),
        ("client setname person\r", "OK", PROMPT),
        ("hello 3\r", r'"proto" => \(integer\) 3', PROMPT),
    ]:
        terminal.type(typed)
        terminal.wait_for(shown)
        if prompt:
            terminal.wait_for(prompt)
    assert terminal.end() == 0


def test_a_person_goes_on_after_a_restart(restarting):
    with restarting(2) as server:
        terminal = Terminal(server)
        terminal.wait_for(PROMPT)
        terminal.type("set k 1\r")
        terminal.wait_for("OK")
        server.restart()
        # redis-cli notices the lost connection at the next command, and connects again for the one after it.
        terminal.type("incr k\r")
        terminal.wait_for("not connected> ")
        terminal.type("incr k\r")
        terminal.wait_for(r"\(integer\) 1")
        terminal.wait_for(PROMPT)
        assert terminal.end() == 0
