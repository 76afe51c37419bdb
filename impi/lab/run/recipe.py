"""The recipe of a cell: arguments and variables of its commands, and the files for its ranks.

How it works: a recipe belongs to one attempt. It draws a nonce, a key and the name of a folder, so
that no octet and no file of an earlier attempt can count as evidence of this one. Its methods turn
the settings of the cell (its variant) into command lines; :mod:`.execute` starts these. A mutation
can change the commands of one client: by it the lab's own tests run clients that lie.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Final

from impi.base.manifests import manifest
from impi.base.variables import RELAY
from impi.lab.nodes import ways
from impi.lab.nodes.interface import Lab, Node
from impi.lab.nodes.job_commands import (
    CROWDED,
    NATIVE_HOSTS,
    authentication,
    client_argv,
    library_cache,
    methods_of,
    program_argv,
    random_key,
    relay_argv,
    server_argv,
    server_environment,
)
from impi.lab.nodes.reach import PORTS, second_network
from impi.lab.plan.cell import Cell
from impi.lab.plan.variant import variables_of
from impi.lab.run.prepared_lab import Prepared

Order = tuple[list[str], dict[str, str]]
"""The arguments and the variables of a command."""
PROGRAM: Final = "program"
WORK: Final = "work"
"""Folders in that of a cell: of a user's compiled program, and where their program runs
(``rankwrap.py``)."""
Mutation = Callable[[int, list[str], dict[str, str]], Order]
"""(client, argv of its impirun, environment) -> argv and environment to run; for the lab's own
tests."""


class Recipe:
    """The commands of one attempt at a cell, in a folder and with secrets of its own."""

    def __init__(
        self, prepared: Prepared, cell: Cell, mutation: Mutation | None
    ) -> None:
        self.nonce = secrets.token_hex(16)
        self.key = random_key()
        # where the server and the relay listen, once they have printed it
        self.hostport = self.relay_hostport = ""
        self._prepared, self._cell, self._mutation = prepared, cell, mutation
        self._folder = f"cell-{cell.hash}-{secrets.token_hex(3)}"

    @property
    def _lab(self) -> Lab:
        return self._prepared.lab

    @property
    def folders(self) -> dict[str, str]:
        roots = self._prepared.roots
        return {
            node.name: f"{roots[node.name]}/{self._folder}"
            for nodes in self._lab.clients
            for node in nodes
        }

    # -- commands

    def server(self) -> Order:
        settings = self._cell.settings
        argv = server_argv(
            self._lab,
            auth=settings.get("auth"),
            ports=PORTS.get(settings.get("reach", ""), ""),
        )
        return argv, {**server_environment(self._lab), **self.authentication(None)}

    def whole(self) -> Order:
        """Return the one command that is server and clients."""
        (python, option, module, _server, _count, *argv), env = self.server()
        for client in range(len(self._lab.clients)):
            words, more = self.client(client)
            # Six words begin a client's own command, up to -client RANK HOST:PORT.
            argv += [*([":"] if client else ()), *words[6:]]
            env = {**more, **env}

        return [python, option, module, *argv], env

    def relay(self) -> Order:
        return relay_argv(self._lab), {
            **server_environment(self._lab),
            **self.authentication(None),
        }

    def witness(self, node: Node, limit_s: float) -> Order:
        """Return the command of a node's witness, which ends itself after ``limit_s`` seconds."""

        root, count = (
            self._prepared.roots[node.name],
            len(self._cell.roster.on_node(node.name)),
        )
        argv = [self._lab.access.python, "-I", "-S", f"{root}/programs/witness.py"]
        argv += [f"{root}/{self._folder}", str(count), str(limit_s)]

        return [*argv, *(["--outside"] if self._cell.case.mute else [])], {}

    def client(self, client: int) -> Order:
        lab, cell, settings = self._lab, self._cell, self._cell.settings
        node = lab.clients[client][0]
        root = self._prepared.roots[node.name]
        argv = client_argv(
            lab, client, self.hostport, chooses=settings.get("ip") == "two"
        )

        vendor = manifest(lab.access.vendors[client])
        if (
            vendor.library.launcher == "hydra"
            and "launcher" not in settings
            and cell.case.launcher(settings) == "mpiexec"
        ):
            argv += ("--launcher", "mpiexec")

        if vendor.kind == "backed":
            argv += (*cell.options, *cell.case.launch.offers(client))

            argv += methods_of(settings.get("auth"))
            if "source" in settings and client == len(lab.clients) - 1:
                argv += ("--source", second_network(node.address))

        argv += self._started(client, root)
        env = {
            **CROWDED,
            **lab.access.environment[node.name],
            **self.authentication(client),
        }
        env |= variables_of(settings)
        env |= {"IMPI_CACHE": library_cache(lab, node.name)} if cell.case.mute else {}
        env |= {RELAY: self.relay_hostport} if self.relay_hostport else {}

        return (
            (argv, env) if self._mutation is None else self._mutation(client, argv, env)
        )

    def _started(self, client: int, root: str) -> list[str]:
        """Return the words of a client's program, with an option that they need before them."""

        lab, case, settings = self._lab, self._cell.case, self._cell.settings
        abi, way = settings.get("abi", ""), settings.get("behind", "")
        command = [
            lab.access.python,
            f"{root}/programs/rankwrap.py",
            f"{root}/{self._folder}",
        ]
        if case.own is not None and case.mute:
            own = f"{root}/{self._folder}/{PROGRAM}/{case.own.name}"
            return [*command, own, *case.own.arguments]

        folder = f"{root}/programs"
        program = program_argv(lab, client, folder, case.program, abi)
        option = ways.told(settings, lab.access.vendors[client])
        if not way:
            return [*option, *command, *program]

        program = ways.program_of(way, folder, abi) or program
        return [*option, *ways.started(way, command, program)]

    def authentication(self, client: int | None) -> dict[str, str]:
        last = client == len(self._lab.clients) - 1
        return authentication(self._cell.settings.get("auth"), self.key, last=last)

    # -- what ranks read

    def plan(self) -> dict[str, object]:
        """Return the cell's ``cell.json``, as far as it is equal for all clients."""
        cell, roster = self._cell, self._cell.roster
        return {
            "cell": cell.id,
            "nonce": self.nonce,
            "clients": [roster.of_client(c) for c in range(roster.nclients)],
            "order": [[r.rank, r.client] for r in roster.ranks],
            "hosts": roster.hosts(self._owner_of_hosts()),
            "params": {
                **cell.case.params,
                **(cell.amount.params if cell.amount else {}),
            },
            "phase": cell.settings.get("fault", "").partition("@")[2],
        }

    def plan_of(self, client: int) -> dict[str, object]:
        others = [
            each.address
            for i, nodes in enumerate(self._lab.clients)
            if i != client
            for each in nodes
        ]
        return {
            **self.plan(),
            "client": client,
            "vendor": self._cell.vendors[client],
            "others": others,
        }

    def write_plans(self) -> None:
        folders = self.folders
        for client, nodes in enumerate(self._lab.clients):
            for node in nodes:
                node.write(
                    f"{folders[node.name]}/cell.json",
                    json.dumps(self.plan_of(client)).encode(),
                )
                if (own := self._cell.case.own) is not None:
                    # The program's folder is its own: what an earlier one has left is not there.
                    node.write(f"{folders[node.name]}/{WORK}/.of-the-lab", b"")
                    if own.compiled:
                        node.write(
                            f"{folders[node.name]}/{PROGRAM}/{own.name}",
                            own.octets,
                            mode=0o755,
                        )

    def _owner_of_hosts(self) -> str:
        ours = all(manifest(vendor).kind == "backed" for vendor in self._cell.vendors)
        return NATIVE_HOSTS if not ours else self._cell.settings.get("hosts", "proc")
