"""User-space instructions of a server under valgrind: exact, and the same on a busy machine as on an idle one.

A server runs under callgrind twice, with N calls and with 2N; the difference divided by N leaves out the start, the
touching of the keys and the end. The kernel's instructions are not counted. What runs by the clock (the store's sweep,
ten times a second, and threads that serve no clients) is not either: how much of it falls on a call says only how long
valgrind took.
"""

import contextlib
import pathlib
import re
import subprocess
import tempfile
import time

import harness

CONNECTIONS = 50
KEYS = 5_000
KEY_BYTES = 24
TRIES = 3
SLIDE = "RL.SLIDE {key} 100 60"
# The functions that run by the clock and that all else of it is called from: of each group the outermost counts.
CLOCKED = (("run::tick::", "::sweep"), ("group::follow_maps",), ("group::tell_group",))
# What is found only in threads that serve clients, of a server that has others too, which run by the clock.
SERVES = "tollgate_server::connection::"


def per_call(run, subject, command, pipeline, calls, flags=(), facts=None, prepare=()):
    """Instructions of one call: its share of what 2N calls take beyond N. `flags` are added to the server's.

    `prepare`: what the server is asked first."""
    longer = count(run, subject, command, pipeline, 2 * calls, flags, facts, prepare)
    return (longer - count(run, subject, command, pipeline, calls, flags, facts, prepare)) / calls


def count(run, subject, command, pipeline, calls, flags=(), facts=None, prepare=()):
    """All instructions of a server that answered `calls` calls."""
    with profile(run, subject, command, pipeline, calls, flags, facts, prepare) as path:
        instructions = total(path)
    run.keep({"script": run.name, "subject": subject, "pipeline": pipeline, "calls": calls,
              "instructions": instructions, **(facts or {})})
    return instructions


@contextlib.contextmanager
def profile(run, subject, command, pipeline, calls, flags=(), facts=None, prepare=()):
    """The file that callgrind writes about a server that answered `calls` calls.

    At the turn of a minute windows of 60 s begin anew, and RL.TOP counts for a while every call: a run that meets one
    is thrown away, unless it takes so long that each does.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        for _ in range(TRIES):
            for thread in out.parent.iterdir():
                thread.unlink()
            begun = time.time()
            run_under_valgrind(run, subject, command, pipeline, calls, flags, facts, out, prepare)
            if begun // 60 == time.time() // 60:
                break
        yield out


def run_under_valgrind(run, subject, command, pipeline, calls, flags, facts, out, prepare):
    valgrind = [harness.find_program("valgrind"), "--tool=callgrind", "--separate-threads=yes",
                f"--callgrind-out-file={out}"]
    server = run.server(subject, cores=1, valgrind=valgrind)
    server.command += flags
    with server:
        for words in prepare:
            server.ask(*words)
        load = ["--connections", CONNECTIONS, "--pipeline", pipeline, "--keys", KEYS, "--key-bytes", KEY_BYTES,
                "--warm-keys", "--warmup", "0", "--requests", calls]
        run.bench(server, command, *load, facts={"phase": "count", "under": "callgrind", **(facts or {})})
    threads = sorted(out.parent.glob(f"{out.name}-*"))
    if not threads:
        raise harness.Failure(f"{subject} under valgrind did not end in order:\n{server.said()}")
    serving = [thread for thread in threads if SERVES in annotated(thread)]
    # With one core there is one that serves; a server of another kind has its commands run by its first thread.
    (serving or threads)[0].rename(out)


def total(path):
    """The sum over all functions, without what runs by the clock."""
    own = functions(annotated(path))
    return sum(count for count, _ in own) - clocked(functions(annotated(path, "--inclusive=yes")))


def clocked(inclusive):
    """Instructions of what runs by the clock, given those of each function with all that it calls."""
    def outermost(names):
        return max((count for count, function in inclusive if any(name in function for name in names)), default=0)
    return sum(map(outermost, CLOCKED))


def annotated(path, *flags):
    """What callgrind_annotate says of a profile."""
    words = [harness.find_program("callgrind_annotate"), "--auto=no", "--threshold=100", *flags, str(path)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def functions(text):
    """Instructions and names of the functions that callgrind_annotate lists."""
    lines = re.findall(r"^ *([\d,]+) \(.*?\)  \S+?:(.*)", text, re.MULTILINE)
    counts = [(int(count.replace(",", "")), function) for count, function in lines]
    if not counts:
        raise harness.Failure("callgrind_annotate names no functions")
    return counts
