"""Mistakes that single steps do not show: names that no step made, reports that no proc owes.

A :class:`Scope` takes the steps of a test in their order, as a performer does, and has no job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from impi.base.errors import UsageError
from impi.lab.conform.job.configuration import Configuration
from impi.lab.conform.job.named_communicators import NamedCommunicators
from impi.lab.conform.job.script_steps import (
    Collective,
    Create,
    Different,
    Dup,
    ExpectPacket,
    Free,
    Intercomm,
    JobEnds,
    Keep,
    Kept,
    Merge,
    OfCommunicators,
    OnPath,
    PacketFields,
    Pending,
    Proc,
    ReceiveMessage,
    Report,
    ScriptCall,
    SendMessage,
    SendPacket,
    SendRest,
    Split,
    Step,
)


class Scope:
    """The names that steps of one test may use.

    Args:
        setup: the configuration of its job.
    """

    def __init__(self, setup: Configuration) -> None:
        self._setup = setup
        self._ranks = setup.proc_names()
        self._comms = NamedCommunicators(self._ranks)
        self._kept: set[str] = set()
        self._owed: Counter[str] = Counter()  # reports that are owed, by proc
        self._cut: set[tuple[str, str]] = set()
        self._over = False

    def enter(self, step: Step) -> None:
        """Check the next step against all before it.

        Raises:
            UsageError: it refers to something that is not there.
        """
        if self._over:
            raise UsageError("the job is over before this step")

        if (self._setup.refusal != "") != (step == JobEnds(how="refused")):
            raise UsageError(
                "'refused' must be the only step of a test whose job has a refusal; other tests must not have it"
            )

        match step:
            case OnPath():
                self._on_path(step)
            case ScriptCall():
                self._tested(step.proc)
                self._owed[step.proc] += 1
                self._members(
                    step.comm,
                    step.arguments.values(),
                    remote=step.arguments.get("remote"),
                )
            case Report():
                self._report(step)
            case Pending():
                self._tested(step.proc)
            case Collective():
                self._collective(step)
            case Dup() | Create() | Split() | Intercomm() | Merge() | Free():
                self._make(step)
            case Different():
                for name in step.names:
                    self._use(name)
            case JobEnds():
                self._end(step)

    # -- procs

    def _tested(self, proc: str) -> None:
        self._comms.world_rank(proc)
        if not proc.startswith("I"):
            raise UsageError(f"{proc} is not a proc under test, which begins with I")

    def _path(self, ours: str, theirs: str) -> None:
        self._comms.world_rank(ours)

        self._tested(theirs)
        if not ours.startswith("S"):
            raise UsageError(f"{ours} is not a simulated proc, which begins with S")

    def _members(
        self, comm: str, values: Iterable[object], remote: object = None
    ) -> None:
        """Check all members that values name; ``remote`` is a rank of MPI_COMM_WORLD."""
        self._comms.groups(comm)
        for value in values:
            for member in value if isinstance(value, tuple) else (value,):
                if isinstance(member, Proc):
                    self._comms.rank_of("world" if value is remote else comm, member)

    # -- values

    def _use(self, name: str) -> None:
        if name not in self._kept:
            raise UsageError(f"no step before has kept a value {name!r}")

    def _values(self, values: Iterable[object]) -> None:
        for value in values:
            if isinstance(value, Kept):
                self._use(value.name)
            elif isinstance(value, Keep):
                self._kept.add(value.name)

    # -- steps

    def _on_path(self, step: OnPath) -> None:
        self._path(step.ours, step.theirs)

        path = step.ours, step.theirs
        match step:
            case SendRest():
                if path not in self._cut:
                    raise UsageError("no packet was cut before on this path")

                self._cut.remove(path)
            case SendPacket():
                self._fields(step.fields, step.ours)
                if step.cut:
                    self._cut.add(path)
            case SendMessage():
                self._fields(step.fields, step.ours)
            case ExpectPacket() | ReceiveMessage():
                self._fields(step.fields, step.theirs)

    def _fields(self, fields: PacketFields, sender: str) -> None:
        self._values(fields.numbers.values())

        self._kept.update(fields.kept.values())
        if fields.comm is not None:
            self._comms.rank_of(fields.comm, Proc(sender))

    def _report(self, step: Report) -> None:
        self._tested(step.proc)
        if not self._owed[step.proc]:
            raise UsageError(
                f"{step.proc} has no report left: it got no command, or its reports were read"
            )

        self._owed[step.proc] -= 1
        self._values(step.wanted.values())
        self._members(step.comm, step.wanted.values())

    def _end(self, step: JobEnds) -> None:
        self._over = step.how != "refused"
        if step.late is not None:
            self._path(*step.late[:2])

    def _make(self, step: OfCommunicators) -> None:
        self._owed.clear()
        self._comms.make(
            step,
            0,
            [rank for name, rank in self._ranks.items() if name.startswith("I")],
        )

    def _collective(self, step: Collective) -> None:
        self._owed.clear()
        members = self._comms.members(step.comm)

        root = self._comms.rank_of(step.comm, step.root)
        if not 0 <= root < len(members):
            raise UsageError(
                f"there is no root {root} in a communicator of {len(members)}"
            )

        if (
            isinstance(step.counts, tuple)
            and step.counts
            and len(step.counts) != len(members)
        ):
            raise UsageError(
                f"{step.comm!r} has {len(members)} members: each has a count"
            )
