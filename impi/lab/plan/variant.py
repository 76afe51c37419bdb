"""The variant of a cell: its differences from the default, such as ``auth=key,form=native``.

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
from impi.lab.nodes.ways import WAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a variant."""

    about: str
    # Options of every ``impirun -client``, by value.
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # if values cannot be listed: checks one, and raises UsageError
    check: Callable[[str], object] | None = None
    without: tuple[str, ...] = ()  # options of the case that the setting removes
    variable: str = ""  # the variable with the value for every ``impirun -client``


_LITTLE: Final = ("--hiwater", "2")
_SMALL: Final = ("--datalen", "500")
SETTINGS: Final[Mapping[str, Setting]] = {
    "auth": Setting(
        about="authentication of clients (IMPI 2.3.3). key: by a key. both: by a key or not at all. wrong: the last "
        "client has another key. apart: the last client has no method that the server accepts. challenge: by impi's "
        "challenge, natives not at all. tls: by the challenge, and all between nodes is in TLS, which captures cannot "
        "show but as TLS",
        values=dict.fromkeys(("key", "both", "wrong", "apart", "challenge", "tls"), ()),
    ),
    "form": Setting(
        about="native: clients may agree to send values as they are in memory, which is impirun's default",
        values={"native": ()},
        without=("--external32",),
    ),
    "abi": Setting(
        about="the program is the case's twin in C, compiled for an ABI of MPI: the standard one, or the one of a "
        "vendor of the cell. Its libmpi is impi's library",
        values=dict.fromkeys(ABIS, ()),
    ),
    "behind": Setting(
        about="how a compiled program starts, other than as impirun's PROGRAM. "
        + "; ".join(f"{name}: {way.about}" for name, way in WAYS.items()),
        values=dict.fromkeys(WAYS, ()),
    ),
    "hosts": Setting(
        about="owner of the channels: one router for each node, or one for each client (IMPI 1.2.1)",
        values={"node": ("--hosts", "node"), "client": ("--hosts", "client")},
    ),
    "connect": Setting(
        about="lazy: hosts of two clients connect at their first message, by a version that only impi has",
        values={"lazy": ("--lazy",)},
    ),
    "start": Setting(
        about="one: a single impirun starts server and clients, as mpiexec starts programs",
        values={"one": ()},
    ),
    "launcher": Setting(
        about="auto: impirun chooses the program that starts a library's procs, as most cells let it do. mpiexec: "
        "the library's own, as it is in cells about the start or the end of processes",
        values={name: ("--launcher", name) for name in ("auto", "mpiexec")},
    ),
    "ip": Setting(
        about="6: nodes know each other by IPv6 addresses only. two: each node has a second address, on a network "
        "without a route to others, and impirun must choose",
        values={"6": (), "two": ()},
    ),
    "source": Setting(
        about="second: hosts of the last client connect from a second address of their nodes, which no label announces",
        values={"second": ()},
    ),
    "reach": Setting(
        about="; ".join(f"{name}: {text}" for name, text in REACHES.items()),
        values={
            name: ("--ports", PORTS[name]) if name in PORTS else () for name in REACHES
        },
    ),
    "net": Setting(
        about=f"links between clients, and to the server: {', '.join(PROFILES)}, or settings such as {FORM}",
        check=parse_links,
    ),
    "fault": Setting(
        about=f"fault at a phase: {', '.join(f'{n} ({f.about})' for n, f in NETWORK_FAULTS.items())}. "
        f"For the case faults.phases write ACT-VICTIM@PHASE, with an act of {', '.join(MATRIX_ACTS)} and a victim of "
        f"{', '.join(MATRIX_VICTIMS)}",
        values=dict.fromkeys(FAULTS, ()),
    ),
    "version": Setting(
        about="0.0: clients offer this version of IMPI only, without impi's additions",
        values={"0.0": ("--impi-version", "0.0")},
    ),
    "limits": Setting(
        about="hiwater: at most two packets under way. datalen: packets of 500 octets. both: the two together",
        values={"hiwater": _LITTLE, "datalen": _SMALL, "both": (*_LITTLE, *_SMALL)},
    ),
    "spin": Setting(
        about="seconds that ranks spin before they block",
        values={"0": ()},
        variable="IMPI_SPIN",
    ),
    "amount": Setting(
        about="amount of a soak: a number of messages or operations such as 20000, or a time such as 10s",
        check=parse_amount,
    ),
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
    """Return the settings of a variant; cached, because thousands of cells share a few variants."""

    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in SETTINGS:
            raise UsageError(
                f"variant {text!r}: there is no setting {name!r}; there are {', '.join(SETTINGS)}"
            )

        _check(text, name, value)
        found[name] = value

    ordered = ",".join(f"{name}={found[name]}" for name in SETTINGS if name in found)
    if ordered != text:
        raise UsageError(f"variant {text!r}: write {ordered!r}")

    return tuple(found.items())


def join(variant: str, more: Mapping[str, str]) -> str:
    """Return the variant with further settings, which replace its own ones."""
    found = {**parse_variant(variant), **more}
    return ",".join(f"{name}={found[name]}" for name in SETTINGS if name in found)


def _check(text: str, name: str, value: str) -> None:
    """Raise UsageError: the setting has no such value."""
    setting = SETTINGS[name]
    if setting.check is None and value not in setting.values:
        raise UsageError(
            f"variant {text!r}: {name} has no value {value!r}; it has {', '.join(setting.values)}"
        )

    if setting.check is not None:
        try:
            setting.check(value)
        except UsageError as error:
            raise UsageError(f"variant {text!r}: {error.message}") from None


def options_of(
    settings: Mapping[str, str], options: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the options of ``impirun -client``: those of the case, changed by the settings."""
    dropped = {option for name in settings for option in SETTINGS[name].without}
    added = (
        option
        for name, value in settings.items()
        for option in SETTINGS[name].values.get(value, ())
    )

    return (*(option for option in options if option not in dropped), *added)


def variables_of(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of ``impirun -client`` that the settings ask for."""
    return {
        SETTINGS[name].variable: value
        for name, value in settings.items()
        if SETTINGS[name].variable
    }
