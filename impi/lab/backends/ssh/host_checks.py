"""``impilab doctor`` of existing hosts: what each has, and what blocks the way to another."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from impi.base.errors import LabError, LaunchError, UsageError
from impi.base.manifests import manifest
from impi.base.remote.ssh import Connection
from impi.base.variables import port_range
from impi.lab.backends.capture.canary_tap import Tap
from impi.lab.backends.nodes import in_parallel
from impi.lab.backends.ssh.host_capture import HostRecorder, begin, capture_filter
from impi.lab.backends.ssh.hosts_file import Host, HostsFile
from impi.lab.backends.ssh.lab import last_line, log_in
from impi.lab.nodes.interface import Finding

_LOGIN_S: Final = 15.0
_ANSWER_S: Final = 15.0
_CAPTURE_S: Final = 60.0
# seconds by which a clock may differ from ours: two views of one connection still fit together
_CLOCK_S: Final = 0.5
_OLDEST: Final = (3, 11)
_LOOK: Final = """
import importlib.util, json, os, sys
print(json.dumps({
    "python": sys.version_info[:3],
    "numpy": importlib.util.find_spec("numpy") is not None,
    "there": [os.access(f"{folder}/bin/mpiexec", os.X_OK) for folder in sys.argv[1:]],
}))
"""
_LISTEN: Final = """
import socket, sys
address, *ports = sys.argv[1:]
for port in ports:
    try:
        listener = socket.create_server(
            (address, int(port)), family=socket.AF_INET6 if ":" in address else socket.AF_INET
        )
        break
    except OSError as error:
        why = error.strerror
else:
    sys.exit(f"nothing can listen at {address}: {why}")
print(listener.getsockname()[1], flush=True)
listener.settimeout(10)
print(listener.accept()[1][0])
"""
_CONNECT: Final = """
import socket, sys
own, address, port = sys.argv[1:]
try:
    socket.create_connection((address, int(port)), 3, (own, 0)).close()
except TimeoutError:
    print("no answer within 3 s: a firewall drops it, or there is no way")
except ConnectionRefusedError:
    print("refused, although there is a listener: a firewall rejects it")
except OSError as error:
    print(error.strerror)
