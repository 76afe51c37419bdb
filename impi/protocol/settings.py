"""An :class:`Option` of a command, an environment variable, or both, declared once.

:mod:`impi.protocol.options` has the options of impirun, and the table of all. The variables here
are those of authentication and of procs, which load nothing more.

A record that :func:`has_options` makes has fields that are options, declared by :func:`option`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import (
    Any,
    Final,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
)

from impi.base.errors import UsageError, unread
from impi.base.records import record, replaced
from impi.protocol.wire import Label, OwnLabel

C = TypeVar("C", bound="type[Any]")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_DIGITS: Final = 18
_SHOWN: Final = 80
_OTHERS: Final = 0o077  # Rights of group and others
Side: TypeAlias = Literal[
    "both", "server", "relay", "client", "part", "offer", "peers", "procs"
]

SIDES: Final[dict[Side, tuple[str, str]]] = {
    "both": ("server and client", ""),
    "server": ("the server", "-server"),
    "relay": ("a relay", "-relay"),
    "client": ("a client", "-client"),
    "part": ("a client of one command for all, between colons", ""),
    "offer": ("offers of the client to the job", "-client"),
    "peers": (
        "deviations of other clients from IMPI 0.0; give all clients the same",
        "-client",
    ),
    "procs": ("environment", ""),
}
"""The title of the options of a side, and the option that must be given with them."""


@record(kw_only=True)
class Option(Generic[T_co]):
    """One option, whose value has the type that ``parse`` returns."""

    side: Side
    parse: Callable[[str], T_co]
    """Raises UsageError for a text that is no such value; bool: the option takes none."""
    default: T_co
    help: str
    flags: str = ""
    """The first one is shown; none: it is set by its variable only."""
    field: str = ""
    """The field of a record that has the value, if there is one."""
    metavar: str | None = None
    shown: str = ""
    """The default in the help and on the reference page, unless it is a number above 0."""
    choices: tuple[str, ...] | None = None
    range: tuple[int, int] | None = None
    """The least and the highest value."""
    clause: str = ""
    """The clause of IMPI 0.0 that has the range."""
    label: Label | OwnLabel | None = None
    """The label that tells the value to other clients (IMPI 2.3.5)."""
    variable: str = ""
    """The environment variable that counts where no flag is given."""
    many: bool = False
    """Whether it may come several times: ``parse`` returns a tuple, and all are put together."""

    @property
    def name(self) -> str:
        """The field that has the value, or the variable."""
        return self.field or self.variable

    @property
    def title(self) -> str:
        return self.flags.split()[0] if self.flags else self.variable

    @property
    def meaning(self) -> str:
        """The help with the default."""
        number = isinstance(self.default, (int, float)) and self.default > 0
        shown = self.shown or (f"{self.default:g}" if number else "")

        return f"{self.help} (default: {shown})" if shown else self.help

    def check(self, value: object) -> None:
        """Raise UsageError for a number out of the range."""
        if (
            self.range
            and isinstance(value, int)
            and not self.range[0] <= value <= self.range[1]
        ):
            least, most = self.range
            raise UsageError(
                f"{self.title} is {value}, but must be {least} to {most}",
                clause=self.clause,
            )

    def read(self, text: str, source: str = "") -> T_co:
        """Return the value of a text from ``source`` (default: the option). Raises UsageError."""
        try:
            value = self.parse(text)
        except UsageError as error:
            raise UsageError(f"{source or self.title}: {error.message}") from None

        self.check(value)

        return value

    def of(self, environ: Mapping[str, str]) -> T_co:
        """Return the variable's value, or the default if it is empty. Raises UsageError."""
        text = environ.get(self.variable)
        return self.read(text, self.variable) if text else self.default


