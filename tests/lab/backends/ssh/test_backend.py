"""Cells on containers as existing hosts, with captures by what their user cannot signal."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from docker.models.containers import Container
from lies import SENDS_NOTHING

from impi.base.errors import LabError
from impi.base.remote.ssh import Key, new_key
from impi.cli.impilab import main
from impi.lab.backends.docker.container_contents import contents
from impi.lab.backends.docker.engine import connect
from impi.lab.backends.docker.images.node_images import Images
from impi.lab.backends.ssh.backend import SshBackend
from impi.lab.cases import CASES
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import judge_cell

pytestmark = [pytest.mark.docker, pytest.mark.proof]

DEADLINE_S = 30.0
LIMITS = Limits(server=20, start=60, cell=60, grace=2)
RIGHTS = ("NET_RAW", "SETUID", "SETGID")
AS_ROOT = "int setuid(), setgid(), execvp(); int main(int c, char **v) { setgid(0); setuid(0); execvp(v[1], v + 1); }"
"""A stand-in for sudo, so that you need not install it."""
CAPTURE = "/usr/local/bin/as-root /usr/bin/tcpdump"
HAS = {"alpha": "mpich = '/opt/mpi/mpich'", "beta": "pure = ''", "gamma": "pure = ''"}


@dataclass(frozen=True)
class Hosts:
    """Containers that no lab has made."""

    containers: dict[str, Container]
    key: Key
    host_key: Key

    def file(self, folder: Path, *captured: str) -> Path:
        (key := folder / "key").write_text(self.key.private)
        rows = ["ports = '20000-20099'"]
        for name, container in self.containers.items():
            address = container.attrs["NetworkSettings"]["IPAddress"]
            rows.append(
                f"[hosts.{name}]\naddress = '{address}'\nssh = '{address}:2222'\nuser = 'mpi'\nkey = '{key}'\n"
                f"host_key = '{self.host_key.public}'\npython = '/opt/impi/venv/bin/python'\n"
                f"vendors = {{ {HAS[name]} }}\n"
                + (f"capture = '{CAPTURE}'\n" if name in captured else "")
            )
        (path := folder / "hosts.toml").write_text("\n".join(rows))
        return path

    def tcpdumps(self) -> list[str]:
        return [
            name
            for name, each in self.containers.items()
            if each.exec_run(["pgrep", "-x", "tcpdump"]).output
        ]

    def left(self) -> list[str]:
        folders = [
            name
            for name, each in self.containers.items()
            if b"impilab-" in each.exec_run(["ls", "/tmp"]).output
        ]
        return [*self.tcpdumps(), *folders]

    def until_clean(self) -> None:
        until = time.monotonic() + DEADLINE_S
        while left := self.left():
            assert time.monotonic() < until, left
            time.sleep(0.1)


def program() -> bytes:
    """A tar with the text of a program, for its compiler in the container."""
    buffer, text = io.BytesIO(), AS_ROOT.encode()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo("as-root.c")
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    try:
        client = connect()
    except LabError as error:
        pytest.skip(f"no container engine answers: {error}")
    images = Images(client).ensure(["pure", "mpich"])
    found = Hosts({}, new_key(), new_key())
    try:
        for name, has in HAS.items():
            container = found.containers[name] = client.containers.create(
                images["mpich" if "mpich" in has else "pure"],
                ["/usr/sbin/sshd", "-D", "-e", "-f", "/opt/impi/sshd_config"],
                user="mpi",
                init=True,
                cap_drop=["ALL"],
                cap_add=[*RIGHTS],
            )
            container.put_archive("/", contents(found.key, found.host_key, {}))
            container.put_archive("/usr/local/bin", program())
            container.start()
            build = (
                "cd /usr/local/bin && gcc -w as-root.c -o as-root && chmod 4755 as-root"
            )
            done = container.exec_run(["sh", "-c", build], user="0")
            assert done.exit_code == 0, done.output
            container.reload()
        yield found
    finally:
        for container in found.containers.values():
            container.remove(force=True, v=True)


def records(runs: Path) -> list[dict[str, object]]:
    [path] = runs.glob("*-*/results.json")
    cells: list[dict[str, object]] = json.loads(path.read_text())["cells"]
    return cells


def test_cells_pass_in_full_where_all_hosts_capture(
    hosts: Hosts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backend, runs = f"ssh:{hosts.file(tmp_path, *HAS)}", tmp_path / "runs"
    assert main(["doctor", "--backend", backend]) == 0
    assert "ok   beta: capture: " in capsys.readouterr().out
    cells = ["p2p.ring/mpich+pure/1x2+1x2", "coll.all/pure+mpich/1x2+1x2"]
    code = main(["run", "--backend", backend, "--runs", str(runs), *cells])
    out = capsys.readouterr().out
    assert code == 0, out
    assert "self-reported" not in out
    for record in records(runs):
        assert (record["result"], record["self_reported"], record["unseen"]) == (
            "pass",
            False,
            [],
        )
    hosts.until_clean()


def test_the_hosts_that_could_not_be_seen_are_named(
    hosts: Hosts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, runs = hosts.file(tmp_path, "alpha", "gamma"), tmp_path / "runs"
    code = main(
        [
            "run",
            "--backend",
            f"ssh:{path}",
            "--runs",
            str(runs),
            "p2p.ring/mpich+pure/1x2+1x2",
        ]
    )
    out = capsys.readouterr().out
    assert code == 0, out
    assert (
        "self-reported: packets of beta were not captured, so the lab has not seen all messages"
        in out
    )
    [record] = records(runs)
    assert (record["self_reported"], record["unseen"]) == (True, ["beta"])
    assert sorted(each.name for each in runs.glob("*-*/cells/*/*.pcap")) == [
        "c0n0.pcap",
        "server.pcap",
    ]
    hosts.until_clean()


def test_what_only_captures_can_see_is_seen(hosts: Hosts, tmp_path: Path) -> None:
    cell = Cell(CASES["p2p.ring"], ("pure", "mpich"), parse_topology("1x2+1x2"))
    lab = SshBackend(str(hosts.file(tmp_path, *HAS))).open(
        cell.vendors, cell.topology, run="captured"
    )
    try:
        seen = run_cell(
            prepare(lab, "captured"), cell, LIMITS, threading.Event(), SENDS_NOTHING
        )
    finally:
        lab.close()
    verdict = judge_cell(cell, seen)
    assert (verdict.outcome, verdict.phase) == ("fail", "case"), verdict.reason
    assert [item.name for item in verdict.items if not item.ok] == ["traffic.crossing"]
    hosts.until_clean()


KILLED = """
import sys, time
from impi.lab.backends.ssh.backend import SshBackend
from impi.lab.nodes.topology import parse_topology
lab = SshBackend(sys.argv[1]).open(["pure", "mpich"], parse_topology("1x1+1x1"), run="killed")
lab.begin_capture()
print("begun", flush=True)
time.sleep(600)
"""


def test_nothing_is_left_of_an_opener_that_is_killed(
    hosts: Hosts, tmp_path: Path
) -> None:
    argv = [sys.executable, "-c", KILLED, str(hosts.file(tmp_path, *HAS))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as opener:
        assert opener.stdout is not None
        assert opener.stdout.readline() == b"begun\n"
        assert hosts.tcpdumps() == ["alpha", "beta", "gamma"]
        told = hosts.containers["alpha"].exec_run(
            ["pkill", "-x", "tcpdump"], user="mpi"
        )
        assert b"not permitted" in told.output
        opener.kill()
    hosts.until_clean()


def test_nothing_is_left_where_the_program_around_tcpdump_is_killed(
    hosts: Hosts, tmp_path: Path
) -> None:
    lab = SshBackend(str(hosts.file(tmp_path, *HAS))).open(
        ["pure", "mpich"], parse_topology("1x1+1x1"), run="killed"
    )
    try:
        lab.begin_capture()
        for container in hosts.containers.values():
            # The one with a terminal's other end: the parent of tcpdump.
            kill = "kill -KILL $(ps -o ppid= -p $(pgrep -x tcpdump))"
            assert container.exec_run(["sh", "-c", kill], user="mpi").exit_code == 0
        until = time.monotonic() + DEADLINE_S
        while hosts.tcpdumps():
            assert time.monotonic() < until
            time.sleep(0.1)
        with pytest.raises(LabError, match=r"host (alpha|beta|gamma): "):
            lab.end_capture()
    finally:
        lab.close()
    hosts.until_clean()


def test_a_host_without_the_right_is_named(hosts: Hosts, tmp_path: Path) -> None:
    path = hosts.file(tmp_path, *HAS)
    path.write_text(path.read_text().replace(CAPTURE, "tcpdump"))
    lab = SshBackend(str(path)).open(
        ["pure", "mpich"], parse_topology("1x1+1x1"), run="refused"
    )
    try:
        with pytest.raises(
            LabError,
            match=r"host \w+: .*tcpdump said: .*permi.*'tcpdump -i any' must work there",
        ):
            lab.begin_capture()
    finally:
        lab.close()
    hosts.until_clean()
