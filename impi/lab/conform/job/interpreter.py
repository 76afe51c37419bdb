"""The test interpreter: an MPI program that contains no test.

Usage: the implementation's own way of starting ``interpreter.py CONTROL``, where CONTROL is the
rank of MPI_COMM_WORLD that sends scripts. Each message of tag 30000 is one line, ``OP KEY=VALUE
...``; each line is answered by a message of tag 30001: ``ok KEY=VALUE ...``, or ``error class=N``.
``interpreter.c`` beside this file is the same for compiled programs.

It needs a module mpi4py with the part of its API that MPI-1 has, and nothing of impi.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from typing import TypeAlias

from mpi4py import MPI

SCRIPT, REPORT = 30000, 30001
# Octets of the longest line.
ROOM = 1 << 16
CODES = {
    "byte": "B",
    "char": "b",
    "short": "h",
    "int": "i",
    "long": "l",
    "float": "f",
    "double": "d",
}
WIRE = {**CODES, "long": "i"}  # external32: MPI_LONG has 4 octets
TYPES = {
    "byte": MPI.BYTE,
    "char": MPI.CHAR,
    "short": MPI.SHORT,
    "int": MPI.INT,
    "long": MPI.LONG,
    "float": MPI.FLOAT,
    "double": MPI.DOUBLE,
}
Values: TypeAlias = "array[float]"
Spec: TypeAlias = "list[object]"
OPS = {"sum": MPI.SUM, "max": MPI.MAX, "min": MPI.MIN, "prod": MPI.PROD, "bor": MPI.BOR}


def elements(kind: str, count: int, seed: int, gap: int = 0) -> Values:
    """Return the test data of a seed as an array."""
    # The same formula is in test_data and in interpreter.c: both sides
    # make the data of a seed by themselves.
    found = [seed * 37 + (i + gap) * 11 + (i + gap) // 23 for i in range(count)]
    modulus = {"byte": 256, "char": 100}.get(kind, 30000)

    return array(CODES[kind], [v % modulus for v in found])


def shown(kind: str, values: Values) -> str:
    """Return values for a report: octets in external32; of many, number and checksum."""
    octets = struct.pack(f">{len(values)}{WIRE[kind]}", *values)
    return (
        octets.hex()
        if len(octets) <= 32
        else f"{len(octets)}/{zlib.adler32(octets):08x}"
    )


def numbers(text: str) -> list[int]:
    """Return the numbers of a list with commas."""
    return [int(part) for part in text.split(",") if part]


class Instruction(dict[str, str]):
    """The keys of one line."""

    def number(self, name: str, default: int = 0) -> int:
        return int(self.get(name, default))

    def kind(self) -> str:
        return self.get("type", "byte")


class Interpreter:
    """Communicators and requests by name, and a method for each operation."""

    def __init__(self) -> None:
        # Names of communicators come from scripts. Everything that a line
        # makes gets a name.
        self.comms = {"world": MPI.COMM_WORLD, "self": MPI.COMM_SELF}
        self.requests = {}
        self.attached = None
        # Errors are results: a line reports the class, and the next line comes.
        MPI.COMM_WORLD.Set_errhandler(MPI.ERRORS_RETURN)
        self.ops = {**OPS, "chain": MPI.Op.Create(self.chain, commute=False)}

    @staticmethod
    def chain(invec: MPI.buffer, inout: MPI.buffer, _type: MPI.Datatype) -> None:
        """Combine affine maps of two ints each: associative, not commutative."""
        a, b = (
            memoryview(invec).cast("B").cast("i"),
            memoryview(inout).cast("B").cast("i"),
        )
        for i in range(0, len(a), 2):
            m, c = a[i], a[i + 1]
            # Within int: 30011 squared is below 2**31.
            b[i], b[i + 1] = m * b[i] % 30011, (m * b[i + 1] + c) % 30011

    def comm(self, line: Instruction) -> MPI.Intracomm:
        return self.comms[line.get("comm", "world")]

    def buffer(
        self, line: Instruction, count: int | None = None
    ) -> tuple[Values, Spec]:
        """Return test data with its type, as mpi4py takes it."""
        kind = line.kind()
        # Counts are in elements. A line without a seed has data, too: that of seed 0.
        values = elements(
            kind, line.number("count") if count is None else count, line.number("seed")
        )

        return values, [values, TYPES[kind]]

    def empty_buffer(
        self, line: Instruction, count: int | None = None
    ) -> tuple[Values, Spec]:
        kind = line.kind()
        # Zeros, so that elements that no call has written show in the report.
        values = array(
            CODES[kind], [0] * (line.number("count") if count is None else count)
        )
        return values, [values, TYPES[kind]]

    def report_of_message(
        self, line: Instruction, status: MPI.Status, values: Values | None = None
    ) -> str:
        kind = line.kind()
        count = status.Get_count(TYPES[kind])

        text = f"source={status.Get_source()} tag={status.Get_tag()} count={count}"
        # A message that is not a whole number of elements has no count, and
        # its data no meaning.
        if values is None or count == MPI.UNDEFINED:
            return text

        return f"{text} data={shown(kind, values[:count])}"

    # -- point-to-point

    def do_echo(self, line: Instruction) -> str:
        """Do nothing: the answer shows that all lines before it are done."""
        return f"rank={MPI.COMM_WORLD.Get_rank()} size={MPI.COMM_WORLD.Get_size()}"

    def peer_and_tag(self, line: Instruction) -> tuple[int, int]:
        return line.number("peer"), line.number("tag")

    def do_send(self, line: Instruction) -> str:
        """Send, blocking; ``mode`` is empty, s, b or r."""

        _, buffer = self.buffer(line)
        mode = line.get("mode", "")

        name = {"": "Send", "s": "Ssend", "b": "Bsend", "r": "Rsend"}[mode]
        if mode == "b" and self.attached is None:
            # MPI takes one buffer at a time: attached once, for all buffered sends.
            self.attached = bytearray(1 << 20)
            MPI.Attach_buffer(self.attached)

        getattr(self.comm(line), name)(buffer, *self.peer_and_tag(line))

        return ""

    def do_isend(self, line: Instruction) -> str:
        values, buffer = self.buffer(line)
        name = {"": "Isend", "s": "Issend", "r": "Irsend"}[line.get("mode", "")]
        request = getattr(self.comm(line), name)(buffer, *self.peer_and_tag(line))
        # The values stay referred to until the request is over: MPI reads them meanwhile.
        self.requests[line["req"]] = (request, line, None, values)

        return ""

    def do_recv(self, line: Instruction) -> str:
        values, buffer = self.empty_buffer(line)
        status = MPI.Status()
        self.comm(line).Recv(buffer, *self.source_and_tag(line), status)

        return self.report_of_message(line, status, values)

    def source_and_tag(self, line: Instruction) -> tuple[int, int]:
        """Return source and tag of a receive; without them wildcards."""
        return line.number("peer", MPI.ANY_SOURCE), line.number("tag", MPI.ANY_TAG)

    def do_irecv(self, line: Instruction) -> str:
        values, buffer = self.empty_buffer(line)
        self.requests[line["req"]] = (
            self.comm(line).Irecv(buffer, *self.source_and_tag(line)),
            line,
            values,
            None,
        )
        return ""

    def do_wait(self, line: Instruction) -> str:
        request, begun, values, _ = self.requests.pop(line["req"])
        # A request is forgotten at its end; only tested ones stay known.
        status = MPI.Status()

        request.Wait(status)
        if status.Is_cancelled():
            return "cancelled=1"

        return (
            self.report_of_message(begun, status, values)
            if values is not None
            else "cancelled=0"
        )

    def do_test(self, line: Instruction) -> str:
        """Report whether a request is complete; it stays known."""

        request, begun, values, kept = self.requests[line["req"]]

        status = MPI.Status()
        if not request.Test(status):
            return "done=0"

        # MPI has freed the request by a successful test. Null in its place
        # makes a later wait return.
        self.requests[line["req"]] = (MPI.REQUEST_NULL, begun, None, kept)

        return "done=1" + (
            f" {self.report_of_message(begun, status, values)}"
            if values is not None
            else ""
        )

    def do_cancel(self, line: Instruction) -> str:
        """Cancel a request; ``wait`` then reports whether that succeeded."""
        self.requests[line["req"]][0].Cancel()
        return ""

    def do_probe(self, line: Instruction) -> str:
        status = MPI.Status()
        self.comm(line).Probe(*self.source_and_tag(line), status)
        return self.report_of_message(line, status)

    def do_iprobe(self, line: Instruction) -> str:
        """Look for a message; ``until=1``: again and again until there is one."""
        status = MPI.Status()
        while True:
            if self.comm(line).Iprobe(*self.source_and_tag(line), status):
                return "found=1 " + self.report_of_message(line, status)

            if not line.number("until"):
                return "found=0"

    def do_sendrecv(self, line: Instruction) -> str:
        """Send to ``peer`` and receive from ``from``, ``count`` elements each."""

        _, buffer = self.buffer(line)
        values, room = self.empty_buffer(line)
        status = MPI.Status()
        peer, tag = self.peer_and_tag(line)
        self.comm(line).Sendrecv(
            buffer, peer, tag, room, line.number("from", peer), tag, status
        )

        return self.report_of_message(line, status, values)

    # -- collectives: the seed of each rank is ``seed`` + its rank

    def own_values(self, line: Instruction, count: int | None = None) -> Spec:
        kind, rank = line.kind(), self.comm(line).Get_rank()
        amount = line.number("count") if count is None else count
        return [elements(kind, amount, line.number("seed") + rank), TYPES[kind]]

    def do_barrier(self, line: Instruction) -> str:
        self.comm(line).Barrier()
        return ""

    def do_bcast(self, line: Instruction) -> str:
        """MPI_Bcast; the seed is that of the root."""

        comm, root = self.comm(line), line.number("root")
        values, buffer = (
            self.buffer(line) if comm.Get_rank() == root else self.empty_buffer(line)
        )
        comm.Bcast(buffer, root)

        return f"data={shown(line.kind(), values)}"

    def do_reduce(self, line: Instruction) -> str:
        comm, root = self.comm(line), line.number("root")
        values, buffer = self.empty_buffer(line)
        # Ranks other than the root give no buffer: an MPI must not touch it there.
        comm.Reduce(
            self.own_values(line),
            buffer if comm.Get_rank() == root else None,
            self.ops[line["op"]],
            root,
        )

        return f"data={shown(line.kind(), values)}" if comm.Get_rank() == root else ""

    def do_allreduce(self, line: Instruction) -> str:
        values, buffer = self.empty_buffer(line)
        self.comm(line).Allreduce(self.own_values(line), buffer, self.ops[line["op"]])
        return f"data={shown(line.kind(), values)}"

    def do_scan(self, line: Instruction) -> str:
        values, buffer = self.empty_buffer(line)
        self.comm(line).Scan(self.own_values(line), buffer, self.ops[line["op"]])
        return f"data={shown(line.kind(), values)}"

    def do_reduce_scatter(self, line: Instruction) -> str:
        counts = numbers(line["counts"])
        comm = self.comm(line)
        values, buffer = self.empty_buffer(line, counts[comm.Get_rank()])
        comm.Reduce_scatter(
            self.own_values(line, sum(counts)), buffer, counts, self.ops[line["op"]]
        )

        return f"data={shown(line.kind(), values)}"

    def do_gather(self, line: Instruction) -> str:
        comm, root = self.comm(line), line.number("root")
        values, buffer = self.empty_buffer(line, line.number("count") * comm.Get_size())
        comm.Gather(
            self.own_values(line), buffer if comm.Get_rank() == root else None, root
        )

        return f"data={shown(line.kind(), values)}" if comm.Get_rank() == root else ""

    def do_allgather(self, line: Instruction) -> str:
        comm = self.comm(line)
        values, buffer = self.empty_buffer(line, line.number("count") * comm.Get_size())
        comm.Allgather(self.own_values(line), buffer)

        return f"data={shown(line.kind(), values)}"

    def blocks_of_line(self, line: Instruction) -> tuple[list[int], list[int], int]:
        """Return counts and displacements of a v-collective: ``gap`` elements between blocks."""
        counts, places, at = numbers(line["counts"]), [], 0
        for count in counts:
            places.append(at)
            at += count + line.number("gap")

        return counts, places, at

    def do_gatherv(self, line: Instruction) -> str:
        comm, root = self.comm(line), line.number("root")
        counts, places, size = self.blocks_of_line(line)
        values, _ = self.empty_buffer(line, size)
        # The gaps stay zero, and are reported: an MPI must not write there.
        whole = (
            [values, counts, places, TYPES[line.kind()]]
            if comm.Get_rank() == root
            else None
        )
        comm.Gatherv(self.own_values(line, counts[comm.Get_rank()]), whole, root)

        return f"data={shown(line.kind(), values)}" if comm.Get_rank() == root else ""

    def do_allgatherv(self, line: Instruction) -> str:
        comm = self.comm(line)
        counts, places, size = self.blocks_of_line(line)
        values, _ = self.empty_buffer(line, size)
        mine = self.own_values(line, counts[comm.Get_rank()])
        comm.Allgatherv(mine, [values, counts, places, TYPES[line.kind()]])

        return f"data={shown(line.kind(), values)}"

    def do_scatter(self, line: Instruction) -> str:
        """MPI_Scatter; the seed is that of the root."""

        comm, root = self.comm(line), line.number("root")
        values, buffer = self.empty_buffer(line)
        # All ranks make the data, and only the root gives it.
        _, whole = self.buffer(line, line.number("count") * comm.Get_size())
        comm.Scatter(whole if comm.Get_rank() == root else None, buffer, root)

        return f"data={shown(line.kind(), values)}"

    def do_scatterv(self, line: Instruction) -> str:
        """MPI_Scatterv with ``counts`` and ``gap``; the seed is that of the root."""

        comm, root = self.comm(line), line.number("root")
        counts, places, size = self.blocks_of_line(line)
        values, buffer = self.empty_buffer(line, counts[comm.Get_rank()])
        data, _ = self.buffer(line, size)
        whole = (
            [data, counts, places, TYPES[line.kind()]]
            if comm.Get_rank() == root
            else None
        )
        comm.Scatterv(whole, buffer, root)

        return f"data={shown(line.kind(), values)}"

    def do_alltoall(self, line: Instruction) -> str:
        comm = self.comm(line)
        amount = line.number("count") * comm.Get_size()
        values, buffer = self.empty_buffer(line, amount)
        comm.Alltoall(self.own_values(line, amount), buffer)

        return f"data={shown(line.kind(), values)}"

    def do_alltoallv(self, line: Instruction) -> str:
        """MPI_Alltoallv: rank r sends ``counts[d]`` elements to each d; gaps at the senders."""

        comm = self.comm(line)
        counts, places, size = self.blocks_of_line(line)
        mine = counts[comm.Get_rank()]
        kind = TYPES[line.kind()]
        values, _ = self.empty_buffer(line, mine * comm.Get_size())
        data = elements(line.kind(), size, line.number("seed") + comm.Get_rank())
        back = [mine] * comm.Get_size()
        places_back = [mine * r for r in range(comm.Get_size())]
        comm.Alltoallv([data, counts, places, kind], [values, back, places_back, kind])

        return f"data={shown(line.kind(), values)}"

    # -- communicators

    def report_of_new_comm(self, line: Instruction, comm: MPI.Comm) -> str:
        """Name a new communicator, and report its size and rank."""

        if comm == MPI.COMM_NULL:
            return "null=1"

        # Errors of a new communicator are results, too.
        comm.Set_errhandler(MPI.ERRORS_RETURN)
        self.comms[line["new"]] = comm
        text = f"null=0 rank={comm.Get_rank()} size={comm.Get_size()}"

        return text + (f" remote={comm.Get_remote_size()}" if comm.Is_inter() else "")

    def do_dup(self, line: Instruction) -> str:
        return self.report_of_new_comm(line, self.comm(line).Dup())

    def do_split(self, line: Instruction) -> str:
        """MPI_Comm_split; color -1 is MPI_UNDEFINED."""
        color = line.number("color")
        return self.report_of_new_comm(
            line,
            self.comm(line).Split(
                MPI.UNDEFINED if color < 0 else color, line.number("key")
            ),
        )

    def do_create(self, line: Instruction) -> str:
        comm = self.comm(line)
        # The group of the communicator, not of the world: ranks of lines
        # are those of the communicator.
        whole = comm.Get_group()
        group = whole.Incl(numbers(line["ranks"]))
        made = self.report_of_new_comm(line, comm.Create(group))
        group.Free()
        whole.Free()

        return made

    def do_intercomm(self, line: Instruction) -> str:
        local = self.comm(line)
        # IMPI 4.8: leaders talk on a communicator of both; here it is always MPI_COMM_WORLD.
        inter = local.Create_intercomm(
            line.number("leader"),
            MPI.COMM_WORLD,
            line.number("remote"),
            line.number("tag"),
        )
        return self.report_of_new_comm(line, inter)

    def do_merge(self, line: Instruction) -> str:
        return self.report_of_new_comm(
            line, self.comm(line).Merge(bool(line.number("high")))
        )

    def do_free(self, line: Instruction) -> str:
        self.comms.pop(line["comm"]).Free()
        return ""

    def do_attributes(self, line: Instruction) -> str:
        """Report the attributes of IMPI 2.5, as far as this MPI has names for them."""

        names = ("CLIENT_SIZE", "CLIENT_COLOR", "HOST_SIZE", "HOST_COLOR")

        found = [getattr(MPI, f"IMPI_{name}", None) for name in names]
        # An MPI of before IMPI, or bindings without its names: that is not
        # broken, but not testable.
        if None in found:
            return "known=0"

        values = [self.comm(line).Get_attr(key) for key in found]

        return "known=1 " + " ".join(
            f"{name.lower()}={value}" for name, value in zip(names, values, strict=True)
        )

    def do_size(self, line: Instruction) -> str:
        comm = self.comm(line)
        return f"rank={comm.Get_rank()} size={comm.Get_size()}"

    def perform(self, text: str) -> str:
        # Lines are words of ASCII, made by the tester: no quoting is needed.
        word, *pairs = text.split()

        line = Instruction(pair.split("=", 1) for pair in pairs)
        try:
            # Operations are methods of that name, so a line with an unknown
            # word ends the interpreter.
            told = getattr(self, f"do_{word}")(line)
        except MPI.Exception as error:
            return f"error class={error.Get_error_class()}"

        return f"ok {told}".rstrip()


def main() -> None:
    """Perform lines until one says ``end``."""

    control = int(sys.argv[1])
    interpreter = Interpreter()

    room = bytearray(ROOM)
    while True:
        # Blocking calls only: the interpreter is in MPI whenever it has
        # nothing to do, so it answers.
        status = MPI.Status()
        MPI.COMM_WORLD.Recv([room, MPI.BYTE], control, SCRIPT, status)

        text = room[: status.Get_count(MPI.BYTE)].decode("ascii")
        if text == "end":
            return

        report = interpreter.perform(text).encode("ascii")
        MPI.COMM_WORLD.Send([report, MPI.BYTE], control, REPORT)


if __name__ == "__main__":
    main()
