"""2000 connections held open at every door of a job, from 200 addresses: its result is the same.

The doors of `impi conform` get theirs, too: its verdicts are the same.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from queue import Empty, Queue
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).with_name("programs")
SECRET = {"IMPI_AUTH_SECRET": "correct horse battery"}
MOST_GROWTH_KB = 50_000
LIMIT_S = 150.0


@dataclass(frozen=True)
class Case:
    """A job of two clients with two ranks each, and the doors that it has."""

    vendor: str = "pure"
    options: Sequence[str] = ()
    server: Sequence[str] = ()
    relay: bool = False
    kind: str = "tree"
    """``alone``: of the impiruns only. What MPI libraries open is theirs."""
    held: int = 2000
    """Connections to each port."""
    before: int = 3
    """Ports before the procs begin: of the server, and of each impirun."""
    hosts: int = 2
    """Ports that procs of one client open."""
    port: int = 1
    """Ports that MPI_Open_port opens; none: the program meets nobody there, as with ``--tls``."""


CASES = {
    "procs": Case(),
    "tls": Case(server=("--tls",), port=0),
    "lazy": Case(options=("--lazy",)),
    "agents": Case(options=("--hosts", "client"), before=5, hosts=0),
    "relay": Case(relay=True, held=1000, before=3 + 1 + 4),
    "process manager": Case(vendor="mpich", kind="alone", before=5, hosts=0, port=0),
}


class Storm:
    """The stranger, and the ports that it holds."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._told: Queue[str] = Queue()
        self._ports: set[str] = set()
        self._process = process
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._told.put(line)

    def await_ports(self, count: int) -> int:
        """Return the number of ports that it holds: at least this."""
        while len(self._ports) < count:
            try:
                self._ports.add(self._told.get(timeout=LIMIT_S))
            except Empty:
                raise AssertionError(
                    f"it holds {len(self._ports)} ports of {count}"
                ) from None
        return len(self._ports)

    def close(self) -> None:
        self._process.kill()
        self._reader.join()


class Calm(Storm):
    """A storm without any connection."""

    def __init__(self) -> None:
        pass

    def await_ports(self, count: int) -> int:
        return count

    def close(self) -> None:
        pass


@contextmanager
def storm(case: Case) -> Iterator[Storm]:
    program = str(PROGRAMS / "holds_connections.py")
    command = [sys.executable, program, str(case.held), case.kind, str(os.getpid())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        found = Storm(process)
        try:
            yield found
        finally:
            found.close()


@dataclass
class Outcome:
    """How a job ended, and the most memory of each of its processes."""

    codes: list[int] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    said: str = ""
    sizes_kb: dict[str, int] = field(default_factory=dict)


class Job:
    def __init__(self, case: Case, folder: Path, stack: ExitStack) -> None:
        self.case, self.folder, self._stack = case, folder, stack
        self.parts: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        said = self._stack.enter_context((self.folder / f"said by {name}").open("w"))
        process = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "impi.cli.impirun", *arguments],
                env={**os.environ, **SECRET},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                cwd=ROOT,
            )
        )
        self._stack.callback(process.terminate)
        self.parts[name] = process
        return process

    def listening(self, name: str, *arguments: str) -> str:
        """Start a part that prints where it listens, and return that."""
        process = self.start(name, *arguments, "--interface", "127.0.0.1")
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def client(self, rank: int, where: str, *more: str) -> None:
        vendor = (
            "--vendor",
            self.case.vendor,
            "--interface",
            "127.0.0.1",
            *self.case.options,
            *more,
        )
        program = (
            str(PROGRAMS / "storm_program.py"),
            str(self.folder),
            str(rank),
            str(self.case.port),
        )
        self.start(
            f"client {rank}", "-client", str(rank), where, "-np", "2", *vendor, *program
        )

    def allow(self, step: str) -> None:
        (self.folder / step).touch()

    def sizes(self) -> dict[str, int]:
        found = {}
        for name, process in self.parts.items():
            status = Path(f"/proc/{process.pid}/status").read_text()
            found[name] = int(status.partition("VmHWM:")[2].split()[0])
        return found

    def end(self) -> Outcome:
        found = Outcome(sizes_kb=self.sizes())
        self.allow("meet")
        for name, process in self.parts.items():
            if name == "relay":
                process.terminate()
            out, _ = process.communicate(timeout=LIMIT_S)
            found.codes.append(process.returncode)
            for line in out.splitlines():
                result, size, kb = line.partition(" size ")
                if size:
                    found.results.append(result)
                    found.sizes_kb[" ".join(result.split()[:2])] = int(kb)
            found.said += (self.folder / f"said by {name}").read_text()
        found.results.sort()
        return found


def tell(folder: Path, error: BaseException | None) -> None:
    """Add what the parts of a job have said to an error."""
    if error is not None:
        for said in sorted(folder.glob("said by *")):
            error.add_note(f"{said.name}: {said.read_text()[-2000:]}")


def run(case: Case, folder: Path, weather: Storm) -> Outcome:
    """Let a job come about, door after door."""
    folder.mkdir()
    with ExitStack() as stack:
        stack.push(lambda _type, error, _trace: tell(folder, error))
        job = Job(case, folder, stack)
        where = job.listening("server", "-server", "2", *case.server)
        more: list[str] = []
        if case.relay:
            more = ["--relay", job.listening("relay", "-relay")]
        weather.await_ports(1 + case.relay)
        for rank in (0, 1):
            job.client(rank, where, *more)
        held = weather.await_ports(case.before)
        for rank in (0, 1):
            job.allow(f"begin {rank}")
            held = weather.await_ports(held + (0 if rank else case.hosts))
        weather.await_ports(held + case.port)
        return job.end()


