"""Captures on an existing host: this machine, by an SSH server in a thread."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import time
from pathlib import Path

import pytest
from sshd_thread import Sshd

from impi.base.errors import LabError
from impi.lab.backends.ssh.backend import SshBackend
from impi.lab.backends.ssh.host_capture import capture_filter, turns
from impi.lab.backends.ssh.host_checks import examine
from impi.lab.backends.ssh.hosts_file import Host, read_hosts
from impi.lab.dissect import Segment, read_pcap
from impi.lab.nodes.interface import Lab
from impi.lab.nodes.topology import parse_topology

DEADLINE_S = 30.0
ONE = parse_topology("1x2")

captures_here = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("tcpdump") is None,
    reason="root's tcpdump captures on loopback",
)


def file_of(sshd: Sshd, folder: Path, *commands: str) -> Path:
    """A file of hosts of this machine, each with its command for captures; empty: none."""
    (key := folder / "key").write_text(sshd.user_key.private)
    key.chmod(0o600)
    rows = [
        f"[hosts.h{number}]\naddress = '127.0.7.{number}'\nssh = '127.0.0.1:{sshd.port}'\nuser = 'tester'\n"
        f"key = '{key}'\nhost_key = '{sshd.host_key.public}'\npython = '{sys.executable}'\ncapture = '{command}'\n"
        for number, command in enumerate(commands, start=1)
    ]
    (path := folder / "hosts.toml").write_text(
        "\n".join([f"folder = '{folder}'", *rows])
    )
    return path


def opened(sshd: Sshd, folder: Path, command: str) -> Lab:
    """A lab whose two nodes are one host: its folder is in this machine's file system."""
    return SshBackend(str(file_of(sshd, folder, command))).open(
        ["pure"], ONE, run="captures"
    )


