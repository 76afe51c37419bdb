"""The vendors: each is a folder of ``images/`` with a manifest ``NAME/NAME.toml``.

A manifest says how a library is found, started and named. impirun and the lab read the same
manifests, so neither has a list of vendors. images/README.md explains every key.

An installed impi brings these folders with it (:data:`SHARED`). A user's own vendors and MPI
libraries are in :func:`user_folder`.

Every impirun loads this module, and reading TOML is slow: 9 ms for all manifests. So
:func:`backed` reads only the manifest it needs, and :func:`outer_variables` reads two lines by
regular expression. Values are checked when a manifest is read, not when they are used.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from impi.base import variables
from impi.base.errors import UsageError, did_you_mean, refuse
from impi.base.files import read_toml
from impi.base.records import fresh, record

KINDS: Final = ("backed", "native", "remote")
"""``backed``: our procs over the vendor's library; ``native``: an MPI that speaks IMPI itself;
``remote``: a party that another person starts.
"""
LAUNCHERS: Final = ("none", "hydra", "prte")
"""Kinds of mpiexec of backed vendors; ``none``: our own transport, without a library."""
TIERS: Final = ("core", "pairs", "weekly")
"""Tiers of the matrix; a vendor is in its tier and all later ones."""
CONDITIONS: Final = (
    "always",
    "one_node",
    "several",
    "crowded",
    "interface",
    "unreadable",
    "tcp",
    "mpiexec",
)
"""Conditions under which variables of ``[settings]`` are set; images/README.md explains each."""
LEAVES: Final = ("segments", "files", "folders", "sessions", "daemons", "proxies")
"""The keys of ``[leaves]``; images/README.md explains each."""
_PACKAGE: Final = Path(__file__).absolute().parents[1]
_INSTALLED: Final = _PACKAGE / "share"
SHARED: Final = _INSTALLED if os.path.isdir(_INSTALLED) else _PACKAGE.parent  # noqa: PTH112  (in each impirun)
"""The folder with ``images/``, ``clusters/``, ``ci/`` and ``examples/``: a checkout, or the part of
an installed impi."""
_OUTER: Final = ("outer", "outer_kept")
_OUTER_LINE: Final = re.compile(rf"^({'|'.join(_OUTER)}) = (\[[^\]]*\])", re.MULTILINE)
_KEYS: Final[Mapping[str, type]] = {
    "title": str,
    "kind": str,
    "launcher": str,
    "libraries": list,
    "commands": list,
    "marks": list,
    "outer": list,
    "outer_kept": list,
    "version": str,
    "tier": str,
    "versions": dict,
    "machines": dict,
    "settings": dict,
    "peer_quirks": str,
    "deviations": list,
    "leaves": dict,
    "unsupported": list,
}


@record(kw_only=True)
class Unsupported:
    """Cells that the vendor says it cannot pass, with the reason."""

    cells: str  # a selector without the vendor's own part: p2p.cancel, */**/auth=key
    reason: str


@record(kw_only=True)
class Library:
    """The part of a manifest about finding and starting the vendor's library."""

    launcher: str = "none"
    # File names of the library in PREFIX/lib, the usual one first
    files: tuple[str, ...] = ()
    # Names of its mpiexec where several vendors are installed, in order of preference.
    commands: tuple[str, ...] = ()
    # One of these, in lower case, is in the output of mpiexec --version
    marks: tuple[str, ...] = ()
    settings: Mapping[str, Mapping[str, str]] = fresh(default_factory=dict)


@record(kw_only=True)
class Manifest:
    """The content of ``NAME.toml``."""

    name: str
    folder: Path
    title: str  # name of the library, as mpi4py.MPI.get_vendor() returns it
    kind: str
    library: Library = Library()
    version: str = ""  # the version in the matrix; empty: it has none
    tier: str = "weekly"
    # Further versions, by the name after `@`; the value goes to the script `install`.
    versions: Mapping[str, str] = fresh(default_factory=dict)
    # Versions for another machine, with Debian's name of its architecture.
    machines: Mapping[str, str] = fresh(default_factory=dict)
    # Value of --peer-quirks that the other clients need beside a native vendor
    peer_quirks: str = ""
    # Its known breaches of IMPI 0.0, by names of impi.lab.nodes.parties
    deviations: tuple[str, ...] = ()
    # Names of files that its killed processes leave on a node, by the keys of LEAVES.
    leaves: Mapping[str, tuple[str, ...]] = fresh(default_factory=dict)
    unsupported: tuple[Unsupported, ...] = ()

    @property
    def has_library(self) -> bool:
        return bool(self.library.files)

    @property
    def prefix_variable(self) -> str:
        return variables.PREFIX + self.name.upper()

    def settings_of(
        self, conditions: Iterable[str], *, prefix: str, interface: str = ""
    ) -> dict[str, str]:
        """Return the variables for these conditions; those of later conditions win.

        Args:
            conditions: names from :data:`CONDITIONS`.
            prefix: text for ``{prefix}`` in values.
            interface: text for ``{interface}`` in values.
        """
        found: dict[str, str] = {}
        for condition in conditions:
            for name, value in self.library.settings.get(condition, {}).items():
                found[name] = value.replace("{prefix}", prefix).replace(
                    "{interface}", interface
                )

        return found


