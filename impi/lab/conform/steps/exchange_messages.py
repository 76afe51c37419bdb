"""Messages between simulated procs and those under test: packets taken, checked, and answered."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from impi.lab.conform.job.encoding import Fields, packet
from impi.lab.conform.job.simulated_procs import Path
from impi.lab.conform.job.tested_job import TestedJob
from impi.lab.conform.outcomes import Broken
from impi.lab.dissect import Packet


class Exchange:
    """The messages of one test, on the paths of its job."""

    def __init__(self, job: TestedJob) -> None:
        self.job = job
        self.procs = job.procs
        self._requests = itertools.count(1)

    def request(self) -> int:
        """Return a request id that no other message of this test has."""
        return next(self._requests)

    def next_packet(
        self,
        path: Path,
        what: str,
        timeout_s: float | None = None,
        clause: str = "",
        fits: Callable[[Packet], bool] = lambda _found: True,
    ) -> Packet:
        """Take the next packet of a path that ``fits``; PROTOACKs do not count, others stay.

        Raises:
            Broken: none comes.
        """

        def there() -> Packet | None:
            return next((found for found in path.inbox if fits(found)), None)

        # A closed channel ends the wait, too: nothing more can come.
        self.procs.until(lambda: there() is not None or self._over(path), timeout_s)

        found = there()
        if found is None:
            how = "the channel was closed" if self._over(path) else "nothing"
            if path.inbox:
                how = f"{path.inbox[0].describe(self.job.layout)} and nothing like that"

            ended = self.job.process.ended()
            if ended is not None:
                how += f", and the implementation has ended with {ended.code}: {self.job.process.said()}"

            who = f"rank {path.theirs.rank} to rank {path.ours.rank}"
            raise Broken(
                f"{who}: {what} does not come", expected=what, actual=how, clause=clause
            )

        path.inbox.remove(found)

        return found

    def _over(self, path: Path) -> bool:
        wire = self.procs.links[path.ours.host, path.theirs.host].wire
        return wire is not None and wire.ended

    def send(
        self, path: Path, data: bytes, more: Mapping[str, int], *, sync: bool = False
    ) -> None:
        """Send a message by the protocol of its length (3.7.1, 3.7.2), and await its SYNCACK.

        Raises:
            Broken: the SYNCACK does not come.
        """

        size, request = self.procs.datalen, self.request()
        # Longer than maxdatalen, or synchronous: the first packet asks for
        # an answer (IMPI 3.7.1, 3.7.2).
        kind = "DATASYNC" if sync or len(data) > size else "DATA"
        fields = path.fields(kind, **{"srqid": request, "msglen": len(data), **more})

        self.procs.send(path, fields, data[:size])
        if kind == "DATA":
            return

        answer = self.next_packet(
            path,
            f"SYNCACK srqid={fields.srqid}",
            fits=lambda p: (p.kind, p.srqid) == ("SYNCACK", fields.srqid),
        )
        # The other packets name the receiver's handle, pk_drqid (IMPI 3.7.2).
        for at in range(size, len(data), size):
            rest = path.fields(
                "DATA",
                **{
                    "srqid": request,
                    "msglen": len(data),
                    **more,
                    "drqid": answer.drqid,
                },
            )
            self.procs.send(path, rest, data[at : at + size])

    def receive(self, path: Path, size: int, **fields: int) -> bytes:
        """Take a whole message of ``size`` octets; answer a DATASYNC.

        Raises:
            Broken: what comes is no such message.
        """

        most = self.procs.datalen
        first = self.next_packet(
            path, f"a message of {size} octets, tag {fields.get('tag')}", fits=_begins
        )

        # A short message may be of either kind; a long one begins with
        # DATASYNC whatever the call was.
        kinds = ("DATA", "DATASYNC") if size <= most else ("DATASYNC",)
        if first.kind not in kinds:
            raise broken(
                first,
                self.job,
                "type",
                " or ".join(kinds),
                first.kind,
                "3.7.2" if size > most else "3.7.1",
            )

        # The first packet of a long message has as much as a packet can
        # (pk_len), and pk_msglen all.
        require(first, self.job, {"msglen": size, "length": min(size, most), **fields})

        octets = bytearray(first.payload)
        if first.kind == "DATASYNC":
            # Far above our own request ids, so a client that mixes up the two
            # handles is caught.
            handle = self.request() + (1 << 20)

            self.procs.send(
                path, path.fields("SYNCACK", srqid=first.srqid, drqid=handle)
            )
            while len(octets) < size:
                what = f"octets {len(octets)} to {size} of a long message, pk_drqid {handle}"
                more = self.next_packet(
                    path,
                    what,
                    clause="3.7.2",
                    fits=lambda p: (
                        p.kind == "DATA" and p.drqid == handle and not _begins(p)
                    ),
                )
                require(
                    more, self.job, {"length": min(size - len(octets), most)}, "3.7.2"
                )
                octets += more.payload

        return bytes(octets)

    def idle(self, path: Path, seconds: float) -> None:
        """Check that no packet but PROTOACKs comes on a path.

        Raises:
            Broken: one does.
        """
        self.procs.until(lambda: bool(path.inbox), seconds)
        if path.inbox:
            found = path.inbox[0]
            raise broken(
                found, self.job, "packet", "none", found.describe(self.job.layout), ""
            )


def _begins(found: Packet) -> bool:
    """Whether a packet is the first of a message (3.7.1)."""
    return found.kind == "DATASYNC" or (
        found.kind == "DATA" and found.length == found.msglen
    )


_CHECKED: dict[str, Callable[[Packet], int | str]] = {
    "kind": lambda p: p.kind,
    "length": lambda p: p.length,
    "msglen": lambda p: p.msglen,
    "srqid": lambda p: p.srqid,
    "drqid": lambda p: p.drqid,
    "lsrank": lambda p: p.lsrank,
    "tag": lambda p: p.tag,
    "cid": lambda p: p.cid,
    "count": lambda p: p.count,
}


def value_of(found: Packet, name: str) -> int | str:
    """Return a field of a packet by its name in steps."""
    return _CHECKED[name](found)


def require(
    found: Packet, job: TestedJob, wanted: Mapping[str, int | str], clause: str = ""
) -> None:
    """Compare fields of a packet.

    Raises:
        Broken: one is otherwise.
    """
    for name, expected in wanted.items():
        actual = value_of(found, name)
        if actual != expected:
            raise broken(
                found,
                job,
                f"pk_{name}" if name != "kind" else "type",
                str(expected),
                str(actual),
                clause,
            )


def broken(
    found: Packet, job: TestedJob, what: str, expected: str, actual: str, clause: str
) -> Broken:
    """Return the error about one wrong field of a packet."""
    fields = Fields(
        kind=found.kind,
        src=found.src,
        dest=found.dest,
        srqid=found.srqid,
        drqid=found.drqid,
        msglen=found.msglen,
        lsrank=found.lsrank,
        tag=found.tag,
        cid=found.cid,
        seqnum=found.seqnum,
        count=found.count,
        dtype=found.dtype,
        length=found.length,
    )
    return Broken(
        f"{what} is {actual}, not {expected}: {found.describe(job.layout)}",
        expected=f"{what} {expected}",
        actual=f"{what} {actual}",
        octets=packet(fields, found.payload[:32]),
        clause=clause,
    )
