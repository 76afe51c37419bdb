"""A small cluster of Slurm in containers: a controller, and two partitions of two nodes."""

from __future__ import annotations

import io
import re
import tarfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from impi.base.manifests import manifest
from impi.lab.backends.docker.engine import connect
from impi.lab.backends.docker.images.node_images import Images

ROOT: Final = Path(__file__).parents[2]
NODES: Final = ("left1", "left2", "right1", "right2")
LIMIT_S: Final = 240.0
"""For a job, on a machine that others use, too."""
_HEAD: Final = "head"
_HOME: Final = "/home/mpi"
_OVER: Final = re.compile(r"JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)")
_POLL_S: Final = 0.5
_JOB: Final = """\
#!/bin/sh
#SBATCH --output=job.out --partition=left --nodes=2 --ntasks=3 --no-requeue
#SBATCH hetjob
#SBATCH --partition=right --nodes=2 --ntasks=3 --no-requeue
exec impirun -slurm {line}
"""
TASKS: Final = """\
#!/bin/sh
#SBATCH --output=job.out --partition=left --nodes=2 --ntasks=3 --time=3
export IMPI_AUTH_SECRET=0123456789abcdef
rm -f where
impirun -server 2 > where &
until [ -s where ]; do sleep 0.1; done
srun --overlap --mpi=pmi2 --ntasks=3 impirun -client 0 "$(cat where)" --launcher outer {line} &
impirun -client 1 "$(cat where)" {line}
code=$?
wait
exit $code
"""
"""A job of two clients: srun starts the procs of the first."""


@dataclass(frozen=True)
class Ended:
    """A job that is over."""

    state: str
    code: int
    output: str


class SlurmLab:
    """The containers of a cluster, by name."""

    def __init__(self, containers: dict[str, Any]) -> None:
        self.containers = containers

    def run(self, node: str, *argv: str, user: str = "mpi") -> str:
        """Return the output of a command on a node."""
        code, output = self.containers[node].exec_run(
            list(argv), user=user, workdir=_HOME
        )
        text = str(output.decode("utf-8", "replace"))
        assert code == 0, f"{argv} on {node}: {text}"
        return text

    def put(self, files: dict[str, str], nodes: tuple[str, ...] = NODES) -> None:
        """Write files into the users' folder."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, text in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode, entry.uid, entry.gid = (
                    len(text.encode()),
                    0o755,
                    1000,
                    1000,
                )
                tar.addfile(entry, io.BytesIO(text.encode()))
        for node in nodes:
            self.containers[node].put_archive(_HOME, buffer.getvalue())

    def submit(self, line: str, script: str = _JOB) -> str:
        """Submit a script with ``LINE``, by default ``impirun -slurm LINE``; return its number."""
        self.put({"job.sh": script.format(line=line)}, NODES[:1])
        self.run("left1", "rm", "-f", "job.out")
        return self.run("left1", "sbatch", "--parsable", "job.sh").strip()

    def output(self) -> str:
        """Return the output of the job so far."""
        return self.run("left1", "sh", "-c", "cat job.out 2>/dev/null || true")

    def wait(self, job: str) -> Ended:
        """Wait until the job is over."""
        until = time.monotonic() + LIMIT_S
        while not (
            over := _OVER.search(
                told := self.run("left1", "scontrol", "show", "job", job)
            )
        ):
            assert time.monotonic() < until, (
                f"the job runs after {LIMIT_S:g} s: {self.output()}"
            )
            time.sleep(_POLL_S)
        code = re.search(r"ExitCode=(\d+):", told)
        assert code
        return Ended(over[1], int(code[1]), self.output())

    def await_lines(self, word: str, count: int) -> None:
        """Wait until the job has printed a number of lines that begin with a word."""
        until = time.monotonic() + LIMIT_S
        while sum(line.startswith(word) for line in self.output().splitlines()) < count:
            assert time.monotonic() < until, self.output()
            time.sleep(_POLL_S)

    def left_over(self) -> list[str]:
        """Return what still runs of the user's on the nodes that live."""
        listed = (
            "ps -u mpi -o stat=,args= | grep -v '^Z' | grep -v 'ps -u\\|grep' || true"
        )
        live = [node for node in NODES if self._runs(node)]
        return [
            line
            for node in live
            for line in self.run(node, "sh", "-c", listed).splitlines()
        ]

    def _runs(self, node: str) -> bool:
        self.containers[node].reload()
        return bool(self.containers[node].status == "running")


def _image(client: Any) -> str:
    images = Images(client)
    base = images.ensure(["openmpi"])["openmpi"]
    folder, mpich = ROOT / "images/slurm", ROOT / "images/mpich"
    context = {
        path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()
    }
    context |= {
        f"mpich-{name}": (mpich / name).read_bytes()
        for name in ("install", "locked.txt")
    }
    context["mpich-version"] = manifest("mpich").version.encode()
    return images.make("slurm", context, base)


def _sources() -> bytes:
    """A tar of the files that impirun needs on a node."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        # Files that are compiled are in it, too, which takes a crowded machine minutes
        tar.add(ROOT / "impi", "impi")
        for path in (ROOT / "images").glob("*/*.toml"):
            tar.add(path, str(path.relative_to(ROOT)))
    return buffer.getvalue()


@contextmanager
def opened() -> Iterator[SlurmLab]:
    """Open a cluster whose nodes are idle; nothing of it stays."""
    client = connect()
    image = _image(client)
    name = f"impilab-slurm-{uuid.uuid4().hex[:8]}"
    network = client.networks.create(name)
    containers: dict[str, Any] = {}
    try:
        sources = _sources()
        for node in (_HEAD, *NODES):
            daemon = "slurmctld" if node == _HEAD else "slurmd"
            containers[node] = client.containers.create(
                image,
                ["/opt/impi/slurm/daemon", daemon, "-D"],
                name=f"{name}-{node}",
                hostname=node,
                init=True,
                network=name,
                networking_config={
                    name: client.api.create_endpoint_config(aliases=[node])
                },
            )
            containers[node].start()
            containers[node].put_archive("/opt/impi/src", sources)
        lab = SlurmLab(containers)
        await_idle(lab)
        yield lab
    finally:
        for container in containers.values():
            container.remove(force=True)
        network.remove()


def await_idle(lab: SlurmLab) -> None:
    """Wait until all nodes can take a job."""
    until = time.monotonic() + LIMIT_S
    asked = ["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"]
    while lab.containers["left1"].exec_run(asked)[1].decode().split() != list(NODES):
        assert time.monotonic() < until, lab.containers[_HEAD].logs().decode()
        time.sleep(_POLL_S)
