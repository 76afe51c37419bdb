"""Evidence for other people's eyes: without the names of the machine, and without secrets.

What goes is known by its value: names of this machine and of its user, their folders, its
addresses, and the values of variables that sound like secrets. Each has a word in its place, so a
text stays readable: ``HOST``, ``USER``, ``HOME``. A run notes the names of the machine where it ran
(:data:`NAMES`), because it may be handed on from another one.
"""

from __future__ import annotations

import contextlib
import html
import ipaddress
import itertools
import json
import os
import pwd
import re
import socket
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from impi.base.files import MALFORMED

NAMES: Final = "names.json"
"""In the folder of a run: what is to be replaced, and by which word. It is never handed on."""
_CHECKOUT: Final = Path(__file__).absolute().parents[4]
_SECRET: Final = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|_KEY$|^KEY$|COOKIE", re.IGNORECASE
)
_BLOCK: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_LEAST_SECRET: Final = 8  # shorter values occur by chance
_LEAST_NAME: Final = 3
# Names of users and machines that say nothing, and that are words of the evidence itself.
_COMMON: Final = frozenset(
    {
        *(
            "root",
            "user",
            "admin",
            "runner",
            "ubuntu",
            "debian",
            "home",
            "localhost",
            "server",
            "client",
            "node",
        ),
        *("mpi", "impi", "impilab", "rank", "job", "lab", "pure", "local", "docker"),
    }
)
# All that a run writes but captures.
_TEXTS: Final = (
    *(".json", ".jsonl", ".txt", ".stdout", ".stderr", ".sh"),
    *(".html", ".css", ".js", ".md", ".xml"),
)


def is_text(path: Path) -> bool:
    """Whether a file of a run is one whose names can be replaced."""
    return path.suffix in _TEXTS


def names_here() -> dict[str, str]:
    """Return by text what stands for it: the names of this machine, this user and their folders."""

    found: dict[str, str] = {}

    # A machine has a short and a long name, and either may be in a log.
    host = socket.gethostname()
    with contextlib.suppress(OSError, UnicodeError):
        found[socket.getfqdn()] = "HOST"

    found |= {host: "HOST", host.partition(".")[0]: "HOST", **_user()}
    # Short or common words stand in the evidence itself, where they name no user or host.
    found = {name: word for name, word in found.items() if _says_something(name)}
    folders = {
        str(Path.home()): "HOME",
        str(Path.cwd()): "HERE",
        sys.prefix: "PYTHON",
        str(_CHECKOUT): "CHECKOUT",
    }
    # The root folder would be found in every path.
    found |= {folder: word for folder, word in folders.items() if len(folder) > 1}

    return found | dict.fromkeys(_addresses(), "ADDRESS")


