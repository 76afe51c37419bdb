"""Performs the steps of a test on a job. A step is one line; ``I0`` is a proc under test, ``S0`` a
simulated one, both counted from 0 in the order of their ranks.

=============================== ====================================================================
``I0: send peer=S0 tag=5 ...``  the interpreter of I0 shall do that; nobody waits for it yet
``I0> source=S0 count=3``       its next report that has values has these (``error=1``: an error)
``S0 -> I0: DATA tag=5 ...``    S0 sends a packet
``S0 -> I0: DATA cut=130 ...``  the first 130 octets of it; ``S0 -> I0: rest`` are the others
``S0 <- I0: SYNCACK srqid=7``   the next packet is that; ``srqid=?a`` keeps a value, ``$a`` is it
``S0 <- I0: some SYNCACK``      the next of that type is that; others may come before it
``S0 <- I0: nothing``           no packet, though I0 has answered; ``nothing 0.3``: for so long
``S0 => I0: data=byte:9:1``     S0 sends a message by the protocol of its length
``S0 <= I0: data=byte:9:1``     S0 receives one
``S0 ~ I0: hold``               PROTOACKs of this path are from now on the test's own business
``S0 ~ I0: acknowledge 2``      S0 sends so many PROTOACKs; ``silent``: none comes of I0;
                                ``release``: they are no more the test's business
``S0 ~ I0: closed``             I0 closes the channel; ``close``: S0 does; ``FINI``: S0 sends that;
                                ``pace 1``: S0 sends so many octets at a time
``group bcast root=S0 ...``     an operation of chapter 4, with all its messages and results
``I0> pending 0.1``             no report comes for so many seconds: the call is not complete
``different a b``               values kept are not equal
``finish``                      the end in good order; ``finish S0 I0 4``: S0 sends four packets
                                between the FINI of I0 and its own
``ends nonzero``                the implementation ends by itself, with such a status
``survives``                    it goes on and answers, or ends with an error
=============================== ====================================================================

Data is ``TYPE:COUNT:SEED`` (:mod:`.test_data`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from impi.conform import test_data
from impi.conform.channel_steps import ChannelSteps
from impi.conform.encoding import packet
from impi.conform.exchange_messages import Exchange, broken, require, value_of
from impi.conform.expressions import Names
from impi.conform.group_steps import GroupSteps
from impi.conform.job_end import finish
from impi.conform.outcomes import Broken, NotTested
from impi.conform.script_files import Test
from impi.conform.simulated_procs import Path
from impi.conform.tested_job import TestedJob
from impi.dissect import Packet
from impi.errors import UsageError

_RANKS: Final = ("peer", "from", "root", "leader", "remote", "ranks", "source")
_ALIAS: Final = {"len": "length", "type": "kind"}
_SHORT_S: Final = 0.05
"""Seconds for what may still be under way on another channel once a proc has answered."""
Pairs = dict[str, str]


class Performer:
    """The steps of one variant of a test.

    Args:
        job: it runs.
        test: whose steps.
        parameters: what ``[each]`` chose.
    """

    def __init__(self, job: TestedJob, test: Test, parameters: Names) -> None:
        self.job = job
        self.test = test
        self.exchange = Exchange(job)
        self.groups = GroupSteps(self.exchange)
        self.channels = ChannelSteps(self.exchange, test.name)
        self.step = ""
        self._rest: dict[tuple[int, int], bytes] = {}
        """What is left of packets that were cut, by ranks."""
        self._kept: dict[str, int | str] = {}
        self._owed: dict[int, int] = {proc.rank: 0 for proc in job.procs.theirs}
        """Reports that are still to come, by rank."""
        self._over = False
        dialogue = job.dialogue
        self.names: dict[str, int | str] = {
            "datalen": job.procs.datalen,
            "ackmark": job.procs.ackmark,
            "hiwater": job.procs.hiwater,
            "xsize": dialogue.value("XSIZE"),
            "maxlinear": dialogue.value("MAXLINEAR"),
            "tagub": dialogue.limit("TAGUB"),
            "np": job.setup.procs,
            "size": len(job.layout.procs),
            **{f"I{i}": proc.rank for i, proc in enumerate(job.procs.theirs)},
            **{f"S{i}": proc.rank for i, proc in enumerate(job.procs.ours)},
            **parameters,
        }

    def run(self) -> None:
        """Perform all steps; then all reports are in, without errors, and no packet is left.

        Raises:
            Broken: the implementation does otherwise than a step says.
            UsageError: a step makes no sense.
        """
        for line in self.test.lines(self.names):
            self.step = line
            self._perform(line)
        if self._over:
            return
        self.step = "(all calls complete)"
        self._settle_reports()
        self.step = "(nothing else was sent)"
        for path, found in self.exchange.procs.unclaimed():
            where = f"rank {path.theirs.rank} to rank {path.ours.rank}"
            raise broken(found, self.job, f"{where}: further packet", "none", found.kind, "")

    def _perform(self, line: str) -> None:
        match = re.fullmatch(r"(\w+) (->|<-|=>|<=|~) (\w+): *(.*)", line)
        if match is not None:
            path = self._path(match[1], match[3])
            steps: dict[str, Callable[[Path, str], None]] = {
                "->": self._send_packet,
                "<-": self._expect_packet,
                "=>": self._send_message,
                "<=": self._receive_message,
                "~": self.channels.perform,
            }
            steps[match[2]](path, match[4])
            return
        match = re.fullmatch(r"(\w+)([:>]) *(.*)", line)
        if match is not None:
            rank = self._rank(match[1])
            if match[2] == ":":
                self._tell(rank, match[3])
            elif match[3].startswith("pending"):
                self._pending(rank, float(match[3].split()[1]))
            else:
                self._owed[rank] -= 1
                self._report(rank, self._pairs(match[3]))
            return
        word, _, rest = line.partition(" ")
        if word == "group":
            self._settle_reports()
            operation, _, arguments = rest.partition(" ")
            self.groups.perform(operation, self._pairs(arguments))
        elif word == "finish":
            self._over = True
            self._finish(rest.split())
        elif word == "different":
            values = [self._kept[name] for name in rest.split()]
            if len(set(values)) < len(values):
                raise Broken("values that must differ are equal", expected="all different", actual=str(values))
        elif word == "survives":
            self._over = self.job.over = True
            self._survives()
        elif word == "ends":
            self._over = self.job.over = True
            self._ends(rest)
        else:
            raise UsageError(f"{self.test.name}: no step is like {line!r}")

    # -- words

    def _rank(self, name: str) -> int:
        rank = self.names.get(name)
        if not isinstance(rank, int):
            raise UsageError(f"{self.test.name}: there is no proc {name!r} in this configuration")
        return rank

    def _path(self, ours: str, theirs: str) -> Path:
        return self.exchange.procs.paths[self._rank(ours), self._rank(theirs)]

    def _pairs(self, text: str) -> Pairs:
        """The keys of a step; names of procs become ranks of its communicator."""
        found: Pairs = {}
        for word in text.split():
            key, equals, value = word.partition("=")
            if not equals:
                raise UsageError(f"{self.test.name}: {word!r} is no KEY=VALUE in {self.step!r}")
            found[key] = value
        comm = found.get("comm", "world")
        for key in _RANKS:
            if key in found:
                where = "world" if key == "remote" else comm
                found[key] = ",".join(self._member(name, where) for name in found[key].split(","))
        return found

    def _member(self, name: str, comm: str) -> str:
        if not re.fullmatch(r"[IS]\d+", name):
            return name
        return str(self._index(comm, self._rank(name)))

    def _index(self, comm: str, rank: int) -> int:
        """The rank in a communicator; in an intercommunicator that in its own group."""
        groups = self.job.inter.get(comm) or (self.job.members[comm],)
        for group in groups:
            if rank in group:
                return group.index(rank)
        raise UsageError(f"{self.test.name}: rank {rank} of the job is not in the communicator {comm}")

    # -- interpreters

    def _tell(self, rank: int, text: str) -> None:
        word, _, rest = text.partition(" ")
        pairs = self._pairs(rest)
        self._owed[rank] += 1
        self.job.tell(rank, " ".join([word, *(f"{key}={value}" for key, value in pairs.items())]))

    def _report(self, rank: int, wanted: Pairs) -> None:
        text = self.job.report(rank)
        while text == "ok" and wanted:  # of a call that has nothing to tell
            self._owed[rank] -= 1
            text = self.job.report(rank)
        status, *words = text.split() or [""]
        said = {word.partition("=")[0]: word.partition("=")[2] for word in words}
        error = wanted.pop("error", None)
        wanted.pop("comm", None)
        if status not in ("ok", "error") or (status == "error") != (error is not None):
            raise Broken(
                f"rank {rank} reports {text!r}", expected="an error" if error is not None else "no error", actual=text
            )
        if wanted.get("known") == "1" and said.get("known") == "0":
            raise NotTested("the interpreter was compiled without names for the attributes of IMPI 2.5")
        for key, value in wanted.items():
            expected = test_data.shown(test_data.parse(value)) if key == "data" else str(self._known(value))
            if value.startswith("?"):
                self._kept[value[1:]] = said.get(key, "")
            elif said.get(key) != expected:
                actual = said.get(key, "nothing")
                raise Broken(
                    f"rank {rank} reports {key} {actual}, not {expected}",
                    expected=f"{key}={expected}",
                    actual=text,
                )

    def _known(self, value: str) -> int | str:
        return self._kept[value[1:]] if value.startswith("$") else value

    # -- packets

    def _numbers(self, pairs: Pairs) -> dict[str, int]:
        found = {}
        for key, value in pairs.items():
            name = _ALIAS.get(key, key)
            if key == "comm":
                found["cid"] = self.job.cids[value]
            elif key not in ("data", "seed") and not value.startswith("?"):
                found[name] = int(self._known(value))
        return found

    def _lsrank(self, pairs: Pairs, rank: int) -> dict[str, int]:
        comm = pairs.get("comm")
        return {} if comm is None else {"lsrank": self._index(comm, rank)}

    def _send_packet(self, path: Path, text: str) -> None:
        kind, _, rest = text.partition(" ")
        if kind == "rest":
            self.exchange.procs.raw(path, self._rest.pop((path.ours.rank, path.theirs.rank)))
            return
        if kind == "octets":
            self.exchange.procs.raw(path, bytes.fromhex(rest))
            return
        pairs = self._pairs(rest)
        data = test_data.parse(pairs["data"]) if "data" in pairs else b""
        wait = pairs.pop("credit", "") != "ignored"
        stops = int(pairs.pop("cut", 0))
        more = {**self._lsrank(pairs, path.ours.rank), **self._numbers(pairs)}
        carries = kind in ("DATA", "DATASYNC")
        defaults = {"srqid": self.exchange.request(), "msglen": len(data)} if carries else {}
        stranger = more.pop("destpid", None)
        fields = self.job.fields(path, kind=kind, **{**defaults, **more})
        if stranger is not None:
            fields = replace(fields, dest=(path.theirs.ipv6, stranger))
        if stops:
            octets = packet(fields, data)
            self.exchange.procs.raw(path, octets[:stops])
            self._rest[path.ours.rank, path.theirs.rank] = octets[stops:]
            path.outstanding += 1
            return
        if kind == "PROTOACK":
            path.unacknowledged -= self.exchange.procs.ackmark
        self.exchange.procs.send(path, fields, data, wait=wait)

    def _expect_packet(self, path: Path, text: str) -> None:
        kind, _, rest = text.partition(" ")
        if kind == "nothing":
            if not rest:
                self.job.tell(path.theirs.rank, "echo")
                self._fence(path.theirs.rank)
            self.exchange.idle(path, float(rest) if rest else _SHORT_S)
            return
        some = kind == "some"
        if some:
            kind, _, rest = rest.partition(" ")
        pairs = self._pairs(rest)
        if kind == "PROTOACK":
            self._expect_acknowledgements(path, int(pairs.get("times", 1)))
            return
        found = self.exchange.next_packet(path, text, fits=lambda p: not some or p.kind == kind)
        self._check_packet(path, found, kind, pairs)

    def _fence(self, rank: int) -> None:
        """Wait for the answer to an echo; earlier reports stay in their place."""
        before = [self.job.report(rank) for _ in range(self._owed[rank])]
        self.job.report(rank)
        self.job.put_back(rank, before)

    def _check_packet(self, path: Path, found: Packet, kind: str, pairs: Pairs) -> None:
        wanted: dict[str, int | str] = {"kind": kind}
        if kind in ("DATA", "DATASYNC"):
            wanted |= {"lsrank": path.theirs.rank, "cid": 0, **self._lsrank(pairs, path.theirs.rank)}
        data = test_data.parse(pairs["data"]) if "data" in pairs else None
        if data is not None:
            wanted |= {"length": len(data), "msglen": len(data)}
        require(found, self.job, {**wanted, **self._numbers(pairs)})
        if data is not None and found.payload != data:
            raise broken(found, self.job, "data", data[:32].hex(), found.payload[:32].hex(), "")
        for key, value in pairs.items():
            if value.startswith("?"):
                self._kept[value[1:]] = value_of(found, _ALIAS.get(key, key))

    def _expect_acknowledgements(self, path: Path, times: int) -> None:
        if not self.exchange.procs.until(lambda: len(path.acks) >= times):
            raise Broken(
                f"rank {path.theirs.rank} has sent {len(path.acks)} PROTOACKs, not {times}",
                expected=f"{times} PROTOACKs",
                actual=str(len(path.acks)),
                clause="3.6",
            )
        for _ in range(times):
            path.acks.popleft()

    # -- messages

    def _send_message(self, path: Path, text: str) -> None:
        pairs = self._pairs(text)
        data = test_data.parse(pairs.pop("data"))
        sync = pairs.pop("sync", "") == "1"
        more = {**self._lsrank(pairs, path.ours.rank), **self._numbers(pairs)}
        self.exchange.send(path, data, more, sync=sync)

    def _receive_message(self, path: Path, text: str) -> None:
        pairs = self._pairs(text)
        data = test_data.parse(pairs.pop("data"))
        wanted = {"lsrank": path.theirs.rank, "cid": 0, **self._lsrank(pairs, path.theirs.rank), **self._numbers(pairs)}
        found = self.exchange.receive(path, len(data), **wanted)
        if found != data:
            at = next((i for i, (a, b) in enumerate(zip(found, data, strict=False)) if a != b), 0)
            raise Broken(
                f"user data differs from octet {at} on",
                expected=data[at : at + 16].hex(),
                actual=found[at : at + 16].hex(),
                octets=found[at : at + 32],
            )

    def _settle_reports(self) -> None:
        """Wait for all reports that are owed; none of them is an error."""
        for rank, owed in self._owed.items():
            for _ in range(owed):
                self._report(rank, {})
            self._owed[rank] = 0

    def _survives(self) -> None:
        """The implementation goes on, or it ends with an error; it does not hang."""
        ranks = [proc.rank for proc in self.job.procs.theirs]
        try:
            for rank in ranks:
                self.job.tell(rank, "echo")
            for rank in ranks:
                self.job.report(rank)
        except Broken:
            self._ends("nonzero")

    def _pending(self, rank: int, seconds: float) -> None:
        """See that the call of a rank is not complete."""
        try:
            text = self.job.report(rank, seconds)
        except Broken:
            return
        raise Broken(f"rank {rank} completes its call too early", expected="no report yet", actual=text)

    def _finish(self, late: list[str]) -> None:
        if not late:
            finish(self.job, self.groups)
            return
        path, count = self._path(late[0], late[1]), int(late[2])

        def send() -> None:
            for _ in range(count):
                request = self.exchange.request()
                self.exchange.procs.send(path, self.job.fields(path, kind="DATA", tag=1, srqid=request))
            self._expect_acknowledgements(path, 1)

        finish(self.job, self.groups, send)

    def _ends(self, how: str) -> None:
        outcome = self.job.await_end(self.exchange.procs.patience_s * 4)
        if outcome is None:
            raise Broken("the implementation does not end", expected=f"it ends, {how}", actual="it goes on")
        if (outcome.code == 0) == (how == "nonzero"):
            raise Broken(f"it ends with {outcome.code}", expected=how, actual=str(outcome.code))
