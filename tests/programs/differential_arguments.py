"""The outcome of each call with each kind of integer argument: ``call(argument) kind: outcome``.

Runs under mpi4py and under impi with any number of procs; rank 0 prints sorted lines. The outcome
is the effect of an argument that is taken, or the class of the exception. Every rank passes the
same kinds of values, so that all take them or all refuse them.
"""

import enum
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
own = MPI.COMM_SELF.Dup()
for comm in (world, own):
    comm.Set_errhandler(MPI.ERRORS_RETURN)
ERRORS = {getattr(MPI, name): name for name in dir(MPI) if name.startswith("ERR_")}


class WithInt:
    """Has ``__int__`` alone."""

    def __init__(self, value):
        self.value = value

    def __int__(self):
        return self.value


class WithIndex(WithInt):
    """Has ``__index__`` as well."""

    __index__ = WithInt.__int__


class Number(enum.IntEnum):
    """Integers with names."""

    ZERO, ONE, TWO = range(3)


KINDS: dict[str, Any] = {
    "int": int,
    "bool": bool,
    "IntEnum": lambda n: Number(n),
    "float": float,
    "float with a fraction": lambda n: n + 0.5,
    "nan": lambda n: float("nan"),
    "numpy int64": np.int64,
    "numpy uint8": np.uint8,
    "numpy float64": np.float64,
    "numpy bool": np.bool_,
    "array of no dimension": np.array,
    "array of no dimension, float": lambda n: np.array(float(n)),
    "array of one": lambda n: np.array([n]),
    "Decimal": Decimal,
    "Fraction": Fraction,
    "object with __int__": WithInt,
    "object with __index__": WithIndex,
    "complex": complex,
    "str": str,
    "None": lambda n: None,
    "too large": lambda n: (1 << 70) + n,
}


def outcome(call, value):
    """Return the effect of a call, or the class of its exception."""
    try:
        return f"taken {call(value)}"
    except MPI.Exception as failure:
        return ERRORS[failure.Get_error_class()]
    except Exception as failure:  # its class is the outcome
        return type(failure).__name__


# ---- messages to oneself -----------------------------------------------------------------------


def arrived():
    """Receive the one message of ``own``; return its tag."""
    status = MPI.Status()
    own.Recv(bytearray(64), MPI.ANY_SOURCE, MPI.ANY_TAG, status)
    return status.tag


def sent(name, where):
    """A call that sends to a rank, or with a tag."""

    def run(value):
        dest, tag = (value, 1) if where == "dest" else (0, value)
        receiving = (
            own.Irecv(bytearray(64))
            if name in ("Send", "Ssend", "send", "ssend")
            else None
        )
        made = None
        try:
            made = getattr(own, name)(b"1", dest, tag)
        except BaseException:
            if receiving is not None:
                receiving.Cancel()
                receiving.Wait()
            raise
        status = MPI.Status()
        if receiving is not None:
            receiving.Wait(status)
            return status.tag
        if name.endswith("_init"):
            made.Start()
        tag = arrived()
        made.wait()
        return tag

    return run


def received(name, where):
    """A call that receives or probes, from a rank or with a tag."""
    several = name in ("recv", "irecv")

    def run(value):
        source, tag = (value, 1) if where == "source" else (0, value)
        status = MPI.Status()
        sending = (own.isend if several else own.Isend)(b"1", 0, 1)
        try:
            if name in ("Recv", "Irecv", "Recv_init"):
                made = getattr(own, name)(bytearray(64), source, tag)
            else:
                made = getattr(own, name)(source=source, tag=tag)
            if name == "Recv_init":
                made.Start()
            if name in ("Irecv", "Recv_init", "irecv"):
                made.wait(status)
            elif "probe" in name.lower():
                if name in ("Mprobe", "Improbe"):
                    made.Recv(bytearray(64))
                else:
                    own.Recv(bytearray(64))
        except BaseException:
            own.Recv(bytearray(64))
            sending.Wait()
            raise
        sending.Wait()
        return "it"

    return run


def exchanged(name, where):
    """A call that sends and receives at once."""

    def run(value):
        given = {"dest": 0, "sendtag": 1, "source": 0, "recvtag": 1, where: value}
        into = bytearray(8)
        if name == "sendrecv":
            return own.sendrecv("it", **given)
        if "replace" in name:
            made = getattr(own, name)(into, **given)
        else:
            made = getattr(own, name)(b"12345678", recvbuf=into, **given)
        if made is not None:
            made.Wait()
        return "it"

    return run


