"""The sweep's findings on this machine, by its program."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from multiprocessing import shared_memory

from impi.lab.backends.lifecycle import residue_program
from impi.lab.backends.lifecycle.residue_program import Spec

OURS = "/dev/shm/impilab-test-"


def sweep(spec: Spec) -> list[str]:
    """Its findings without segments of others: other tests' jobs come and go meanwhile."""
    return [
        line
        for line in residue_program.sweep(spec)
        if not line.startswith("segment ") or line.startswith(f"segment {OURS}")
    ]


def test_nothing(spec: Spec) -> None:
    assert sweep(spec) == []


def test_a_process(spec: Spec, marked: subprocess.Popen[bytes]) -> None:
    (found,) = sweep(spec)
    assert found.startswith(f"process {marked.pid} {sys.executable} -c import time")
    assert sweep({**spec, "spare": [sys.executable]}) == []
    assert sweep({**spec, "uid": os.getuid() + 1}) == []


def test_a_listener(spec: Spec) -> None:
    with socket.create_server(("127.126.3.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert sweep(spec) == [f"listener 127.126.3.1 port {port}"]
        assert sweep({**spec, "ports": [port]}) == []
        assert sweep({**spec, "prefix": "127.125."}) == []
    assert sweep(spec) == []


def test_a_listener_of_another_lab_or_user_is_theirs(spec: Spec, mark: str) -> None:
    name, _, value = mark.partition("=")
    program = (
        "import socket, time\n"
        "listener = socket.create_server(('127.126.3.2', 0))\n"
        "print(listener.getsockname()[1], flush=True)\n"
        "time.sleep(600)"
    )
    argv = [sys.executable, "-c", program]
    for lab, found in (("another", 0), (value, 1)):
        with subprocess.Popen(argv, env={name: lab}, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            seen, of_others = sweep(spec), sweep({**spec, "uid": os.getuid() + 1})
            process.kill()
        assert [line for line in seen if line.startswith("listener ")] == [
            f"listener 127.126.3.2 port {port}"
        ] * found
        assert of_others == []


def test_listeners_on_every_address_and_on_ipv6(spec: Spec) -> None:
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
        socket.create_server(("0.0.0.0", 0)) as four,
    ):
        found = sweep({**spec, "prefix": ""})
        assert f"listener ::1 port {six.getsockname()[1]}" in found
        assert f"listener 0.0.0.0 port {four.getsockname()[1]}" in found


def test_a_segment_counts_unless_somebody_else_uses_it(spec: Spec) -> None:
    name = f"impilab-test-{secrets.token_hex(8)}"
    segment = shared_memory.SharedMemory(name=name, create=True, size=4096)
    try:
        # Mapped by this process, which has no mark.
        assert f"segment /dev/shm/{name}" not in sweep(spec)
        segment.close()
        assert f"segment /dev/shm/{name}" in sweep(spec)
        assert f"segment /dev/shm/{name}" not in sweep(
            {**spec, "known": [*spec["known"], name]}
        )
        assert f"segment /dev/shm/{name}" not in sweep(
            {**spec, "others": [OURS.removeprefix("/dev/shm/")]}
        )
    finally:
        segment.unlink()


def test_files_of_the_job_are_found_in_its_folders(spec, tmp_path):
    for name in ("left", "impilab-run"):
        (tmp_path / name).touch()
    spec["folders"] = [str(tmp_path)]
    assert sweep(spec) == [f"file {tmp_path}/left"]
    spec["uid"] += 1
    assert sweep(spec) == []


def test_what_somebody_starts_from_outside_is_no_leftover(monkeypatch):
    parents = {1: 0, 20: 1, 21: 20, 30: 0, 31: 30}
    monkeypatch.setattr(
        residue_program,
        "_read",
        lambda path: (
            b"%s (x y) S %d"
            % (path.split("/")[2].encode(), parents[int(path.split("/")[2])])
        ),
    )
    assert [pid for pid in parents if residue_program._of_a_visitor(pid)] == [30, 31]
