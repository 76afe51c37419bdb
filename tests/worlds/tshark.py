"""Runs tshark with our dissector."""

from __future__ import annotations

import ipaddress
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from impi.cli.decode import LUA
from impi.protocol.wire import Header, PacketType

DEADLINE_S = 120.0
BETWEEN = ";"
LUA_FIELDS = [
    *(
        "pk_type",
        "pk_len",
        "src",
        "src_pid",
        "dest",
        "dest_pid",
        "srqid",
        "drqid",
        "msglen",
        "lsrank",
    ),
    *("tag", "cid", "seqnum", "count", "dtype", "reserved"),
]

Row = tuple[Header, bytes]


@dataclass(frozen=True)
class Frame:
    """The values of one frame, by field; several where several packets end in it."""

    values: dict[str, list[str]]

    def __getitem__(self, name: str) -> list[str]:
        return self.values[name]


def run_tshark(*argv: str) -> str:
    """Return the output of tshark; skips where it is missing."""
    program = shutil.which("tshark")
    if program is None:
        pytest.skip("tshark is not installed: apt-get install tshark")
    # The ports of a job may be anybody's, so ours is asked before the owners of ports.
    argv = (
        program,
        "-o",
        "tcp.try_heuristic_first:TRUE",
        "-X",
        f"lua_script:{LUA}",
        "-n",
        *argv,
    )
    ended = subprocess.run(
        argv, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "Lua" not in ended.stderr, ended.stderr
    assert "Lua Error" not in ended.stdout, ended.stdout
    return ended.stdout


def frames(
    capture: Path, names: list[str], *, only: str = "impi", twice: bool = False
) -> list[Frame]:
    """The values of these fields in all frames that end an IMPI packet or command."""
    fields = [part for name in names for part in ("-e", name)]
    shape = [
        "-T",
        "fields",
        "-E",
        "separator=/t",
        "-E",
        "occurrence=a",
        "-E",
        f"aggregator={BETWEEN}",
    ]
    out = run_tshark(
        *(["-2"] if twice else []), "-r", str(capture), "-Y", only, *shape, *fields
    )
    found = []
    for line in out.splitlines():
        parts = line.split("\t")
        found.append(
            Frame(
                {
                    n: v.split(BETWEEN) if v else []
                    for n, v in zip(names, parts, strict=True)
                }
            )
        )
    return found


def by_lua(
    path: Path, port: int, *, only: str = "impi", twice: bool = False
) -> dict[bool, list[Row]]:
    """A channel's packets in tshark, by its opener (True) and its accepter with that port."""
    found: dict[bool, list[Row]] = {True: [], False: []}
    names = [f"impi.{name}" for name in LUA_FIELDS]
    for frame in frames(
        path,
        ["tcp.dstport", "impi.data", *names],
        only=f"impi.pk_type && {only}",
        twice=twice,
    ):
        data = [bytes.fromhex(d) for d in frame["impi.data"]]
        for values in zip(*(frame[name] for name in names), strict=True):
            number = {
                n: int(v, 0)
                for n, v in zip(LUA_FIELDS, values, strict=True)
                if n not in ("src", "dest")
            }
            at = LUA_FIELDS.index
            source, dest = (
                ipaddress.IPv6Address(values[at(end)]).packed for end in ("src", "dest")
            )
            rest = [number[name] for name in LUA_FIELDS[6:]]
            ends = (source, number["src_pid"], dest, number["dest_pid"])
            header = Header(number["pk_type"], number["pk_len"], *ends, *rest)
            carries = (
                header.pk_type in (PacketType.DATA, PacketType.DATASYNC)
                and header.pk_len > 0
            )
            found[frame["tcp.dstport"] == [str(port)]].append(
                (header, data.pop(0) if carries else b"")
            )
        assert data == []
    return found
