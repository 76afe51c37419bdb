"""A new lab made ready for cells: programs and nonces on its nodes, hashes of MPI libraries."""

from __future__ import annotations

import functools
import io
import json
import secrets
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from impi.base.errors import LabError
from impi.base.manifests import library_folder, machine_of, manifest
from impi.lab.nodes import Lab, Node, node_prefix, run_on
from impi.lab.run.compiled_twins import Twins
from impi.lab.run.remote_party import Invitations

_T = TypeVar("_T")
_USHER_S: Final = 60.0
_PROGRAMS: Final = Path(__file__).parents[1] / "programs"


@dataclass(slots=True)
class Prepared:
    """A lab whose nodes have the programs, a nonce on every disk, and known MPI libraries."""

    lab: Lab
    roots: dict[str, str]  # by node: the folder of ours on it
    node_nonces: dict[str, str]
    # hashes of the MPI libraries of each node's planned vendor
    libraries: dict[str, tuple[str, ...]]
    prefixes: dict[str, str]  # folders of replaced libraries, by node
    twins: Twins  # the programs in C that its cells need
    invitations: Invitations  # where remote parties learn what they have to know
    # Files that earlier cells have left on its nodes, as findings, which are not the next cell's.
    # The cell was forgiven for them, or it was red, and the lab is not used again.
    files: set[str] = field(default_factory=set)

    def part(self, lab: Lab, nodes: Mapping[str, str]) -> Prepared:
        """Return it for a part of its lab; ``nodes``: its own by the names of the part."""

        def of(values: Mapping[str, _T]) -> dict[str, _T]:
            return {name: values[n] for name, n in nodes.items() if n in values}

        roots = of(self.roots)
        return Prepared(
            lab,
            roots,
            of(self.node_nonces),
            of(self.libraries),
            of(self.prefixes),
            Twins(lab, roots),
            self.invitations,
        )


def prepare(lab: Lab, run: str, invitations: Invitations | None = None) -> Prepared:
    """Put programs and nonces on the nodes, and hash their MPI libraries.

    ``invitations``: where remote parties learn of cells; by default below ``runs``, and on stderr.

    Raises:
        LabError: a node does not answer, or has no library of its vendor.
    """

    roots: dict[str, str] = {}

    prepared = Prepared(
        lab, roots, {}, {}, {}, Twins(lab, roots), invitations or _here()
    )
    for client, nodes in enumerate(lab.clients):
        if not nodes:
            continue  # a remote party

        # A client's nodes get equal arguments, so one path. Clients on one machine differ in HOME.
        root = (
            f"{lab.access.environment[nodes[0].name].get('HOME', '/tmp')}/impilab-{run}"
        )
        for node in nodes:
            prepared.roots[node.name] = root
            prepared.node_nonces[node.name] = secrets.token_hex(16)
            node.write(f"{root}/bundle.zip", _bundle(prepared.node_nonces[node.name]))
            there = _unpack(lab, client, node, root)
            if lab.access.images:
                _give_usher(lab, client, node)

            build = lab.access.builds.get(lab.access.vendors[client])
            if build is not None:
                if set(there) != set(build.libraries):
                    raise LabError(
                        f"node {node.name} has other libraries in {build.prefix} than {build.origin} has"
                    )

                prepared.prefixes[node.name] = build.prefix

            prepared.libraries[node.name] = there

    return prepared


# The path and the octets of the usher (impi/cabi/usher.c), which was compiled for its place: equal
# nodes of later labs get it. Each first cell of a lab would compile it on each node.
_USHERS: Final[dict[tuple[str, ...], tuple[str, bytes]]] = {}
_COMPILE_USHER: Final = """\
import os
from impi.cabi.library.usher import usher
print(usher(os.environ))
"""


def _give_usher(lab: Lab, client: int, node: Node) -> None:
    """Give a container the usher that an equal one has compiled; if none has, this one does."""
    environment = lab.access.environment[node.name]
    place = (
        machine_of(lab.access.vendors[client]),
        lab.access.python,
        environment.get("HOME", ""),
        environment.get("PYTHONPATH", ""),
    )
    if place not in _USHERS:
        argv = [lab.access.python, "-c", _COMPILE_USHER]
        done = run_on(node, argv, env=environment, timeout_s=_USHER_S)
        path = done.stdout.decode("utf-8", "replace").strip()
        # Without a compiler there is none, and impirun does without it.
        octets = node.read(path) if done.code == 0 and path else None
        _USHERS[place] = path, octets or b""
        return

    path, octets = _USHERS[place]
    if octets:
        node.write(path, octets, mode=0o755)


def _here() -> Invitations:
    return Invitations(
        Path("runs/invitations"),
        lambda text: print(f"impilab: {text}", file=sys.stderr, flush=True),
    )


def _bundle(nonce: str) -> bytes:
    """Return all files of a node as one archive: each request over a connection costs time."""
    buffer = io.BytesIO(_programs())
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("node.json", json.dumps({"nonce": nonce}))

    return buffer.getvalue()


@functools.cache
def _programs() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(_PROGRAMS.glob("*.py")):
            archive.writestr(f"programs/{path.name}", path.read_bytes())

    return buffer.getvalue()


_UNPACK: Final = """\
import runpy, sys, zipfile
_, root, *prefixes = sys.argv
zipfile.ZipFile(root + "/bundle.zip").extractall(root)
sys.argv = ["witness", "--libraries", *prefixes]
runpy.run_path(root + "/programs/witness.py", run_name="__main__")
"""


def _unpack(lab: Lab, client: int, node: Node, root: str) -> tuple[str, ...]:
    vendor, environment = lab.access.vendors[client], lab.access.environment[node.name]
    known = manifest(vendor)
    named = environment.get(known.prefix_variable)
    prefixes = [named] if named else [node_prefix(vendor), str(library_folder(vendor))]
    argv = [lab.access.python, "-I", "-S", "-c", _UNPACK, root, *prefixes]

    done = run_on(node, argv, env=environment, timeout_s=30.0)
    try:
        found: dict[str, dict[str, str]] = json.loads(done.stdout)["value"]
    except (ValueError, KeyError) as error:
        said = (
            done.stderr[-200:].decode("utf-8", "replace").strip() or "it said nothing"
        )
        raise LabError(
            f"node {node.name} cannot unpack the programs: {said}"
        ) from error

    digests = {digest for files in found.values() for digest in files.values()}
    if not digests and known.has_library:
        raise LabError(
            f"node {node.name} has no libmpi of {vendor} in {' or '.join(prefixes)}"
        )

    return tuple(sorted(digests)) if known.has_library else ()
