"""Start-up as the client under test meets it: we are the server and all other clients (IMPI 2.3).

:class:`Dialogue` speaks with one client, message by message, to DONE; a message that is missing,
late or wrong raises :class:`.Broken` with its clause. The simulated clients' part follows
from the configuration and from what the client says itself. :meth:`Dialogue.layout` is then the job
as all clients must see it.

A configuration may also want start-up to be odd (``variation``), which a client has to bear, or to
be impossible (``refusal``), at which it has to give up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from impi.lab.conform.job.configuration import (
    DEFAULTS,
    LABELS,
    UNDER_TEST,
    Configuration,
)
from impi.lab.conform.job.encoding import broadcast, command, ipv6, uint4, uint8
from impi.lab.conform.job.wiring import RANK_SIZE, RecordedWire, Wiring
from impi.lab.conform.outcomes import Broken
from impi.lab.dissect import Layout, WireHost, WireProc

KEY: Final = 0x1122334455667788
"""The value of IMPI_AUTH_KEY where a key is asked for."""
# An unknown command with a payload that no client may take for the next command (2.3.2).
_UNKNOWN_COMMAND: Final = command(0x58595A30, bytes(range(11)))
# most octets from a client in start-up, and in one command: a flood must not fill memory
_MOST: Final = 1 << 20
# most unknown commands in start-up: each is legal (2.3.2), but an endless row is not start-up
_MOST_UNKNOWN: Final = 500
WORDS: Final = ("AUTH", "IMPI", "COLL", "DONE", "FINI")
"""The commands of IMPI 0.0 (2.3.2)."""
# Labels of a future version that another client gives, with the octets of each (2.3.5).
_UNKNOWN_LABELS: Final = {0x1050: 4, 0x2111: 0, 0x30FF: 16}


@dataclass(slots=True)
class DialogueFacts:
    """All that the client under test has said."""

    methods: tuple[int, ...] = ()
    labels: dict[int, bytes] = field(default_factory=dict)

    def numbers(self, name: str) -> list[int]:
        """Return the values of a label of 4 octets each, as unsigned numbers."""
        octets = self.labels.get(LABELS[name], b"")
        return [
            int.from_bytes(octets[i : i + 4], "big") for i in range(0, len(octets), 4)
        ]


class Dialogue:
    """The conversation of the server with the client under test.

    Args:
        wiring: serves the connection.
        configuration: what the job is to be.
        addresses: by simulated host, in order: address and port at which it listens.
        patience_s: seconds for each message of the client; the first may take ``start_s``.
        start_s: see ``patience_s``.
        gone: whether the command of the client has ended.
    """

    def __init__(
        self,
        wiring: Wiring,
        configuration: Configuration,
        addresses: list[tuple[str, int]],
        *,
        patience_s: float,
        start_s: float,
        gone: Callable[[], bool] = lambda: False,
    ) -> None:
        self._wiring = wiring
        self._setup = configuration
        self._addresses = addresses
        self._patience_s = patience_s
        self._start_s = start_s
        self._gone = gone
        # For start-up as a whole: a client that says one octet a second is never late by itself.
        self._whole = wiring.patience(start_s + 10 * patience_s)
        self._unknown = 0
        self.facts = DialogueFacts()
        self.wire: RecordedWire | None = None
        # Connections that have said nothing yet. The client may be any of them.
        self._silent: list[RecordedWire] = []
        self._speaks = False

    def accepted(self, wire: RecordedWire) -> None:
        """Take a connection, which may be the client's: that is the first to say a word.

        Those that say less are strangers', of which :class:`Wiring` bounds the number. Further ones
        are closed.
        """

        if self._speaks:
            self._wiring.forget(wire)
            return

        wire.most = _MOST
        # At this pace octets leave one by one, so a client that counts on
        # whole messages shows.
        wire.pace = 1 if self._setup.variation == "one octet at a time" else 0
        self._silent = [other for other in self._silent if not other.closed] + [wire]
        self.wire = self._silent[0]

    # -- the client's messages

    def _need(
        self, count: int, what: str, clause: str, timeout_s: float | None = None
    ) -> bytes:
        # Steps before which a client may still start its procs give the
        # time of a start.
        seconds = self._patience_s if timeout_s is None else timeout_s
        began = time.monotonic()
        # Three ends of the wait: the octets are there, the client is gone,
        # or start-up as a whole takes too long.
        self._wiring.wait(
            lambda: (
                len(self._wire.incoming) >= count
                or self._wire.ended
                or self._whole.ended()
            ),
            seconds,
        )

        wire = self._wire
        if len(wire.incoming) < count:
            come = (
                f"only {len(wire.incoming)} of {count} octets"
                if wire.incoming
                else "nothing"
            )
            # How it ended decides the sentence: a closed connection explains more than a time.
            waited = f"{come} came in {time.monotonic() - began:.1f} s"

            how = "the client has closed the connection" if wire.ended else waited
            if wire.closed:
                how = f"start-up does not come to its end in {_MOST} octets"
            elif self._whole.left < 0:
                how = "start-up does not come to its end"

            # The octets so far go into the report, for half a message shows
            # what the client meant.
            held = bytes(wire.incoming)
            raise Broken(
                f"{how} where {what} should come",
                expected=what,
                actual=how,
                octets=held,
                clause=clause,
            )

        return wire.take(count)

    @property
    def _wire(self) -> RecordedWire:
        assert self.wire is not None
        if not self._speaks:
            # Until one of the connections has spoken, the client is the first
            # that is still open.
            live = [wire for wire in self._silent if not (wire.closed or wire.ended)]
            speaking = [
                wire for wire in self._silent if len(wire.incoming) >= RANK_SIZE
            ]

            # A connection that has said less is judged only where nothing else comes.
            self.wire = next(iter(speaking or live), self.wire)
            if speaking:
                # From the first octet on the choice is final, and all strangers go.
                self._speaks = True
                for wire in self._silent:
                    if wire is not self.wire:
                        self._wiring.forget(wire)

                self._silent.clear()

        return self.wire

    def _command(
        self, clause: str, *wanted: str, timeout_s: float | None = None
    ) -> tuple[str, bytes]:
        """Return the next command; unknown ones are skipped, as IMPI 2.3.2 demands."""
        while True:
            what = " or ".join(wanted)
            head = self._need(8, what, clause, timeout_s)

            # A length is signed, so that a negative one is told as what it is.
            length = int.from_bytes(head[4:], "big", signed=True)
            if not 0 <= length <= _MOST:
                raise Broken(
                    f"a command of {length} octets",
                    expected=what,
                    actual=head.hex(),
                    octets=head,
                    clause="2.3.2",
                )

            payload = self._need(length, f"{length} octets of a command", "2.3.2")

            # Latin-1 gives any four octets a text: an unknown command need not
            # be ASCII.
            word = head[:4].decode("latin-1")
            if word in wanted:
                return word, payload

            # Known words in a wrong place are told below. Unknown ones are
            # skipped, but counted.
            self._unknown += word not in WORDS
            if self._unknown > _MOST_UNKNOWN:
                text = f"start-up does not come to its end: {self._unknown} commands that IMPI does not know"
                raise Broken(
                    text, expected=what, actual=head.hex(), octets=head, clause="2.3.2"
                )

            # A known command in the wrong place cannot be skipped: no order of phases is left.
            if word in WORDS:
                raise Broken(
                    f"{word} comes where {what} is next",
                    expected=what,
                    actual=word,
                    octets=head,
                    clause=clause,
                )

    # -- the phases

    def authenticate(self) -> None:
        """Take AUTH, and choose the configuration's method (2.3.3)."""
        self._await_client()
        self._choose()

    def _await_client(self) -> None:
        self._wiring.wait(lambda: self.wire is not None or self._gone(), self._start_s)
        if self.wire is None:
            how = (
                "its command has ended"
                if self._gone()
                else f"none within {self._start_s:g} s"
            )
            raise Broken(
                "the client does not connect to the server",
                expected="a connection",
                actual=how,
                clause="2.2.2",
            )

    def refuse(self) -> None:
        """Lead start-up to where no job can follow from it, as the configuration says.

        Raises:
            Broken: the client does otherwise before that.
        """

        # How far start-up is led depends on what is to be refused: the
        # method, the key, the server, or a label.
        kind = self._setup.refusal
        if kind in ("no common method", "garbage", "wrong key"):
            self._await_client()

            self._command("2.3.3", "AUTH", timeout_s=self._start_s)
            if kind == "garbage":
                # These octets begin with a method that no client knows.
                self._wire.send(bytes(range(200, 256)) * 4)
                return

            if kind == "wrong key":
                self._wire.send(uint4(1, 0))
                # The key is wrong on purpose: the client's own environment has
                # another one.
                self._need(8, "the key, 8 octets", "2.3.3")

            # Where authentication fails, the server closes and says nothing (IMPI 2.3.3).
            self._wire.close()

            return

        # All others need a client that has joined.
        self.authenticate()

        self.join()
        if kind == "server lost":
            self._wire.close()
            return

        self.agree()

    def _choose(self) -> None:
        _, mask = self._command("2.3.3", "AUTH", timeout_s=self._start_s)
        if len(mask) < 4 or len(mask) % 4:
            raise Broken(
                "the mask of AUTH is not a list of words",
                expected="4 octets or 8 ...",
                octets=mask,
            )

        words = [int.from_bytes(mask[i : i + 4], "big") for i in range(0, len(mask), 4)]
        # Bit n of the words is method n; the first word has bits 0 to 31 (2.3.3).
        self.facts.methods = tuple(
            32 * i + b
            for i, word in enumerate(words)
            for b in range(32)
            if word >> b & 1
        )

        # Only the configuration decides: a server may choose any method
        # that both sides have.
        method = 1 if self._setup.auth == "key" else 0
        if method not in self.facts.methods:
            raise Broken(
                f"method {method} is not offered, though the environment has what it needs",
                expected=f"bit {method} in the mask",
                actual=mask.hex(),
                octets=mask,
                clause="2.3.3",
            )

        self._wire.send(uint4(method, 0))
        if method == 1:
            key = self._need(8, "the key, 8 octets", "2.3.3")
            if int.from_bytes(key, "big") != KEY:
                raise Broken(
                    "the key is not that of IMPI_AUTH_KEY",
                    expected=uint8(KEY).hex(),
                    actual=key.hex(),
                    clause="2.3.3",
                )

    def join(self) -> None:
        """Take IMPI, and answer with the number of clients (2.3.4)."""

        # The client's number comes from its command line (IMPI 2.2.2).
        _, payload = self._command("2.3.4", "IMPI")

        number = uint4(self._setup.client)
        if payload != number:
            raise Broken(
                "the client does not say the number that it was given",
                expected=number.hex(),
                actual=payload.hex(),
                octets=payload,
                clause="2.3.4",
            )

        self._disturb()
        self._wire.send(command("IMPI", uint4(len(self._setup.clients))))

    def agree(self) -> None:
        """Take all labels in turn, and DONE; answer each (2.3.5, 2.3.6)."""

        last, unknown = -1, dict(_UNKNOWN_LABELS)
        while True:
            self._disturb()
            word, payload = self._command(
                "2.3.5", "COLL", "DONE", timeout_s=self._start_s
            )

            # The server may broadcast labels that this client has not given:
            # in ascending order, too.
            # DONE stands above all labels, so that whatever is still to be
            # broadcast comes before it.
            label = int.from_bytes(payload[:4], "big") if word == "COLL" else 1 << 32
            if self._setup.variation == "unknown labels":
                for other in [other for other in unknown if other < label]:
                    self._wire.send(
                        broadcast(other, self._others(), bytes(unknown.pop(other)))
                    )

            if word == "DONE":
                break

            if len(payload) < 4 or label <= last:
                raise Broken(
                    "labels do not ascend",
                    expected=f"a label above {last:#06x}",
                    actual=f"{label:#06x}",
                    octets=payload,
                    clause="2.3.5",
                )

            last = label
            self.facts.labels[label] = payload[4:]
            self._answer(label)

        # All fourteen are mandatory in version 0.0. Labels of the client's
        # own do not count.
        missing = [
            name for name, number in LABELS.items() if number not in self.facts.labels
        ]
        if missing:
            raise Broken(
                f"the labels {', '.join(missing)} are missing",
                expected="all fourteen",
                actual=f"without {', '.join(missing)}",
                clause="2.3.5",
            )

        self._wire.send(command("DONE"))

    def _answer(self, label: int) -> None:
        """Broadcast a label: what all clients have said, in the order of their numbers."""

        name = next((name for name, number in LABELS.items() if number == label), "")

        # The client's own values are sent back as they came, whatever they
        # mean: a server knows no label.
        mine = self.facts.labels[label]
        if not name:
            # A label of this client's own: servers broadcast or drop it, and a client bears both.
            if self._setup.variation != "no broadcast of unknown labels":
                self._wire.send(broadcast(label, 1 << self._setup.client, mine))

            return

        # In the order of client numbers, as the server has to concatenate
        # them (IMPI 2.3.5).
        parts = [
            mine if client == UNDER_TEST else self._said_by(number, name)
            for number, client in enumerate(self._setup.clients)
        ]

        mask = (1 << len(parts)) - 1
        # As if the others had not given it: the mask tells the client so (2.3.5).
        if self._setup.refusal == "missing label" and name == "DATALEN":
            mask, parts = 1 << self._setup.client, [mine]

        self._wire.send(broadcast(label, mask, b"".join(parts)))

    def _others(self) -> int:
        """Return the mask of the first simulated client."""
        return 1 << next(
            i for i, client in enumerate(self._setup.clients) if client != UNDER_TEST
        )

    def _disturb(self) -> None:
        if self._setup.variation == "unknown commands":
            self._wire.send(_UNKNOWN_COMMAND)

    def _said_by(self, number: int, name: str) -> bytes:
        # Listeners are there before start-up, so hosts have their addresses
        # before they have labels.
        setup, hosts = self._setup, self._setup.hosts_of(number)
        first = sum(
            len(setup.hosts_of(c))
            for c in range(number)
            if setup.clients[c] != UNDER_TEST
        )  # addresses are those of simulated hosts only
        where = self._addresses[first : first + len(hosts)]
        addresses = [self._ipv6(address) for address, _ in where]
        versions = (0, 0, 0, 7, 2, 1) if setup.variation == "newer versions" else (0, 0)
        # Equal pids are legal if the addresses differ: a proc is named by
        # both (IMPI 3.2).
        first_pid = 0 if setup.variation == "equal pids" else number
        told = {
            "VERSION": uint4(*versions),
            "NHOSTS": uint4(len(hosts)),
            "NPROCS": uint4(sum(hosts) + (setup.refusal == "contradictory procs")),
            "DATALEN": uint4(setup.datalen),
            "TAGUB": uint4(setup.tag_ub),
            "XSIZE": self._common_limit("XSIZE"),
            "MAXLINEAR": self._common_limit("MAXLINEAR"),
            "H_IPV6": b"".join(addresses),
            "H_PORT": uint4(*(port for _, port in where)),
            "H_NPROCS": uint4(*hosts),
            "ACKMARK": uint4(*[setup.ackmark] * len(hosts)),
            "HIWATER": uint4(*[setup.hiwater] * len(hosts)),
            "P_IPV6": b"".join(
                a
                for a, procs in zip(addresses, hosts, strict=True)
                for _ in range(procs)
            ),
            "P_PID": uint8(*(pid_of(first_pid, i) for i in self._numbers(hosts))),
        }

        return told[name]

    def _numbers(self, hosts: tuple[int, ...]) -> list[int]:
        """Return the numbers that make a client's pids; procs of two hosts may have equal ones."""
        if self._setup.variation == "equal pids":
            return [i for procs in hosts for i in range(procs)]

        return list(range(sum(hosts)))

    def _ipv6(self, address: str) -> bytes:
        packed = ipv6(address)
        # The mapped form of IPv4, which systems give, names the same host (IMPI 1.2.3).
        if self._setup.variation == "IPv4-mapped addresses" and packed[:12] == bytes(
            12
        ):
            return bytes(10) + b"\xff\xff" + packed[12:]

        return packed

    def _common_limit(self, name: str) -> bytes:
        """Return the client's own value: all clients must give the same one (2.3.5)."""

        # IMPI demands equal values of all clients, so the simulated ones
        # say what the client said.
        mine = self.facts.numbers(name)

        value = mine[0] if mine else -1
        if self._setup.variation == "explicit defaults" and value == 2**32 - 1:
            return uint4(DEFAULTS[name])

        if self._setup.refusal == f"other {name.lower()}":
            # For the refusal any other value will do.
            return uint4(1 + (DEFAULTS[name] if value in (-1, 2**32 - 1) else value))

        return uint4(value)

    # -- what follows

    def value(self, name: str) -> int:
        """Return the job's XSIZE or MAXLINEAR: the client's own, with -1 replaced."""
        value = self.facts.numbers(name)[0]
        return DEFAULTS[name] if value == 2**32 - 1 else value

    def limit(self, name: str) -> int:
        """Return the job's DATALEN, TAGUB, ACKMARK or HIWATER: the least of all (2.3.5, 3.6)."""
        ours = {
            "DATALEN": "datalen",
            "TAGUB": "tag_ub",
            "ACKMARK": "ackmark",
            "HIWATER": "hiwater",
        }[name]
        own: int = getattr(self._setup, ours)

        # The job has the least that any host or client offers, also for
        # ackmark and hiwater.
        return min([*self.facts.numbers(name), own])

    def layout(self) -> Layout:
        """Return hosts and procs of the job in order, as all clients must see them (2.3.5).

        Raises:
            Broken: the numbers of the client under test contradict each other.
        """

        hosts: list[WireHost] = []
        procs: list[WireProc] = []

        # Addresses belong to simulated hosts only, in the order of their clients.
        simulated = iter(self._addresses)
        for number, client in enumerate(self._setup.clients):
            if client == UNDER_TEST:
                self._add_tested(number, hosts, procs)
                continue

            pids = iter(self._numbers(self._setup.hosts_of(number)))

            first_pid = 0 if self._setup.variation == "equal pids" else number
            for nprocs in self._setup.hosts_of(number):
                address, port = next(simulated)
                packed = self._ipv6(address)

                hosts.append(WireHost(len(hosts), number, packed, port, nprocs))
                for _ in range(nprocs):
                    pid = pid_of(first_pid, next(pids))
                    procs.append(
                        WireProc(len(procs), number, len(hosts) - 1, packed, pid)
                    )

        return Layout(len(self._setup.clients), tuple(hosts), tuple(procs))

    def _add_tested(
        self, number: int, hosts: list[WireHost], procs: list[WireProc]
    ) -> None:
        f = self.facts
        # The labels of the client under test are held against each other
        # before any packet is.
        counts, ports, nprocs = (
            f.numbers("NHOSTS"),
            f.numbers("H_PORT"),
            f.numbers("H_NPROCS"),
        )
        total = f.numbers("NPROCS")
        addresses, names, pids = (
            f.labels[LABELS["H_IPV6"]],
            f.labels[LABELS["P_IPV6"]],
            f.labels[LABELS["P_PID"]],
        )

        # Each of these counts follows from another label: a job of
        # contradicting ones has no ranks.
        wanted = {
            "C_NHOSTS": (len(counts), 1),
            "C_NPROCS": (len(total), 1),
            "H_PORT": (len(ports), counts[0] if counts else 0),
            "H_NPROCS": (len(nprocs), counts[0] if counts else 0),
            "the sum of H_NPROCS": (sum(nprocs), total[0] if total else 0),
            **{
                f"values of {name}": (len(f.numbers(name)), 1)
                for name in ("DATALEN", "TAGUB", "XSIZE", "MAXLINEAR")
            },
            "octets of H_IPV6": (len(addresses), 16 * len(ports)),
            "octets of P_IPV6": (len(names), 16 * sum(nprocs)),
            "octets of P_PID": (len(pids), 8 * sum(nprocs)),
            "procs of the client": (sum(nprocs), self._setup.procs),
        }
        for what, (actual, expected) in wanted.items():
            if actual != expected:
                raise Broken(
                    f"{what}: {actual}",
                    expected=str(expected),
                    actual=str(actual),
                    clause="2.3.5",
                )

        for i, (port, amount) in enumerate(zip(ports, nprocs, strict=True)):
            hosts.append(
                WireHost(
                    len(hosts), number, addresses[16 * i : 16 * i + 16], port, amount
                )
            )
            for _ in range(amount):
                # The procs of a client are numbered over all its hosts.
                at = len([p for p in procs if p.client == number])
                pid = int.from_bytes(pids[8 * at : 8 * at + 8], "big", signed=True)
                procs.append(
                    WireProc(
                        len(procs),
                        number,
                        len(hosts) - 1,
                        names[16 * at : 16 * at + 16],
                        pid,
                    )
                )


def pid_of(client: int, index: int) -> int:
    """Return P_PID of a simulated proc: above all process numbers that a machine has."""
    # More than 2**32, so that a client that keeps 32 bits of a pid cannot pass.
    return (1 << 40) + 1000 * client + index
