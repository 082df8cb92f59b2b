"""What the benchmark scripts share: servers that end with the script, one call of the client, rows and tables.

Every server listens on loopback, on a free port, and is ended by its own process id, also after Ctrl-C or when the
script's time is over. Raw rows go to benches/runs/<date>-<script>.jsonl before any table is made of them, those of a
--quick trial to benches/runs/tmp.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import servers

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = ROOT / "benches" / "runs"
SCRIPT = ROOT / "benches" / "sliding_window.lua"
START_SECONDS = 60
STOP_SECONDS = 30

# Shown below the options of every script.
WHERE_IT_GOES = f"""\
The tables are printed as Markdown, progress goes to stderr. The raw rows behind them go to
benches/runs/<date>-{{name}}.jsonl, those of --quick to benches/runs/tmp. benches/all runs every script and writes the
page docs/benchmarks.md from what they print.

CPUs are taken from those that this process may use, in their order: the first is the server's, the second the
client's, where the description says that they are pinned.

{servers.SOURCES}"""

SLIDE_UNBOUNDED = "RL.SLIDE {key} 1000000000 60"


class Failure(Exception):
    """Something that ends the script with one line on stderr."""


class Server:
    """A server of this script, used as `with Server(...) as server:`."""

    def __init__(self, name, command, port):
        self.name = name
        self.command = command
        self.port = port
        self.process = None
        self.output = tempfile.TemporaryFile()

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.output,
                                        stderr=subprocess.STDOUT)
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exception):
        self.stop()

    @property
    def pid(self):
        return self.process.pid

    @property
    def target(self):
        return f"redis://127.0.0.1:{self.port}"

    def _wait_until_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Failure(f"{self.name} ended at once: {shlex.join(self.command)}\n{self.said()}")
            try:
                if self.ask("PING") == "+PONG":
                    return
            except OSError:
                pass
            time.sleep(0.02)
        raise Failure(f"{self.name} does not answer: {shlex.join(self.command)}")

    def ask(self, *words):
        """One command, its reply as text: a line, or the body of a bulk."""
        request = f"*{len(words)}\r\n" + "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
        with socket.create_connection(("127.0.0.1", self.port), timeout=START_SECONDS) as connection:
            connection.sendall(request.encode())
            with connection.makefile("rb") as replies:
                line = replies.readline().decode().rstrip("\r\n")
                if line.startswith("$"):
                    return replies.read(int(line[1:])).decode()
                return line

    def info(self, field):
        """A field of INFO, or None."""
        for line in self.ask("INFO").splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return value
        return None

    def rss_bytes(self):
        """Resident memory now."""
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise Failure(f"{self.name} has no VmRSS")

    def said(self):
        """The last of what the server wrote to its terminal."""
        self.output.seek(0)
        return self.output.read()[-2000:].decode(errors="replace")

    def pause(self):
        """Takes the server off the CPU until `resume`."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        """Lets a paused server go on."""
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        """Asks the process to end, and after a while ends it."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        # A paused process gets its signal only when it goes on.
        self.resume()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Paused:
    """Servers of which one runs at a time, the others being stopped: `with Paused() as paused:`."""

    def __init__(self):
        self.stack = contextlib.ExitStack()
        self.servers = {}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stack.close()

    def start(self, server):
        """Starts a server and pauses it."""
        self.servers[server.name] = self.stack.enter_context(server)
        server.pause()
        return server

    @contextlib.contextmanager
    def only(self, server):
        """Lets one server run for the time of a `with`."""
        server.resume()
        try:
            yield server
        finally:
            server.pause()