def vendors(tier: str = TIERS[-1]) -> list[Manifest]:
    """Return all vendors of a tier and of those before it, in the order of the matrix.

    Raises:
        UsageError: a manifest is wrong.
    """
    wanted = TIERS[: TIERS.index(tier) + 1]
    return [each for each in _all_manifests().values() if each.tier in wanted]


def names() -> tuple[str, ...]:
    """Return the names of all vendors."""
    return tuple(_all_manifests())


def manifest(vendor: str) -> Manifest:
    """Return the manifest of a vendor, given as ``NAME`` or ``NAME@VERSION``.

    Raises:
        UsageError: there is no such vendor or version, or a manifest is wrong.
    """

    name, at, version = vendor.partition("@")

    found = _all_manifests().get(name)
    if found is None:
        near = did_you_mean(name, names())
        raise UsageError(
            f"there is no vendor {name!r}; the vendors are {', '.join(names())}{near}"
        )

    if at and version not in found.versions:
        known = ", ".join(found.versions) or "none beside its own"
        raise UsageError(
            f"vendor {vendor!r}: {name} has no version {version!r} in its manifest; it has {known}"
        )

    return found


def in_order(vendor: str) -> tuple[int, int]:
    """Return the place of ``NAME`` or ``NAME@VERSION`` in the matrix, as a key for sorting."""
    found = manifest(vendor)
    return names().index(found.name), [
        vendor.partition("@")[2],
        "",
        *found.versions,
    ].index(vendor.partition("@")[2], 1)


def backed(vendor: str) -> Manifest:
    """Return the manifest of a vendor that impirun starts.

    Raises:
        UsageError: there is no such vendor, or it has an impirun of its own.
    """
    # One manifest is enough for most jobs. All are read for NAME@VERSION, and for the
    # sentence about a wrong name.
    found = _one_manifest(_folders(), vendor) or manifest(vendor)
    if found.kind != "backed":
        raise UsageError(
            f"vendor {found.name} has an impirun of its own: {found.title} speaks IMPI itself"
        )

    return found


def named_in(words: Iterable[str]) -> list[Manifest]:
    """Return the vendors that a command line names, as ``NAME`` or ``--vendor=NAME``.

    A wrong manifest is left out here: the code that needs it reports the error.
    """
    found: list[Manifest] = []
    for name in dict.fromkeys(word.rpartition("=")[2] for word in words):
        with suppress(UsageError):
            found += filter(None, [_one_manifest(_folders(), name)])

    return found


@functools.cache
def outer_variables() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return prefixes of variables that any vendor's mpiexec sets, and prefixes of exceptions.

    Procs must not see the former: a library would take itself for a proc of the outer job. The
    exceptions are the user's own settings. Both keys are single lines in a manifest, and only these
    lines are read.
    """
    found: dict[str, list[str]] = {key: [] for key in _OUTER}
    for path in _paths():
        # JSON reads these lists, since a list of strings looks alike in TOML.
        for key, row in _OUTER_LINE.findall(path.read_text("utf-8")):
            found[key] += json.loads(row)

    return tuple(found["outer"]), tuple(found["outer_kept"])


def machine_of(vendor: str) -> str:
    """Return Debian's name of the machine that ``NAME@VERSION`` is for; empty: this one's."""
    return manifest(vendor).machines.get(vendor.partition("@")[2], "")


def installed_version(vendor: str) -> str:
    """Return the version that the script ``install`` gets for ``NAME`` or ``NAME@VERSION``."""
    found, version = manifest(vendor), vendor.partition("@")[2]
    return found.versions[version] if version else found.version


def user_folder() -> Path:
    """Return the folder for a user's own vendors and libraries; a checkout is its own."""
    if SHARED != _INSTALLED:
        return SHARED

    # The XDG specification has a relative path ignored.
    named = os.environ.get("XDG_DATA_HOME", "")

    return (
        Path(named) if Path(named).is_absolute() else Path.home() / ".local/share"
    ) / "impilab"


def project_file(name: str) -> Path:
    """Return a file or folder of the project by name: in this folder, or else impi's own."""
    here = Path(name)
    return here if here.exists() else SHARED / name


def new_vendors() -> Path:
    """Return the folder in which folders of new vendors are made."""
    return _folders()[-1]


def library_folder(vendor: str) -> Path:
    """Return the folder in which the lab installs the library of ``NAME`` or ``NAME@VERSION``."""
    return user_folder() / (".mpi" if SHARED != _INSTALLED else "mpi") / vendor