"""


def examine(file: HostsFile) -> list[Finding]:
    """Return findings about each host, and about each pair: whether one reaches the other."""
    return _look(
        file, itertools.permutations(file.hosts, 2), file.hosts.values(), contents=True
    )


def between(file: HostsFile, origin: str, target: str) -> list[Finding]:
    """Return whether one host reaches another.

    Raises:
        UsageError: the file has no such host.
    """
    for name in (origin, target):
        if name not in file.hosts:
            raise UsageError(
                f"there is no host {name!r} in {file.path}; it has {', '.join(file.hosts)}"
            )

    hosts = [host for name, host in file.hosts.items() if name in (origin, target)]

    return _look(file, [(origin, target)], hosts, contents=False)


def _look(
    file: HostsFile,
    pairs: Iterable[tuple[str, str]],
    hosts: Collection[Host],
    *,
    contents: bool,
) -> list[Finding]:
    """Log in to the hosts; return those out of reach, what each has, and the ways of the pairs."""

    found: list[Finding] = []

    reached: dict[str, Connection] = {}
    try:
        for host, outcome in zip(hosts, in_parallel(_reach, list(hosts)), strict=True):
            if isinstance(outcome, str):
                found.append(Finding(subject=host.name, ok=False, detail=outcome))
                continue

            reached[host.name] = outcome
            found += (
                [*_contents(host, outcome), *_capture(file, host, outcome)]
                if contents
                else ()
            )

        # One after the other: two at once would take the same ports.
        found += [
            _way(file, file.hosts[a], file.hosts[b], reached)
            for a, b in pairs
            if {a, b} <= reached.keys()
        ]
    finally:
        for connection in reached.values():
            connection.close()

    return found


def _reach(host: Host) -> Connection | str:
    try:
        return log_in(host, _LOGIN_S)
    except LabError as error:
        return error.message


def _contents(host: Host, connection: Connection) -> Iterator[Finding]:
    libraries = [vendor for vendor in host.vendors if manifest(vendor).has_library]

    argv = [
        host.python,
        "-I",
        "-c",
        _LOOK,
        *(host.vendors[vendor] for vendor in libraries),
    ]
    try:
        code, said = connection.execute(argv, timeout_s=_ANSWER_S)
    except LaunchError as error:
        yield Finding(subject=host.name, ok=False, detail=str(error))
        return

    if code != 0:
        yield Finding(
            subject=host.name,
            ok=False,
            detail=f"{host.python} does not run there",
            cure="set python in the file",
        )
        return

    facts = json.loads(said)
    version = tuple(facts["python"])

    yield Finding(
        subject=host.name,
        ok=version[:2] >= _OLDEST,
        detail=f"{host.user}@{host.ssh}, Python {'.'.join(map(str, version))} in {host.python}",
        cure="set python in the file: 3.11 or newer",
    )
    if not facts["numpy"]:
        cure = (
            "install it there, or set python in the file to an environment that has it"
        )
        yield Finding(
            subject=host.name,
            ok=False,
            detail="that Python has no numpy",
            cure=cure,
            fatal=False,
        )

    for vendor, there in zip(libraries, facts["there"], strict=True):
        folder = host.vendors[vendor]
        detail = (
            folder if there else f"{folder}/bin/mpiexec is not there, or no program"
        )
        yield Finding(
            subject=f"{host.name}: {vendor}",
            ok=there,
            detail=detail,
            cure="set vendors in the file",
        )


def _capture(file: HostsFile, host: Host, connection: Connection) -> Iterator[Finding]:
    """Capture two canaries on a host, if the file has a command for it."""

    if not host.capture:
        return

    subject, path = (
        f"{host.name}: capture",
        f"{file.folder}/impilab-doctor-{secrets.token_hex(6)}.pcap",
    )

    recorder = None
    try:
        what = capture_filter([host], file.ports)
        recorder = HostRecorder(
            host, connection, path, env={}, seconds=_CAPTURE_S, what=what
        )
        capture = begin(Tap(host.name, recorder, own_clock=True), file, host).end()
    except LabError as error:
        yield Finding(subject=subject, ok=False, detail=error.message)
        return
    finally:
        if recorder is not None:
            recorder.stop()

    detail, cure = f"'{host.capture}' works", ""

    apart_s = max(capture.ahead_s, key=abs)
    if capture.ahead_s[0] > _CLOCK_S or capture.ahead_s[1] < -_CLOCK_S:
        detail, cure = (
            f"its clock is {apart_s:+.1f} s from ours",
            "let NTP set the clocks, or captures do not fit together",
        )

    yield Finding(subject=subject, ok=not cure, detail=detail, cure=cure, fatal=False)


def _way(
    file: HostsFile, origin: Host, target: Host, reached: Mapping[str, Connection]
) -> Finding:
    """Return whether ``origin`` opens a connection to ``target``, at a port of the file."""

    subject = f"{origin.name} to {target.name}"

    ports = [str(port) for port in port_range(file.ports)] or ["0"]
    try:
        listening = reached[target.name].start(
            [target.python, "-I", "-S", "-c", _LISTEN, target.address, *ports]
        )
        if not (port := listening.first_line(_ANSWER_S).decode("utf-8", "replace")):
            return Finding(
                subject=subject, ok=False, detail=last_line(listening.stop().stderr)
            )

        argv = [
            origin.python,
            "-I",
            "-S",
            "-c",
            _CONNECT,
            origin.address,
            target.address,
            port,
        ]
        said = reached[origin.name].run(argv, timeout_s=_ANSWER_S)

        where = f"{target.address}, port {port}"
        if said.stdout or said.code != 0:
            listening.stop()
            why = said.stdout.decode("utf-8", "replace").strip() or last_line(
                said.stderr
            )
            return Finding(
                subject=subject, ok=False, detail=f"{where}: {why}", cure=_CURE
            )

        came = listening.wait(_ANSWER_S).stdout.decode("utf-8", "replace").split()[-1]
    except LaunchError as error:
        return Finding(subject=subject, ok=False, detail=str(error))

    if came != origin.address:
        cure = "give all clients a secret (IMPI_AUTH_SECRET): IMPI 0.0 knows a host by its address alone"
        detail = f"{where}: connected, but from {came}, as behind NAT"
        return Finding(subject=subject, ok=False, detail=detail, cure=cure, fatal=False)

    return Finding(subject=subject, ok=True, detail=f"{where}: connected")


_CURE: Final = "open ports in the firewall and name them (ports, --ports), or use --hosts client on a head node"
