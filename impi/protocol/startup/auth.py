"""Authentication of clients: the methods and the variables that enable them (IMPI 2.3.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from importlib.util import find_spec
from typing import Final

from impi.base.errors import UsageError
from impi.base.records import record
from impi.protocol.proofs import prove
from impi.protocol.settings import AUTH_KEY, AUTH_NONE, AUTH_SECRET, AUTH_WEAK

_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_KEY: Final = re.compile(r"\d+|0[xX][0-9a-fA-F]+", re.ASCII)
_MASK_WORD: Final = 4
# With one proof overheard, guesses can be tried without any connection: so shorter ones are
# refused.
_LEAST_SECRET: Final = 16
_LEAST_KEY: Final = 1 << 32


class Method(IntEnum):
    """The methods that we know, by their bit in the client's mask (IMPI 2.3.3, table 2.1)."""

    NONE = 0
    KEY = 1
    TLS = 30
    """A method of ours: CHALLENGE, and TLS from then on, see :mod:`.encrypted`."""
    CHALLENGE = 31
    """A method of ours, see :mod:`.challenge`; the last of the first word, far from future ones."""


PROVING: Final = (Method.CHALLENGE, Method.TLS)
"""The methods by which both ends prove a secret, in the order of the default."""
ALL: Final = (*PROVING, Method.KEY, Method.NONE)
"""All methods, in the order of the default."""
OF_CLIENTS: Final = (*PROVING, Method.NONE)
"""The methods that a client offers unless it is asked for more. KEY is not among them: it sends
the key in clear to whoever listens at the server's address.
"""


@record
class Credentials:
    """Methods that one side may negotiate with, and the key."""

    methods: tuple[Method, ...]
    """Available methods, the preferred one first; never empty from :func:`find_credentials`."""
    key: int = 0
    """The shared 64-bit key, where KEY is among them."""
    secret: bytes = b""
    """The shared secret, where one of PROVING is among them."""

    @property
    def proving(self) -> bool:
        """Whether one of PROVING is among them."""
        return any(method in PROVING for method in self.methods)


def find_credentials(
    environ: Mapping[str, str], preference: Sequence[Method] | None = None
) -> Credentials:
    """Return the enabled methods in the order of ``preference`` (default: strongest first, and TLS
    where the other side has nothing else that proves a secret, because it costs bandwidth; no KEY
    beside a secret, which it would outdo).

    CHALLENGE and TLS take IMPI_AUTH_SECRET, or else IMPI_AUTH_KEY, which then does not travel.

    Raises:
        UsageError: none is enabled (the words of IMPI 2.3.3), the key is not a 64-bit number, or
            key or secret can be guessed and IMPI_AUTH_WEAK is not set.
    """

    has_key, has_secret = (
        bool(environ.get(o.variable, "").strip()) for o in (AUTH_KEY, AUTH_SECRET)
    )
    wanted = (OF_CLIENTS if has_secret else ALL) if preference is None else preference
    available = _available(environ, has_key=has_key, has_secret=has_secret)

    methods = tuple(method for method in wanted if method in available)
    if not methods:
        raise UsageError(
            f"No authentication methods available for negotiation. Aborting. Set {AUTH_SECRET.variable}, the same for "
            "the server and all clients."
        )

    found = Credentials(methods)

    key = (
        _key(environ)
        if Method.KEY in methods or (found.proving and not has_secret)
        else 0
    )
    if not found.proving:
        return Credentials(methods, key)

    # Without a secret the key takes its place: both ends have it, and by
    # these methods it stays here.
    secret = _secret(environ) if has_secret else key.to_bytes(8, "big")

    return Credentials(methods, key if Method.KEY in methods else 0, secret)


def _available(
    environ: Mapping[str, str], *, has_key: bool, has_secret: bool
) -> list[Method]:
    # 2.3.3: IMPI_AUTH_NONE counts by its mere *presence*, IMPI_AUTH_KEY only with a *value*.
    enabled = {
        Method.NONE: AUTH_NONE.variable in environ,
        Method.KEY: has_key,
        # A Python may lack OpenSSL; CHALLENGE needs nothing but SHA-256.
        Method.TLS: (has_key or has_secret) and find_spec("_ssl") is not None,
        Method.CHALLENGE: has_key or has_secret,
    }
    return [method for method, is_enabled in enabled.items() if is_enabled]


def names_key(environ: Mapping[str, str]) -> bytes:
    """Return the key by which processes ask a server for names, made of the secret or else the key.

    Raises:
        UsageError: the key is not a 64-bit number, or the file of the secret cannot be read.
    """
    secret = AUTH_SECRET.of(environ).encode("utf-8", "surrogateescape")
    if not secret and environ.get(AUTH_KEY.variable, "").strip():
        secret = parse_key(AUTH_KEY.of(environ)).to_bytes(8, "big")

    return prove(secret, "names")


