"""One rank's account: who it is, what it checked, what failed.

There are two files in the cell's folder on this node: one after MPI_Init, one after the last check.
Between the first and the case, the rank waits at a gate, so that the witness can look at a living
process. A third file grows by two lines with each MPI call of the case.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from calls import watch  # type: ignore[import-not-found]
from payload import numbers, octets  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from pathlib import Path  # its import costs each fresh rank 4 ms

_GATE_S = 600.0
_SHOWN = 200
_NO_GATE = 97  # exit status of a rank that waited at the gate in vain


class Report:
    """One rank's report. ``plan`` is the cell's ``cell.json``; ``MPI`` the initialised module."""

    def __init__(self, MPI: Any, *, logged: bool = True) -> None:
        """``logged``: whether the MPI calls of the case go to a file."""

        # Absolute: the folder above has this node's own file.
        self._folder = os.path.abspath(os.environ["IMPILAB_CELL"])  # noqa: PTH100
        self.plan: dict[str, Any] = _read(f"{self._folder}/cell.json")
        self.clients: list[list[int]] = self.plan["clients"]
        self.rank: int = MPI.COMM_WORLD.Get_rank()
        self.size: int = MPI.COMM_WORLD.Get_size()
        self._mpi = MPI
        self._performed = 0
        self._failures: list[dict[str, str]] = []
        # Its stack goes here if the witness asks a rank that does not end.
        self._stack = open(  # noqa: PTH123, SIM115
            f"{self._folder}/stack-{os.getpid()}.txt", "w", encoding="utf-8"
        )
        faulthandler.register(signal.SIGUSR1, self._stack, all_threads=False)
        self._write(
            "init", {"library": MPI.Get_library_version(), "sources": _sources()}
        )
        self._wait_at_gate()

        mute = watch(f"{self._folder}/calls-{os.getpid()}.jsonl", MPI) if logged else ""
        if mute:
            print(f"rank {self.rank}: {mute}", file=sys.stderr, flush=True)

    @property
    def folder(self) -> Path:
        """The cell's folder, for the few programs that share files."""
        from pathlib import Path

        return Path(self._folder)

    @property
    def client(self) -> int:
        return self.client_of(self.rank)

    def client_of(self, rank: int) -> int:
        return next(i for i, ranks in enumerate(self.clients) if rank in ranks)

    def octets(self, label: str, size: int) -> bytes:
        """Return the cell's own octets for a label."""
        return bytes(octets(self.plan["nonce"], label, size))

    def numbers(self, label: str, count: int) -> list[int]:
        """Return the cell's own small integers for a label."""
        return list(numbers(self.plan["nonce"], label, count))

    def check(self, what: str, actual: object, expected: object) -> None:
        self._performed += 1
        if actual != expected:
            self._failures.append(
                {"check": what, "expected": _show(expected), "actual": _show(actual)}
            )

    def done(self, **figures: object) -> None:
        """Report after the last check and before MPI_Finalize; collective.

        The barrier makes every client use its vendor's own transport, whatever the case does.
        """
        self._mpi.COMM_WORLD.Barrier()
        self.leave(**figures)

    def leave(self, **figures: object) -> None:
        """Report without the others, which may hang; ``figures`` are shown, and not judged."""
        self._write(
            "done",
            {
                "performed": self._performed,
                "failures": self._failures,
                "figures": figures,
            },
        )

    def _write(self, kind: str, more: dict[str, Any]) -> None:
        local = getattr(self._mpi, "_impi_local", None)
        value = {
            "pid": os.getpid(),
            "at": time.time(),
            "rank": self.rank,
            "size": self.size,
            "nonce": self.plan["nonce"],
            "node_nonce": self.node_nonce(),
            "local": local() if local is not None else None,
            **more,
        }
        path = f"{self._folder}/{kind}-{os.getpid()}"
        with open(f"{path}.part", "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(json.dumps(value))

        os.rename(f"{path}.part", f"{path}.json")  # noqa: PTH104

    def node_nonce(self) -> str:
        """Return the nonce on this node's disk, which no other node has."""
        return str(_read(f"{os.path.dirname(self._folder)}/node.json")["nonce"])  # noqa: PTH120

    def _wait_at_gate(self) -> None:
        gate, deadline = f"{self._folder}/gate", time.monotonic() + _GATE_S
        while not os.path.exists(gate):  # noqa: PTH110
            if time.monotonic() > deadline:
                print(
                    f"rank {self.rank}: the gate stayed shut for {_GATE_S:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
                os._exit(_NO_GATE)

            time.sleep(0.01)


def _read(path: str) -> Any:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        return json.load(file)


def _sources() -> dict[str, str]:
    """Return the files from which this process loaded its modules of impi."""
    return {
        name: file
        for name, module in sys.modules.items()
        if name.partition(".")[0] == "impi"
        and (file := getattr(module, "__file__", None))
    }


def _show(value: object) -> str:
    text = value.hex() if isinstance(value, bytes) else repr(value)
    return (
        text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
    )