@pytest.mark.proof
@pytest.mark.parametrize("name", CASES)
def test_a_job_in_a_storm_is_as_without(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    if case.vendor != "pure" and not (ROOT / ".mpi" / case.vendor).exists():
        pytest.skip(f"{case.vendor} is not in .mpi/{case.vendor}: run ci/vendors.sh")
    calm = run(case, tmp_path / "calm", Calm())
    assert calm.codes == ([0, 143, 0, 0] if case.relay else [0, 0, 0]), calm.said
    with storm(case) as weather:
        found = run(case, tmp_path / "storm", weather)
    assert found.codes == calm.codes, found.said
    assert found.results == calm.results
    assert len(found.results) == 4
    growth = {part: size - calm.sizes_kb[part] for part, size in found.sizes_kb.items()}
    print(f"{name}: grown by {growth} kB")
    assert max(growth.values()) < MOST_GROWTH_KB, growth
    assert len(found.said.splitlines()) < 1000


CONFORM = ("2.3/interpreter-1", "2.3/interpreter-3", "3.7.1/send-short")
HELD = 2000


@contextmanager
def conform_job(folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """A tester that judges impi; the client begins once the folder has a file ``begin``."""
    folder.mkdir()
    waits = f"while [ ! -e '{folder}/begin' ]; do sleep 0.05; done; exec \"$@\""
    client = f"{sys.executable} -m impi.cli.impirun -client {{client}} {{server}} -auth 1,0 -np {{np}} {{interpreter}}"
    command = [sys.executable, "-m", "impi.cli.impi", "conform", *CONFORM, *more]
    command += ["--client", f"sh -c {shlex.quote(waits)} sh {client}"]
    with (
        (folder / "said").open("w") as said,
        subprocess.Popen(
            command,
            env={**os.environ, "IMPI_AUTH_NONE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            cwd=ROOT,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()


def size_kb(process: subprocess.Popen[str]) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def conform(folder: Path, weather: Storm) -> tuple[int, list[str], int]:
    """Judge impi by some tests; return exit code, verdicts, and the most memory in kB."""
    with conform_job(folder) as process:
        weather.await_ports(1)
        (folder / "begin").touch()
        assert process.stdout is not None
        verdicts, size = [], 0
        for line in process.stdout:
            verdicts += [line.strip()] if line.strip().endswith(CONFORM) else []
            with suppress(OSError, IndexError):
                size = size_kb(process)
        code = process.wait(LIMIT_S)
    return code, sorted(verdicts), size


@pytest.mark.proof
def test_a_verdict_in_a_storm_is_as_without(tmp_path: Path) -> None:
    code, verdicts, size = conform(tmp_path / "calm", Calm())
    assert (code, [line.split()[0] for line in verdicts]) == (0, ["holds"] * 3)
    with storm(Case(kind="alone", held=HELD)) as weather:
        found = conform(tmp_path / "storm", weather)
    assert found[:2] == (code, verdicts), (tmp_path / "storm" / "said").read_text()
    print(f"impi conform: grown by {found[2] - size} kB")
    assert found[2] - size < MOST_GROWTH_KB


def ask(url: str, wish: object = None) -> str:
    """Ask a page as its user does, again and again while it is crowded; return its answer."""
    until = time.monotonic() + LIMIT_S
    while True:
        data = None if wish is None else json.dumps(wish).encode()
        request = Request(url, data, {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=LIMIT_S) as answer:
                return str(answer.read().decode())
        except HTTPError as error:
            # The answer to the same wish before has not come through
            assert "a run is under way" in error.read().decode()
            return ""
        except (OSError, HTTPException):
            assert time.monotonic() < until, url


def conform_by_page(folder: Path, weather: Storm) -> tuple[set[tuple[str, str]], int]:
    """Start the tests from the page of ``--web``; return verdicts, and the most memory in kB."""
    with conform_job(folder, "--web", "127.0.0.1:0") as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[3].rstrip(",")
        weather.await_ports(1)
        assert all(test in ask(url) for test in CONFORM)
        ask(f"{url}start", {"tests": CONFORM, "procs": 2})
        weather.await_ports(2)
        (folder / "begin").touch()
        until = time.monotonic() + LIMIT_S
        while (news := json.loads(ask(f"{url}news?run=1&since=0")))["running"]:
            assert time.monotonic() < until, news
            time.sleep(0.1)
        assert not news["trouble"], news
        return {(o["test"], o["verdict"]) for o in news["outcomes"]}, size_kb(process)


@pytest.mark.proof
def test_a_page_of_the_tester_in_a_storm_is_as_without(tmp_path: Path) -> None:
    verdicts, size = conform_by_page(tmp_path / "calm", Calm())
    assert verdicts == {(test, "holds") for test in CONFORM}
    with storm(Case(kind="alone", held=HELD)) as weather:
        found = conform_by_page(tmp_path / "storm", weather)
    assert found[0] == verdicts, (tmp_path / "storm" / "said").read_text()
    print(f"impi conform --web: grown by {found[1] - size} kB")
    assert found[1] - size < MOST_GROWTH_KB
