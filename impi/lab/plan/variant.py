"""The variant of a cell: what it does otherwise than by default, such as ``auth=key,form=native``.

The variant is the last part of a cell's id: settings in the order of :data:`SETTINGS`, parted by
commas. A new setting is one row of that table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from impi.base.errors import UsageError
from impi.lab.cases.ends.fault_matrix import MATRIX_ACTS, MATRIX_VICTIMS
from impi.lab.cases.ends.network_faults import FAULTS, NETWORK_FAULTS
from impi.lab.cases.ends.soak import parse_amount
from impi.lab.nodes.compiled_programs import ABIS
from impi.lab.nodes.links import FORM, PROFILES, parse_links
from impi.lab.nodes.reach import PORTS, REACHES


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a variant."""

    about: str
    # By value: options that every ``impirun -client`` gets.
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    check: Callable[[str], object] | None = None  # where values cannot be listed: raises UsageError for a wrong one
    without: tuple[str, ...] = ()  # options of the case that the setting takes away
    variable: str = ""  # the variable of every ``impirun -client`` that has the value


_LITTLE: Final = ("--hiwater", "2")
_SMALL: Final = ("--datalen", "500")
SETTINGS: Final[Mapping[str, Setting]] = {
    "auth": Setting(
        about="how clients prove that they belong to the job (IMPI 2.3.3): by a key; by a key or not at all; "
        "the last one by another key, or by nothing that the server takes; by impi's challenge, natives not at all",
        values={"key": (), "both": (), "wrong": (), "apart": (), "challenge": ()},
    ),
    "form": Setting(
        about="the form of values between clients: by agreement as in memory, which is impirun's default",
        values={"native": ()},
        without=("--external32",),
    ),
    "abi": Setting(
        about="the program is the case's twin in C, compiled for an ABI of MPI: the standard one, or that of a vendor "
        "of the cell; our library is its libmpi",
        values=dict.fromkeys(ABIS, ()),
    ),
    "behind": Setting(
        about="the program is behind a script: impirun sees a shell alone",
        values={"script": ()},
    ),
    "hosts": Setting(
        about="the owner of channels: a router for each node, or one for each client (IMPI 1.2.1)",
        values={"node": ("--hosts", "node"), "client": ("--hosts", "client")},
    ),
    "connect": Setting(
        about="hosts of two clients connect when the first message needs it, by a version of impi's",
        values={"lazy": ("--lazy",)},
    ),
    "start": Setting(
        about="one: one impirun starts server and clients, as mpiexec starts programs",
        values={"one": ()},
    ),
    "launcher": Setting(
        about="auto: what starts the procs of a library is impirun's own choice; else it is the library's mpiexec",
        values={"auto": ("--launcher", "auto")},
    ),
    "ip": Setting(
        about="6: nodes know each other by IPv6 addresses only; two: each has a second address, on a network that "
        "leads nowhere, and impirun chooses",
        values={"6": (), "two": ()},
    ),
    "source": Setting(
        about="second: hosts of the last client connect from a second address of their nodes, which no label tells",
        values={"second": ()},
    ),
    "reach": Setting(
        about="; ".join(f"{name}: {text}" for name, text in REACHES.items()),
        values={name: ("--ports", PORTS[name]) if name in PORTS else () for name in REACHES},
    ),
    "net": Setting(
        about=f"the links between clients, and to the server: {', '.join(PROFILES)}, or settings such as {FORM}",
        check=parse_links,
    ),
    "fault": Setting(
        about=f"what happens at a phase: {', '.join(f'{n} ({f.about})' for n, f in NETWORK_FAULTS.items())}; "
        f"to faults.phases "
        f"ACT-VICTIM@PHASE, of {', '.join(MATRIX_ACTS)} and {', '.join(MATRIX_VICTIMS)}",
        values=dict.fromkeys(FAULTS, ()),
    ),
    "version": Setting(
        about="the version of IMPI: 0.0 alone, without what is impi's own", values={"0.0": ("--impi-version", "0.0")}
    ),
    "limits": Setting(
        about="hiwater: two packets under way; datalen: packets of 500 octets; or both",
        values={"hiwater": _LITTLE, "datalen": _SMALL, "both": (*_LITTLE, *_SMALL)},
    ),
    "spin": Setting(about="how long ranks spin before they block", values={"0": ()}, variable="IMPI_SPIN"),
    "amount": Setting(about="how much a soak sends: 20000 messages, or for 10s", check=parse_amount),
}
"""Every setting, in the order in which a variant names them."""


def parse_variant(text: str) -> dict[str, str]:
    """Return the settings of a variant by name; ``""`` has none.

    Raises:
        UsageError: a setting or its value does not exist, or the order is another one.
    """
    return dict(_settings_of(text))


@lru_cache(maxsize=4096)
def _settings_of(text: str) -> tuple[tuple[str, str], ...]:
    """The settings of a variant: thousands of cells share a few of them."""
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in SETTINGS:
            raise UsageError(f"variant {text!r}: there is no setting {name!r}; there are {', '.join(SETTINGS)}")
        _check(text, name, value)
        found[name] = value
    ordered = ",".join(f"{name}={found[name]}" for name in SETTINGS if name in found)
    if ordered != text:
        raise UsageError(f"variant {text!r}: write {ordered!r}")
    return tuple(found.items())


def join(variant: str, more: Mapping[str, str]) -> str:
    """Return the variant with further settings, which take the place of its own."""
    found = {**parse_variant(variant), **more}
    return ",".join(f"{name}={found[name]}" for name in SETTINGS if name in found)


def _check(text: str, name: str, value: str) -> None:
    """UsageError: the setting has no such value."""
    setting = SETTINGS[name]
    if setting.check is None and value not in setting.values:
        raise UsageError(f"variant {text!r}: {name} has no value {value!r}; it has {', '.join(setting.values)}")
    if setting.check is not None:
        try:
            setting.check(value)
        except UsageError as error:
            raise UsageError(f"variant {text!r}: {error.message}") from None


def options_of(settings: Mapping[str, str], options: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options of ``impirun -client``: those of the case, changed by the settings."""
    dropped = {option for name in settings for option in SETTINGS[name].without}
    added = (option for name, value in settings.items() for option in SETTINGS[name].values.get(value, ()))
    return (*(option for option in options if option not in dropped), *added)


def variables_of(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of ``impirun -client`` that the settings ask for."""
    return {SETTINGS[name].variable: value for name, value in settings.items() if SETTINGS[name].variable}