def tcpdumps(folder: Path) -> list[int]:
    """Those that write below a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (path / "comm").read_text() == "tcpdump\n" and str(folder) in str(
                (path / "fd/1").readlink()
            ):
                found.append(int(path.name))
    return found


def until_nothing(folder: Path) -> None:
    until = time.monotonic() + DEADLINE_S
    while left := [*tcpdumps(folder), *folder.glob("impilab-*")]:
        assert time.monotonic() < until, left
        time.sleep(0.02)


def talk(source: str, dest: str, octets: bytes) -> None:
    """Send octets over TCP from one address of this machine to another."""
    with (
        socket.create_server(
            (dest, 0), family=socket.AF_INET6 if ":" in dest else socket.AF_INET
        ) as listener,
        socket.create_connection(
            listener.getsockname()[:2], DEADLINE_S, (source, 0)
        ) as one,
        listener.accept()[0] as other,
    ):
        one.sendall(octets)
        assert other.recv(100) == octets


# the filter


def host(number: int, port: int = 22, address: str = "") -> Host:
    address = address or f"192.0.2.{number}"
    return Host(
        name=f"h{number}",
        address=address,
        ssh=address,
        port=port,
        user="",
        key="",
        host_key="",
        python="",
        vendors={},
    )


def test_the_filter_names_both_ends_and_leaves_ssh_out() -> None:
    assert capture_filter([host(1), host(2, 2222)]) == (
        "(tcp and not port 22 and not (src host 192.0.2.2 and src port 2222) and not (dst host 192.0.2.2 and dst port"
        " 2222) or udp dst port 9) and (src host 192.0.2.1 or src host 192.0.2.2) and (dst host 192.0.2.1 or dst host"
        " 192.0.2.2)"
    )


def test_the_ports_of_the_file_narrow_the_filter() -> None:
    assert capture_filter([host(1)], "20000-20100").startswith(
        "(tcp portrange 20000-20100 and not port 22"
    )


# the program on the host


# labs


def payloads(pcap: bytes) -> list[bytes]:
    return [item.payload for item in read_pcap(pcap) if item.payload]


@captures_here
def test_a_capture_has_the_labs_traffic_between_its_canaries_and_no_other(
    sshd: Sshd, tmp_path: Path
) -> None:
    lab = opened(sshd, tmp_path, "tcpdump")
    try:
        assert (lab.captures, lab.unseen) == (True, ())
        talk("127.0.7.1", "127.0.7.1", b"too early")
        lab.begin_capture()
        talk("127.0.7.1", "127.0.7.1", b"of the lab")
        talk("127.0.7.1", "127.0.8.1", b"to a stranger")
        talk("127.0.8.1", "127.0.7.1", b"from a stranger")
        found = {capture.node: capture for capture in lab.end_capture()}
        talk("127.0.7.1", "127.0.7.1", b"too late")
        assert sorted(found) == ["c0n0", "server"]
        for capture in found.values():
            assert (
                payloads(capture.pcap)[0],
                payloads(capture.pcap)[-1],
            ) == capture.canaries
            mine = [
                item
                for item in read_pcap(capture.pcap)
                if isinstance(item, Segment) and item.payload
            ]
            assert [item.payload for item in mine] == [b"of the lab"]
            others = [
                item
                for item in read_pcap(capture.pcap)
                if not isinstance(item, Segment)
            ]
            assert all(item.payload.startswith(b"impilab canary") for item in others)
            assert capture.dropped == 0
            assert capture.ahead_s[0] <= 0 <= capture.ahead_s[1]
        assert lab.residue() == []
        lab.begin_capture()
        assert len(lab.end_capture()) == 2
        assert lab.residue() == []
    finally:
        lab.close()
    until_nothing(tmp_path)


@captures_here
def test_a_capture_of_an_ipv6_address(sshd: Sshd, tmp_path: Path) -> None:
    path = file_of(sshd, tmp_path, "tcpdump")
    path.write_text(path.read_text().replace("127.0.7.1", "::1"))
    lab = SshBackend(str(path)).open(["pure"], ONE, run="captures")
    try:
        lab.begin_capture()
        talk("::1", "::1", b"of the lab")
        talk("127.0.7.1", "127.0.7.1", b"of strangers")
        for capture in lab.end_capture():
            seen = payloads(capture.pcap)
            assert (seen[0], seen[-1]) == capture.canaries
            assert [each for each in seen if b"canary" not in each] == [b"of the lab"]
    finally:
        lab.close()


@captures_here
def test_one_captured_cell_at_a_time_has_a_host(sshd: Sshd, tmp_path: Path) -> None:
    lab = opened(sshd, tmp_path, "tcpdump")
    try:
        [turn] = turns([lab.clients[0][0].reached.host])  # type: ignore[attr-defined]
        for end in (lab.end_capture, lab.close):
            assert not turn.locked()
            lab.begin_capture()
            assert turn.locked()
            end()
        assert not turn.locked()
    finally:
        lab.close()


@captures_here
@pytest.mark.parametrize("how", ["closed", "lost"])
def test_a_capture_ends_with_the_lab(sshd: Sshd, tmp_path: Path, how: str) -> None:
    lab = opened(sshd, tmp_path, "tcpdump")
    try:
        lab.begin_capture()
        assert len(tcpdumps(tmp_path)) == 2
        sshd.drop() if how == "lost" else lab.close()
        until_nothing(tmp_path)
    finally:
        lab.close()


def test_a_host_without_a_capture_is_named(sshd: Sshd, tmp_path: Path) -> None:
    lab = opened(sshd, tmp_path, "")
    try:
        assert (lab.captures, lab.unseen) == (False, ("h1",))
        lab.begin_capture()
        assert lab.end_capture() == []
    finally:
        lab.close()


REFUSES = 'sh -c "echo sudo: a password is required >&2; exit 1"'


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (
            "no-tcpdump",
            r"host h1: tcpdump did not begin its file; tcpdump said: no-tcpdump: No such file or directory",
        ),
        (
            REFUSES,
            r"host h1: .* said: sudo: a password is required; '.*' must work there without a question",
        ),
    ],
)
def test_a_capture_that_cannot_begin_is_one_sentence(
    sshd: Sshd, tmp_path: Path, command: str, what: str
) -> None:
    lab = opened(sshd, tmp_path, command)
    try:
        with pytest.raises(
            LabError, match=f"{what}.*set capture in .*/hosts.toml, or leave it out$"
        ):
            lab.begin_capture()
        assert not any(turn.locked() for turn in turns([host(1, address="127.0.7.1")]))
        assert lab.end_capture() == []
        assert lab.residue() == []
    finally:
        lab.close()


def doctored(sshd: Sshd, folder: Path, *commands: str) -> dict[str, tuple[bool, str]]:
    findings = examine(read_hosts(file_of(sshd, folder, *commands)))
    return {each.subject: (each.ok, each.detail) for each in findings}


@captures_here
def test_the_doctor_captures(sshd: Sshd, tmp_path: Path) -> None:
    assert doctored(sshd, tmp_path, "tcpdump")["h1: capture"] == (
        True,
        "'tcpdump' works",
    )
    until_nothing(tmp_path)


def test_the_doctor_names_what_does_not_capture(sshd: Sshd, tmp_path: Path) -> None:
    found = doctored(sshd, tmp_path, "no-tcpdump", "")
    assert not found["h1: capture"][0]
    assert "no-tcpdump: No such file" in found["h1: capture"][1]
    assert "h2: capture" not in found