# ---- messages to rank 0 of all -----------------------------------------------------------------


def to_first(name):
    """Every rank sends to rank 0."""

    def run(value):
        made = getattr(world, name)(np.full(1, rank), dest=value, tag=1)
        total, into = 0, np.zeros(1, int)
        for source in range(size if rank == 0 else 0):
            world.Recv(into, source, 1)
            total += into[0]
        made.Wait()
        return total

    return run


def from_first(name, where):
    """Every rank receives from rank 0."""

    def run(value):
        sending = [
            world.Isend(np.full(1, 7), other, 1)
            for other in range(size if rank == 0 else 0)
        ]
        into = np.zeros(1, int)
        source, tag = (value, 1) if where == "source" else (0, value)
        try:
            made = getattr(world, name)(into, source, tag)
            if made is not None:
                made.Wait()
        except BaseException:
            world.Recv(into, 0, 1)
            raise
        finally:
            MPI.Request.Waitall(sending)
        return into[0]

    return run


# ---- collectives -------------------------------------------------------------------------------


def rooted(name):
    """A collective with a root."""
    one, whole = np.full(2, rank + 1), np.zeros(2 * size, int)
    counts = [2] * size
    args = {
        "Bcast": lambda: (one.copy(),),
        "Gather": lambda: (one, whole),
        "Gatherv": lambda: (one, [whole, counts]),
        "Scatter": lambda: (np.tile(one, size), whole[:2].copy()),
        "Scatterv": lambda: ([np.tile(one, size), counts], whole[:2].copy()),
        "Reduce": lambda: (one, whole[:2].copy(), MPI.SUM),
        "bcast": lambda: ("it",),
        "gather": lambda: (rank,),
        "scatter": lambda: (list(range(size)),),
        "reduce": lambda: (rank, MPI.SUM),
    }
    plain = name.removesuffix("_init")
    blocking = plain if plain in args else plain[1:].capitalize()

    def run(value):
        made = getattr(world, name)(*args[blocking](), root=value)
        if isinstance(made, MPI.Prequest):
            made.Start()
        if isinstance(made, MPI.Request):
            made.Wait()
            return "it"
        return made

    return run


def part(**given):
    """Split, and say how large a part is and which rank the caller has."""

    def run(value):
        made = world.Split(
            **{
                key: value if wanted is None else wanted
                for key, wanted in given.items()
            }
        )
        found = (made.size, made.rank)
        made.Free()
        return found

    return run


def used(make):
    """Make a communicator, describe it and free it."""

    def run(value):
        made = make(value)
        found = made.size
        made.Free()
        return found

    return run


grid = MPI.COMM_SELF.Create_cart([1], [True])
graph = MPI.COMM_SELF.Create_graph([1], [0])
group = world.Get_group()
INT = MPI.INT


def typed(make):
    """Make a datatype; say its size and extent."""

    def run(value):
        made = make(value)
        found = (made.Get_size(), *made.Get_extent())
        made.Free()
        return found

    return run


def reduce_scattered(value):
    """Call Reduce_scatter with ``value`` as the count of each rank."""
    into = np.zeros(1, int)
    world.Reduce_scatter(np.ones(size, int), into, [value] * size)
    return into[0]


def gathered(value):
    """Gather with counts, or displacements."""
    into = np.zeros(size + 1, int)
    world.Allgatherv(np.ones(1, int), [into, *value])
    return into.sum()


def status_of(setter):
    """Change a status; say what it has then."""

    def run(value):
        status = MPI.Status()
        status.source = status.tag = 0
        setter(status, value)
        return (status.source, status.tag, status.error, status.Get_count(MPI.BYTE))

    return run


def attribute(value):
    """Ask for a predefined attribute; the key is an offset from a known one."""
    return MPI.COMM_WORLD.Get_attr(value)


ZERO, ONE, TWO = 0, 1, 2
CHECKS: dict[str, tuple[int, Any]] = {}
for call in (
    "Isend",
    "Issend",
    "Send",
    "Ssend",
    "isend",
    "issend",
    "send",
    "ssend",
    "Send_init",
):
    CHECKS[f"{call}(dest)"] = (ZERO, sent(call, "dest"))
    CHECKS[f"{call}(tag)"] = (ONE, sent(call, "tag"))
for call in (
    "Recv",
    "Irecv",
    "Recv_init",
    "recv",
    "irecv",
    "Probe",
    "Iprobe",
    "Mprobe",
):
    CHECKS[f"{call}(source)"] = (ZERO, received(call, "source"))
    CHECKS[f"{call}(tag)"] = (ONE, received(call, "tag"))