@functools.cache
def _one_manifest(folders: tuple[Path, ...], name: str) -> Manifest | None:
    """Return one vendor's manifest without reading the others; None: there is none."""
    for folder in folders:
        path = folder / name / f"{name}.toml"
        if name == path.stem and os.path.isfile(path):  # noqa: PTH113  (names of any length)
            return read(path)

    return None


@functools.cache
def _all_manifests() -> dict[str, Manifest]:
    found = [read(path) for path in _paths()]
    found.sort(
        key=lambda each: (
            TIERS.index(each.tier),
            each.library.launcher != "none",
            each.name,
        )
    )
    return {each.name: each for each in found}


def _paths() -> list[Path]:
    found: dict[str, Path] = {}
    for folder in _folders():
        for path in sorted(folder.glob("*/*.toml")):
            # Other TOML files may lie beside a manifest, and the first folder
            # wins over the later ones.
            if path.stem == path.parent.name:
                found.setdefault(path.stem, path)

    return [*found.values()]


def _folders() -> tuple[Path, ...]:
    named = os.environ.get(variables.VENDORS)
    if named:
        return (Path(named),)

    own = user_folder() / "images"

    return (
        (SHARED / "images",) if own == SHARED / "images" else (SHARED / "images", own)
    )


def read(path: Path) -> Manifest:
    """Read one manifest.

    Raises:
        UsageError: it is not TOML, a key is missing or unknown, or a value is not allowed.
    """

    value = read_toml(path, "manifest")
    _check(path, value)
    value["unsupported"] = tuple(
        _unsupported(path, row) for row in value.get("unsupported", [])
    )
    value["deviations"] = tuple(value.get("deviations", ()))
    value["leaves"] = {
        key: tuple(names) for key, names in value.get("leaves", {}).items()
    }

    library = Library(
        launcher=value.pop("launcher", "none"),
        settings=value.pop("settings", {}),
        files=tuple(value.pop("libraries", ())),
        commands=tuple(value.pop("commands", ())),
        marks=tuple(value.pop("marks", ())),
    )
    # Read by :func:`outer_variables` from the text itself, for all vendors at once.
    for key in _OUTER:
        value.pop(key, None)

    return Manifest(name=path.stem, folder=path.parent, library=library, **value)


def _check(path: Path, value: Mapping[str, object]) -> None:
    # Unknown keys first: further on, a misspelt one would be a TypeError and no sentence.
    for key in value:
        if key not in _KEYS:
            raise UsageError(
                f"manifest {path}: there is no key {key!r}; there are {', '.join(_KEYS)}"
            )

        if not isinstance(value[key], _KEYS[key]):
            raise UsageError(
                f"manifest {path}: {key} is {value[key]!r}; it is a {_KEYS[key].__name__}"
            )

    for key, choices in (
        ("title", ()),
        ("kind", KINDS),
        ("launcher", LAUNCHERS),
        ("tier", TIERS),
    ):
        found = value.get(key)
        refuse(
            (
                key in ("title", "kind") and key not in value,
                f"manifest {path} has no {key}; images/README.md explains it",
            ),
            (
                choices and key in value and found not in choices,
                f"manifest {path}: {key} is {found!r}; it is one of {', '.join(choices)}",
            ),
        )

    settings = value.get("settings")
    for condition in settings if isinstance(settings, dict) else ():
        if condition not in CONDITIONS:
            raise UsageError(
                f"manifest {path}: [settings.{condition}] is not one of {', '.join(CONDITIONS)}"
            )

    _check_leaves(path, value.get("leaves", {}))
    if value.get("launcher", "none") != "none" and not value.get("libraries"):
        raise UsageError(
            f"manifest {path}: libraries is missing; name the file of the library in PREFIX/lib"
        )


def _check_leaves(path: Path, leaves: object) -> None:
    for key, found in leaves.items() if isinstance(leaves, dict) else ():
        if key not in LEAVES:
            raise UsageError(
                f"manifest {path}: [leaves] has no key {key!r}; it has {', '.join(LEAVES)}"
            )

        # Every name begins with an empty text: the sweep would remove all files.
        if not isinstance(found, list) or not all(
            isinstance(name, str) and name.partition("{")[0] for name in found
        ):
            raise UsageError(
                f"manifest {path}: {key} of [leaves] is {found!r}; it is a list of names"
            )

    if isinstance(leaves, dict) and (
        more := set(leaves.get("proxies", ())) - set(leaves.get("daemons", ()))
    ):
        raise UsageError(
            f"manifest {path}: proxies of [leaves] are daemons, too: add {', '.join(sorted(more))} there"
        )


def _unsupported(path: Path, row: object) -> Unsupported:
    if not isinstance(row, dict) or set(row) != {"cells", "reason"}:
        raise UsageError(
            f"manifest {path}: a row of [[unsupported]] has the keys cells and reason, and no other"
        )

    return Unsupported(cells=str(row["cells"]), reason=str(row["reason"]))
