"""Edited sources reach a node that runs."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

import pytest

from impi.base.errors import LabError
from impi.base.remote.ssh import Connection
from impi.lab.backends import choose_backend
from impi.lab.backends.lifecycle.cleanup import remove_lab
from impi.lab.backends.source_sync import source_files, sync
from impi.lab.nodes.container_node import SOURCES
from impi.lab.nodes.interface import run_on
from impi.lab.nodes.topology import parse_topology

DEADLINE_S = 60


class Here:
    """A connection to this machine, below a folder that stands for the node's root."""

    def __init__(self) -> None:
        self.calls = 0

    def execute(self, argv, *, stdin=b"", timeout_s=0.0) -> tuple[int, bytes]:
        self.calls += 1
        done = subprocess.run(
            argv, input=stdin, capture_output=True, timeout=DEADLINE_S, check=False
        )
        return done.returncode, done.stdout


def put(connection: Here, root: Path, **files: str) -> int:
    named = {
        f"{root}/{name.replace('__', '/')}.py": text.encode()
        for name, text in files.items()
    }
    return sync("here", cast(Connection, connection), sys.executable, str(root), named)


def test_only_what_has_changed_is_sent(tmp_path):
    here = Here()
    root = tmp_path / "src"
    assert put(here, root, one="a = 1\n", deep__two="b = 2\n") == 2
    here.calls = 0
    assert put(here, root, one="a = 1\n", deep__two="b = 2\n") == 0
    assert here.calls == 1
    assert put(here, root, one="a = 3\n") == 2
    assert (root / "one.py").read_text() == "a = 3\n"
    assert not (root / "deep/two.py").exists()


def test_compiled_text_of_the_old_source_is_not_used(tmp_path):
    """Same size, same second: Python itself would not notice."""
    here, root = Here(), tmp_path
    assert put(here, root, one="print(1)\n") == 1
    now = int(time.time()) + 1  # as if the edit came in the same second
    os.utime(root / "one.py", (now, now))
    py_compile.compile(str(root / "one.py"))
    os.utime(root / "one.py", (now, now))
    assert put(here, root, one="print(2)\n") == 1
    os.utime(root / "one.py", (now, now))
    done = subprocess.run(
        [sys.executable, "-c", "import one"], cwd=root, capture_output=True, check=True
    )
    assert done.stdout == b"2\n"


def test_a_thousand_long_paths_are_sent(tmp_path):
    root = tmp_path / "src"
    assert (
        put(Here(), root, **{f"{'long' * 40}{number}": "" for number in range(1000)})
        == 1000
    )
    assert len(list(root.iterdir())) == 1000


def test_a_node_that_refuses_is_the_labs_fault(tmp_path):
    (tmp_path / "one.py").mkdir()
    with pytest.raises(LabError, match="1 changed sources cannot be written"):
        put(Here(), tmp_path, one="x = 1\n")


@pytest.mark.slow
@pytest.mark.docker
def test_an_edit_reaches_containers_that_run(monkeypatch):
    try:
        backend = choose_backend("docker")
    except LabError as error:
        pytest.skip(f"this needs a container engine that answers: {error}")
    backend.prepare(["pure"])
    lab = backend.open(["pure", "pure"], parse_topology("2x1+1x1"), run="sync")
    try:
        before = source_files(SOURCES)
        path = f"{SOURCES}/impi/base/errors.py"
        edited = {**before, path: before[path] + b"\nEDITED = True\n"}
        argv = [
            lab.access.python,
            "-c",
            "import impi.base.errors; print(getattr(impi.base.errors, 'EDITED', False))",
        ]
        env = lab.access.environment["c0n0"]
        nodes = [lab.server, *(node for nodes in lab.clients for node in nodes)]
        assert [run_on(node, argv, env=env).stdout for node in nodes] == [
            b"False\n"
        ] * 4
        # Two short requests a node, for any size: tenths of a second if not busy.
        asked = []
        execute = Connection.execute
        monkeypatch.setattr(
            Connection,
            "execute",
            lambda self, argv, **more: (
                asked.append(more) or execute(self, argv, **more)
            ),
        )
        for node in nodes:
            assert (
                sync(node.name, node.connection, lab.access.python, SOURCES, edited)  # type: ignore[attr-defined]
                == 1
            )
        assert len(asked) == 2 * len(nodes)
        assert sum(len(more.get("stdin", b"")) for more in asked) < 32768 * len(nodes)
        assert [run_on(node, argv, env=env).stdout for node in nodes] == [b"True\n"] * 4
        monkeypatch.setattr(
            "impi.lab.backends.docker.container_lab.source_files", lambda _: before
        )
        lab.hold()
        lab.close()
        lab = backend.attach(lab.access)
        nodes = [lab.server, *(node for nodes in lab.clients for node in nodes)]
        assert [run_on(node, argv, env=env).stdout for node in nodes] == [
            b"False\n"
        ] * 4
        lab.begin_capture()
        assert len(lab.end_capture()) == 4
        assert lab.residue() == []
    finally:
        lab.close()
        remove_lab(backend.inventory, lab.access.lab)
