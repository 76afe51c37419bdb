"""The vendors: a folder of ``images/`` each, discovered by its manifest ``NAME/NAME.toml``.

A manifest says how a library is found, started and named. impirun and the lab read the same one, so
neither has a list of vendors. images/README.md explains every key.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from impi import variables
from impi.errors import UsageError
from impi.records import fresh, record

KINDS: Final = ("backed", "native", "remote")
"""``backed``: our procs over its library; ``native``: an MPI that speaks IMPI itself; ``remote``:
a party that somebody else starts.
"""
LAUNCHERS: Final = ("none", "hydra", "prte")
"""The mpiexec of a backed vendor; ``none``: our own transport, without a library."""
TIERS: Final = ("core", "pairs", "weekly")
"""The first tier of the matrix that has the vendor."""
CONDITIONS: Final = ("always", "one_node", "several", "crowded", "interface", "unreadable", "tcp", "mpiexec")
"""When variables of ``[settings]`` are set; images/README.md explains each."""
_CHECKOUT: Final = Path(__file__).absolute().parents[1]
_KEYS: Final[Mapping[str, type]] = {
    "title": str,
    "kind": str,
    "launcher": str,
    "libraries": list,
    "commands": list,
    "marks": list,
    "version": str,
    "tier": str,
    "versions": dict,
    "machines": dict,
    "settings": dict,
    "peer_quirks": str,
    "deviations": list,
    "litter": list,
    "unsupported": list,
}


@record(kw_only=True)
class Unsupported:
    """Cells that the vendor declares that it cannot pass, with the reason."""

    cells: str
    """A selector, with the vendor's own part left open: ``p2p.cancel``, ``*/**/auth=key``."""
    reason: str


@record(kw_only=True)
class Manifest:
    """What ``NAME.toml`` says."""

    name: str
    folder: Path
    """The folder of the manifest."""
    title: str
    """Name of the library, as ``mpi4py.MPI.get_vendor()`` tells it."""
    kind: str
    launcher: str = "none"
    libraries: tuple[str, ...] = ()
    """File names of the library in ``PREFIX/lib``."""
    commands: tuple[str, ...] = ()
    """Names that its mpiexec has where several vendors are installed, in order of preference."""
    marks: tuple[str, ...] = ()
    """Any of these, in lower case, is in the output of ``mpiexec --version``."""
    version: str = ""
    """The version of the matrix; empty: it has none."""
    tier: str = "weekly"
    versions: Mapping[str, str] = fresh(default_factory=dict)
    """Further versions by the names that follow ``@``; the value goes to the script ``install``."""
    machines: Mapping[str, str] = fresh(default_factory=dict)
    """Versions whose programs are another machine's: Debian's name of its architecture."""
    settings: Mapping[str, Mapping[str, str]] = fresh(default_factory=dict)
    """Variables of procs by condition."""
    peer_quirks: str = ""
    """What the other clients must be told of a native vendor: the value of ``--peer-quirks``."""
    deviations: tuple[str, ...] = ()
    """What it does against IMPI 0.0, by the names of :mod:`impi.testbed.lab.parties`."""
    litter: tuple[str, ...] = ()
    """Files that its mpiexec leaves when it is ended by a signal: globs of whole paths."""
    unsupported: tuple[Unsupported, ...] = ()

    @property
    def has_library(self) -> bool:
        """Whether it has an MPI library of its own."""
        return bool(self.libraries)

    @property
    def prefix_variable(self) -> str:
        """The environment variable that names the folder of its library."""
        return variables.PREFIX + self.name.upper()

    def settings_of(self, conditions: Iterable[str], *, prefix: str, interface: str = "") -> dict[str, str]:
        """Return the variables of such conditions, their places filled in; later ones win."""
        found: dict[str, str] = {}
        for condition in conditions:
            for name, value in self.settings.get(condition, {}).items():
                found[name] = value.replace("{prefix}", prefix).replace("{interface}", interface)
        return found


def vendors(tier: str = TIERS[-1]) -> list[Manifest]:
    """Return all vendors of that tier and those before it, in the matrix's order.

    Raises:
        UsageError: a manifest is wrong.
    """
    wanted = TIERS[: TIERS.index(tier) + 1]
    return [each for each in _all().values() if each.tier in wanted]


def names() -> tuple[str, ...]:
    """Return the names of all vendors."""
    return tuple(_all())


def manifest(vendor: str) -> Manifest:
    """Return the manifest of ``NAME`` or ``NAME@VERSION``.

    Raises:
        UsageError: there is no such vendor or version, or a manifest is wrong.
    """
    name, at, version = vendor.partition("@")
    found = _all().get(name)
    if found is None:
        raise UsageError(f"there is no vendor {name!r}; the vendors are {', '.join(names())}")
    if at and version not in found.versions:
        known = ", ".join(found.versions) or "none beside its own"
        raise UsageError(f"vendor {vendor!r}: {name} has no version {version!r} in its manifest; it has {known}")
    return found


