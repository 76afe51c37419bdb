"""The programs of cases with ``abi=``: compiled programs, with our library as their libmpi.

A user's own compiled program needs that library as well.

A node of the lab's images has them (:mod:`impi.lab.nodes.compiled_programs`): those of the
standard ABI, and those of its vendor's. The latter are copied to the nodes of other vendors, once
in a lab. What an image has not, such as programs for a developer's own build, a node compiles. Our
library belongs to a node's Python and is made there. Clients of the vendor with that ABI have front
mode, the others stand-in mode.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypedDict, TypeVar, cast

from impi.base.errors import LabError
from impi.base.manifests import library_folder, manifest
from impi.lab.cases.own import OwnProgram
from impi.lab.nodes import Lab, Node, node_prefix, run_on
from impi.lab.nodes.compiled_programs import COMPILE, folder, needed_by
from impi.lab.nodes.job_commands import library_cache, twin_path
from impi.lab.nodes.ways import Kind

_DEADLINE_S: Final = 240.0
_PACK: Final = """\
import sys, tarfile
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|gz") as tar:
    for name in sys.argv[2:]:
        tar.add(f"{sys.argv[1]}/{name}", name)
"""
_UNPACK: Final = """\
import os, sys, tarfile
os.makedirs(sys.argv[2], exist_ok=True)
tarfile.open(sys.argv[1]).extractall(sys.argv[2])
"""
_WARM: Final = """\
import os, sys
from impi.launch.start import compiled, prefix
path, vendor = sys.argv[1:]
library = prefix.find(vendor, "", os.environ).library if vendor else ""
compiled.served((path,), os.environ, library)
"""
_Made = TypeVar("_Made")


class _TwinTold(TypedDict):
    """The output of ``images/compiled/compile.py``."""

    library: str
    programs: list[str]


class Twins:
    """The compiled programs of one lab."""

    def __init__(self, lab: Lab, roots: dict[str, str]) -> None:
        self._lab, self._roots = lab, roots
        self._there: dict[Kind, set[str]] = {}
        # By kind and node: the path of our library
        self.libraries: dict[Kind, dict[str, str]] = {}
        # (ABI, program) of those that no image had
        self.compiled: list[tuple[str, str]] = []
        self._warm: set[str] = set()  # digests of programs of the user's

    def make(self, kind: Kind, *programs: str) -> None:
        """Give all nodes programs in C, and our library of a kind.

        Raises:
            LabError: no node has a compiler for that ABI, or the compiler refuses.
        """

        names, abi = {Path(program).stem for program in programs}, kind[0]
        if kind not in self._there:
            self._there[kind] = self._take(
                kind, self._on_all(lambda node: self._ask(node, kind))
            )

        lacking = sorted(names - self._there[kind])
        if not lacking:
            return

        self.compiled += [(abi, name) for name in lacking]
        if not names <= self._take(
            kind, self._on_all(lambda node: self._ask(node, kind, *lacking))
        ):
            raise LabError(
                f"no node of this lab has the mpicc of abi={abi}: one vendor of the cell must be {abi}"
            )

        self._there[kind] |= names

    def warm_up(self, own: OwnProgram) -> None:
        """Have our library made for a user's compiled program, before the time of the cell begins.

        What is wrong with the program, impirun says in the cell.
        """

        if not own.compiled or own.digest in self._warm:
            return

        self._warm.add(own.digest)

        def ask(node: Node) -> None:
            client = next(
                i for i, nodes in enumerate(self._lab.clients) if node in nodes
            )
            vendor = self._lab.access.vendors[client]
            path = f"{self._roots[node.name]}/warm/{own.name}"
            node.write(path, own.octets, mode=0o755)
            argv = [
                self._lab.access.python,
                "-c",
                _WARM,
                path,
                vendor if manifest(vendor).has_library else "",
            ]
            cache = {"IMPI_CACHE": library_cache(self._lab, node.name)}
            run_on(
                node,
                argv,
                env={**self._lab.access.environment[node.name], **cache},
                timeout_s=_DEADLINE_S,
            )

        self._on_all(ask)

    def _take(self, kind: Kind, told: dict[str, _TwinTold]) -> set[str]:
        """Give every node the programs of another one; return the programs that all have then."""

        abi = kind[0]
        self.libraries[kind] = {name: said["library"] for name, said in told.items()}
        most = max(told, key=lambda name: len(told[name]["programs"]))
        wanted = told[most]["programs"]

        lacking = {
            name for name, said in told.items() if set(wanted) - set(said["programs"])
        }
        if lacking:
            nodes = {node.name: node for node in self._nodes()}
            octets = self._run(
                nodes[most], [_PACK, self._out(nodes[most], abi), *wanted]
            )
            self._on_all(
                lambda node: self._unpack(node, abi, octets),
                [nodes[name] for name in sorted(lacking)],
            )

        return set(wanted)

    def _ask(self, node: Node, kind: Kind, *programs: str) -> _TwinTold:
        """Compile programs on a node if it can; return its library and programs of that ABI."""

        lab, root, (abi, stands_in) = self._lab, self._roots[node.name], kind
        for source in {path for name in programs for path in needed_by(name)}:
            node.write(f"{root}/c/{source.name}", source.read_bytes())

        client = next(i for i, nodes in enumerate(lab.clients) if node in nodes)
        prefixes = self._prefixes(node, abi) if abi != "standard" else []
        own = manifest(lab.access.vendors[client]).name == abi
        replaced = any(manifest(vendor).name == abi for vendor in lab.access.builds)
        asked = {
            "abi": abi,
            "out": self._out(node, abi),
            "own": prefixes[0] if own and not stands_in else "",
            "prefixes": prefixes,
            "kept": ""
            if replaced
            else f"{lab.access.environment[node.name]['HOME']}/{folder()}/{abi}",
            "sources": [f"{root}/c/{name}.c" for name in programs],
        }
        said = self._run(
            node, [COMPILE.read_text("utf-8"), json.dumps(asked)], abi, *programs
        )

        return cast("_TwinTold", json.loads(said))

    def _run(self, node: Node, argv: Sequence[str], *what: str) -> bytes:
        python, environment = (
            self._lab.access.python,
            self._lab.access.environment[node.name],
        )

        done = run_on(
            node, [python, "-c", *argv], env=environment, timeout_s=_DEADLINE_S
        )
        if done.code:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [
                "no word"
            ]
            why = next((line for line in said if "error" in line), said[-1])
            raise LabError(
                f"node {node.name} cannot compile programs ({', '.join(what) or 'to copy'}): {why}"
            )

        return done.stdout

    def _unpack(self, node: Node, abi: str, octets: bytes) -> None:
        archive = f"{self._roots[node.name]}/{abi}.tar.gz"
        node.write(archive, octets)
        self._run(node, [_UNPACK, archive, self._out(node, abi)])

    def _on_all(
        self, ask: Callable[[Node], _Made], nodes: Sequence[Node] = ()
    ) -> dict[str, _Made]:
        nodes = nodes or self._nodes()
        with ThreadPoolExecutor() as pool:
            return dict(
                zip((node.name for node in nodes), pool.map(ask, nodes), strict=True)
            )

    def _nodes(self) -> list[Node]:
        return [node for client in self._lab.clients for node in client]

    def _out(self, node: Node, abi: str) -> str:
        return str(
            Path(twin_path(f"{self._roots[node.name]}/programs", abi, "x")).parent
        )

    def _prefixes(self, node: Node, vendor: str) -> list[str]:
        named = self._lab.access.environment[node.name].get(
            manifest(vendor).prefix_variable
        )
        return [
            *filter(None, (named, node_prefix(vendor), str(library_folder(vendor))))
        ]