def option(
    *,
    side: Side,
    parse: Callable[[str], T],
    default: T,
    help: str,
    flags: str = "",
    metavar: str | None = None,
    shown: str = "",
    choices: tuple[str, ...] | None = None,
    range: tuple[int, int] | None = None,
    clause: str = "",
    label: Label | OwnLabel | None = None,
    variable: str = "",
    many: bool = False,
) -> T:
    """Declare a field of a record as an option; :class:`Option` explains the arguments.

    The field's default is the option's. The record is made by :func:`has_options`.
    """
    declared = Option(
        side=side,
        parse=parse,
        default=default,
        help=help,
        flags=flags,
        metavar=metavar,
        shown=shown,
        choices=choices,
        range=range,
        clause=clause,
        label=label,
        variable=variable,
        many=many,
    )
    return cast(T, declared)


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(option,)
)
def has_options(cls: C) -> C:
    """Make a class a record whose values are set by name, and whose fields may be options.

    A field whose default is such a record is a part: its options are among those of the class.
    :func:`options_of` returns these.
    """

    options: list[Option[object]] = []

    parts: dict[str, type] = {}
    for name, value in list(vars(cls).items()):
        # The class keeps the default where the declaration stood, so `record` sees a plain field.
        if isinstance(value, Option):
            options.append(replaced(value, field=name))
            setattr(cls, name, value.default)
        elif hasattr(value, "_options"):
            options += options_of(value)
            parts[name] = type(value)

    made = record(kw_only=True)(cls)
    # In the order of the class body, which is the order of the help.
    made._options, made._parts = tuple(options), parts

    return made


def made(kind: type[T], **values: Any) -> T:
    """Return a record of options; the values of its parts are given by their own names."""
    parts: dict[str, type] = kind._parts  # type: ignore[attr-defined]
    # The command line is flat: each part takes the names that it knows.
    for name, part in parts.items():
        own = {
            each.field: values.pop(each.field)
            for each in options_of(part)
            if each.field in values
        }
        values.setdefault(name, part(**own))

    return kind(**values)


def options_of(item: Any) -> tuple[Option[object], ...]:
    """Return the options of a record that :func:`has_options` has made, in their order."""
    options: tuple[Option[object], ...] = item._options
    return options


def seconds(text: str) -> float:
    """Seconds, from 0. Raises UsageError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0

    # The function float() also reads "nan" and "inf", by which a wait would
    # never end, or end at once.
    if not (isfinite(value) and value >= 0.0):
        raise UsageError(f"{text!r} is not a number of seconds from 0")

    return value


def _octets(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS:
        raise UsageError(f"{text[:_SHOWN]!r} is not a number of octets, such as 2048")

    return int(text)


def _text_or_file(text: str) -> str:
    """Return the text, or that of the file after @; UsageError: others may read the file."""

    if not text.startswith("@"):
        return text.strip()

    from pathlib import Path  # procs read this module, but no file

    file = Path(text[1:])
    try:
        # Refused, not mended: others may have read the secret already.
        if file.stat().st_mode & _OTHERS:
            raise UsageError(f"{file} can be read by others: 'chmod 600 {file}'")

        return file.read_text("utf-8").strip()
    except OSError as error:
        raise unread(file, error) from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not text in UTF-8") from None


SPIN: Final = Option(
    side="procs",
    metavar="SECONDS",
    parse=seconds,
    default=None,
    help="time that a wait polls before it sleeps; 0: it sleeps at once",
    shown="at most 0.001 as long as that pays; 0.00002 for most ranks where they outnumber cores",
    variable="IMPI_SPIN",
)
ZERO_COPY: Final = Option(
    side="procs",
    metavar="OCTETS",
    parse=_octets,
    default=2048,
    help="least size of the contiguous blocks of a derived datatype that is sent without packing",
    variable="IMPI_ZERO_COPY",
)
AUTH_KEY: Final = Option(
    side="procs",
    metavar="NUMBER",
    parse=str,
    default="",
    help="key of the job, from 0 to 2^64-1; the server and all clients must have the same",
    variable="IMPI_AUTH_KEY",
)
AUTH_SECRET: Final = Option(
    side="procs",
    metavar="TEXT",
    parse=_text_or_file,
    default="",
    help="secret of the job, 16 characters or more, or @FILE with that text; the server and all "
    "clients must have the same. It is never sent",
    variable="IMPI_AUTH_SECRET",
)
AUTH_WEAK: Final = Option(
    side="procs",
    metavar="1",
    parse=str,
    default="",
    help="accept secrets and keys that somebody could guess. The variable counts even if empty",
    variable="IMPI_AUTH_WEAK",
)
AUTH_NONE: Final = Option(
    side="procs",
    metavar="1",
    parse=str,
    default="",
    help="no authentication, for closed networks only. The variable counts even if empty",
    variable="IMPI_AUTH_NONE",
)
NAMESERVER: Final = Option(
    side="procs",
    metavar="HOST:PORT",
    parse=str,
    default="",
    help="server whose published names the procs use, instead of the names of their own job",
    variable="IMPI_NAMESERVER",
)
