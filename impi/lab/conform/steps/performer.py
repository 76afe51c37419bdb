"""Performs the steps of a test on a job (:mod:`impi.lab.conform.job.script_steps` has them).

:meth:`Performer.run` takes one step after the other. A step either holds, or raises
:class:`.Broken` with what should have come. A line for an interpreter is sent without waiting, so a
report is *owed*; steps, and the end of the test, wait for it. After the last step nothing may be
left over: no report, no error, no packet that no step took.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from impi.base.errors import UsageError
from impi.lab.conform.job.encoding import packet
from impi.lab.conform.job.script_steps import (
    Collective,
    Create,
    Different,
    Dup,
    ExpectAcknowledgements,
    Expected,
    ExpectNothing,
    ExpectPacket,
    Free,
    Intercomm,
    JobEnds,
    Keep,
    Kept,
    Merge,
    OnChannel,
    OnPath,
    PacketFields,
    Pending,
    ReceiveMessage,
    Report,
    ScriptCall,
    SendMessage,
    SendOctets,
    SendPacket,
    SendRest,
    Split,
    Step,
)
from impi.lab.conform.job.simulated_procs import Path
from impi.lab.conform.job.tested_job import TestedJob
from impi.lab.conform.job.wiring import RecordedWire
from impi.lab.conform.outcomes import Broken, NotTested
from impi.lab.conform.script import test_data
from impi.lab.conform.script.script_files import Test
from impi.lab.conform.script.step_reading import read_step
from impi.lab.conform.script.step_words import Names
from impi.lab.conform.steps.exchange_messages import Exchange, broken, require, value_of
from impi.lab.conform.steps.group_steps import GroupSteps
from impi.lab.conform.steps.job_end import finish
from impi.lab.dissect import Packet

# seconds for packets that are still under way on another channel when a proc has answered
_SHORT_S: Final = 0.05


class Performer:
    """The steps of one variant of a test.

    Args:
        job: it runs.
        test: whose steps.
        parameters: what ``[each]`` chose.

    Raises:
        UsageError: a step makes no sense with the limits of this job.
    """

    def __init__(self, job: TestedJob, test: Test, parameters: Names) -> None:
        self.job = job
        self.exchange = Exchange(job)
        self.groups = GroupSteps(self.exchange)
        self.step = ""  # the line that is being performed
        # Parameters of the test come last: they may stand for names of the job.
        names = {**job.names(), **parameters}
        # Read before the first step, so that a mistake in a script costs no
        # half-performed test.
        self._steps: list[tuple[str, Step]] = [
            (line, read_step(line)) for line in test.lines(names)
        ]
        self._name = test.name
        # the rest of each packet that was cut, by ranks
        self._rest: dict[tuple[int, int], bytes] = {}
        self._kept: dict[str, int | str] = {}
        # How many reports each rank owes.
        self._owed: dict[int, int] = {proc.rank: 0 for proc in job.procs.theirs}

    def run(self) -> None:
        """Perform all steps; then all reports are in, without errors, and no packet is left.

        Raises:
            Broken: the implementation does otherwise than a step says.
            UsageError: a step makes no sense in this job.
        """

        for line, step in self._steps:
            self.step = line
            try:
                self._perform(step)
            except UsageError as error:
                raise UsageError(f"{self._name}: {error}") from None

        # The end of the job was the test: what came besides is not a packet of a job any more.
        if self.job.over:
            return

        self.step = "(all calls complete)"
        self._settle_reports()

        # Nothing may come besides what steps took: an extra packet is wrong
        # even if all else is right.
        self.step = "(nothing else was sent)"
        for path, found in self.exchange.procs.unclaimed():
            where = f"rank {path.theirs.rank} to rank {path.ours.rank}"
            raise broken(
                found, self.job, f"{where}: further packet", "none", found.kind, ""
            )

    def _perform(self, step: Step) -> None:
        match step:
            case OnPath():
                self._on_path(step)
            case ScriptCall():
                self._tell(step)
            case Report():
                rank = self._rank(step.proc)
                self._owed[rank] -= 1
                self._report(rank, step)
            case Pending():
                self._pending(step)
            case Collective():
                # A collective reads reports itself: those owed for earlier lines come first.
                self._settle_reports()
                self.groups.perform(step)
            case Dup() | Create() | Split() | Intercomm() | Merge() | Free():
                self._settle_reports()
                self.groups.make(step)
            case Different():
                # Values that earlier steps have kept by name.
                values = [self._kept[name] for name in step.names]
                if len(set(values)) < len(values):
                    raise Broken(
                        "values that must differ are equal",
                        expected="all different",
                        actual=str(values),
                    )
            case JobEnds(how="finish"):
                self._finish(step)
            case JobEnds(how="survives"):
                # Marked first: whichever way the next check goes, no further test
                # can use this job.
                self.job.over = True
                self._expect_survival()
            case JobEnds(how="zero" | "nonzero"):
                self.job.over = True
                self._expect_end(step.how)

    def _on_path(self, step: OnPath) -> None:
        path = self._path(step.ours, step.theirs)
        match step:
            case SendPacket():
                self._send_packet(path, step)
            case SendOctets():
                self.exchange.procs.raw(path, step.octets)
            case SendRest():
                self.exchange.procs.raw(
                    path, self._rest.pop((path.ours.rank, path.theirs.rank))
                )
            case ExpectPacket():
                self._expect_packet(path, step)
            case ExpectAcknowledgements():
                self._expect_acknowledgements(path, step.times)
            case ExpectNothing():
                self._expect_nothing(path, step.seconds)
            case SendMessage():
                self.exchange.send(
                    path,
                    step.data,
                    self._numbers(step.fields, path.ours.rank),
                    sync=step.sync,
                )
            case ReceiveMessage():
                self._receive_message(path, step)
            case OnChannel():
                on_channel(self.exchange, path, step)

    # -- words

    def _rank(self, proc: str) -> int:
        return self.job.comms.world_rank(proc)

    def _path(self, ours: str, theirs: str) -> Path:
        return self.exchange.procs.paths[self._rank(ours), self._rank(theirs)]

    def _number_of(self, value: int | Kept) -> int:
        return int(self._kept[value.name]) if isinstance(value, Kept) else value

    # -- interpreters

    def _tell(self, step: ScriptCall) -> None:
        rank = self._rank(step.proc)
        # The line goes out at once. Its report may come much later, as for a receive.
        self._owed[rank] += 1
        self.job.interpreters.tell(
            rank, self.groups.line(step.operation, step.comm, step.arguments)
        )

    def _report(self, rank: int, step: Report) -> None:
        text = self.job.interpreters.report(rank)
        # The report of a call without values
        while text == "ok" and (step.wanted or step.error):
            self._owed[rank] -= 1
            text = self.job.interpreters.report(rank)

        status, *words = text.split() or [""]

        said = {word.partition("=")[0]: word.partition("=")[2] for word in words}
        if status not in ("ok", "error") or (status == "error") != step.error:
            raise Broken(
                f"rank {rank} reports {text!r}",
                expected="an error" if step.error else "no error",
                actual=text,
            )

        # Compiled programs find the attributes by names that an mpi.h need not have (IMPI 2.5).
        if step.wanted.get("known") == "1" and said.get("known") == "0":
            raise NotTested(
                "the interpreter was compiled without names for the attributes of IMPI 2.5"
            )

        for key, value in step.wanted.items():
            # A key that is not in the report is told as such, in the words of
            # the report.
            actual = said.get(key, "nothing")
            if isinstance(value, Keep):
                self._kept[value.name] = said.get(key, "")
            elif actual != (expected := self._show_expected(value, step.comm)):
                raise Broken(
                    f"rank {rank} reports {key} {actual}, not {expected}",
                    expected=f"{key}={expected}",
                    actual=text,
                )

    def _show_expected(self, value: Expected, comm: str) -> str:
        match value:
            case bytes():
                return test_data.shown(value)
            case Kept():
                return str(self._kept[value.name])
            case str() | Keep():
                return str(value)

        return str(self.job.comms.rank_of(comm, value))

    def _settle_reports(self) -> None:
        """Wait for all reports that are owed; none of them may be an error."""
        for rank, owed in self._owed.items():
            for _ in range(owed):
                self._report(rank, _ANY_REPORT)

            self._owed[rank] = 0

    def _pending(self, step: Pending) -> None:
        rank = self._rank(step.proc)
        try:
            # No report is what is wanted: the wait ends by Broken.
            text = self.job.interpreters.report(rank, step.seconds)
        except Broken:
            return

        raise Broken(
            f"rank {rank} completes its call too early",
            expected="no report yet",
            actual=text,
        )

    # -- packets

    def _numbers(self, fields: PacketFields, sender: int) -> dict[str, int]:
        """Return the fields that a step gives; a communicator adds those of the ``sender``."""
        found: dict[str, int] = {}
        if fields.comm is not None:
            found = {
                "lsrank": self.job.comms.index(fields.comm, sender),
                "cid": self.job.comms.cid(fields.comm),
            }

        return found | {
            name: self._number_of(value) for name, value in fields.numbers.items()
        }

    def _send_packet(self, path: Path, step: SendPacket) -> None:
        # Fields that a step leaves out have values that fit: a new request
        # id, the length of the data.
        data = step.fields.data or b""
        carries = step.kind in ("DATA", "DATASYNC")
        defaults = (
            {"srqid": self.exchange.request(), "msglen": len(data)} if carries else {}
        )

        fields = path.fields(
            step.kind, **{**defaults, **self._numbers(step.fields, path.ours.rank)}
        )
        if step.destpid is not None:
            fields = replace(fields, dest=(path.theirs.ipv6, step.destpid))

        if step.cut:
            octets = packet(fields, data)
            self.exchange.procs.raw(path, octets[: step.cut])
            self._rest[path.ours.rank, path.theirs.rank] = octets[step.cut :]
            # Counted by hand: a packet in two parts does not go through send().
            path.outstanding += 1

            return

        # Given by hand here, so it must be booked by hand.
        if step.kind == "PROTOACK":
            path.unacknowledged -= self.exchange.procs.ackmark

        self.exchange.procs.send(path, fields, data, wait=step.with_credit)

    def _expect_nothing(self, path: Path, seconds: float | None) -> None:
        # An answer proves that the proc has been in MPI since; time alone proves nothing.
        if seconds is None:
            self.job.interpreters.tell(path.theirs.rank, "echo")
            self._fence(path.theirs.rank)

        self.exchange.idle(path, _SHORT_S if seconds is None else seconds)

    def _fence(self, rank: int) -> None:
        """Wait for the answer to an echo; keep earlier reports in their order."""

        interpreters = self.job.interpreters
        # Reports come in the order of lines: take those that are owed, then the echo's.
        before = [interpreters.report(rank) for _ in range(self._owed[rank])]
        interpreters.report(rank)
        interpreters.put_back(rank, before)

    def _expect_packet(self, path: Path, step: ExpectPacket) -> None:
        # With "some" packets of other kinds may come first, and stay for later steps.
        found = self.exchange.next_packet(
            path, step.text, fits=lambda p: not step.some or p.kind == step.kind
        )
        self._check_packet(path, found, step)

    def _check_packet(self, path: Path, found: Packet, step: ExpectPacket) -> None:
        wanted: dict[str, int | str] = {"kind": step.kind}

        data = step.fields.data
        if step.kind in ("DATA", "DATASYNC"):
            # In MPI_COMM_WORLD unless the step says otherwise: its even context id is 0 (IMPI 3.3).
            wanted |= {"lsrank": path.theirs.rank, "cid": 0}

        if data is not None:
            # Data of a step is that of a whole short message: both lengths are
            # its length.
            wanted |= {"length": len(data), "msglen": len(data)}

        # The step's own fields come last, so they replace the defaults.
        require(
            found, self.job, {**wanted, **self._numbers(step.fields, path.theirs.rank)}
        )
        if data is not None and found.payload != data:
            raise broken(
                found, self.job, "data", data[:32].hex(), found.payload[:32].hex(), ""
            )

        for field, name in step.fields.kept.items():
            self._kept[name] = value_of(found, field)

    def _expect_acknowledgements(self, path: Path, times: int) -> None:
        if not self.exchange.procs.until(lambda: len(path.acks) >= times):
            raise Broken(
                f"rank {path.theirs.rank} has sent {len(path.acks)} PROTOACKs, not {times}",
                expected=f"{times} PROTOACKs",
                actual=str(len(path.acks)),
                clause="3.6",
            )

        # Each of them is taken, so that a later step counts only what is new.
        for _ in range(times):
            path.acks.popleft()

    # -- messages

    def _receive_message(self, path: Path, step: ReceiveMessage) -> None:
        data = step.data
        wanted = {
            "lsrank": path.theirs.rank,
            "cid": 0,
            **self._numbers(step.fields, path.theirs.rank),
        }

        found = self.exchange.receive(path, len(data), **wanted)
        if found != data:
            at = next(
                (
                    i
                    for i, (a, b) in enumerate(zip(found, data, strict=False))
                    if a != b
                ),
                0,
            )
            raise Broken(
                f"user data differs from octet {at} on",
                expected=data[at : at + 16].hex(),
                actual=found[at : at + 16].hex(),
                octets=found[at : at + 32],
            )

    # -- the end

    def _expect_survival(self) -> None:
        """Check that the implementation goes on, or ends with an error; it must not hang."""
        ranks = [proc.rank for proc in self.job.procs.theirs]
        try:
            for rank in ranks:
                self.job.interpreters.tell(rank, "echo")

            for rank in ranks:
                self.job.interpreters.report(rank)
        # An end with an error is as good. Only a hang, or an end with 0, is not.
        except Broken:
            self._expect_end("nonzero")

    def _finish(self, step: JobEnds) -> None:
        if step.late is None:
            finish(self.job, self.groups, fini=dict(step.fini))
            return

        ours, theirs, count = step.late
        path = self._path(ours, theirs)

        # Packets behind the client's FINI: a host keeps acknowledging after
        # its own (IMPI 3.8).
        def send() -> None:
            for _ in range(count):
                request = self.exchange.request()
                self.exchange.procs.send(
                    path, path.fields("DATA", tag=1, srqid=request)
                )

            self._expect_acknowledgements(path, 1)

        finish(self.job, self.groups, send)

    def _expect_end(self, how: str) -> None:
        outcome = self.job.process.await_end(self.exchange.procs.patience_s * 4)
        if outcome is None:
            raise Broken(
                "the implementation does not end",
                expected=f"it ends, {how}",
                actual="it goes on",
            )

        if (outcome.code == 0) != (how == "zero"):
            raise Broken(
                f"it ends with {outcome.code}", expected=how, actual=str(outcome.code)
            )


# A report of which no step says more.
_ANY_REPORT: Final = Report(proc="", comm="world", error=False, wanted={})


def on_channel(exchange: Exchange, path: Path, step: OnChannel) -> None:
    """Perform a step of a channel.

    Raises:
        Broken: the implementation does otherwise.
        UsageError: the path has packets of an earlier test.
    """

    link = exchange.procs.links[path.ours.host, path.theirs.host]
    wire = link.wire

    assert wire is not None
    match step.verb:
        case "hold":
            _hold_protoacks(path)
        case "release":
            exchange.procs.release()
        case "silent":
            _expect_silence(exchange, path, step.amount)
        case "acknowledge":
            for _ in range(int(step.amount)):
                exchange.procs.acknowledge(path)
        case "close":
            wire.close()
        case "pace":
            wire.pace = int(step.amount)
        case "FINI":
            exchange.procs.finish(link)
        case "closed":
            _expect_close(exchange, wire)


def _hold_protoacks(path: Path) -> None:
    """Take PROTOACKs over; nothing may be unacknowledged yet, or counts would be mixed."""
    path.manual = True

    # PROTOACKs of the time before are none of this test's.
    path.acks.clear()
    if path.outstanding or path.unacknowledged:
        raise UsageError(
            "hold a path before anything was sent on it; give the test a fresh job"
        )


def _expect_silence(exchange: Exchange, path: Path, seconds: float) -> None:
    exchange.procs.until(lambda: bool(path.acks), seconds)
    if path.acks:
        raise Broken(
            "a PROTOACK comes too early",
            expected="none yet",
            actual="PROTOACK",
            clause="3.6",
        )


def _expect_close(exchange: Exchange, wire: RecordedWire) -> None:
    # A client may close its channel by ending as a whole.
    if not exchange.procs.until(
        lambda: wire.ended or exchange.job.process.ended() is not None
    ):
        raise Broken("the channel stays open", expected="it is closed", actual="open")
