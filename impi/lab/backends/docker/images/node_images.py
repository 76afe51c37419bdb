"""The nodes' images: their list, their ingredients, and builds of missing ones.

A tag ends in a hash of its files and of the tag below, so an image is built once and never stale::

    debian:bookworm-slim, or impilab/os:bookworm (ci/standin.sh)
      impilab/machine    this machine's certificates and pip settings, if any
        impilab/base     images/base
          impilab/VENDOR, impilab/VENDOR-VERSION  images/VENDOR
              impilab/VENDOR-compiled  images/compiled: programs in C; built when first needed
          impilab/spy  py-spy, for looks at ranks that hang
    impilab/os-MACHINE:bookworm (ci/standin.sh)
      impilab/machine-MACHINE
      impilab/foreign-MACHINE  images/foreign, whose programs run by qemu-user
          impilab/VENDOR-VERSION
          impilab/net  tools that change the network of nodes; built when first needed
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import os
import subprocess
import tarfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import docker
from docker.errors import APIError, DockerException, ImageNotFound

from impi.base import own_folders
from impi.base.errors import LabError
from impi.base.manifests import SHARED, installed_version, machine_of, manifest, names
from impi.lab.backends.docker.images.pip_settings import machine_files
from impi.lab.backends.nodes import in_parallel
from impi.lab.backends.waiting import say, waiting
from impi.lab.nodes.compiled_programs import C_PROGRAMS, image_files
from impi.lab.nodes.parties import node_prefix

IMAGE_LABEL: Final = "org.impilab.image"
SPY: Final = "spy"
"""The image of the containers that may trace a node's processes."""
LINKS: Final = "net"
"""The image of the containers that may change a node's network."""
_DEBIAN: Final = "debian:bookworm-slim"
_STANDIN: Final = "impilab/os:bookworm"
_STANDIN_S: Final = 900
_BUILD_S: Final = 1800
_SHOWN_LINES: Final = 15
# How often images are built that are gone when all are there
_TRIES: Final = 3
_PROXIES: Final = (
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
)

Files = Mapping[str, bytes]


