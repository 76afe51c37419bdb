"""An :class:`Option` of a command, an environment variable, or both, declared once.

:mod:`impi.options` has the options of impirun. The variables here are those of authentication and
of procs, which load nothing more. The reference page docs/reference/options.md comes from
:data:`OPTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from impi.errors import UsageError
from impi.records import record
from impi.wire import Label, OwnLabel

T_co = TypeVar("T_co", covariant=True)

OPTIONS: Final[dict[str, Option[object]]] = {}
"""All options by their names, in the order of the help."""
_DIGITS: Final = 18
_SHOWN: Final = 80
_OTHERS: Final = 0o077
"""Rights of group and others."""
Side: TypeAlias = Literal["both", "server", "relay", "client", "offer", "peers", "procs"]

SIDES: Final[dict[Side, tuple[str, str]]] = {
    "both": ("server and client", ""),
    "server": ("the server", "-server"),
    "relay": ("a relay", "-relay"),
    "client": ("a client", "-client"),
    "offer": ("what the client offers to the job", "-client"),
    "peers": ("what the other clients do against IMPI 0.0; say it to every client alike", "-client"),
    "procs": ("environment", ""),
}
"""The title of the options of a side, and the option that must be given with them."""


@record
class Option(Generic[T_co]):
    """One option, whose value has the type that ``parse`` returns; it enters itself in OPTIONS."""

    flags: str
    """The first one is shown; none: it is set by its variable only."""
    side: Side
    metavar: str | None
    parse: Callable[[str], T_co]
    """Raises UsageError for a text that is no such value; bool: the option takes none."""
    default: T_co
    help: str
    field: str = ""
    """The field that has the value, where the last flag does not name it."""
    shown: str = ""
    """The default in the help and on the reference page, unless it is a number above 0."""
    choices: tuple[str, ...] | None = None
    range: tuple[int, int] | None = None
    """The least and the highest value."""
    clause: str = ""
    """Where IMPI 0.0 has the range."""
    label: Label | OwnLabel | None = None
    """The label that tells the value to other clients (IMPI 2.3.5)."""
    variable: str = ""
    """The environment variable that counts where no flag is given."""
    many: bool = False
    """Whether it may come several times: ``parse`` returns a tuple, and all are put together."""

    def __post_init__(self) -> None:
        OPTIONS[self.name] = self

    @property
    def name(self) -> str:
        """The field that has the value."""
        return self.field or (self.flags or self.variable).split()[-1].lstrip("-").replace("-", "_")

    @property
    def title(self) -> str:
        """The option's name for users."""
        return self.flags.split()[0] if self.flags else self.variable

    @property
    def meaning(self) -> str:
        """The help with the default."""
        number = isinstance(self.default, (int, float)) and self.default > 0
        shown = self.shown or (f"{self.default:g}" if number else "")
        return f"{self.help} (default: {shown})" if shown else self.help

    def check(self, value: object) -> None:
        """Raise UsageError for a number out of the range."""
        if self.range and isinstance(value, int) and not self.range[0] <= value <= self.range[1]:
            least, most = self.range
            raise UsageError(f"{self.title} is {value}, but must be {least} to {most}", clause=self.clause)

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


def seconds(text: str) -> float:
    """Seconds, from 0. Raises UsageError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
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
        if file.stat().st_mode & _OTHERS:
            raise UsageError(f"{file} can be read by others: 'chmod 600 {file}'")
        return file.read_text("utf-8").strip()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is no text in UTF-8") from None


SPIN: Final = Option(
    "", "procs", "SECONDS", seconds, None,
    "how long a wait looks again and again before it sleeps; 0: it sleeps at once",
    shown="at most 0.001 as long as that pays, 0.00002 where ranks outnumber cores", variable="IMPI_SPIN",
)  # fmt: skip
ZERO_COPY: Final = Option(
    "", "procs", "OCTETS", _octets, 2048,
    "derived datatypes whose contiguous blocks have at least so many octets are not packed", variable="IMPI_ZERO_COPY",
)  # fmt: skip
AUTH_KEY: Final = Option(
    "", "procs", "NUMBER", str, "", "what all clients and the server must know: 0 to 2^64-1", variable="IMPI_AUTH_KEY"
)
AUTH_SECRET: Final = Option(
    "", "procs", "TEXT", _text_or_file, "",
    "what all clients and the server must know, 16 characters or more, or @FILE with that text; it never travels",
    variable="IMPI_AUTH_SECRET",
)  # fmt: skip
AUTH_WEAK: Final = Option(
    "",
    "procs",
    "1",
    str,
    "",
    "secrets and keys that can be guessed are taken; even if empty",
    variable="IMPI_AUTH_WEAK",
)
AUTH_NONE: Final = Option(
    "", "procs", "1", str, "", "no authentication, for closed networks only; even if empty", variable="IMPI_AUTH_NONE"
)
NAMESERVER: Final = Option(
    "", "procs", "HOST:PORT", str, "", "the server whose published names the procs use, in place of their own job's",
    variable="IMPI_NAMESERVER",
)  # fmt: skip