def secrets_here(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the values of variables that sound like secrets."""
    return {
        value: "(secret)"
        for name, value in environ.items()
        if _SECRET.search(name) and len(value) >= _LEAST_SECRET
    }


def write_names(folder: Path) -> None:
    """Note the names of this machine in a run's folder; OSError: it cannot be written."""
    file = folder / NAMES
    file.touch(mode=0o600)
    file.write_text(json.dumps(names_here(), indent=1) + "\n", "utf-8")


class Sanitizer:
    """Replaces what a run must not tell.

    Args:
        known: by text what stands for it.
    """

    def __init__(self, known: Mapping[str, str]) -> None:
        # A text may stand in its quoted form, too, as in links and in JSON.
        self._words: dict[str, str] = {}
        for text, word in known.items():
            for form in _forms(text):
                self._words.setdefault(form, word)

        # The longest first: a folder may be the beginning of another.
        alternatives = [
            _pattern(text)
            for text in sorted(self._words, key=lambda each: (-len(each), each))
        ]
        self._all = re.compile("|".join(alternatives)) if alternatives else None

    @classmethod
    def of(cls, run: Path, more: Mapping[str, str] | None = None) -> Sanitizer:
        """Return one for a run: by the names that it has noted, and by those of this machine."""
        noted: dict[str, str] = {}
        with contextlib.suppress(OSError, *MALFORMED):
            noted = {
                str(text): str(word)
                for text, word in json.loads((run / NAMES).read_text("utf-8")).items()
            }

        return cls(
            # Later ones count: names that the run noted, then hosts, then secrets.
            {**names_here(), **noted, **(more or {}), **secrets_here(os.environ)}
        )

    def text(self, text: str) -> str:
        """Return the text without them."""
        # Keys first: they have no value that could be known before.
        text = _BLOCK.sub("(private key)", text)
        return (
            self._all.sub(lambda match: self._words[match[0]], text)
            if self._all is not None
            else text
        )

    def value(self, value: object) -> object:
        """Return a value of JSON without them; its keys stay, unless they are paths."""
        if isinstance(value, str):
            return self.text(value)

        if isinstance(value, Mapping):
            return {
                self.text(key) if "/" in str(key) else key: self.value(each)
                for key, each in value.items()
            }

        return (
            [self.value(each) for each in value] if isinstance(value, list) else value
        )

    def octets(self, name: str, octets: bytes) -> bytes:
        """Return a text file of this name without them, whatever else is in it."""
        text = octets.decode("utf-8", "surrogateescape")
        # JSON as values, so that its escapes do not hide a name. What is no
        # JSON is taken as text.
        with contextlib.suppress(ValueError, RecursionError):
            if name.endswith(".json"):
                return (
                    json.dumps(self.value(json.loads(text)), indent=1) + "\n"
                ).encode()

            if name.endswith(".jsonl"):
                lines = (
                    json.dumps(self.value(json.loads(line))) + "\n"
                    for line in text.splitlines()
                )
                return "".join(lines).encode()

        return self.text(text).encode("utf-8", "surrogateescape")

    def file(self, path: Path) -> None:
        """Rewrite a file; OSError: it cannot be."""
        path.write_bytes(self.octets(path.name, path.read_bytes()))

    def tree(self, folder: Path) -> None:
        """Rewrite all texts of a folder; OSError: one cannot be."""
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink() and is_text(path):
                self.file(path)


def hosts_of(
    evidence: Mapping[str, object], unseen: Iterable[str] = ()
) -> dict[str, str]:
    """Return what stands for the nodes of a cell on hosts that exist: their addresses and names."""

    addresses = evidence.get("addresses")

    found = {}
    if isinstance(addresses, Mapping):
        found = {
            str(address): f"ADDRESS-OF-{node}"
            for node, address in addresses.items()
            if _is_outside(str(address))
        }

    return found | {
        name: f"HOST-{i}" for i, name in enumerate(unseen) if _says_something(name)
    }


def _user() -> dict[str, str]:
    """The names of the user."""
    with contextlib.suppress(KeyError):
        entry = pwd.getpwuid(os.getuid())
        return {entry.pw_name: "USER", entry.pw_gecos.partition(",")[0].strip(): "USER"}

    return {}


def _says_something(name: str) -> bool:
    return (
        len(name) >= _LEAST_NAME
        and name.lower() not in _COMMON
        and not name.isdecimal()
    )


def _forms(text: str) -> set[str]:
    """A text as it may stand in JSON, in a page and in an address."""
    escaped = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return {
        text,
        *escaped,
        *(html.escape(each) for each in (text, *escaped)),
        quote(text),
    }


def _pattern(text: str) -> str:
    """Only whole words: the name of a user may be a part of another word."""
    before = r"(?<![A-Za-z0-9])" if text[:1].isalnum() else ""
    after = r"(?![A-Za-z0-9])" if text[-1:].isalnum() else ""

    return before + re.escape(text) + after


def _is_outside(address: str) -> bool:
    try:
        return not ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _addresses() -> list[str]:
    """The addresses of this machine, without those of loopback."""

    found = set()
    with contextlib.suppress(OSError):
        lines = Path("/proc/net/fib_trie").read_text("utf-8").splitlines()
        found |= {
            line.split()[-1]
            for line, after in itertools.pairwise(lines)
            if "/32 host LOCAL" in after
        }

    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/net/if_inet6").read_text("utf-8").splitlines():
            found.add(str(ipaddress.IPv6Address(int(line.split()[0], 16))))

    return sorted(filter(_is_outside, found))