def in_order(vendor: str) -> tuple[int, int]:
    """Return the place of ``NAME`` or ``NAME@VERSION`` in the matrix, as a key for sorting."""
    found = manifest(vendor)
    return names().index(found.name), [vendor.partition("@")[2], "", *found.versions].index(vendor.partition("@")[2], 1)


def backed(vendor: str) -> Manifest:
    """Return the manifest of a vendor that impirun starts.

    Raises:
        UsageError: there is no such vendor, or it has an impirun of its own.
    """
    found = _one(_folder(), vendor) or manifest(vendor)
    if found.kind != "backed":
        raise UsageError(f"vendor {found.name} has an impirun of its own: {found.title} speaks IMPI itself")
    return found


def machine_of(vendor: str) -> str:
    """Return Debian's name of the machine of ``NAME@VERSION``; empty: this one."""
    return manifest(vendor).machines.get(vendor.partition("@")[2], "")


def installed_version(vendor: str) -> str:
    """Return the version that ``install`` gets for ``NAME`` or ``NAME@VERSION``."""
    found, version = manifest(vendor), vendor.partition("@")[2]
    return found.versions[version] if version else found.version


@functools.cache
def _one(folder: Path, name: str) -> Manifest | None:
    """Return one vendor's manifest without reading the others, 9 ms in each impirun."""
    path = folder / name / f"{name}.toml"
    return read(path) if name == path.stem and path.is_file() else None


@functools.cache
def _all() -> dict[str, Manifest]:
    paths = [path for path in sorted(_folder().glob("*/*.toml")) if path.stem == path.parent.name]
    # An installed impi has copies of the manifests in one folder.
    found = [read(path) for path in paths or sorted((Path(sys.prefix) / "share/impi/manifests").glob("*.toml"))]
    found.sort(key=lambda each: (TIERS.index(each.tier), each.launcher != "none", each.name))
    return {each.name: each for each in found}


def _folder() -> Path:
    """IMPI_VENDORS, or the checkout's ``images/``."""
    named = os.environ.get(variables.VENDORS)
    return Path(named) if named else _CHECKOUT / "images"


def read_toml(path: Path, what: str = "") -> dict[str, Any]:
    """Return the tables of a file; ``what`` it is, for the message.

    Raises:
        UsageError: it cannot be read, or is no TOML.
    """
    import tomllib  # only impirun and the lab read such files, no proc

    name = f"{what} {path}".strip()
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{name} is not TOML: {error}") from None


def read(path: Path) -> Manifest:
    """Read one manifest.

    Raises:
        UsageError: it is no TOML, a key is missing or unknown, or a value is none of the allowed.
    """
    value = read_toml(path, "manifest")
    _check(path, value)
    value["unsupported"] = tuple(_unsupported(path, row) for row in value.get("unsupported", []))
    for key in ("libraries", "commands", "marks", "deviations", "litter"):
        value[key] = tuple(value.get(key, ()))
    return Manifest(name=path.stem, folder=path.parent, **value)


def _check(path: Path, value: Mapping[str, object]) -> None:
    for key in value:
        if key not in _KEYS:
            raise UsageError(f"manifest {path}: there is no key {key!r}; there are {', '.join(_KEYS)}")
        if not isinstance(value[key], _KEYS[key]):
            raise UsageError(f"manifest {path}: {key} is {value[key]!r}; it is a {_KEYS[key].__name__}")
    for key, choices in (("title", ()), ("kind", KINDS), ("launcher", LAUNCHERS), ("tier", TIERS)):
        if key in ("title", "kind") and key not in value:
            raise UsageError(f"manifest {path} has no {key}; images/README.md explains it")
        if choices and key in value and value[key] not in choices:
            raise UsageError(f"manifest {path}: {key} is {value[key]!r}; it is one of {', '.join(choices)}")
    settings = value.get("settings")
    for condition in settings if isinstance(settings, dict) else ():
        if condition not in CONDITIONS:
            raise UsageError(f"manifest {path}: [settings.{condition}] is none of {', '.join(CONDITIONS)}")
    if value.get("launcher", "none") != "none" and not value.get("libraries"):
        raise UsageError(f"manifest {path}: libraries is missing; name the file of the library in PREFIX/lib")


def _unsupported(path: Path, row: object) -> Unsupported:
    if not isinstance(row, dict) or set(row) != {"cells", "reason"}:
        raise UsageError(f"manifest {path}: a row of [[unsupported]] has the keys cells and reason, and no other")
    return Unsupported(cells=str(row["cells"]), reason=str(row["reason"]))
