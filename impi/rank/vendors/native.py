"""A vendor over a real MPI library, through mpi4py: any that a manifest names.

How it works: :class:`NativeVendor` initialises the library and duplicates its MPI_COMM_WORLD, so
that no other user of the library meets our messages. The engine sends and probes on :class:`_Comm`
(the shadow of a communicator). Messages are MPI_BYTE; above 2^31 - 1 octets they are one element of
a struct type. Collectives are the non-blocking ones.

Direct calls of the api use :class:`_NativeComm`: the library's own communicator, types and
operations. Errors of the library become our own exceptions (:func:`_exception_for`).

Invariants: no handle of the library reaches the wire or a pickle. The thread level is *multiple*,
because the engine's helper thread polls while the program is in a blocking collective.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

from impi.base.errors import JobError, LaunchError
from impi.protocol.semantics.errors import MPIException, error
from impi.rank.vendors.binding import no_mpi4py
from impi.rank.vendors.presence import FINALIZED, last_word

if TYPE_CHECKING:
    from impi.rank.vendors.base import Arrival
    from impi.rank.vendors.invitation import Invitation

_NAME = "mpi4py.MPI"
_INT_MAX = 2**31 - 1
"""Most elements of one call if the library's counts are C ints (before MPI 4)."""
_INTEGERS = (("i", "INT"), ("u", "UINT"))
_TELLING = (
    "ERR_TRUNCATE",
    "ERR_BUFFER",
    "ERR_COUNT",
    "ERR_TYPE",
    "ERR_ROOT",
    "ERR_OP",
    "ERR_ARG",
)
"""Error classes of a library that name the program's error."""
_UNIT = 2**30
"""Octets of one element of the type for longer messages."""

_module: ModuleType | None = None
importer: Callable[[], ModuleType] | None = None
"""Another way to import mpi4py's module: set where the program's libmpi is not the vendor's."""


def real_mpi() -> ModuleType:
    """Return the library's own ``mpi4py.MPI``, even if the hook gave that name to ours.

    The library is not initialised.

    Raises:
        LaunchError: mpi4py or the library is missing, or they do not fit together.
    """
    global _module
    if _module is None:
        with _name_returned(), _settings():
            _module = _import()

    return _module


@contextlib.contextmanager
def _name_returned() -> Iterator[None]:
    """Remove our module and the hook (a finder with ``gives_mpi4py``); put them back afterwards."""

    # Both modules are named mpi4py.MPI. The library's is imported under that name, then kept in
    # this module only.
    ours = sys.modules.pop(_NAME, None)
    finders = list(sys.meta_path)

    sys.meta_path[:] = [
        finder for finder in finders if not getattr(finder, "gives_mpi4py", False)
    ]
    try:
        yield
    finally:
        # mpi4py adds a finder of its own during its import; it must survive.
        added = [finder for finder in sys.meta_path if finder not in finders]
        sys.meta_path[:] = [*finders, *added]
        sys.modules.pop(_NAME, None)

        package = sys.modules.get("mpi4py")
        if ours is not None:
            sys.modules[_NAME] = ours
            if package is not None:
                package.MPI = ours  # type: ignore[attr-defined]
        elif package is not None:
            vars(package).pop("MPI", None)


@contextlib.contextmanager
def _settings() -> Iterator[None]:
    """Hide the program's options from the library's mpi4py: they are for our MPI."""
    try:
        importlib.import_module("mpi4py")
    except ModuleNotFoundError:
        raise LaunchError(no_mpi4py()) from None

    with other_options(initialize=False, finalize=False):
        yield


@contextlib.contextmanager
def other_options(**options: object) -> Iterator[None]:
    """Give ``mpi4py.rc`` these options alone for a while, in place of the program's."""

    # mpi4py reads its options from two places and the environment when it is imported.
    homes: list[tuple[dict[str, Any], str]] = [(sys.modules, "mpi4py.rc")]
    if "mpi4py" in sys.modules:
        homes.append((vars(sys.modules["mpi4py"]), "rc"))

    variables = {
        name: os.environ.pop(name)
        for name in list(os.environ)
        if name.startswith("MPI4PY_RC_")
    }

    before = [home.get(name) for home, name in homes]
    for home, name in homes:
        home[name] = SimpleNamespace(**options)

    try:
        yield
    finally:
        os.environ.update(variables)
        for (home, name), value in zip(homes, before, strict=True):
            del home[name]
            if value is not None:
                home[name] = value