class Run:
    """One run of a script: its options, its machine, its raw rows."""

    def __init__(self, name, description, add_options=None, seconds_max=3600):
        """`description` is the script's docstring, which --help shows whole."""
        parser = described_parser(name, description, WHERE_IT_GOES.format(name=name))
        parser.add_argument("--quick", action="store_true", help="few keys, short and few rounds: a trial, no figures")
        parser.add_argument("--tollgate", default=default_tollgate(), help="the binary [%(default)s]")
        parser.add_argument("--client", help="the load generator's command [<tollgate> bench]")
        add_peer_options(parser)
        parser.add_argument("--subjects", help="only these, separated by commas")
        parser.add_argument("--rows", type=pathlib.Path, metavar="FOLDER",
                            help="where raw rows go [benches/runs; its folder tmp with --quick]")
        parser.add_argument("--seconds-max", type=positive, default=seconds_max, help="the script ends after this time")
        if add_options:
            add_options(parser)
        self.options = parser.parse_args()
        self.name = name
        # None for a script without rounds.
        self.rounds = None
        if usual := getattr(self.options, "usual_rounds", None):
            self.rounds = self.options.rounds or usual[self.options.quick]
        self.client = shlex.split(self.options.client) if self.options.client else [self.options.tollgate, "bench"]
        self.client[0] = find_program(self.client[0])
        self.reproduce = shlex.join([f"benches/{name}", *sys.argv[1:]])
        self.rows = []
        self.started = datetime.datetime.now(datetime.timezone.utc)
        signal.signal(signal.SIGTERM, interrupt)
        signal.signal(signal.SIGALRM, out_of_time)
        signal.alarm(self.options.seconds_max)

    def subjects(self, all_subjects):
        """The chosen ones among all, in their order."""
        if not self.options.subjects:
            return list(all_subjects)
        chosen = self.options.subjects.split(",")
        unknown = [subject for subject in chosen if subject not in all_subjects]
        if unknown:
            raise Failure(f"--subjects: {unknown[0]!r} is none of {', '.join(all_subjects)}")
        return [subject for subject in all_subjects if subject in chosen]

    def server(self, subject, cores=1, cpus=None, valgrind=None):
        """A fresh server for a subject of `servers`, not started yet."""
        port = free_port()
        try:
            command = servers.command(servers.SUBJECTS[subject].kind, self.options, port, cores, own_program)
        except servers.Missing as missing:
            raise Failure(str(missing)) from missing
        command = [find_program(command[0]), *command[1:]]
        if valgrind:
            command = valgrind + command
        if cpus is not None:
            command = ["taskset", "-c", cpus, *command]
        return Server(subject, command, port)

    def bench(self, server, command, *flags, facts=None, keep=True):
        """One run of the load generator; its report with `facts`, kept as a raw row unless more is to come into it."""
        words = [*self.client, "--target", server.target, "--pid", str(server.pid), "--json", "--command", command]
        if "{sha}" in command:
            words += ["--script", str(SCRIPT)]
        words += [str(flag) for flag in flags]
        done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=self.options.seconds_max)
        if done.returncode != 0:
            raise Failure(f"{shlex.join(words)}\n{done.stdout}{done.stderr}")
        report = json.loads(done.stdout)
        report.pop("target", None)
        row = {"script": self.name, "subject": server.name, **(facts or {}), **report}
        if keep:
            self.keep(row)
        return row

    def keep(self, row):
        """Appends a raw row to the file of this run, after the machine's facts."""
        folder = self.options.rows or rows_folder(self.options.quick)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.started:%Y-%m-%d}-{self.name}.jsonl"
        with path.open("a") as file:
            if not self.rows:
                facts = {"started": self.started.isoformat(timespec="seconds"), "reproduce": self.reproduce}
                file.write(json.dumps({"script": self.name, **facts, **machine(self.options)}) + "\n")
            file.write(json.dumps(row) + "\n")
        self.rows.append(row)

    def heading(self):
        """The command that makes the table below it."""
        return f"```sh\n{self.reproduce}\n```\n"


def described_parser(name, description, epilog):
    """A parser whose --help shows both texts as they are written."""
    return argparse.ArgumentParser(prog=f"benches/{name}", description=description, epilog=epilog,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)


def add_rounds(parser, usual, quick):
    """The option --rounds; how many rounds there are then is `Run.rounds`."""
    parser.add_argument("--rounds", type=positive, metavar="N", help=f"rounds [{usual}, {quick} with --quick]")
    parser.set_defaults(usual_rounds=(usual, quick))


def positive(text):
    """A whole number above 0, as an option's type."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def many(number, thing):
    """`1 round`, `7 rounds`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def rows_folder(quick):
    """Where raw rows go if nobody says otherwise."""
    return RUNS / "tmp" if quick else RUNS


