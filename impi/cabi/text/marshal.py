"""Write the Python side of a library: a function for each stub, from ``calls.toml``.

Each function converts the C arguments that its expression names, evaluates the expression, stores
the results, and returns an error code. The kinds in the standard's table decide the conversions:

* A handle is looked up in the table of its kind (:mod:`impi.cabi.objects.handle_tables`).
* An address with its count and datatype becomes a buffer
  (:mod:`impi.cabi.objects.program_memory`), only at ranks where the argument is significant: an
  insignificant argument may hold any bits in C.
* Constants of the ABI become impi's (:mod:`impi.cabi.objects.abi_constants`).

For ``Comm_split`` the text is::

    def impi_py_Comm_split(comm, color, key, newcomm):
        try:
            at_comm = comms[comm]
            value = at_comm.Split(color, key)
            newcomm[0] = comms.put(value)
        except BaseException as failure:
            newcomm[0] = comms.null
            return failed(failure, 'Comm_split', (comms, comm))
        return 0

The conversions are written out, not interpreted at each call: a call costs about a microsecond. The
text is a module, so Python compiles it once for all ranks.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from impi.cabi.tables.abi import Abi
from impi.cabi.tables.abi_tables import FOLDER, HANDLES, Function, Parameter
from impi.cabi.text.stubs import Stub, needs_python, stubs

_TABLES: Final = {kind: f"{name.lower()}s" for kind, name in HANDLES.items()}
# Kinds of numbers whose values differ between ABIs, and their tables in abi_constants.
_CONSTANTS: Final = {
    "RANK": "RANKS",
    "RANK_NNI": "RANKS",
    "TAG": "TAGS",
    "ORDER": "ORDERS",
    "SPLIT_TYPE": "SPLIT_TYPES",
    "THREAD_LEVEL": "THREAD_LEVELS",
    "COMM_COMPARISON": "COMPARISONS",
    "GROUP_COMPARISON": "COMPARISONS",
    "TOPOLOGY_TYPE": "TOPOLOGIES",
    "TYPECLASS": "TYPECLASSES",
    "LOCK_TYPE": "LOCKS",
    "ASSERT": "MODES",
    "ACCESS_MODE": "ACCESS_MODES",
    "UPDATE_MODE": "SEEKS",
    "DISTRIB_ENUM": "DISTRIBUTIONS",
    "DTYPE_DISTRIBUTION": "DISTRIBUTIONS",
    "COMBINER": "COMBINERS",
}
# Buffers with a block for each proc: the count argument is that of one block.
_PER_RANK: Final = frozenset(
    {
        ("Gather", "recvbuf"),
        ("Scatter", "sendbuf"),
        ("Allgather", "recvbuf"),
        ("Alltoall", "sendbuf"),
        ("Alltoall", "recvbuf"),
        ("Neighbor_allgather", "recvbuf"),
        ("Neighbor_alltoall", "sendbuf"),
        ("Neighbor_alltoall", "recvbuf"),
        ("Reduce_scatter_block", "sendbuf"),
    }
)
# Rooted collectives, and the buffer that is significant at leaves. Bcast's only buffer is at root
# and leaves. In an intercommunicator the root's neighbours (MPI_PROC_NULL) are neither.
_AT_LEAVES: Final = {
    "Bcast": "",
    "Gather": "sendbuf",
    "Gatherv": "sendbuf",
    "Reduce": "sendbuf",
} | {
    "Scatter": "recvbuf",
    "Scatterv": "recvbuf",
}
_OWNERS: Final = ("COMMUNICATOR", "WINDOW", "SESSION", "FILE")
# Functions without an open file: MPI_FILE_NULL's error handler gets their errors (MPI 4.1, 14.7).
_OF_NO_FILE: Final = ("File_open", "File_delete", "Register_datarep")
# Words of an expression that may be parameters: no strings, no attributes, no parts of numbers.
_WORD: Final = re.compile(r"'[^']*'|(?<![\w.@'])(@?[A-Za-z_]\w*)")
_INDENT: Final = "        "
_HEAD: Final = '''"""The Python side of the library of {abi.title}; written by impi.cabi.text.marshal."""

from impi.cabi.objects import link
from impi.cabi.tables.abi import Abi

link.know({abi!r})

from impi.cabi.calls import attribute_calls, callbacks, file_calls, process_calls
from impi.cabi.objects import failures, handle_tables
from impi.cabi.calls import program_life, request_calls, topology_calls, type_calls
from impi.cabi.objects import program_memory
from impi.cabi.objects.abi_constants import {constants}
from impi.cabi.objects.failures import failed, lacking
from impi.cabi.objects.handle_tables import {tables}
from impi.cabi.objects.link import MPI, ffi
from impi.cabi.objects.program_memory import block, blocks_of, operand, payload
from impi.cabi.objects.program_memory import ranges_of, text
from impi.cabi.calls.request_calls import IGNORE, Status, store

unpack = ffi.unpack
'''


def module(abi: Abi, functions: Iterable[Function]) -> str:
    """Return the text of an ABI's Python side, a module."""

    calls = expressions()
    constants, tables = (
        ", ".join(sorted(set(names.values()))) for names in (_CONSTANTS, _TABLES)
    )
    parts = [_HEAD.format(abi=abi, constants=constants, tables=tables)]

    names = []
    for stub in stubs(functions):
        if needs_python(stub):
            parts.append("\n".join(_Writer(stub, calls).lines()))
            names.append(stub.python)

    parts.append(
        f"FUNCTIONS = {{{', '.join(f'{name!r}: {name}' for name in names)}}}\n"
    )

    return "\n\n".join(parts)


