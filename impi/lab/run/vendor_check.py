"""``impilab check NAME``: numbered requirements of a vendor, each with evidence and the cure.

The first requirements read the vendor's folder, the next look into a node of its image, the last
run cells and take their verdicts. If a requirement fails that later ones rest on, these are not
tried: one cause gets one cure, not a dozen.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from impi.base.errors import ImpiError
from impi.base.manifests import Manifest, installed_version, manifest
from impi.lab.nodes import Backend, Lab, Node, node_prefix, parse_topology, run_on
from impi.lab.plan.cell import Cell, parse_cell
from impi.lab.plan.matrix import cells_of, declared
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import judge_cell

_FIRST: Final = ("ARG BASE=", "FROM ${BASE}")
_PROBE_S: Final = 60.0
_SHOWN_LINES: Final = 4
_SINGLETONS: Final = (
    "from mpi4py import MPI; w = MPI.COMM_WORLD; "
    "print(MPI.get_vendor()[0], w.Get_size(), sep=';') if w.Get_rank() == 0 else None"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """The outcome of one numbered requirement."""

    number: str
    text: str
    ok: bool | None  # None: not tried, because an earlier requirement is not fulfilled
    evidence: str
    cure: str = ""


class _Untried(Exception):
    """The backend cannot examine it; the text is the reason."""


class _Unmet(Exception):
    """The requirement is not fulfilled; the text says what was found."""


_Check = Callable[["_Vendor"], str]


class _Vendor:
    """The vendor under examination, and a lab of it once there is one."""

    def __init__(self, name: str, backend: Backend) -> None:
        self.name, self.backend = name, backend
        self.known: Manifest = manifest(name)
        self.labs: dict[str, Lab] = {}

    @property
    def node(self) -> Node:
        return self.beside_pure.clients[0][0]

    @property
    def beside_pure(self) -> Lab:
        """The lab for looks into a node: a client of the vendor, and a pure one."""
        return self.lab(f"{self.name}+pure", "1x2+1x2")

    def lab(self, parties: str, topology: str) -> Lab:
        key = f"{parties} {topology}"
        if key not in self.labs:
            vendors = tuple(parties.split("+"))
            self.labs[key] = self.backend.open(
                vendors, parse_topology(topology), run=f"check-{self.known.name}"
            )

        return self.labs[key]

    def close(self) -> None:
        for lab in self.labs.values():
            lab.close()


def check(name: str, backend: Backend) -> Iterator[Requirement]:
    """Examine ``NAME`` or ``NAME@VERSION``; one requirement after the other, in order.

    Raises:
        UsageError: there is no such vendor.
    """

    vendor = _Vendor(name, backend)
    kinds = (
        "backed"
        if vendor.known.has_library
        else "own"
        if vendor.known.kind == "backed"
        else vendor.known.kind
    )

    missing = ""
    try:
        for number, (text, cure, of, ground, examine) in _REQUIREMENTS.items():
            if kinds not in of:
                continue

            if missing:
                yield Requirement(
                    number=number,
                    text=text,
                    ok=None,
                    evidence=f"not tried: {missing} is not fulfilled",
                )
                continue

            try:
                yield Requirement(
                    number=number, text=text, ok=True, evidence=examine(vendor)
                )
            except _Untried as why:
                yield Requirement(
                    number=number, text=text, ok=None, evidence=f"not tried: {why}"
                )
            except (_Unmet, ImpiError, OSError) as found:
                # Only some requirements are the ground of later ones.
                missing = number if ground else ""
                said = found.message if isinstance(found, ImpiError) else str(found)
                yield Requirement(
                    number=number, text=text, ok=False, evidence=said, cure=cure
                )
    finally:
        vendor.close()


# -- the folder


def _manifest_reads(vendor: _Vendor) -> str:
    # By these names impirun finds daemons that an mpiexec has left.
    if vendor.known.library.launcher != "none" and not vendor.known.leaves.get(
        "daemons"
    ):
        raise _Unmet(
            f"{vendor.known.name}.toml: [leaves] names no daemons of its mpiexec"
        )

    known, version = vendor.known, installed_version(vendor.name) or "none"
    return f"{known.name}.toml: {known.title}, {known.kind}, version {version}"


def _dockerfile(vendor: _Vendor) -> str:
    path = vendor.known.folder / "Dockerfile"

    lines = [
        line
        for line in path.read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    # An image on another base lacks the lab's own parts, such as SSH and Python.
    for line, wanted in zip([*lines, "", ""], _FIRST, strict=False):
        if not line.startswith(wanted):
            raise _Unmet(f"the first instructions are {lines[:2]}")

    return "it begins with ARG BASE and FROM ${BASE}"


def _scripts(vendor: _Vendor) -> str:
    for name in ("install", "version"):
        path = vendor.known.folder / name
        if not path.is_file():
            raise _Unmet(f"there is no {path}")

        done = subprocess.run(
            ["/bin/sh", "-n", str(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            raise _Unmet(f"{name} is not a shell script: {done.stderr.strip()}")

    return "install and version are shell scripts"


# -- a node


def _builds(vendor: _Vendor) -> str:
    vendor.backend.prepare([vendor.name])
    image = (
        vendor.beside_pure.access.images.get(vendor.name, "")[:19]
        or f"the prefix of {vendor.name}"
    )
    return f"{image} exists, and a node of it answers"


def _says_version(vendor: _Vendor) -> str:
    if not vendor.beside_pure.access.images:
        raise _Untried(f"backend {vendor.backend.name} has no images")

    said = (
        (vendor.node.read("/opt/impi/version.txt") or b"")
        .decode("utf-8", "replace")
        .strip()
    )
    if not said or "\n" in said:
        raise _Unmet(f"/opt/impi/version.txt of the image is {said!r}")

    wanted = installed_version(vendor.name)
    # A version need not be a number; then any text will do.
    if wanted.replace(".", "").isdigit() and wanted not in said:
        raise _Unmet(f"it says {said!r}, which has no {wanted}")

    return said


def _mpiexec(vendor: _Vendor) -> str:
    path = f"{_prefix(vendor)}/bin/mpiexec"
    done = run_on(
        vendor.node, [path, "--version"], env=_environment(vendor), timeout_s=_PROBE_S
    )

    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    if done.code != 0:
        raise _Unmet(
            f"{path} --version ended with {done.code}: {said.strip()[:200] or 'it said nothing'}"
        )

    if not any(mark in said.lower() for mark in vendor.known.library.marks):
        shown = " / ".join(line.strip() for line in said.splitlines()[:_SHOWN_LINES])
        raise _Unmet(
            f"{path} --version has none of {', '.join(vendor.known.library.marks)}: {shown}"
        )

    return said.splitlines()[0]


def _library_loads(vendor: _Vendor) -> str:
    path = f"{_prefix(vendor)}/lib/{vendor.known.library.files[0]}"
    argv = [
        vendor.beside_pure.access.python,
        "-c",
        f"import ctypes; ctypes.CDLL({path!r})",
    ]

    done = run_on(vendor.node, argv, env=_environment(vendor), timeout_s=_PROBE_S)
    if done.code != 0:
        raise _Unmet(
            f"{path}: {done.stderr.decode('utf-8', 'replace').strip().splitlines()[-1]}"
        )

    return path


def _two_ranks(vendor: _Vendor) -> str:
    prefix, python = _prefix(vendor), vendor.beside_pure.access.python
    env = {
        **vendor.known.settings_of(("always", "unreadable", "crowded"), prefix=prefix),
        **_environment(vendor),
        "MPI4PY_LIBMPI": f"{prefix}/lib/{vendor.known.library.files[0]}",
    }
    argv = [f"{prefix}/bin/mpiexec", "-n", "2", python, "-c", _SINGLETONS]
    done = run_on(vendor.node, argv, env=env, timeout_s=_PROBE_S)

    # Two worlds of one rank each: this mpiexec is another library's.
    said = done.stdout.decode("utf-8", "replace").strip()
    if said != f"{vendor.known.title};2":
        errors = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise _Unmet(
            f"it printed {said!r}, not '{vendor.known.title};2' {errors[-1] if errors else ''}".strip()
        )

    return f"title {vendor.known.title!r}, 2 ranks in one MPI_COMM_WORLD"


# -- cells


def _passes(*cells: str) -> _Check:
    def examine(vendor: _Vendor) -> str:
        names = [text.format(vendor=vendor.name) for text in cells]
        for name in names:
            _pass(vendor, parse_cell(name))

        return f"pass: {', '.join(names)}"

    return examine


def _pass(vendor: _Vendor, cell: Cell) -> None:
    reason = vendor.backend.supports(cell.topology, cell.vendors)
    if reason:
        raise _Untried(f"{cell.id} cannot be run: {reason}")

    lab = vendor.lab(cell.parties, str(cell.topology))
    seen = run_cell(
        prepare(lab, f"check-{vendor.known.name}"), cell, Limits(), threading.Event()
    )

    verdict = judge_cell(cell, seen)
    if verdict.outcome != "pass":
        raise _Unmet(
            f"{cell.id}: {verdict.outcome}, blame {verdict.blame}: {verdict.reason}"
        )


def _declared(vendor: _Vendor) -> str:
    cells = cells_of("pairs", guest=vendor.name)
    for row in vendor.known.unsupported:
        if not any(f": {row.reason}" in declared(cell) for cell in cells):
            raise _Unmet(f"the selector {row.cells!r} names no cell of tier pairs")

    return f"{len(vendor.known.unsupported)} declaration(s), each of cells that exist"


# -- details


def _prefix(vendor: _Vendor) -> str:
    return _environment(vendor).get(
        vendor.known.prefix_variable, node_prefix(vendor.name)
    )


def _environment(vendor: _Vendor) -> dict[str, str]:
    return dict(vendor.beside_pure.access.environment["c0n0"])


_ALL: Final = ("backed", "native", "own")
# By number: text, cure, kinds, whether later ones need it, and the examination.
_REQUIREMENTS: Final[dict[str, tuple[str, str, tuple[str, ...], bool, _Check]]] = {
    "R01": (
        "the manifest can be read",
        "see the keys in images/README.md",
        (*_ALL, "remote"),
        True,
        _manifest_reads,
    ),
    "R02": (
        "the Dockerfile builds on the lab's base image",
        "begin it with 'ARG BASE=impilab/base' and 'FROM ${BASE}'",
        _ALL,
        True,
        _dockerfile,
    ),
    "R03": (
        "the scripts install and version exist",
        "write them as images/README.md says",
        ("backed",),
        True,
        _scripts,
    ),
    "R04": (
        "it can be installed, and a node of it answers",
        "mend the script install, or what the last lines of the build say",
        _ALL,
        True,
        _builds,
    ),
    "R05": (
        "the image prints its version on one line",
        "let the script version print one line with the version of the manifest, into /opt/impi/version.txt",
        ("backed",),
        False,
        _says_version,
    ),
    "R06": (
        "PREFIX/bin/mpiexec is the vendor's",
        "let the script install put it there, and name a word of its --version in marks",
        ("backed",),
        True,
        _mpiexec,
    ),
    "R07": (
        "the library can be loaded by the user of the nodes",
        "install what it depends on in the Dockerfile; the name in libraries is that of PREFIX/lib",
        ("backed",),
        True,
        _library_loads,
    ),
    "R08": (
        "two ranks under mpiexec are one world, and mpi4py calls the library by its title",
        "title is the first value of mpi4py.MPI.get_vendor(); two worlds of one rank: mpiexec is another library's",
        ("backed",),
        True,
        _two_ranks,
    ),
    "R09": (
        "a job with a pure client starts, in both orders",
        "look into the verdict, then: impilab run 'startup.hello/*' --with NAME",
        ("backed", "native"),
        True,
        _passes(
            "startup.hello/{vendor}+pure/1x2+1x2", "startup.hello/pure+{vendor}/1x2+1x2"
        ),
    ),
    "R10": (
        "messages cross, octet for octet",
        "look at the timeline: impilab run 'p2p.ring/*' --with NAME",
        ("backed", "native"),
        False,
        _passes("p2p.ring/{vendor}+pure/1x2+1x2"),
    ),
    "R11": (
        "a client of two nodes is placed on both",
        "mpiexec must start ranks by SSH on other nodes: [settings.several] of the manifest",
        ("backed", "native"),
        False,
        _passes("p2p.ring/{vendor}+pure/2x2+2x2"),
    ),
    "R12": (
        "a client proves its key",
        "pass IMPI_AUTH_KEY on",
        ("backed", "native"),
        False,
        _passes("startup.key/{vendor}+pure/1x2+1x2/auth=key"),
    ),
    "R13": (
        "the exit code of a rank reaches impirun, and nothing is left",
        "mpiexec must end with an error when a rank does",
        ("backed",),
        False,
        _passes("shutdown.exit-code/pure+{vendor}/1x2+1x2"),
    ),
    "R14": (
        "every declaration of [[unsupported]] names cells",
        "write selectors of 'impilab plan'; 'impilab run --prove-unsupported' runs them",
        _ALL,
        False,
        _declared,
    ),
    "R15": (
        "collectives of a client of two nodes",
        "look at clientN.stderr; the library's choice of a network is a variable of [settings.several]",
        ("backed",),
        False,
        _passes("coll.all/{vendor}+pure/2x2+2x2"),
    ),
}
