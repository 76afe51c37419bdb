"""Nodes and commands of :mod:`impi.lab.nodes.interface`, made of :mod:`impi.base.remote`."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from impi.base.errors import LabError, LaunchError
from impi.base.manifests import manifest
from impi.base.remote.ssh import Connection
from impi.base.remote.supervised import Completed, Supervised
from impi.lab.nodes.interface import NodeAccess, RunningCommand

_T = TypeVar("_T")
_R = TypeVar("_R")
_MOST_THREADS = 16


@contextlib.contextmanager
def lab_fault(where: str, fate: Callable[[], str] = str) -> Iterator[None]:
    """Turn a failed connection into a fault of the lab, whatever the cell under test did.

    ``fate`` gives what else is known of the machine, as the end of the sentence.
    """
    try:
        yield
    except LaunchError as error:
        raise LabError(f"{where}: {error}{fate()}") from error


def in_parallel(work: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """``[work(x) for x in items]`` by threads; waits for all, then raises the first error."""
    if len(items) < 2:
        return [work(item) for item in items]

    with ThreadPoolExecutor(min(_MOST_THREADS, len(items))) as pool:
        return [
            future.result() for future in [pool.submit(work, item) for item in items]
        ]


def job_variables(vendor: str, sources: str, prefix: str) -> dict[str, str]:
    """Return the variables by which impirun finds its sources and the vendor's library.

    Args:
        vendor: of the client.
        sources: the folder of impi's sources on the node.
        prefix: the folder of the library there, if the vendor has one.
    """
    known = manifest(vendor)
    library = {known.prefix_variable: prefix} if known.has_library else {}

    return {"PYTHONPATH": sources, "IMPI_VENDORS": f"{sources}/images", **library}


class Command:
    """A command under way on a node; a :class:`impi.lab.nodes.interface.RunningCommand`."""

    def __init__(
        self, supervised: Supervised, where: str, fate: Callable[[], str] = str
    ) -> None:
        self._supervised = supervised
        self._where, self._fate = where, fate

    @property
    def pid(self) -> int:
        return self._supervised.pid

    def poll(self) -> Completed | None:
        with lab_fault(self._where, self._fate):
            return self._supervised.poll()

    def wait(self, timeout_s: float) -> Completed:
        with lab_fault(self._where, self._fate):
            return self._supervised.wait(timeout_s)

    def stdout(self) -> bytes:
        return self._supervised.stdout()

    def stderr(self) -> bytes:
        return self._supervised.stderr()

    def stop(self) -> Completed:
        with lab_fault(self._where, self._fate):
            return self._supervised.stop()


class SshNode:
    """A container behind SSH, a :class:`~.interface.Node`. Relative paths are below ``home``."""

    def __init__(
        self,
        name: str,
        access: NodeAccess,
        connection: Connection,
        fate: Callable[[], str] = str,
    ) -> None:
        self.name, self.access, self.address = name, access, access.address
        self.connection, self._fate = connection, fate
        # Variables of processes that fork warm commands, at their start; None: there are none
        self.warm: Mapping[str, str] | None = None

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        warm: bool = False,
    ) -> RunningCommand:
        with lab_fault(self.name, self._fate):
            return Command(
                self.connection.start(
                    argv,
                    env=env,
                    cwd=self.access.home,
                    warm=self.warm if warm else None,
                ),
                self.name,
                self._fate,
            )

    def read(self, path: str) -> bytes | None:
        with lab_fault(self.name, self._fate):
            return self.connection.read(posixpath.join(self.access.home, path))

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        with lab_fault(self.name, self._fate):
            self.connection.write(
                posixpath.join(self.access.home, path), data, mode=mode
            )
