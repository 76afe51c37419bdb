"""The programs of cases with ``abi=``: compiled on the nodes, with our library as their libmpi.

A program is compiled once in a lab. With ``abi=standard`` each node's impicc does it. With another
ABI the compiler uses header and library of the vendor with that ABI: on a node that has it, for all
nodes. Each node makes our library by itself, because a library belongs to a node's Python. Clients
of the vendor with that ABI have front mode, the others stand-in mode.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from impi.errors import LabError
from impi.manifests import manifest
from impi.testbed.lab.interface import Lab, Node, run_on
from impi.testbed.lab.job_commands import twin_path
from impi.testbed.lab.parties import node_prefix

_SOURCES: Final = Path(__file__).parents[1] / "programs" / "c"
_CHECKOUT: Final = Path(__file__).absolute().parents[3]
_DEADLINE_S: Final = 240.0
_MAKE: Final = """\
import base64, json, os, subprocess, sys
from pathlib import Path
from impi.cabi.abi_tables import sonames
from impi.cabi.build import compiler, library
from impi.cabi.header import IMPI_KEYS
abi, source, out, own, *prefixes = sys.argv[1:]
soname = sonames(abi)[0]
there = [prefix for prefix in prefixes if Path(prefix, "include/mpi.h").exists()]
behind = Path(own, "lib", soname).resolve() if own else Path()
made = library(abi, os.environ, str(behind) if behind.name.startswith(soname) and behind.exists() else "")
octets, command = b"", []
if abi == "standard":
    from impi.cli.impicc import command_of
    command = command_of(["-O1", "-o", out, source], os.environ)
elif there:
    keys = [f"-D{name}={value}" for name, value in IMPI_KEYS.items()]
    command = [compiler(), "-O1", *keys, "-I", f"{there[0]}/include", "-o", out, source, f"{there[0]}/lib/{soname}"]
if command:
    Path(out).parent.mkdir(exist_ok=True)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    octets = Path(out).read_bytes() if abi != "standard" else b""
print(json.dumps({"library": str(made), "program": base64.b64encode(octets).decode()}))
"""


class Twins:
    """The compiled programs of one lab."""

    def __init__(self, lab: Lab, roots: dict[str, str]) -> None:
        self._lab, self._roots = lab, roots
        self._made: set[tuple[str, str]] = set()
        self.libraries: dict[str, dict[str, str]] = {}
        """By ABI and node: the path of our library."""

    def make(self, abi: str, program: str) -> None:
        """Compile the twin of a case's program for all nodes, unless it is there.

        Raises:
            LabError: no node has the header of that ABI, or the compiler refuses.
        """
        if (abi, program) in self._made:
            return
        nodes = [node for client in self._lab.clients for node in client]
        with ThreadPoolExecutor() as pool:
            told = list(pool.map(lambda node: self._compile(node, abi, program), nodes))
        found = {node.name: said for node, said in zip(nodes, told, strict=True)}
        self.libraries[abi] = {name: said["library"] for name, said in found.items()}
        if abi != "standard":
            self._distribute(nodes, [said["program"] for said in found.values() if said["program"]], abi, program)
        self._made.add((abi, program))

    def _compile(self, node: Node, abi: str, program: str) -> dict[str, str]:
        lab, root = self._lab, self._roots[node.name]
        for source in (_SOURCES / "report.h", _SOURCES / f"{Path(program).stem}.c"):
            node.write(f"{root}/c/{source.name}", source.read_bytes())
        out = twin_path(f"{root}/programs", abi, program)
        argv = [lab.access.python, "-c", _MAKE, abi, f"{root}/c/{Path(program).stem}.c", out]
        client = next(i for i, nodes in enumerate(lab.clients) if node in nodes)
        vendor = manifest(lab.access.vendors[client]).name
        argv.append(self._prefixes(node, vendor)[0] if vendor == abi else "")
        if abi != "standard":
            argv += self._prefixes(node, abi)
        done = run_on(node, argv, env=lab.access.environment[node.name], timeout_s=_DEADLINE_S)
        if done.code:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no word"]
            why = next((line for line in said if "error" in line), said[-1])
            raise LabError(f"node {node.name} cannot compile {program} for abi={abi}: {why}")
        told: dict[str, str] = json.loads(done.stdout)
        return told

    def _prefixes(self, node: Node, vendor: str) -> list[str]:
        """Return the folders where a vendor's library may be on a node, in launch's order."""
        named = self._lab.access.environment[node.name].get(manifest(vendor).prefix_variable)
        return [*filter(None, (named, node_prefix(vendor), f"{_CHECKOUT}/.mpi/{vendor}"))]

    def _distribute(self, nodes: Sequence[Node], programs: Sequence[str], abi: str, program: str) -> None:
        if not programs:
            raise LabError(f"no node of this lab has the mpi.h of abi={abi}: one vendor of the cell must be {abi}")
        octets = base64.b64decode(programs[0])
        for node in nodes:
            path = twin_path(f"{self._roots[node.name]}/programs", abi, program)
            node.write(path, octets, mode=0o755)
