"""The network of a lab, changed by sidecars: containers that share a node's network.

A sidecar is started beside a node when it is first needed, and runs ``programs/link_queue.py``:
rules of iptables, and a queue of packets in user space. That works on kernels without netem, too.
Nodes themselves have no right to alter their network. Captures see packets before the queue does,
so a packet that the queue drops is still evidence. The engine freezes nodes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, cast

import docker
from docker.errors import APIError
from docker.models.containers import Container

from impi.base.errors import LabError
from impi.base.remote.patience import Patience
from impi.lab.backends.docker.engine import engine_fault, ignore_missing
from impi.lab.backends.docker.images.node_images import LINKS, Images
from impi.lab.backends.docker.inventory import remove_container
from impi.lab.backends.docker.processor_share import share_of_helper
from impi.lab.backends.lifecycle.lab_labels import LABEL, probe_labels
from impi.lab.backends.nodes import in_parallel
from impi.lab.nodes import (
    CutSeen,
    Direction,
    LinkSeen,
    LinkSettings,
    NetworkSeen,
    NodeAccess,
    RouteSeen,
)

_RIGHTS: Final = ("NET_ADMIN",)
_PROGRAM: Final = (Path(__file__).parents[2] / "programs/link_queue.py").read_text(
    "utf-8"
)
_PYTHON: Final = ("/usr/bin/python3", "-I", "-S", "-c", _PROGRAM)
_SOCKET: Final = "/run/link_queue"
# where a node has 1024: a delay must not become longer by the load of the machine
_SHARES: Final = 16384
_CONFLICT: Final = 409
_SECOND: Final = "198.18.77."  # see impi.lab.nodes.reach.second_network
_FREEZES_S: Final = 10.0
_TARGETS: Final = {"DROP": "drop", "REJECT": "reset"}


def _paused(container: Container, *, last: bool) -> bool:
    """Freeze a container; return whether it is frozen.

    The kernel freezes no process that waits for a file, as nodes in fuse-overlayfs often do. runc
    then thaws the others and gives up after a moment. Such a refusal returns False; in the
    ``last`` attempt it is raised.
    """
    try:
        container.pause()
    except APIError as error:
        if last or "unable to freeze" not in str(error):
            raise

        return False

    return True


class LinkSidecars:
    """A :class:`~impi.lab.nodes.links.Network` by sidecars."""

    def __init__(
        self,
        client: docker.DockerClient,
        nodes: Mapping[str, NodeAccess],
        expires: float,
    ) -> None:
        self._client, self._nodes, self._expires = client, nodes, expires
        self._image = ""
        self._there: dict[str, Container] = {}
        self._frozen: set[str] = set()
        self.killed: set[str] = set()  # nodes that are gone, with their sidecars
        self._starting = threading.Lock()
        self._of_parts: list[LinkSidecars] = []

    def among(self, nodes: Mapping[str, NodeAccess]) -> LinkSidecars:
        """Return the network of a part of the lab; :meth:`take_away` takes its sidecars, too."""
        part = LinkSidecars(self._client, nodes, self._expires)
        self._of_parts.append(part)

        return part

    def set_links(self, links: Mapping[Direction, LinkSettings]) -> None:
        """Send one request to each node that receives: a link acts where its packets arrive."""
        self._ready(sorted({target for _, target in links}))

        def one(target: str) -> None:
            # A seed of its own for each link, and the same in each run: so losses repeat.
            mine = {
                self._address(a): {**asdict(link), "seed": f"{a} {b}"}
                for (a, b), link in links.items()
                if b == target
            }
            self._ask(target, {"do": "set", "links": mine})

        in_parallel(one, sorted({target for _, target in links}))

    def prepare(self, nodes: Sequence[str]) -> None:
        self._ready(sorted(nodes))

    def cut(self, directions: Sequence[Direction], how: str) -> None:
        self._refuse("cut", directions, how)

    def heal(self, directions: Sequence[Direction], how: str) -> None:
        self._refuse("heal", directions, how)

    def add_second(self, nodes: Sequence[str], known_to: Sequence[str] = ()) -> None:
        """Give each node an interface more, whose other end is in the same node."""

        self._ready(sorted({*nodes, *known_to}))
        addressed = [
            (name, f"{_SECOND}{number + 1}") for number, name in enumerate(nodes)
        ]
        in_parallel(
            lambda each: self._ask(each[0], {"do": "second", "address": each[1]}),
            addressed,
        )
        ways = {second: self._address(name) for name, second in addressed}
        in_parallel(
            lambda name: self._ask(name, {"do": "route", "via": ways}), known_to
        )

    def route(
        self,
        via: Mapping[Direction, str],
        behind: Mapping[str, Sequence[str]],
        translated: bool,
    ) -> None:
        """Set routes at the nodes that send; the gateways forward, and count what they do."""

        self._ready(sorted({*behind, *(source for source, _ in via)}))
        for gateway, nodes in behind.items():
            inner = [self._address(node) for node in nodes]
            self._ask(
                gateway, {"do": "forward", "inner": inner, "translated": translated}
            )

        def one(source: str) -> None:
            ways = {
                self._address(b): self._address(gateway)
                for (a, b), gateway in via.items()
                if a == source
            }
            self._ask(source, {"do": "route", "via": ways})

        in_parallel(one, sorted({source for source, _ in via}))

    def _refuse(self, what: str, directions: Sequence[Direction], how: str) -> None:
        targets = sorted({target for _, target in directions})
        self._ready(targets)

        def one(target: str) -> None:
            peers = [self._address(a) for a, b in directions if b == target]
            self._ask(target, {"do": what, "peers": peers, "how": how})

        in_parallel(one, targets)

    def seen(self) -> NetworkSeen:
        self._find()
        links, cuts, routes = list[LinkSeen](), list[CutSeen](), list[RouteSeen]()
        second, overrun = list[str](), 0
        names = {self._address(name): name for name in self._nodes}

        there = sorted(self._there.keys() - self.killed)
        for target, told in zip(
            there,
            in_parallel(lambda n: self._ask(n, {"do": "show"}), there),
            strict=True,
        ):
            overrun += told["dropped"]

            # The kernel's own counts beside the queue's: two counts of one thing are the proof.
            matched = {
                rule["peer"]: rule["packets"]
                for rule in told["rules"]
                if rule["rule"] == "NFQUEUE"
            }
            for peer, numbers in told["links"].items():
                asked = LinkSettings(**numbers.pop("asked"))
                source = names.get(peer, peer)
                links.append(
                    LinkSeen(
                        source=source,
                        target=target,
                        asked=asked,
                        matched=matched.get(peer, 0),
                        **numbers,
                    )
                )

            cuts += [
                CutSeen(
                    source=names.get(rule["peer"], rule["peer"]),
                    target=target,
                    how=_TARGETS[rule["rule"]],
                    refused=rule["packets"],
                )
                for rule in (*told["healed"], *told["rules"])
                if rule["rule"] in _TARGETS
            ]
            routes += [
                RouteSeen(node=names.get(inner, inner), gateway=target, **counts)
                for inner, counts in told["forwarded"].items()
            ]
            second += [target] * told["second"]

        return NetworkSeen(
            links=tuple(links),
            cuts=tuple(cuts),
            routes=tuple(routes),
            second=tuple(second),
            overrun=overrun,
        )

    def clear(self) -> None:
        self._find()
        in_parallel(
            lambda name: self._ask(name, {"do": "clear"}),
            sorted(self._there.keys() - self.killed),
        )

    def kill(self, node: str) -> bool:
        self.killed.add(node)
        with engine_fault(f"node {node} cannot be killed"):
            container = self._client.containers.get(self._nodes[node].container)

            container.kill()
            # a container is removed at its end, maybe before the wait for it begins
            with ignore_missing():
                container.wait()

        return True

    def freeze(self, node: str) -> None:
        patience = Patience(_FREEZES_S, 1)
        with engine_fault(f"node {node} cannot be frozen"):
            container = self._client.containers.get(self._nodes[node].container)
            # A refused attempt has taken its time in runc already: no pause between.
            while not _paused(container, last=patience.ended()):
                pass

        self._frozen.add(node)

    def thaw(self, node: str) -> bool:
        with engine_fault(f"node {node} cannot be thawed"):
            container = self._client.containers.get(self._nodes[node].container)

            # As it was before: a node that ran meanwhile shows that the freeze did not hold.
            frozen = bool(container.attrs["State"]["Paused"])
            if frozen:
                container.unpause()

        self._frozen.discard(node)
        return frozen

    def take_away(self) -> list[Container]:
        for node in list(self._frozen):
            self.thaw(node)

        there, self._there = list(self._there.values()), {}
        known = {each.id: each for each in there}
        for part in self._of_parts:
            # Two parts may have found the same sidecar.
            known.update((each.id, each) for each in part.take_away())

        return list(known.values())

    # -- sidecars

    def _address(self, node: str) -> str:
        return self._nodes[node].address

    def _ready(self, nodes: Sequence[str]) -> None:
        # Two threads that need the same node must not both start its sidecar.
        with self._starting:
            self._find()

            missing = [name for name in nodes if name not in self._there]
            if missing and not self._image:
                self._image = Images(self._client).tool(LINKS)

            self._there.update(
                zip(missing, in_parallel(self._start, missing), strict=True)
            )

    def _find(self) -> None:
        """Find the sidecars that another process has started."""
        for name in self._nodes.keys() - self._there.keys() - self.killed:
            with ignore_missing():
                self._there[name] = self._client.containers.get(
                    f"{self._nodes[name].container}-links"
                )

    def _start(self, name: str) -> Container:
        beside = self._nodes[name].container

        # It ends with the lab, also if nothing of us is left to end it.
        seconds = max(1.0, self._expires - time.time())
        with engine_fault(f"nothing can be put beside {name} that changes its network"):
            node = self._client.containers.get(beside)

            labels = {
                key: text for key, text in node.labels.items() if key.startswith(LABEL)
            }
            try:
                sidecar = self._client.containers.create(
                    self._image,
                    [*_PYTHON, _SOCKET, str(int(seconds))],
                    name=f"{beside}-links",
                    auto_remove=True,
                    user="0",
                    network_mode=f"container:{beside}",
                    cap_drop=["ALL"],
                    cap_add=list(_RIGHTS),
                    **share_of_helper(self._client, _SHARES),
                    security_opt=["no-new-privileges"],
                    labels=labels,
                )
            except APIError as error:
                if error.status_code != _CONFLICT:
                    raise

                # Another process was faster
                return self._client.containers.get(f"{beside}-links")

            sidecar.start()

        return sidecar

    def _ask(self, name: str, request: Mapping[str, object]) -> dict[str, Any]:
        sidecar = self._there[name]
        with engine_fault(f"the network of {name} cannot be changed"):
            done = sidecar.exec_run(
                [*_PYTHON, _SOCKET, "--ask", json.dumps(request)], user="0"
            )

        text = bytes(cast("bytes", done.output)).decode("utf-8", "replace").strip()
        try:
            answer: dict[str, Any] = json.loads(text)
        except ValueError:
            silent = f"it says nothing, and ends with {done.exit_code}"
            answer = {"error": text.splitlines()[-1] if text else silent}

        if "error" in answer:
            raise LabError(
                f"the network of {name} cannot be changed: {answer['error']}"
            )

        return dict(answer["value"])


def why_not(client: docker.DockerClient, image: str) -> str:
    """Try a queue in a container of its own; return why the kernel cannot, or an empty text."""
    probe: Container | None = None
    with engine_fault("it cannot be tried whether the network of a lab can be changed"):
        try:
            probe = client.containers.create(
                image,
                [*_PYTHON, "--probe", "1"],
                user="0",
                network_mode="none",
                cap_drop=["ALL"],
                cap_add=list(_RIGHTS),
                security_opt=["no-new-privileges"],
                labels=probe_labels(),
            )
            probe.start()
            code = probe.wait()["StatusCode"]
            said = probe.logs().decode("utf-8", "replace").strip().splitlines()
        finally:
            if probe is not None:
                remove_container(probe)

    return (
        f"the kernel of the engine has no queue of packets: {said[-1] if said else code}"
        if code
        else ""
    )