def relay_key(environ: Mapping[str, str]) -> bytes:
    """Return the key of an impirun and a relay, made of the secret or else of IMPI_AUTH_KEY.

    Raises:
        UsageError: there is none, or it can be guessed.
    """
    if not any(
        environ.get(option.variable, "").strip() for option in (AUTH_SECRET, AUTH_KEY)
    ):
        raise UsageError(
            f"a relay needs a secret, or anyone could use it: set {AUTH_SECRET.variable}, the same for the relay, the "
            "server and all clients"
        )

    return prove(find_credentials(environ, (Method.CHALLENGE,)).secret, "relay")


def _key(environ: Mapping[str, str]) -> int:
    key = parse_key(AUTH_KEY.of(environ))
    if key < _LEAST_KEY and AUTH_WEAK.variable not in environ:
        raise UsageError(
            f"{AUTH_KEY.variable} is below 2^32, so it can be guessed: take one such as that of "
            f"'od -An -N8 -tu8 /dev/urandom', or set {AUTH_WEAK.variable}=1",
            clause="2.3.3",
        )

    return key


def _secret(environ: Mapping[str, str]) -> bytes:
    secret = AUTH_SECRET.of(environ).encode("utf-8", "surrogateescape")
    if len(secret) < (1 if AUTH_WEAK.variable in environ else _LEAST_SECRET):
        raise UsageError(
            f"{AUTH_SECRET.variable} has fewer than {_LEAST_SECRET} characters, so it can be guessed: take one"
            f" such as that of 'openssl rand -hex 16', or set {AUTH_WEAK.variable}=1"
        )

    return secret


def parse_key(text: str) -> int:
    """The key in ``text``: decimal, or hexadecimal after 0x, from 0 to 2^64-1.

    Raises:
        UsageError: anything else. The message does not show the text.
    """

    text = text.strip()

    # A bound, as int() refuses thousands of digits by an error of its own.
    key = (
        int(text, 16 if text[:2] in ("0x", "0X") else 10)
        if _KEY.fullmatch(text) and len(text) <= 100
        else -1
    )
    if not 0 <= key < 1 << 64:
        raise UsageError(
            f"{AUTH_KEY.variable} must be a number from 0 to 2^64-1, decimal or 0x and hexadecimal",
            clause="2.3.3",
        )

    return key


def parse_preference(text: str) -> tuple[Method, ...]:
    """Return the methods in a list of ``-auth``, such as ``3,1-0``: numbers or ranges, best first.

    Unlisted methods are off, unknown numbers are skipped, and the first mention counts.

    Raises:
        UsageError: not such a list.
    """
    methods: list[Method] = []
    for item in text.split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None:
            raise UsageError(
                f"-auth {text}: {item!r} is neither a number nor a range; give a list such as 1,0 or 3,1-0",
                clause="2.3.3",
            )

        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        # Only known methods are looked at, so that a range of any size costs nothing.
        known = [m for m in Method if min(first, last) <= m <= max(first, last)]
        methods += sorted(known, reverse=first > last)

    return tuple(dict.fromkeys(methods))


def encode_mask(methods: Iterable[Method]) -> bytes:
    """The payload of a client's AUTH command."""
    return sum(1 << method for method in set(methods)).to_bytes(_MASK_WORD, "big")


def decode_mask(payload: bytes) -> frozenset[int] | None:
    """Return the numbers of the methods in a mask, or None if it is malformed.

    A mask has any number of 32-bit words: the first has methods 0 to 31, the next 32 to 63 (2.3.3).
    """
    if not payload or len(payload) % _MASK_WORD:
        return None

    words = [
        int.from_bytes(payload[i : i + _MASK_WORD], "big")
        for i in range(0, len(payload), _MASK_WORD)
    ]

    return frozenset(
        32 * i + bit
        for i, word in enumerate(words)
        for bit in range(32)
        if word >> bit & 1
    )


def choose_method(
    preference: Iterable[Method], offered: Iterable[int]
) -> Method | None:
    """The most preferred method that both sides have, or None."""
    common = set(offered)
    # 2.3.3: the server chooses, so the order that counts is the server's.
    return next((method for method in preference if method in common), None)


def none_warning(name: str, address: str) -> str:
    """Return the server's warning about a client without authentication (IMPI 2.3.3)."""
    return f"Warning: {name} ({address}) has authenticated with {AUTH_NONE.variable}."