for call in ("Sendrecv", "Sendrecv_replace", "Isendrecv", "sendrecv"):
    for argument, n in (
        ("dest", ZERO),
        ("sendtag", ONE),
        ("source", ZERO),
        ("recvtag", ONE),
    ):
        CHECKS[f"{call}({argument})"] = (n, exchanged(call, argument))
for call in ("Isend", "Issend"):
    CHECKS[f"{call}(dest) of all"] = (ZERO, to_first(call))
for call in ("Recv", "Irecv"):
    CHECKS[f"{call}(source) of all"] = (ZERO, from_first(call, "source"))
    CHECKS[f"{call}(tag) of all"] = (ONE, from_first(call, "tag"))
for call in ("Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Reduce"):
    for form in (call, f"I{call.lower()}", f"{call}_init"):
        CHECKS[f"{form}(root)"] = (ZERO, rooted(form))
for call in ("bcast", "gather", "scatter", "reduce"):
    CHECKS[f"{call}(root)"] = (ZERO, rooted(call))
CHECKS.update({
    "Split(color)": (ONE, part(color=None, key=0)),
    "Split(key)": (ONE, part(color=0, key=None)),
    "Split_type(split_type)": (MPI.COMM_TYPE_SHARED, used(lambda n: own.Split_type(n))),
    "Split_type(key)": (ONE, used(lambda n: own.Split_type(MPI.COMM_TYPE_SHARED, n))),
    "Create_group(tag)": (ONE, used(lambda n: own.Create_group(own.Get_group(), n))),
    "Create_cart(dims)": (ONE, used(lambda n: own.Create_cart([n]))),
    "Create_cart(dims) alone": (ONE, used(lambda n: own.Create_cart(n))),
    "Create_cart(periods)": (ONE, used(lambda n: own.Create_cart([1], [n]))),
    "Create_graph(index)": (ONE, used(lambda n: own.Create_graph([n], [0]))),
    "Create_graph(edges)": (ZERO, used(lambda n: own.Create_graph([1], [n]))),
    "Create_dist_graph_adjacent(sources)": (ZERO, used(lambda n: own.Create_dist_graph_adjacent([n], [0]))),
    "Create_dist_graph_adjacent(sourceweights)":
        (ONE, used(lambda n: own.Create_dist_graph_adjacent([0], [0], [n], [1]))),
    "Create_dist_graph(degrees)": (ONE, used(lambda n: own.Create_dist_graph([0], [n], [0]))),
    "Get_cart_rank(coords)": (ZERO, lambda n: grid.Get_cart_rank([n])),
    "Get_coords(rank)": (ZERO, lambda n: grid.Get_coords(n)),
    "Shift(direction)": (ZERO, lambda n: grid.Shift(n, 1)),
    "Shift(disp)": (ONE, lambda n: grid.Shift(0, n)),
    "Sub(remain_dims)": (ONE, used(lambda n: grid.Sub([n]))),
    "Cart_map(dims)": (ONE, lambda n: own.Cart_map([n])),
    "Get_neighbors(rank)": (ZERO, lambda n: graph.Get_neighbors(n)),
    "Get_neighbors_count(rank)": (ZERO, lambda n: graph.Get_neighbors_count(n)),
    "Compute_dims(nnodes)": (TWO, lambda n: MPI.Compute_dims(n, 2)),
    "Compute_dims(dims)": (TWO, lambda n: MPI.Compute_dims(2, n)),
    "Compute_dims(dims) in a list": (TWO, lambda n: MPI.Compute_dims(2, [n, 0])),
    "Incl(ranks)": (ZERO, lambda n: group.Incl([n]).size),
    "Excl(ranks)": (ZERO, lambda n: group.Excl([n]).size),
    "Range_incl(ranks)": (ZERO, lambda n: group.Range_incl([(0, n, 1)]).size),
    "Translate_ranks(ranks)": (ZERO, lambda n: group.Translate_ranks([n], group)),
    "Create_contiguous(count)": (TWO, typed(lambda n: INT.Create_contiguous(n))),
    "Create_vector(count)": (TWO, typed(lambda n: INT.Create_vector(n, 1, 2))),
    "Create_vector(blocklength)": (TWO, typed(lambda n: INT.Create_vector(1, n, 2))),
    "Create_vector(stride)": (TWO, typed(lambda n: INT.Create_vector(2, 1, n))),
    "Create_hvector(stride)": (TWO, typed(lambda n: MPI.BYTE.Create_hvector(2, 1, n))),
    "Create_indexed(blocklengths)": (TWO, typed(lambda n: INT.Create_indexed([n], [0]))),
    "Create_indexed(displacements)": (TWO, typed(lambda n: INT.Create_indexed([1], [n]))),
    "Create_hindexed(displacements)": (TWO, typed(lambda n: MPI.BYTE.Create_hindexed([1], [n]))),
    "Create_indexed_block(blocklength)": (TWO, typed(lambda n: INT.Create_indexed_block(n, [0]))),
    "Create_struct(displacements)": (TWO, typed(lambda n: MPI.Datatype.Create_struct([1], [n], [MPI.BYTE]))),
    "Create_subarray(sizes)": (TWO, typed(lambda n: INT.Create_subarray([n], [1], [0]))),
    "Create_subarray(starts)": (ONE, typed(lambda n: INT.Create_subarray([2], [1], [n]))),
    "Create_darray(size)": (ONE, typed(lambda n: INT.Create_darray(
        n, 0, [2], [MPI.DISTRIBUTE_BLOCK], [MPI.DISTRIBUTE_DFLT_DARG], [1]))),
    "Create_darray(gsizes)": (TWO, typed(lambda n: INT.Create_darray(
        1, 0, [n], [MPI.DISTRIBUTE_BLOCK], [MPI.DISTRIBUTE_DFLT_DARG], [1]))),
    "Create_resized(lb)": (TWO, typed(lambda n: INT.Create_resized(n, 8))),
    "Create_resized(extent)": (TWO, typed(lambda n: INT.Create_resized(0, n))),
    "Pack(position)": (ONE, lambda n: INT.Pack(np.ones(1, "i"), bytearray(16), n, own)),
    "Unpack(position)": (ONE, lambda n: INT.Unpack(bytes(16), n, np.ones(1, "i"), own)),
    "Pack_size(count)": (ONE, lambda n: INT.Pack_size(n, own)),
    "[buf, count]": (ONE, lambda n: own.Sendrecv([np.ones(2), n], 0, 0, np.ones(2), 0, 0)),
    "[buf, count, type]": (ONE, lambda n: own.Sendrecv([np.ones(2), n, MPI.DOUBLE], 0, 0, np.ones(2), 0, 0)),
    "[buf, (count, displ)]": (ONE, lambda n: own.Sendrecv([np.ones(2), (1, n)], 0, 0, np.ones(2), 0, 0)),
    "[buf, count, displ, type]":
        (ONE, lambda n: own.Sendrecv([np.ones(2), 1, n, MPI.DOUBLE], 0, 0, np.ones(2), 0, 0)),
    "Reduce_scatter(recvcounts)": (ONE, reduce_scattered),
    "Allgatherv(counts)": (ONE, lambda n: gathered([[n] * size])),
    "Allgatherv(counts) alone": (ONE, lambda n: gathered([ONE if n is None else n])),
    "Allgatherv(displs)": (ONE, lambda n: gathered([([1] * size, [n, *range(2, size + 1)])])),
    "Set_source(source)": (ONE, status_of(lambda status, n: status.Set_source(n))),
    "Set_tag(tag)": (ONE, status_of(lambda status, n: status.Set_tag(n))),
    "Set_error(error)": (ONE, status_of(lambda status, n: status.Set_error(n))),
    "Set_elements(count)": (TWO, status_of(lambda status, n: status.Set_elements(MPI.BYTE, n))),
    "Get_error_class(errorcode)": (ZERO, MPI.Get_error_class),
    "Get_error_string(errorcode)": (ZERO, lambda n: len(MPI.Get_error_string(n)) > 0),
    "Aint_add(base)": (TWO, lambda n: MPI.Aint_add(n, 1)),
    "Aint_diff(addr1)": (TWO, lambda n: MPI.Aint_diff(n, 1)),
    "Alloc_mem(size)": (TWO, lambda n: len(MPI.Alloc_mem(n))),
    "memory.allocate(nbytes)": (TWO, lambda n: len(MPI.memory.allocate(n))),
    "Pcontrol(level)": (ONE, lambda n: MPI.Pcontrol(n)),
    "Get_nthkey(n)": (ZERO, lambda n: MPI.Info.Create({"it": "1"}).Get_nthkey(n)),
})  # fmt: skip

lines = []
for check, (n, run) in CHECKS.items():
    for kind, convert in KINDS.items():
        lines.append(f"{check} {kind}: {outcome(run, convert(n))}")
world.Barrier()
if rank == 0:
    print("\n".join(sorted(lines)))
