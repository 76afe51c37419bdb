"""The doctor of existing hosts: what each has, and the ways between them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sshd_thread import Sshd, file_of

from impi.cli.impilab import main
from impi.lab.backends.ssh.host_checks import between, examine
from impi.lab.backends.ssh.hosts_file import HostsFile, read_hosts

TWO = ("here", "there")


def told(sshd: Sshd, folder: Path, **more: str) -> dict[str, tuple[bool, str]]:
    file = read_hosts(file_of(sshd, folder, names=TWO, **more))
    return {each.subject: (each.ok, each.detail) for each in examine(file)}


def test_the_doctor_looks_at_hosts_and_at_the_ways_between_them(
    sshd: Sshd, tmp_path: Path
) -> None:
    found = told(sshd, tmp_path, more="vendors = { pure = '', mpich = '/no/mpich' }")
    assert found["here"][0]
    assert (
        f"Python {sys.version_info.major}.{sys.version_info.minor}" in found["here"][1]
    )
    assert found["there: mpich"] == (
        False,
        "/no/mpich/bin/mpiexec is not there, or no program",
    )
    assert found["here to there"][0]
    assert found["here to there"][1].startswith("127.0.0.3, port ")
    assert found["there to here"][0]


def test_the_doctor_of_hosts_that_cannot_be_used(sshd: Sshd, tmp_path: Path) -> None:
    found = told(sshd, tmp_path, python="/no/python")
    assert found["here"] == (False, "/no/python does not run there")
    assert not found["here to there"][0]


def ways(sshd: Sshd, folder: Path, change: tuple[str, str] = ("", "")) -> str:
    path = file_of(sshd, folder, names=TWO)
    path.write_text(path.read_text().replace(*change))
    file: HostsFile = read_hosts(path)
    return " ".join(
        f"{each.ok} {each.detail}" for each in between(file, "here", "there")
    )


def test_one_way_and_what_blocks_it(sshd: Sshd, tmp_path: Path) -> None:
    assert ways(sshd, tmp_path).endswith("connected")
    assert "nothing can listen at 192.0.2.7: " in ways(
        sshd, tmp_path, ("'127.0.0.3'", "'192.0.2.7'")
    )
    assert "Cannot assign requested address" in ways(
        sshd, tmp_path, ("'127.0.0.2'", "'192.0.2.7'")
    )


def test_doctor_of_the_command_line(
    sshd: Sshd, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = f"ssh:{file_of(sshd, tmp_path, names=TWO)}"
    assert (
        main(["doctor", "--backend", backend, "--from", "here", "--to", "there"]) == 0
    )
    assert capsys.readouterr().out.startswith("ok   here to there: 127.0.0.3, port ")
    assert main(["doctor", "--backend", backend, "--from", "here"]) == 4
    assert "--from A --to B names two hosts of a file" in capsys.readouterr().err
    assert (
        main(["doctor", "--backend", backend, "--from", "here", "--to", "nowhere"]) == 4
    )
    assert "there is no host 'nowhere'" in capsys.readouterr().err
