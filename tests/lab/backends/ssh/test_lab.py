"""Labs on existing hosts: this machine by an SSH server in a thread, containers by theirs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sshd_thread import Sshd, file_of

from impi.base.errors import LabError
from impi.cli.impilab import main
from impi.lab.backends import choose_backend
from impi.lab.backends.ssh.backend import SshBackend
from impi.lab.nodes.interface import Lab, Terms, run_on
from impi.lab.nodes.topology import parse_topology

DEADLINE_S = 30.0
ONE = parse_topology("1x2")


@pytest.fixture
def lab(sshd: Sshd, tmp_path: Path) -> Iterator[Lab]:
    lab = SshBackend(str(file_of(sshd, tmp_path))).open(["pure"], ONE, run="hosts")
    yield lab
    lab.close()


def folders(path: Path) -> list[Path]:
    return list(path.glob("impilab-*"))


def until_gone(path: Path) -> None:
    until = time.monotonic() + DEADLINE_S
    while folders(path):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_nodes_have_the_sources_and_a_folder_while_the_lab_lives(
    lab: Lab, tmp_path: Path
) -> None:
    [[node]] = lab.clients
    assert lab.server.address == node.address == "127.0.0.2"
    code = "import impi, os; print(impi.__file__, os.environ['IMPILAB_LAB'], os.environ['TMPDIR'])"
    done = run_on(
        node, [lab.access.python, "-c", code], env=lab.access.environment["c0n0"]
    )
    [folder] = folders(tmp_path)
    place, name, temporary = done.stdout.decode().split()
    assert place == f"{folder}/src/impi/__init__.py"
    assert name == lab.access.lab
    assert temporary == f"{folder}/c0n0/tmp"
    node.write("deep/down", b"text")
    assert node.read("deep/down") == b"text"
    lab.close()
    until_gone(tmp_path)


def test_what_stays_of_a_cell_is_found_and_what_was_there_is_not(lab: Lab) -> None:
    [[node]] = lab.clients
    assert lab.residue() == []
    node.write("tmp/left", b"")
    command = node.start(["sleep", "600"])
    found = lab.residue()
    assert any("sleep 600" in line for line in found)
    assert any(line.endswith("/c0n0/tmp/left") for line in found)
    command.stop()


def test_a_lost_connection_leaves_nothing(lab: Lab, sshd: Sshd, tmp_path: Path) -> None:
    [[node]] = lab.clients
    command = node.start(["sleep", "600"])
    while not command.pid:
        time.sleep(0.01)
    sshd.drop()
    until_gone(tmp_path)
    assert not Path(f"/proc/{command.pid}").exists()


def test_such_a_lab_is_not_kept(lab: Lab) -> None:
    with pytest.raises(LabError, match="ends with its opener: leave out --keep"):
        lab.hold()
    assert lab.stacks({"c0n0": [1]}).notes == (
        "c0n0: no stacks from outside on an existing host",
    )
    assert (lab.captures, lab.end_capture(), lab.network) == (False, [], None)


def test_who_does_not_let_us_in_is_named_with_the_cure(
    sshd: Sshd, tmp_path: Path
) -> None:
    path = file_of(sshd, tmp_path)
    path.write_text(path.read_text().replace("'tester'", "'nobody'"))
    with pytest.raises(
        LabError,
        match=r"host here cannot be used: .*'ssh -p \d+ nobody@127.0.0.1 true' must work",
    ):
        SshBackend(str(path)).open(["pure"], ONE, run="hosts")
    (tmp_path / "key").write_text("no key")
    with pytest.raises(LabError, match=r"host here: key .*/key cannot be used"):
        SshBackend(str(path)).open(["pure"], ONE, run="hosts")
    assert folders(tmp_path) == []


def test_a_host_without_python_is_named(sshd: Sshd, tmp_path: Path) -> None:
    with pytest.raises(
        LabError,
        match=r"host here: /no/python does not start there: .*; set python in .*hosts\.toml",
    ):
        SshBackend(str(file_of(sshd, tmp_path, python="/no/python"))).open(
            ["pure"], ONE, run="hosts"
        )


# doctor


# Containers of another lab as hosts that exist


@pytest.mark.docker
@pytest.mark.proof
@pytest.mark.parametrize("six", [False, True], ids=["IPv4", "IPv6 only"])
def test_cells_of_three_vendors_pass_on_existing_hosts(
    six: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        docker = choose_backend("docker")
    except LabError as error:
        pytest.skip(f"no container engine answers: {error}")
    vendors = ["mpich", "openmpi", "pure"]
    docker.prepare(vendors)
    there = docker.open(
        vendors, parse_topology("1x1+1x1+1x1"), run="hosts", terms=Terms(six=six)
    )
    try:
        assert all((":" in node.address) is six for node in there.access.nodes.values())
        access = there.access
        (key := tmp_path / "key").write_text(access.private_key)
        has = {
            "c0n0": ", mpich = '/opt/mpi/mpich'",
            "c1n0": ", openmpi = '/opt/mpi/openmpi'",
        }
        rows = [
            f"[hosts.{name}]\naddress = '{node.address}'\nssh = '{node.host}:{node.port}'\nuser = '{access.user}'\n"
            f"key = '{key}'\nhost_key = '{access.host_key}'\npython = '{access.python}'\n"
            f"vendors = {{ pure = ''{has.get(name, '')} }}\n"
            for name, node in access.nodes.items()
        ]
        (path := tmp_path / "hosts.toml").write_text(
            "\n".join(["ports = '20000-20099'", *rows])
        )
        backend, runs = f"ssh:{path}", str(tmp_path / "runs")
        assert main(["doctor", "--backend", backend]) == 0
        cells = [
            "coll.all/mpich+openmpi/*",
            "shutdown.abort/pure+openmpi/*",
            "p2p.ring/pure+mpich/*",
        ]
        code = main(["run", "--backend", backend, "--runs", runs, *cells])
        out = capsys.readouterr().out
        assert code == 0, out
        assert "self-reported" in out
        nodes = [there.server, *(node for nodes in there.clients for node in nodes)]
        until = time.monotonic() + DEADLINE_S
        while any(b"impilab-" in run_on(node, ["ls", "/tmp"]).stdout for node in nodes):
            assert time.monotonic() < until
            time.sleep(0.1)
    finally:
        there.close()