def archive(files: Files) -> bytes:
    """Return a tar of these files: the same octets for the same files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(data))

    return buffer.getvalue()


class Images:
    """The images of one engine. LabError: a build failed; the message has its last lines."""

    def __init__(self, client: docker.DockerClient) -> None:
        self._client = client

    def ensure(self, vendors: Iterable[str]) -> dict[str, str]:
        """Return image ids by name, for ``base``, ``spy`` and those vendors; build missing ones.

        Raises:
            UsageError: there is no such vendor.
            LabError: a build failed.
        """

        wanted = sorted(set(vendors))
        for vendor in wanted:
            manifest(vendor)  # names that do not exist show before anything is built

        wanted.append(SPY)
        for _ in range(_TRIES):
            found = self.present(wanted)
            if found.keys() >= {"base", *wanted}:
                return found

            # One build at a time on a machine: the second one finds what the first has made.
            with only_one_builds():
                self._make_all(wanted)

        # Users with locks of their own, such as with another TMPDIR, can build or clean beside it
        gone = ", ".join(sorted({"base", *wanted} - self.present(wanted).keys()))
        raise LabError(
            f"images that were built are gone again ({gone}): another process builds or removes"
            " images of the same names; try again when it has ended"
        )

    def present(self, vendors: Sequence[str]) -> dict[str, str]:
        found = {}

        origin = next((i for i in (self._id(_DEBIAN), self._id(_STANDIN)) if i), "")
        if origin:
            files = machine_files()
            machine = (
                _tag("machine", _machine_context(files), origin) if files else origin
            )
            base = _tag("base", _context("base"), machine)
            tags = {
                "base": base,
                **{
                    v: _tag(v, _context(v), _below(v, base), _version(v))
                    for v in vendors
                },
            }
            found = {name: i for name, tag in tags.items() if (i := self._id(tag))}

        return found

    def tool(self, name: str) -> str:
        """Return the id of an image for some labs only, on top of ``base``; build it if missing."""
        base, context = self.ensure([])["base"], _context(name)
        # Looked for without the lock, which another process may hold for minutes
        if found := self._id(_tag(name, context, base)):
            return found

        with only_one_builds():
            return self.make(name, context, base)

    def with_programs(self, vendors: Sequence[str]) -> dict[str, str]:
        """Return ids of images on top of those vendors', with programs in C; build missing ones."""
        below = self.ensure(vendors)

        contexts = {
            v: {**_context("compiled"), **image_files(v, node_prefix(v))}
            for v in vendors
        }
        # Looked for without the lock, as a tool is
        found = {
            v: self._id(_tag(f"{v}-compiled", contexts[v], below[v])) for v in vendors
        }

        def of(vendor: str) -> tuple[str, str]:
            name = f"{vendor}-compiled"
            return vendor, self.make(name, contexts[vendor], below[vendor])

        if missing := [v for v in vendors if not found[v]]:
            with only_one_builds():
                found |= in_parallel(of, missing)

        return found

    def make(self, name: str, context: Files, base: str) -> str:
        """Return the id of an image of these files on top of another one; build it if missing."""
        return self._id(self._make(name, context, base))

    # -- the chain

    def _make_all(self, wanted: Sequence[str]) -> None:
        base = self._make("base", _context("base"), self._machine())
        in_parallel(
            lambda v: self._make(v, _context(v), self._below(v, base), _version(v)),
            wanted,
        )

    def _origin(self) -> str:
        """Return Debian's image or the stand-in; make or fetch one if both are missing."""

        found = self._id(_DEBIAN) or self._id(_STANDIN)
        if found:
            return found

        say(f"pulling {_DEBIAN}")
        try:
            with waiting(f"pulling {_DEBIAN}"):
                self._client.images.pull(_DEBIAN)
        except (DockerException, OSError) as error:
            say(f"{_DEBIAN} cannot be pulled ({_first_line(error)})")
            self._make_standin()

        found = self._id(_DEBIAN) or self._id(_STANDIN)
        if not found:
            raise LabError(
                f"there is neither {_DEBIAN} nor {_STANDIN}: load one of them into the engine"
            )

        return found

    def _below(self, vendor: str, base: str) -> str:
        """Return the tag that a vendor's image is built on; it is there afterwards."""

        machine = _machine_of(vendor)
        if not machine:
            return base

        origin = _origin_of(machine)
        if not self._id(origin):
            self._make_standin(origin, machine)

        if files := machine_files():
            origin = self._make(f"machine-{machine}", _machine_context(files), origin)

        return self._make(f"foreign-{machine}", _foreign_context(), origin)

    def _make_standin(self, tag: str = _STANDIN, *machine: str) -> None:
        say(f"making {tag}")
        try:
            with waiting(f"making {tag}"):
                done = subprocess.run(
                    [str(SHARED / "ci/standin.sh"), tag, *machine],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    timeout=_STANDIN_S,
                    check=False,
                )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LabError(
                f"ci/standin.sh could not make the image {tag}: {error}"
            ) from error

        if done.returncode != 0:
            last = done.stderr.decode("utf-8", "replace").splitlines()[-_SHOWN_LINES:]
            raise LabError(
                f"ci/standin.sh could not make the image {tag}:\n" + "\n".join(last)
            )

    def _machine(self) -> str:
        origin = self._origin()
        files = machine_files()
        return (
            self._make("machine", _machine_context(files), origin) if files else origin
        )

    def _make(self, name: str, context: Files, base: str, version: str = "") -> str:
        """Return the tag of an image; it is there afterwards."""

        tag = _tag(name, context, base, version)
        if self._id(tag):
            return tag

        say(f"building {tag}")
        began = time.monotonic()

        lines: deque[str] = deque(maxlen=_SHOWN_LINES)
        try:
            with waiting(f"building {tag}") as wait:
                for event in self._build(name, context, base, tag, version):
                    lines.extend(str(event.get("stream", "")).splitlines())

                    wait.heard(str(event.get("stream", "")))
                    if "error" in event:
                        said = "\n".join([*lines, str(event["error"]).strip()])
                        raise LabError(f"the image {name} cannot be built:\n{said}")
        except (DockerException, OSError) as error:
            raise LabError(
                f"the image {name} cannot be built: {_first_line(error)}\n"
                + "\n".join(lines)
            ) from error

        if not self._id(tag):
            raise LabError(
                f"the engine built the image {name} and does not know {tag}:\n"
                + "\n".join(lines)
            )

        say(f"built {tag} in {time.monotonic() - began:.0f} s")

        return tag

    def _build(
        self, name: str, context: Files, base: str, tag: str, version: str
    ) -> Iterable[Mapping[str, Any]]:
        """Build the image, and yield what the engine says of it."""
        own = {"VERSION": version} if version else {}
        events: Iterable[Mapping[str, Any]] = self._client.api.build(
            fileobj=io.BytesIO(archive(context)),
            custom_context=True,
            tag=tag,
            buildargs={
                "BASE": base,
                **own,
                **{p: os.environ[p] for p in _PROXIES if p in os.environ},
            },
            labels={IMAGE_LABEL: name},
            rm=True,
            forcerm=True,
            decode=True,
        )

        return events

    def _id(self, tag: str) -> str:
        """Return the id of a tag; empty: there is no such image."""
        try:
            return self._client.images.get(tag).id or ""
        except ImageNotFound:
            return ""
        except (APIError, OSError) as error:
            raise LabError(
                f"the engine does not describe the image {tag}: {_first_line(error)}"
            ) from error


