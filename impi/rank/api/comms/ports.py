"""Ports of a job, and the way from a job that was spawned to its parents.

The work is in :mod:`.dynamic`, which few programs need. Published names are kept by a
rendezvous server (:mod:`impi.protocol.startup.names`): that of the own job if nothing says another.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from impi.base.errors import ImpiError
from impi.base.variables import NAMES, PARENT
from impi.protocol.semantics.errors import error
from impi.protocol.settings import AUTH_KEY, AUTH_SECRET, NAMESERVER
from impi.rank.api import runtime
from impi.rank.api.handles import INFO_NULL, Info, guarded_function

if TYPE_CHECKING:
    from impi.rank.api.comms.communicator import Communicator

__all__ = ["Close_port", "Lookup_name", "Open_port", "Publish_name", "Unpublish_name"]


def Open_port(info: Info = INFO_NULL) -> str:
    """Return the name of a new port at this process, for :meth:`Intracomm.Accept`.

    The name holds a secret: only a process that knows the name can connect.
    """
    from impi.rank.api.comms import dynamic

    runtime.engine()

    return dynamic.open_port()


def Close_port(port_name: str) -> None:
    """Close a port; Exception ERR_PORT: it is not open."""
    from impi.rank.api.comms import dynamic

    runtime.engine()
    dynamic.close_port(port_name)


@guarded_function
def Publish_name(service_name: str, port_name: str, info: Info = INFO_NULL) -> None:
    """Publish the name of a port, for :func:`Lookup_name` of all who know the secret.

    Args:
        service_name: by which others find it.
        port_name: of :func:`Open_port`.
        info: key ``impi_server``: HOST:PORT of another job's ``impirun -server``.

    Raises:
        Exception: ERR_SERVICE: the name is published, or there is no such server.
    """
    _ask("publish", service_name, port_name, info)


@guarded_function
def Unpublish_name(service_name: str, port_name: str, info: Info = INFO_NULL) -> None:
    """Take back what :func:`Publish_name` did; Exception ERR_SERVICE: it did not."""
    _ask("unpublish", service_name, port_name, info)


@guarded_function
def Lookup_name(service_name: str, info: Info = INFO_NULL) -> str:
    """Return the name of a published port; Exception ERR_NAME: there is none."""
    return _ask("lookup", service_name, "", info)


def _ask(act: str, service: str, port: str, info: Info) -> str:
    from impi.rank.engine.job import named

    where, key = _server(info)
    try:
        answer = named.ask(where, key, act, service, port)
    except ImpiError as failure:
        raise error("ERR_SERVICE", failure.message) from None

    if answer.error:
        raise error(answer.error, f"{answer.why} at {where}")

    return answer.port


def _server(info: Info) -> tuple[str, bytes]:
    own = runtime.engine().other_jobs.names

    where = (info.Get("impi_server") if info else None) or NAMESERVER.of(os.environ)
    if not where and own is None:
        raise error(
            "ERR_SERVICE",
            "this process has no server of names: set IMPI_NAMESERVER, or the info key impi_server, to HOST:PORT of an "
            "'impirun -server', and IMPI_AUTH_SECRET to its secret",
        )

    # impirun tells procs the key in place of the secret; one in the environment is of another job.
    if own is not None and not (
        os.environ.get(AUTH_SECRET.variable) or os.environ.get(AUTH_KEY.variable)
    ):
        return where or own[0], bytes.fromhex(own[1])

    from impi.protocol.startup.auth import names_key

    return where or (own[0] if own else ""), names_key(os.environ)


def parents(world: Communicator) -> Communicator | None:
    """Connect all processes of a job that was spawned to its parents; None: it was not."""

    # Removed, so that programs that this process starts do not connect as well.
    name = os.environ.pop(PARENT, "")
    if not name:
        return None

    told = os.environ.pop(NAMES, "").split()
    if told:  # the names of the parents are those of their children
        runtime.engine().other_jobs.names = (told[0], told[1])

    from impi.rank.api.comms import dynamic

    return dynamic.connect(world, name, 0)
