"""Configurations: a job's clients, what the simulated ones offer, what oddities start-up has."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from impi.base.errors import UsageError

UNDER_TEST: Final = "IUT"
"""The place of the implementation under test in a list of clients."""
LABELS: Final = {
    "VERSION": 0x1000,
    "NHOSTS": 0x1100,
    "NPROCS": 0x1200,
    "DATALEN": 0x1300,
    "TAGUB": 0x1400,
    "XSIZE": 0x1500,
    "MAXLINEAR": 0x1600,
    "H_IPV6": 0x2000,
    "H_PORT": 0x2100,
    "H_NPROCS": 0x2200,
    "ACKMARK": 0x2300,
    "HIWATER": 0x2400,
    "P_IPV6": 0x3000,
    "P_PID": 0x3100,
}
"""The fourteen labels of IMPI 2.3.5."""
DEFAULTS: Final = {"XSIZE": 1024, "MAXLINEAR": 4}
"""The values that -1 stands for (2.3.5)."""
VARIATIONS: Final = (
    "one octet at a time",
    "unknown commands",
    "unknown labels",
    "no broadcast of unknown labels",
    "IPv4-mapped addresses",
    "newer versions",
    "empty IMPI_AUTH_NONE",
    "explicit defaults",
    "equal pids",
    "strangers in the dance",
)
"""Oddities of start-up that every client must bear (2.3.2, 2.3.5)."""
REFUSALS: Final = (
    "wrong key",
    "no common method",
    "other xsize",
    "other maxlinear",
    "missing label",
    "contradictory procs",
    "server lost",
    "garbage",
    "silence",
)
"""Starts from which no job can follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The properties of a job; tests of equal configurations share one."""

    # In order: ``IUT``, or the procs of each host of a simulated client: ``2,1`` has two hosts.
    clients: tuple[str, ...] = (UNDER_TEST, "2,1")
    procs: int = 2  # number of procs of the implementation under test
    datalen: int = 1024
    ackmark: int = 8
    hiwater: int = 16
    tag_ub: int = 2**31 - 1
    max_cid: int = (
        1  # the largest context id that simulated procs have in use at the start
    )
    xsize: int | None = None  # None: the implementation under test may say any value
    maxlinear: int | None = None
    auth: str = "none"  # ``none`` or ``key``
    variation: str = ""
    refusal: str = ""
    fresh: bool = False  # the job belongs to one test, which ends or breaks it

    def check(self, where: str) -> None:
        """Raise UsageError unless all of it makes sense; ``where`` names the file."""

        if self.clients.count(UNDER_TEST) != 1 or len(self.clients) < 2:
            raise UsageError(
                f"{where}: one client of several is {UNDER_TEST!r}, not {list(self.clients)}"
            )

        for client in self.clients:
            if (
                client != UNDER_TEST
                and re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", str(client)) is None
            ):
                raise UsageError(
                    f"{where}: a client is {UNDER_TEST!r} or the procs of its hosts, not {client!r}"
                )

        if self.variation and self.variation not in VARIATIONS:
            raise UsageError(
                f"{where}: variation {self.variation!r} is not one of {', '.join(VARIATIONS)}"
            )

        if self.refusal and self.refusal not in REFUSALS:
            raise UsageError(
                f"{where}: refusal {self.refusal!r} is not one of {', '.join(REFUSALS)}"
            )

        if self.auth not in ("none", "key"):
            raise UsageError(f"{where}: auth must be none or key, not {self.auth!r}")

    @property
    def client(self) -> int:
        return self.clients.index(UNDER_TEST)

    def hosts_of(self, client: int) -> tuple[int, ...]:
        return tuple(int(part) for part in self.clients[client].split(","))

    @property
    def size(self) -> int:
        clients = (
            number for number in range(len(self.clients)) if number != self.client
        )
        return self.procs + sum(sum(self.hosts_of(number)) for number in clients)

    def usual_names(self) -> dict[str, int]:
        """Return the names in expressions, for a job whose client sets no limits of its own."""
        return {
            "datalen": self.datalen,
            "ackmark": self.ackmark,
            "hiwater": self.hiwater,
            "xsize": DEFAULTS["XSIZE"] if self.xsize is None else self.xsize,
            "maxlinear": DEFAULTS["MAXLINEAR"]
            if self.maxlinear is None
            else self.maxlinear,
            "tagub": self.tag_ub,
            "np": self.procs,
            "size": self.size,
        }

    def proc_names(self) -> dict[str, int]:
        """Return the rank in MPI_COMM_WORLD of each proc: ``I0`` under test, ``S0`` simulated."""

        found: dict[str, int] = {}

        counts = {"I": 0, "S": 0}
        for number, shape in enumerate(self.clients):
            kind = "I" if shape == UNDER_TEST else "S"
            for _ in range(self.procs if kind == "I" else sum(self.hosts_of(number))):
                found[f"{kind}{counts[kind]}"] = len(found)
                counts[kind] += 1

        return found

    @property
    def control(self) -> int:
        """The rank in MPI_COMM_WORLD of the simulated proc that sends scripts: the last one."""
        last_is_tested = self.client == len(self.clients) - 1
        return self.size - self.procs - 1 if last_is_tested else self.size - 1

    def with_procs(self, procs: int) -> Configuration:
        """Return the same configuration with another number of procs under test."""
        return replace(self, procs=procs)

    def __str__(self) -> str:
        told = [
            "+".join(f"{self.procs}*" if c == UNDER_TEST else c for c in self.clients)
        ]
        plain = Configuration()
        names = (
            "datalen",
            "ackmark",
            "hiwater",
            "tag_ub",
            "max_cid",
            "xsize",
            "maxlinear",
            "auth",
            "variation",
            "refusal",
        )
        told += [
            f"{name}={getattr(self, name)}"
            for name in names
            if getattr(self, name) != getattr(plain, name)
        ]

        return " ".join(told)