def expressions() -> dict[str, str]:
    """Return the expression of each function, by its name without ``MPI_``, from ``calls.toml``.

    A collective function's expression also gives those of its non-blocking and persistent forms.
    """

    chapters: Mapping[str, Mapping[str, str]] = tomllib.loads(
        (FOLDER / "calls.toml").read_text()
    )

    found = {
        name: text for chapter in chapters.values() for name, text in chapter.items()
    }
    # MPI's names of non-blocking forms have one capital behind the I:
    # Reduce_scatter, Ireduce_scatter.
    for name, text in chapters["collectives"].items():
        if text.startswith("comm."):
            found[f"I{name.lower()}"] = text.replace(f".{name}(", f".I{name.lower()}(")
            found[f"{name}_init"] = text.replace(f".{name}(", f".{name}_init(")

    return found


def _base(name: str, names: Iterable[str]) -> str:
    """Return the blocking form's name for a collective such as Ibcast; else the name itself."""
    if name.endswith("_init") and name[:-5] in names:
        return name[:-5]

    return (
        name[1:].capitalize()
        if name.startswith("I") and name[1:].capitalize() in names
        else name
    )


def _peers(comm: str) -> str:
    """Return the text for the number of a collective's peers: in the remote group, if any."""
    return f"{comm}._algorithms.peers"


