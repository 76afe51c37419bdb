"""A developer's own build in place of a vendor's usual one: ``--replace mpich=PREFIX|IMAGE``.

The judging process hashes its libraries. Evidence of every cell must show that the processes mapped
these libraries from that place.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from impi.base.errors import UsageError
from impi.base.manifests import manifest, names, vendors
from impi.lab.nodes.interface import Build

_LIBRARY: Final = re.compile(r"libmpi(ch|_abi)?\.so[.0-9]*")
_SHARED: Final = (
    "/",
    "/usr",
    "/usr/local",
    "/opt",
    "/home",
    "/root",
    "/tmp",
    "/etc",
    "/var",
    "/lib",
    "/bin",
)
_LEFT_OUT: Final = (".a", ".la")


def parse_replacements(texts: Sequence[str]) -> dict[str, str]:
    """Return each vendor's replacement, from ``VENDOR=PREFIX|IMAGE``; folders become absolute.

    Raises:
        UsageError: a text is malformed, or names a folder that does not exist.
    """
    found: dict[str, str] = {}
    for text in texts:
        vendor, equals, what = text.partition("=")
        if (
            not equals
            or not what
            or vendor not in names()
            or not manifest(vendor).has_library
        ):
            having = ", ".join(each.name for each in vendors() if each.has_library)
            raise UsageError(
                f"--replace {text}: write VENDOR=PREFIX or VENDOR=IMAGE, with a vendor of {having}"
            )

        if vendor in found:
            raise UsageError(
                f"--replace {text}: {vendor} is replaced already; name each vendor once"
            )

        folder = Path(what).expanduser()
        if folder.is_dir():
            what = str(folder.resolve())
        elif what.startswith(("/", ".", "~")):
            raise UsageError(
                f"--replace {text}: there is no folder {what}; name the one that {vendor} is installed in"
            )

        found[vendor] = what

    return found


def prefix_build(vendor: str, text: str) -> Build:
    """The build in that folder of this machine.

    Raises:
        UsageError: it holds no shared library and mpiexec of that vendor, or more than a build.
    """

    prefix = Path(text)

    where = f"--replace {vendor}={text}"
    if str(prefix) in _SHARED:
        raise UsageError(
            f"{where}: this folder holds more than {vendor}; install it into one of its own (--prefix)"
        )

    if not (prefix / "bin/mpiexec").is_file():
        raise UsageError(
            f"{where} has no bin/mpiexec; name the folder that {vendor} was installed into"
        )

    files = {str(path): path.read_bytes() for path in _libraries(prefix)}

    wanted = manifest(vendor).library.files[0]
    if not any(Path(name).name == wanted for name in files):
        raise UsageError(
            f"{where} has no lib/{wanted}; is it {vendor}, built with shared libraries?"
        )

    return Build(
        vendor=vendor,
        origin=text,
        prefix=str(prefix),
        libraries=digests(files.values()),
        digest=digest_of(files),
    )


def digests(contents: Iterable[bytes]) -> tuple[str, ...]:
    """Return the SHA-256 of each library, sorted and without repetitions."""
    return tuple(sorted({hashlib.sha256(data).hexdigest() for data in contents}))


def digest_of(files: Mapping[str, bytes]) -> str:
    """Return one SHA-256 for files with names."""
    found = hashlib.sha256()
    for name in sorted(files):
        found.update(name.encode() + b"\0" + hashlib.sha256(files[name]).digest())

    return found.hexdigest()


def is_library(path: str) -> bool:
    """Whether a file of that name is an MPI library, as the witness sees it."""
    return bool(_LIBRARY.fullmatch(Path(path).name))


def library_of(vendor: str, build: Build) -> str:
    """Return the path of the library itself on a node."""
    name = manifest(vendor).library.files[0]
    for folder in ("lib", "lib64"):
        path = Path(build.prefix, folder, name)
        if path.exists():
            return str(path)

    return str(Path(build.prefix, "lib", name))


def prefix_archive(prefix: Path) -> bytes:
    """Return the build as a tar for a node's root folder: equal octets for equal builds."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in sorted([prefix, *prefix.rglob("*")]):
            if path.suffix in _LEFT_OUT:
                continue

            entry = tar.gettarinfo(path, str(path).lstrip("/"))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = 0

            entry.mode |= 0o755 if entry.isdir() else 0o444
            if entry.isreg():
                with path.open("rb") as file:
                    tar.addfile(entry, file)
            elif entry.isdir() or entry.issym() or entry.islnk():
                tar.addfile(entry)

    return buffer.getvalue()


def _libraries(prefix: Path) -> list[Path]:
    return sorted(
        path
        for path in prefix.glob("lib*/*")
        if is_library(path.name) and path.is_file()
    )