def latest_rows(folder, name):
    """The rows of a script's latest run, the machine's facts first. A file holds the runs of a day."""
    files = sorted(folder.glob(f"????-??-??-{name}.jsonl"))
    if not files:
        raise Failure(f"no rows of benches/{name} in {folder}: run it first")
    rows = [json.loads(line) for line in files[-1].read_text().splitlines()]
    start = max((place for place, row in enumerate(rows) if "started" in row), default=0)
    return rows[start:]


def add_peer_options(parser):
    """The servers that Tollgate is compared with."""
    parser.add_argument("--redis-server", default="redis-server", help="the redis-server to compare with")
    parser.add_argument("--valkey-server", help="a valkey-server to use instead of the pinned one")
    parser.add_argument("--throttlecrab-server", help="a throttlecrab-server to use instead of the pinned one")
    parser.add_argument("--peers-folder", default=servers.default_folder(ROOT),
                        help="where pinned servers are kept [%(default)s]")


def main(body):
    """Runs a script's body on a new Run; ends with a word on stderr and exit code 1 where it fails."""
    try:
        body()
    except Failure as failure:
        sys.exit(f"{sys.argv[0]}: {failure}")
    except (KeyboardInterrupt, subprocess.TimeoutExpired) as stop:
        sys.exit(f"{sys.argv[0]}: stopped: {str(stop) or 'interrupted'}")


def interrupt(*_):
    """A SIGTERM ends the script as Ctrl-C does: through every `with`."""
    raise KeyboardInterrupt


def out_of_time(*_):
    raise Failure("the time of --seconds-max is over")


def default_tollgate():
    """Where cargo puts the release binary."""
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    return os.path.join(target, "release", "tollgate")


def find_program(name):
    """A program's path, or a failure that says what to do."""
    found = shutil.which(name)
    if found is None:
        hint = ": build it with cargo build --release" if name.endswith("tollgate") else ""
        raise Failure(f"{name} is not there{hint}")
    return found


def own_program(name):
    """A program of benches/programs, or a failure that says how it is built."""
    path = os.path.join(os.path.dirname(default_tollgate()), name)
    if not os.access(path, os.X_OK):
        raise Failure(f"{path} is not there: build it with cargo build --release -p tollgate-bench-programs")
    return path


def free_port():
    """A port on loopback that nobody has at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpus():
    """The CPUs that this process may use: server first, client second."""
    return sorted(os.sched_getaffinity(0))


def server_and_client_cpu():
    """One CPU each; with a single CPU both share it, and the figures say little."""
    allowed = cpus()
    return str(allowed[0]), allowed[min(1, len(allowed) - 1)]


def machine(options):
    """The facts that figures depend on."""
    model = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "cpu_model": model,
        "cpus": len(cpus()),
        "kernel": platform.release(),
        "tollgate_version": version(options.tollgate, "--version"),
        "redis_version": version(options.redis_server, "--version"),
        **servers.versions(options),
    }


def version(program, flag):
    """What a program says about itself, or none if it is not there."""
    try:
        done = subprocess.run([program, flag], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL)
        return done.stdout.strip() or None
    except OSError:
        return None


def median_of_ratios(pairs):
    """Median, least and largest of dividend / divisor over rounds, or None."""
    ratios = [dividend / divisor for dividend, divisor in pairs if dividend is not None and divisor]
    if not ratios:
        return None
    return statistics.median(ratios), min(ratios), max(ratios)


def ratio_cell(found):
    """A ratio with its spread."""
    if found is None:
        return "–"
    return f"{found[0]:.3f} ({found[1]:.3f} to {found[2]:.3f})"


def bar_cell(found, bar):
    """A bar and whether the median keeps it."""
    if bar is None:
        return ""
    if found is None:
        return f"at most {bar:.3g}"
    return f"at most {bar:.3g}: {'kept' if found[0] <= bar else 'missed'}"


def limit_cell(value, bar, unit=""):
    """A bar on a plain figure and whether it is kept."""
    if bar is None:
        return ""
    return f"at most {bar:,}{' ' if unit else ''}{unit}: {'kept' if value <= bar else 'missed'}"


def table(header, rows):
    """A Markdown table; all columns but the first are aligned right."""
    lines = ["| " + " | ".join(header) + " |", "|---" + "|---:" * (len(header) - 1) + "|"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def progress(text):
    """What the script is at, on stderr."""
    print(text, file=sys.stderr, flush=True)