@contextlib.contextmanager
def only_one_builds() -> Iterator[None]:
    """Hold this user's lock on building; the lock ends with the process."""
    try:
        path = f"{own_folders.temporary()}/images.lock"
    except OSError as error:
        raise LabError(
            f"there is no folder for a lock: {error.filename}: {error.strerror}; set TMPDIR"
        ) from error

    with own_folders.opened_lock(path) as lock:
        deadline = time.monotonic() + _BUILD_S

        told = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise LabError(
                        f"another process has been building images for {_BUILD_S} s: see {path}"
                    ) from None

                if not told:
                    say("waiting for another process that builds images")

                told = True
                time.sleep(0.2)
            except OSError:
                # A file system without locks: then two may build, which costs time alone
                break

        yield


def _machine_of(name: str) -> str:
    return "" if name == SPY else machine_of(name)


def _origin_of(machine: str) -> str:
    return f"impilab/os-{machine}:bookworm"


def _foreign_context() -> dict[str, bytes]:
    shared = _context("base")
    return _context("foreign") | {
        name: shared[name] for name in ("sshd_config", "locked", "locked.txt")
    }


def _below(name: str, base: str) -> str:
    """Return the tag that an image is built on, whether that is there or not."""

    machine = _machine_of(name)
    if not machine:
        return base

    files, origin = machine_files(), _origin_of(machine)
    origin = (
        _tag(f"machine-{machine}", _machine_context(files), origin) if files else origin
    )

    return _tag(f"foreign-{machine}", _foreign_context(), origin)


def _version(name: str) -> str:
    return "" if name == SPY else installed_version(name)


def _context(name: str) -> dict[str, bytes]:
    plain = name.partition("@")[0]
    folder = manifest(plain).folder if plain in names() else SHARED / "images" / plain

    files = {
        path.name: path.read_bytes()
        for path in sorted(folder.glob("*"))
        if path.is_file()
    }
    if "Dockerfile" not in files:
        raise LabError(
            f"{folder} has no Dockerfile: 'impilab check {plain}' says what a vendor's folder needs"
        )

    # An image does not depend on its manifest: edits of that would build the image anew.
    if files.pop(f"{folder.name}.toml", b"") and manifest(name).kind == "native":
        # Its ranks run programs in C, which are compiled where its MPI is.
        files.update(
            {path.name: path.read_bytes() for path in sorted(C_PROGRAMS.glob("*.[ch]"))}
        )

    return files


def _machine_context(files: Files) -> dict[str, bytes]:
    # The names of machine_files are the paths, with "!" for the slash.
    lines = [
        "ARG BASE",
        "FROM ${BASE}",
        *(f'COPY {name} "/{name.replace("!", "/")}"' for name in sorted(files)),
    ]
    return {**files, "Dockerfile": ("\n".join(lines) + "\n").encode()}


def _tag(name: str, context: Files, base: str, version: str = "") -> str:
    digest = hashlib.sha256(
        archive(context) + base.encode() + version.encode()
    ).hexdigest()
    return f"impilab/{name.replace('@', '-')}:{digest[:12]}"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
