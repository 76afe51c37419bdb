"""The labels of one client: its own ones, and the broadcasts of all clients' (IMPI 2.3.5).

How it works: they go out in ascending order. Each label of the specification waits for its
broadcast before the next one goes out, as existing servers expect; those of our own go together
behind them. C_VERSION comes first because the version decides which labels of ours follow. The
broadcasts collect in ``values``; the end of start-up turns them into the
:class:`~impi.protocol.job.Job` (:mod:`.agree`).

Invariant: a broadcast with a known label must be the label at the head of the queue, and its
client_mask must name every client; labels of ours may name fewer. Unknown labels are ignored.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Final

from impi.base.errors import PeerError, StartupError, UsageError
from impi.base.records import replaced
from impi.protocol.decisions import USUAL
from impi.protocol.job import ALTERNATIVES, Job
from impi.protocol.startup.agree import agree_on_job, agree_on_version
from impi.protocol.startup.auth import Method
from impi.protocol.startup.challenge import Trust
from impi.protocol.startup.choices import (
    NEEDED,
    agree_on_decisions,
    agree_on_native,
    check_choice,
    check_version,
    encode_choices,
    encode_decisions,
    knows_tables,
)
from impi.protocol.startup.facts import ClientFacts, encode_facts, encode_versions
from impi.protocol.wire import MAX_PAYLOAD, Label, OwnLabel

_KNOWN_LABELS: Final = frozenset(int(label) for label in Label)
_OWN_LABELS: Final = frozenset(int(label) for label in OwnLabel)
_OF_TUNED_VERSION: Final = (
    OwnLabel.C_TUNING,
    OwnLabel.C_NATIVE,
    OwnLabel.C_SOFTWARE,
    OwnLabel.C_PROVES,
)
_ENCRYPTS: Final = (3).to_bytes(4, "big")
# The data of C_PROVES says what this client's hosts do: 1, they prove that they know the job's key;
# 3, they use TLS as well.
_PROVES: Final = {Method.CHALLENGE: (1).to_bytes(4, "big"), Method.TLS: _ENCRYPTS}
_WAIT_FOR_US: Final = "other clients wait for it"
_NO_MPI: Final = (
    ", which means that the program there has ended without initialising MPI"
)


def server_fault(what: str, clause: str, octets: bytes = b"") -> PeerError:
    """Return the error of a server that has broken the protocol."""
    return PeerError(what, clause=clause, peer="the server", octets=octets)


class Labels:
    """The labels that this client submits, and the broadcasts that it has heard.

    Args:
        me: the number of this client.
        nclients: number of clients of the job.
        method: the method by which this client and the server have authenticated.
    """

    def __init__(self, me: int, nclients: int, method: Method) -> None:
        self.withheld = False
        """Whether this client submits nothing."""
        self.values: dict[int, bytes] = {}
        """The broadcasts of the specification's labels."""
        self._me = me
        self._nclients = nclients
        self._proves = _PROVES.get(method, b"")
        self._facts: ClientFacts  # from submit() on, without which no label is taken
        self._queue: deque[tuple[Label | OwnLabel, bytes]] = deque()
        self._tuned = False
        self._proving: dict[int, bytes] = {}
        # The facts of the job that labels of ours decide.
        self._decided: dict[str, object] = {"software": ((),) * nclients}

    def submit(self, versions: tuple[tuple[int, int], ...], facts: ClientFacts) -> None:
        """Queue the labels of this client.

        Raises:
            UsageError: it does not fit a command.
        """
        # C_VERSION first, then ascending: the server takes a higher label as a sign that a client
        # will not submit a lower one any more (2.3.5).
        self._facts = facts

        self._queue.extend(
            [
                (Label.C_VERSION, encode_versions(versions)),
                *encode_facts(facts),
                *encode_choices(facts),
            ]
        )
        for label, data in self._queue:
            if len(data) + 4 > MAX_PAYLOAD:
                raise UsageError(
                    f"{label.name} takes {len(data)} octets: this client has too many processes"
                )

    def due(self) -> list[tuple[Label | OwnLabel, bytes]]:
        """Return the labels to send now: one of the specification, or all of ours, the last ones.

        Labels of ours are not awaited one by one, because a server may drop unknown ones.
        """
        waits = bool(self._queue) and self._queue[0][0] in _KNOWN_LABELS
        return [self._queue[0]] if waits else list(self._queue)

    def hears(self, payload: bytes) -> bool:
        """Take the payload of a broadcast; return whether the labels now :meth:`due` waited for it.

        Raises:
            PeerError: the clients cannot have submitted this broadcast.
            StartupError: the labels of the clients make no job.
        """

        if len(payload) < 8:
            raise server_fault(
                "sent COLL without label and client_mask", "2.3.5", payload
            )

        # Three kinds: ours, which nothing waits for; unknown ones; and those of
        # the text, one at a time.
        label, mask = struct.unpack_from(">iI", payload)
        if label in _OWN_LABELS:
            self._on_choice(OwnLabel(label), mask, payload[8:])
            return False

        if label not in _KNOWN_LABELS:
            return False  # 2.3.5: labels that are not understood are ignored.

        if self.withheld:
            raise StartupError(_WAIT_FOR_US)

        # The server completes a label when every client has submitted it or can no longer do so.
        # Ours is out for the head of the queue alone, so no other one can be complete.
        if not self._queue or label != self._queue[0][0]:
            raise server_fault(
                f"broadcast {Label(label).name}, which was not its turn",
                "2.3.5",
                payload,
            )

        self._check_mask(Label(label), mask)

        self.values[label] = payload[8:]
        if label == Label.C_VERSION:
            # Decided here, and not with the rest, because it decides which labels follow (2.3.5).
            self._on_version(agree_on_version(payload[8:], self._nclients))

        self._queue.popleft()

        return True

    def check_relayed(self) -> None:
        """Raise StartupError if the server has kept back a label that a choice of the user
        needs."""
        for label, _ in self._queue:
            if label in NEEDED:
                raise StartupError(
                    f"this server does not relay {NEEDED[OwnLabel(label)]} to the other clients: use the"
                    " impirun -server that comes with this client, or start all clients without it",
                    clause="2.3.5",
                )

    def agreed_job(self) -> Job:
        """Return the job that follows from all broadcasts.

        Raises:
            StartupError: see :func:`~impi.protocol.startup.agree.agree_on_job`.
        """

        # The choices are the same everywhere, or some client has refused them.
        offer = self._facts.offer
        collectives = tuple(name for name in ALTERNATIVES if name in offer.collectives)

        job = agree_on_job(self._nclients, self.values)
        # No client has given a table: then the built-in one is in force, the same at all of them.
        if self._tuned:
            self._decided.setdefault("decisions", USUAL)

        return replaced(
            job, verify=offer.verify, collectives=collectives, **self._decided
        )

    def agreed_trust(self, trust: Trust) -> Trust:
        """Return ``trust`` with the clients that have its key; without one if this one has not."""
        if self._me not in self._proving:
            return Trust(came=trust.came)

        encrypting = tuple(
            client for client, value in self._proving.items() if value == _ENCRYPTS
        )

        return replaced(trust, clients=tuple(self._proving), tls=encrypting)

    def _on_version(self, version: tuple[int, int]) -> None:
        check_version(self._facts, version)

        self._tuned = knows_tables(version)
        if not self._tuned:
            if self._proves == _ENCRYPTS:
                # C_PROVES would not be sent, so all channels would be in clear without a word.
                raise StartupError(
                    "the server wants TLS (--tls), which needs clients of ours without --impi-version 0.0; what all "
                    f"of them offer is version {version[0]:#x}.{version[1]}"
                )

            return

        # Queued only now: C_VERSION has shown that every client knows these labels, so that each
        # may rely on the choices that they make.
        decisions = self._facts.offer.decisions
        ours = {
            OwnLabel.C_TUNING: b""
            if decisions is None
            else encode_decisions(decisions),
            OwnLabel.C_NATIVE: self._facts.representation,
            OwnLabel.C_SOFTWARE: self._facts.software,
            OwnLabel.C_PROVES: self._proves,
        }
        self._queue.extend((label, data) for label, data in ours.items() if data)

    def _on_choice(self, label: OwnLabel, mask: int, data: bytes) -> None:
        if label in _OF_TUNED_VERSION and not self._tuned:
            return  # Without that version the label cannot be one of ours

        # Labels of ours ascend, too, so the head of the queue is the only own one that can come
        # back. Whether this is ours, the mask and the queue must say alike.
        clients = self._contributors(label, mask, data)

        mine = bool(self._queue) and self._queue[0][0] is label
        if not clients or (self._me in clients) is not mine:
            raise server_fault(
                f"broadcast {label.name}, but not what the clients of this job submitted",
                "2.3.5",
                data,
            )

        chosen = {client: data[4 * i : 4 * i + 4] for i, client in enumerate(clients)}
        match label:
            case OwnLabel.C_TUNING:
                self._decided["decisions"] = agree_on_decisions(clients, data)
            case OwnLabel.C_NATIVE:
                self._decided["native"] = agree_on_native(
                    list(chosen.values()), self._nclients
                )
            case OwnLabel.C_SOFTWARE:
                self._decided["software"] = tuple(
                    tuple(chosen.get(client, b"")) for client in range(self._nclients)
                )
            case OwnLabel.C_PROVES:
                self._proving = chosen
            case _:
                check_choice(
                    label, chosen, self._queue[0][1] if mine else None, self._nclients
                )

        if mine:
            self._queue.popleft()

    def _contributors(self, label: OwnLabel, mask: int, data: bytes) -> list[int]:
        """Return the clients that submitted a label of ours; none if that cannot have been."""
        clients = [client for client in range(self._nclients) if mask >> client & 1]
        # Each choice has four octets, but for tables, which have their length in front. A bit
        # beyond the clients of this job makes the whole broadcast doubtful.
        fits = label is OwnLabel.C_TUNING or len(data) == 4 * len(clients)

        return clients if fits and not mask >> self._nclients else []

    def _check_mask(self, label: Label, mask: int) -> None:
        """All labels that we know are mandatory: every client must have contributed."""

        if mask >> self._nclients:
            raise server_fault(
                f"broadcast {label.name} of clients that do not exist (client_mask {mask:#x})",
                "2.3.5",
            )

        # The three cases differ in who is at fault: the server that invents clients, the server
        # that drops our data, or clients that left a mandatory label out.
        missing = [
            str(client) for client in range(self._nclients) if not mask >> client & 1
        ]
        if str(self._me) in missing:
            raise server_fault(
                f"broadcast {label.name} without what this client submitted", "2.3.5"
            )

        if missing:
            who = "client" if len(missing) == 1 else "clients"
            why = _NO_MPI if label == Label.C_VERSION else ""
            raise StartupError(
                f"did not contribute the mandatory {label.name}{why}",
                clause="2.3.5",
                peer=f"{who} {', '.join(missing)}",
            )