def _import() -> ModuleType:
    if importer is not None:
        return importer()

    try:
        return importlib.import_module(_NAME)
    except ModuleNotFoundError:
        raise LaunchError(no_mpi4py()) from None
    except (ImportError, RuntimeError) as error:
        where = os.environ.get("MPI4PY_LIBMPI", "the system's library path")
        text = " ".join(str(error).split())
        raise LaunchError(
            f"the MPI library in {where} cannot be loaded by mpi4py ({text}); name its prefix with --prefix"
        ) from None


class _Request:
    """A request of the library; keeps its result, because the handle is gone after completion."""

    __slots__ = ("_datatype", "_done", "_request")

    def __init__(self, request: Any, datatype: Any = None) -> None:
        self._request = request
        self._datatype = datatype
        self._done = False

    def test(self) -> bool:
        if not self._done and self._request.Test():
            self._done = True

            self._request = None  # frees the buffer, too
            if self._datatype is not None:
                self._datatype.Free()

        return self._done


class _NativeSending(_Request):
    """A send of the library, which may take it back."""

    __slots__ = ("_library", "_status", "cancelled")

    def __init__(
        self, library: _Library, request: object, datatype: object = None
    ) -> None:
        # Not by super(): each send would pay a call more.
        self._request, self._datatype, self._done = request, datatype, False
        self._library = library
        self._status: Any = None
        self.cancelled = False

    def test(self) -> bool:
        if not self._done and self._request.Test(self._status):
            self._done = True
            self.cancelled = self._status is not None and self._status.Is_cancelled()

            self._request = None  # frees the buffer, too
            if self._datatype is not None:
                self._datatype.Free()

        return self._done

    def cancel(self) -> None:
        if not self._done:
            self._status = self._library.mpi.Status()
            self._request.Cancel()


class _Arrival:
    """A matched message of the library."""

    __slots__ = ("_library", "_message", "nbytes", "octets", "source", "tag")

    def __init__(self, library: _Library, message: Any, status: Any) -> None:
        self._library = library
        self._message = message
        self.source: int = status.source
        self.tag: int = status.tag
        self.nbytes: int = status.Get_elements(library.byte)
        self.octets: memoryview | None = None

    def receive(self, buffer: memoryview) -> _Request:
        if self.nbytes <= _INT_MAX:
            return _Request(
                self._message.Irecv([buffer, self.nbytes, self._library.byte])
            )

        datatype = self._library.long_type(self.nbytes)
        return _Request(self._message.Irecv([buffer, 1, datatype]), datatype)


class _Phase(_Request):
    """A collective under way; the library reports arguments that differ between members."""

    __slots__ = ("_mpi",)

    def __init__(self, request: Any, mpi: Any) -> None:
        super().__init__(request)
        self._mpi = mpi

    def test(self) -> bool:
        with _translated_errors(self._mpi):
            return super().test()


@contextlib.contextmanager
def _translated_errors(mpi: Any) -> Iterator[None]:
    try:
        yield
    except mpi.Exception as failure:
        raise _exception_for(mpi, failure) from None


def _exception_for(mpi: Any, failure: Any) -> MPIException:
    """Return the library's error as ours, whose classes and codes differ."""

    found = failure.Get_error_class()
    # Classes have other numbers in each library. MPICH reports unequal lengths as ERR_OTHER.
    names = [name for name in _TELLING if found == getattr(mpi, name)]
    name = (
        "ERR_TRUNCATE" if found == mpi.ERR_OTHER else next(iter(names), "ERR_UNKNOWN")
    )

    return error(
        name, f"found by the MPI library: {failure.Get_error_string().splitlines()[0]}"
    )


