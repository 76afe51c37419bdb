"""Datatypes, amount and memory: the common parts of the programs of all soaks."""

from __future__ import annotations

import os
import threading
import time
from array import array
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from soak_streams import SHAPES  # type: ignore[import-not-found]

# The module of MPI, and a datatype, for which mpi4py has no types here
Handle: TypeAlias = Any

_STOP_EACH = 8  # rounds after which the ranks agree whether the time is over
_LEAVE_S = 5.0  # how long the other ranks may take to write their reports
# Shares of the amount after which memory is read; it is read at the end, too
_SHARES = (0.1, 0.5)


class Datatypes:
    """The datatypes of all shapes, by their names."""

    def __init__(self, MPI: Handle) -> None:
        basic = {
            "B": MPI.BYTE,
            "h": MPI.INT16_T,
            "i": MPI.INT,
            "q": MPI.INT64_T,
            "d": MPI.DOUBLE,
        }
        derived: dict[str, Callable[[], Any]] = {
            "columns": lambda: MPI.INT.Create_vector(1, 1, 2).Create_resized(0, 8),
            "blocks": lambda: MPI.INT16_T.Create_indexed([2, 1], [0, 3]),
            "records": lambda: MPI.Datatype.Create_struct(
                [1, 1], [0, 8], [MPI.INT, MPI.DOUBLE]
            ).Create_resized(0, 16),
            "spaced": lambda: MPI.INT64_T.Create_vector(1, 1, 2).Create_resized(0, 16),
        }
        self._derived = [name for name in SHAPES if name in derived]
        self._types: dict[str, Any] = {
            name: derived[name]().Commit() if name in derived else basic[shape.letter]
            for name, shape in SHAPES.items()
        }

    def __getitem__(self, name: str) -> Handle:
        return self._types[name]

    def free(self) -> None:
        for name in self._derived:
            self._types[name].Free()


class Pace:
    """The amount that is done, and the memory on the way."""

    def __init__(self, MPI: Handle, params: Mapping[str, int]) -> None:
        """``params``: ``count`` or ``seconds``, the amount; the other one is 0. And ``silence``."""
        self._mpi, self._params = MPI, params
        self.began = self.last = time.monotonic()
        self.memory: list[int] = []  # octets of this process

    def moves(self) -> None:
        """Note that the soak goes on."""
        self.last = time.monotonic()

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self.began, 1)

    def is_over(self, turn: int, done: int) -> bool:
        """Whether ``done`` is the amount; collective in some rounds, if it is a time."""

        if self._params["count"]:
            return done >= self._params["count"]

        if turn % _STOP_EACH:
            return False

        late = array("i", [self.seconds >= self._params["seconds"]])
        self._mpi.COMM_WORLD.Allreduce(array("i", late), late, self._mpi.MAX)

        return bool(late[0])

    def read_memory(self, done: int) -> None:
        """Read the memory if the next share of the amount is done."""

        count = self._params["count"]
        share = done / count if count else self.seconds / self._params["seconds"]
        if len(self.memory) < len(_SHARES) and share >= _SHARES[len(self.memory)]:
            self.read_last_memory()

    def read_last_memory(self) -> None:
        with open("/proc/self/statm") as file:  # noqa: PTH123
            pages = int(file.read().split()[1])

        self.memory.append(pages * os.sysconf("SC_PAGE_SIZE"))

    def watch(self, account: Callable[[], None]) -> threading.Event:
        """End this rank if nothing moves for ``silence`` seconds: what it waits for is lost.

        Args:
            account: tells what is missing, and writes the report.

        Returns:
            Set it at the end of the soak, which ends the watch.
        """
        finished = threading.Event()

        def look() -> None:
            while not finished.wait(1.0):
                if time.monotonic() - self.last > self._params["silence"]:
                    account()
                    time.sleep(_LEAVE_S)
                    os._exit(1)

        threading.Thread(target=look, daemon=True).start()

        return finished