class _Writer:
    def __init__(self, stub: Stub, calls: Mapping[str, str]) -> None:
        self._stub, self._function = stub, stub.function
        plain = self._function.name.removeprefix("MPI_")
        self._text = calls.get(stub.name.removeprefix("MPI_"), calls.get(plain, ""))
        self._name = _base(plain, calls)
        self._by_name = {each.name: each for each in self._function.parameters}
        self._used: list[str] = []  # parameters that the expression has named so far
        self._plain: list[str] = []  # those of them that need no conversion
        self._before: list[str] = []
        self._after: list[str] = []
        self._failing: list[str] = []
        self._groups = dict(_buffers(self._function))

    def lines(self) -> Iterator[str]:
        names = [each.name for each in self._function.parameters]
        yield f"def {self._stub.python}({', '.join(names)}):"

        about = self._about()
        if not self._text:
            yield f"    return lacking({self._stub.name!r}, {about})"
            return

        value = _WORD.sub(self._replaced, self._text)
        results = [p for p in self._function.parameters if self._is_result(p)]
        yield "    try:"
        yield from (f"{_INDENT}{line}" for line in self._before)
        yield f"{_INDENT}{'value = ' if results else ''}{value}"
        yield from (
            f"{_INDENT}{line}" for line in (*self._stores(results), *self._after)
        )
        # An exception must not reach cffi, which would return 0, and that is MPI_SUCCESS. For bugs
        # failed() raises again, and the job ends.
        yield "    except BaseException as failure:"
        # Programs compare the handle with the null one even after a failed call.
        yield from (
            f"{_INDENT}{p.name}[0] = {_TABLES[p.kind]}.null"
            for p in results
            if self._is_handle(p)
        )
        yield from (f"{_INDENT}{line}" for line in self._failing)
        yield f"        return failed(failure, {self._name!r}, {about})"
        yield "    return 0"

    def _about(self) -> str:
        """Return the text for table and handle of the object with the error handler, or None."""

        if self._name in _OF_NO_FILE:
            return "(files, files.null)"

        # A handle that the call writes has no error handler to ask, except for
        # MPI_File_close's: that file still has one.
        owner = next(
            (each for each in self._function.parameters if each.kind in _OWNERS), None
        )
        if owner is None or (owner.direction != "in" and owner.kind != "FILE"):
            return "None"

        return (
            f"({_TABLES[owner.kind]}, {owner.name}{'[0]' if '*' in owner.text else ''})"
        )

    @staticmethod
    def _is_handle(parameter: Parameter) -> bool:
        return parameter.kind in _TABLES and not parameter.is_array

    # ---- arguments

    def _replaced(self, match: re.Match[str]) -> str:
        word = match[0]
        if word.startswith("'"):
            return word

        # With an @ an expression names the C argument itself, and not what it stands for.
        if word.startswith("@"):
            self._note(word[1:])
            return word[1:]

        if word == "large":
            return str(self._stub.large)

        if word not in self._by_name:
            return word

        return self._converted(word)

    def _note(self, name: str) -> None:
        if name not in self._used:
            self._used.append(name)

    def _converted(self, name: str) -> str:
        variable = f"at_{name}"
        if name in self._used:
            return name if name in self._plain else variable

        self._note(name)

        parameter = self._by_name[name]
        if name in self._groups:
            self._before.append(f"{variable} = {self._buffer(name)}")
        elif parameter.kind == "STATUS":
            self._before.append(f"{variable} = None if {name} == IGNORE else Status()")
            self._after.append(f"if {variable} is not None: store({variable}, {name})")
        elif parameter.direction == "inout" and parameter.kind in _TABLES:
            # A call that frees its object, or completes a request, writes the null handle; a failed
            # call may have done so, too.
            table = _TABLES[parameter.kind]
            self._before.append(f"{variable} = {table}[{name}[0]]")
            self._after.append(f"{table}.settle({name}, {variable})")
            self._failing.append(f"{table}.settle_failed({name})")
        elif (text := self._number_or_handle(parameter)) == name:
            self._plain.append(name)
            return name
        else:
            self._before.append(f"{variable} = {text}")

        return variable

    def _number_or_handle(self, parameter: Parameter) -> str:
        name, kind = parameter.name, parameter.kind
        if name == "ranges":
            return "ranges_of(ranges, n)"

        if parameter.is_array and kind != "STRING":
            length = _peers("at_comm") if parameter.length == "*" else parameter.length
            # MPI allows a null pointer to no elements, and cffi's unpack() does not.
            row = f"(unpack({name}, {length}) if {length} else [])"
            table = _TABLES.get(kind) or _CONSTANTS.get(kind)

            return f"{table}.each({row})" if table else row

        if kind in _TABLES:
            return (
                f"{_TABLES[kind]}[{name}[0]]"
                if "*" in parameter.text
                else f"{_TABLES[kind]}[{name}]"
            )

        if kind in _CONSTANTS:
            return f"{_CONSTANTS[kind]}.get({name}, {name})"

        return {"STRING": f"text({name})", "LOGICAL": f"bool({name})"}.get(kind, name)

    def _buffer(self, name: str) -> str:
        # The communicator first: whether an argument is significant depends on the rank in it.
        comm = self._converted("comm") if "comm" in self._by_name else ""

        rooted = self._name in _AT_LEAVES
        if rooted and "root" not in self._used:
            self._before.append(
                f"role = {comm}._algorithms.role({self._converted('root')})"
            )

        text = self._elements(name, comm)
        if rooted:
            if _AT_LEAVES[self._name] == name:
                return f"{text} if role.is_leaf else None"

            if _AT_LEAVES[self._name]:
                return f"{text} if role.is_root else None"

            return f"{text} if role.is_root or role.is_leaf else None"

        return text

    def _elements(self, name: str, comm: str) -> str:
        counts, displs, datatype = self._groups[name]

        three = f"{name}, {counts}, {datatype}"
        # Point-to-point: the path where a microsecond counts has a function of its own.
        if comm and ("tag" in self._by_name or "sendtag" in self._by_name):
            return f"payload({three})"

        if not comm or name == "buffer":
            return f"program_memory.message({three})"  # "message" may be a parameter

        number = _peers(comm)
        # A block for each edge of the topology, where other collectives have one for each rank.
        if self._name.startswith("Neighbor"):
            number = f"len({comm}._edges.{'destinations' if name == 'sendbuf' else 'sources'})"

        if displs:
            typed = self._by_name[datatype].is_array
            text = (
                f"blocks_of({name}, {counts}, {displs}, {datatype}, {number}, {typed})"
            )
        elif self._by_name[counts].is_array:  # Reduce_scatter
            text = f"operand({name}, sendbuf, {counts}, {datatype}, {comm})"
        elif (self._name, name) == ("Reduce_scatter_block", "recvbuf"):
            text = f"program_memory.scattered({name}, sendbuf, {counts}, {datatype}, {number})"
        else:
            text = (
                f"block({three}, {number if (self._name, name) in _PER_RANK else '1'})"
            )

        return text

    # ---- results

    def _is_result(self, parameter: Parameter) -> bool:
        if (
            parameter.name in (*self._used, "resultlen")
            or parameter.kind == "STATUS"
            or parameter.name in self._groups
        ):
            return False

        return parameter.direction == "out"

    def _stores(self, results: list[Parameter]) -> Iterator[str]:
        for i, parameter in enumerate(results):
            yield self._store(
                parameter, "value" if len(results) == 1 else f"value[{i}]"
            )

    def _store(self, parameter: Parameter, value: str) -> str:
        name, kind = parameter.name, parameter.kind
        if kind == "STRING":
            length = next(
                (
                    each.name
                    for each in self._function.parameters
                    if each.name == "resultlen"
                ),
                "",
            )
            return f"program_memory.write_text({name}, {value}, {length or 'None'})"

        if kind in _TABLES:
            return f"{name}[0] = {_TABLES[kind]}.put({value})"

        if parameter.is_array:
            table = f"{_CONSTANTS[kind]}.reverse" if kind in _CONSTANTS else "None"
            return f"program_memory.fill({name}, {value}, {table}, {parameter.length.replace('*', 'None')})"

        if kind in _CONSTANTS:
            return f"{name}[0] = {_CONSTANTS[kind]}.reverse.get({value}, {value})"

        if (
            not self._stub.large
            and parameter.large != parameter.text
            and parameter.text.startswith("int")
        ):
            # A count of elements or octets may exceed an int: then MPI_UNDEFINED (MPI 4.1, 4.1.11).
            return f"{name}[0] = program_memory.in_int({value})"

        return f"{name}[0] = {value}"


def _buffers(function: Function) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield a function's buffers: name, and the names of its count, displacements and datatype.

    The standard's table does not connect them. In every function they follow their buffer, in this
    order, and two buffers such as those of Reduce share the ones after the second.
    """
    parameters = function.parameters
    for i, parameter in enumerate(parameters):
        if parameter.kind != "BUFFER":
            continue

        rest = [each for each in parameters[i + 1 :] if each.kind != "BUFFER"][:3]

        kinds = [each.kind for each in rest]
        if len(rest) > 1 and kinds[1] == "DATATYPE" and "count" in rest[0].name:
            yield parameter.name, (rest[0].name, "", rest[1].name)
        elif (
            len(rest) > 2
            and kinds[2] == "DATATYPE"
            and "count" in rest[0].name
            and "displs" in rest[1].name
        ):
            yield parameter.name, (rest[0].name, rest[1].name, rest[2].name)