class _Collectives:
    """The library's non-blocking collectives on octets; a blocked proc would not serve channels."""

    __slots__ = ("_comm", "_library")

    def __init__(self, library: _Library, comm: Any) -> None:
        self._library = library
        self._comm = comm

    def barrier(self) -> _Request:
        return self._start_request(self._comm.Ibarrier)

    def bcast(self, data: memoryview, root: int) -> _Request:
        return self._start_request(lambda: self._comm.Ibcast(self._octets(data), root))

    def gather(self, piece: memoryview, into: memoryview | None, root: int) -> _Request:
        return self._start_request(
            lambda: self._comm.Igather(
                self._octets(piece), self._buffer_of_pieces(into), root
            )
        )

    def scatter(
        self, pieces: memoryview | None, into: memoryview, root: int
    ) -> _Request:
        return self._start_request(
            lambda: self._comm.Iscatter(
                self._buffer_of_pieces(pieces), self._octets(into), root
            )
        )

    def allgather(self, piece: memoryview, into: memoryview) -> _Request:
        return self._start_request(
            lambda: self._comm.Iallgather(
                self._octets(piece), self._buffer_of_pieces(into)
            )
        )

    def allgatherv(
        self, piece: memoryview, into: memoryview, sizes: Sequence[int]
    ) -> _Request:
        there = [into, sizes, None, self._library.byte]
        return self._start_request(
            lambda: self._comm.Iallgatherv(self._octets(piece), there)
        )

    def alltoall(self, pieces: memoryview, into: memoryview) -> _Request:
        return self._start_request(
            lambda: self._comm.Ialltoall(
                self._buffer_of_pieces(pieces), self._buffer_of_pieces(into)
            )
        )

    def reduce(
        self,
        data: memoryview,
        into: memoryview | None,
        element: str,
        op: str,
        root: int,
    ) -> _Request:
        function, datatype = self._library.reduction(op, element)
        there = None if into is None else [into, datatype]
        return self._start_request(
            lambda: self._comm.Ireduce([data, datatype], there, function, root)
        )

    def allreduce(
        self, data: memoryview, into: memoryview, element: str, op: str
    ) -> _Request:
        function, datatype = self._library.reduction(op, element)
        return self._start_request(
            lambda: self._comm.Iallreduce([data, datatype], [into, datatype], function)
        )

    def reduce_scatter(
        self,
        data: memoryview,
        into: memoryview,
        sizes: Sequence[int],
        element: str,
        op: str,
    ) -> _Request:
        function, datatype = self._library.reduction(op, element)
        return self._start_request(
            lambda: self._comm.Ireduce_scatter(
                [data, datatype], [into, datatype], sizes, function
            )
        )

    def _start_request(self, start: Callable[[], Any]) -> _Request:
        self._library.messages += 1
        with _translated_errors(self._library.mpi):
            return _Phase(start(), self._library.mpi)

    def _octets(self, data: memoryview) -> Any:
        return [data, data.nbytes, self._library.byte]

    def _buffer_of_pieces(self, data: memoryview | None) -> Any:
        return (
            None
            if data is None
            else [data, data.nbytes // self._comm.size, self._library.byte]
        )


class _Library:
    """Handles that all communicators of the library share; counts the messages."""

    def __init__(self, mpi: Any) -> None:
        self.mpi = mpi
        self.byte = mpi.BYTE
        self.messages = 0
        sizes = (1, 2, 4, 8)
        # Open MPI 5.0 writes beyond a buffer that is too short for a long message.
        self.overruns = mpi.get_vendor()[0] == "Open MPI"
        # A library may give less than was asked for; then no thread may be in it beside another.
        self.multiple = mpi.Query_thread() == mpi.THREAD_MULTIPLE
        self._types = {
            f"{kind}{n}": getattr(mpi, f"{name}{8 * n}_T")
            for kind, name in _INTEGERS
            for n in sizes
        }
        self._types.update(
            f4=mpi.FLOAT,
            f8=mpi.DOUBLE,
            c8=mpi.C_FLOAT_COMPLEX,
            c16=mpi.C_DOUBLE_COMPLEX,
        )

    def reduction(self, op: str, element: str) -> tuple[Any, Any]:
        return getattr(self.mpi, op), self._types[element]

    def constant(self, name: str) -> Any:
        found = getattr(self.mpi, name, None)
        return (
            None
            if found is None or found in (self.mpi.DATATYPE_NULL, self.mpi.OP_NULL)
            else found
        )

    def long_type(self, nbytes: int) -> Any:
        """Return a type of ``nbytes`` octets: as a count they may exceed the library's C int."""

        units, rest = divmod(nbytes, _UNIT)
        unit = self.byte.Create_contiguous(_UNIT)
        # A struct's displacements are addresses, so the rest can begin beyond 2^31.
        whole = self.mpi.Datatype.Create_struct(
            [units, rest], [0, units * _UNIT], [unit, self.byte]
        ).Commit()
        unit.Free()

        return whole


class _NativeComm:
    """A communicator of the library for direct calls; see
    :class:`impi.rank.vendors.base.NativeComm`."""

    __slots__ = (
        "any_tag",
        "byte",
        "comm",
        "counter",
        "failure",
        "multiple",
        "overruns",
    )

    def __init__(self, library: _Library, comm: Any) -> None:
        self.counter = library
        self.comm = comm
        self.byte = library.byte
        self.any_tag: int = library.mpi.ANY_TAG
        self.failure: type[Exception] = library.mpi.Exception
        self.overruns = library.overruns
        self.multiple = library.multiple

    def constant(self, name: str) -> Any:
        return self.counter.constant(name)

    def reduction(self, op: str, element: str) -> tuple[Any, Any]:
        return self.counter.reduction(op, element)

    def status(self) -> Any:
        return self.counter.mpi.Status()

    def arrival(self, message: Any, status: Any) -> _Arrival:
        return _Arrival(self.counter, message, status)

    def translated(self, failure: Exception) -> MPIException:
        return _exception_for(self.counter.mpi, failure)


class _Comm:
    """A communicator of the library."""

    __slots__ = (
        "_any_source",
        "_any_tag",
        "_comm",
        "_library",
        "_status",
        "collectives",
        "native",
        "rank",
        "size",
    )

    def __init__(self, library: _Library, comm: Any, like: _Comm | None = None) -> None:
        self._library = library
        self._comm = comm
        self._status = library.mpi.Status()
        self._any_source = library.mpi.ANY_SOURCE
        self._any_tag = library.mpi.ANY_TAG
        self.collectives = _Collectives(library, comm)
        self.native = _NativeComm(library, comm)
        # A communicator under creation cannot be asked.
        self.rank: int = comm.Get_rank() if like is None else like.rank
        self.size: int = comm.Get_size() if like is None else like.size

    def isend(
        self, dest: int, tag: int, data: memoryview, *, sync: bool
    ) -> _NativeSending:
        library = self._library
        start = self._comm.Issend if sync else self._comm.Isend
        nbytes = data.nbytes

        library.messages += 1
        # Not the calls with MPI_Count: libraries before MPI 4 have none.
        if nbytes <= _INT_MAX:
            return _NativeSending(
                library, start([data, nbytes, library.byte], dest, tag)
            )

        datatype = library.long_type(nbytes)

        return _NativeSending(library, start([data, 1, datatype], dest, tag), datatype)

    def improbe(self) -> _Arrival | None:
        # A matched probe: the message can be received later, whatever receives come meanwhile. Any
        # source and tag, so messages come off in the order of their arrival.
        message = self._comm.Improbe(self._any_source, self._any_tag, self._status)
        return (
            None if message is None else _Arrival(self._library, message, self._status)
        )

    def subset(self, ranks: Sequence[int], cid: int) -> _Comm:
        library = self._library
        everybody = self._comm.Get_group()
        group = everybody.Incl(list(ranks))
        # Create_group, not Create: members of other clients are not in the library to take part.
        # The tag tells overlapping creations in different procs apart. Ids come in pairs (4.3).
        tag = (cid >> 1) % (_tag_ub(library.mpi, self._comm) + 1)
        comm = self._comm.Create_group(group, tag)
        group.Free()
        everybody.Free()

        return _Comm(library, comm)

    def duplicate(self, cid: int) -> tuple[_Comm, _Request]:
        # Non-blocking: MPI_Comm_idup of the program must not wait for the other members.
        comm, request = self._comm.Idup()
        return _Comm(self._library, comm, self), _Request(request)

    def free(self) -> None:
        self._comm.Free()


def _tag_ub(mpi: Any, comm: Any) -> int:
    value = comm.Get_attr(mpi.TAG_UB)
    return int(value) if value is not None else 32767  # the least that MPI promises


class NativeVendor:
    """A vendor over the MPI library loaded by mpi4py.

    Args:
        name: the requested vendor.
        library: its name in ``mpi4py.MPI.get_vendor()``.
        size: number of procs of the client; 0: unknown.

    Raises:
        LaunchError: another library was loaded, or it sees another number of procs.
    """

    def __init__(self, name: str, library: str, size: int = 0) -> None:
        mpi: Any = real_mpi()

        found = str(mpi.get_vendor()[0])
        if found != library:
            raise LaunchError(
                f"vendor {name} needs {library}, but the MPI library that was loaded is {found} ({_library_file()}); "
                "name the right prefix with --prefix"
            )

        # Not before the check: initialised under another library's mpiexec, it ends the process.
        if not mpi.Is_initialized():
            mpi.Init_thread(mpi.THREAD_MULTIPLE)

        self._library = _Library(mpi)
        # The library knows which of its messages are matched.
        self.withdraw: Callable[[Arrival], bool] = lambda arrival: False
        self.name = name
        # Our own communicator: no other user of the library in this proc meets our messages.
        self._own = mpi.COMM_WORLD.Dup()
        self._anybody = (mpi.ANY_SOURCE, mpi.ANY_TAG)

        self.world = _Comm(self._library, self._own)
        if size and size != self.world.size:
            self.finalize()  # else its shared memory would stay
            raise LaunchError(
                f"{library} sees {self.world.size} of the {size} procs: mpiexec and the library ({_library_file()}) "
                "do not belong together; name the right prefix with --prefix"
            )

        self.tag_ub = _tag_ub(mpi, mpi.COMM_WORLD)

    @property
    def messages(self) -> int:
        return self._library.messages

    def allgather(self, data: bytes) -> list[bytes]:
        pieces: list[bytes] = self._own.allgather(data)
        return pieces

    def fileno(self) -> int | None:
        """Return None: the library must be polled."""
        return None

    def progress(self) -> None:
        """Let the library send its buffered octets; any call of it does that."""
        # A probe takes nothing off a queue, whatever it finds.
        self._own.Iprobe(*self._anybody)

    def describe(self) -> dict[str, str]:
        return describe()

    def abort(self, code: int) -> NoReturn:
        sys.stdout.flush()
        sys.stderr.flush()
        last_word(f"MPI_Abort with exit code {code}".encode())
        self._library.mpi.COMM_WORLD.Abort(code)
        os._exit(code or 1)  # an Abort that returns must not let the program go on

    def finalize(self) -> None:
        mpi = self._library.mpi
        try:
            self._own.Free()
            mpi.Finalize()  # before the last word: a library that fails here is a loss
        except mpi.Exception as error:
            raise JobError(f"{self.name} cannot finalise: {error}") from None

        last_word(FINALIZED)


def connect(join: Invitation) -> NativeVendor:
    """Initialise the library of the invitation in this proc, which its mpiexec has started.

    Raises:
        LaunchError: see :class:`NativeVendor`.
    """
    return NativeVendor(join["vendor"], join["library"], join.get("size", 0))


def describe() -> dict[str, str]:
    """Return name, version and file of the library, initialised or not, and mpi4py's version.

    Raises:
        LaunchError: see :func:`real_mpi`.
    """

    mpi: Any = real_mpi()
    version = mpi.Get_library_version().strip("\0 \n")
    import mpi4py

    return {
        "library": " ".join(version.split("\n", 1)[0].split()),
        "version": ".".join(map(str, mpi.get_vendor()[1])),
        "file": _library_file(),
        "mpi4py": str(mpi4py.__version__),
    }


def _library_file() -> str:
    with (
        contextlib.suppress(OSError),
        open("/proc/self/maps", encoding="utf-8", errors="replace") as maps,  # noqa: PTH123
    ):
        # The file that the loader has mapped, whatever search path has led there.
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if path.rpartition("/")[2].startswith(("libmpi.so", "libmpich.so")):
                return "/" + path

    return "unknown file"
