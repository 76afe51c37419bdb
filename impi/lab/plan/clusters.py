"""Topologies from files ``clusters/NAME.toml``, beside the tokens of ``lab.lab_topology``.

::

    description = "two clients of two nodes"
    parties = ["mpich", "openmpi"]          # optional
    net = "wan"                             # optional; or ip = 6, hosts = "client", reach = "heads"

    [[client]]
    nodes = 2
    procs_per_node = 2

    [[link]]                                # in place of net
    between = ["c0", "c1"]
    delay = "20ms"
    loss = "1%"

    [[event]]
    at = "case"
    do = "partition"

The latter become settings of the variant of each cell (:mod:`.cluster_networks`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from impi.base.errors import UsageError, did_you_mean
from impi.base.files import read_toml
from impi.lab.nodes import ClientShape, Topology, parse_parties, parse_topology
from impi.lab.plan.cluster_networks import NETWORK_KEYS, network_settings

_KEYS = {"description", "parties", "client"} | NETWORK_KEYS
_CLIENT_KEYS = {"nodes", "procs_per_node"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A topology with a name."""

    name: str
    topology: Topology
    parties: tuple[str, ...] = ()  # the vendors that the file names, or none
    description: str = ""
    # Settings of its cells' variants
    settings: Mapping[str, str] = field(default_factory=dict)


def find_cluster(text: str, folder: Path) -> Cluster:
    """Return the cluster of ``--topology``: a token, a file's path, or a file's name in ``folder``.

    Raises:
        UsageError: it is none of these, or the file is wrong.
    """

    if text.endswith(".toml"):
        return _read(Path(text))

    path = folder / f"{text}.toml"
    if "/" not in text and path.is_file():
        return _read(path)

    try:
        return Cluster(name=text, topology=parse_topology(text))
    except UsageError as error:
        names = [cluster.name for cluster in list_clusters(folder)]
        raise UsageError(
            f"{error.message}; or name a file of {folder}/ ({', '.join(names) or 'none'})"
            f"{did_you_mean(text, names)}"
        ) from None


def list_clusters(folder: Path) -> list[Cluster]:
    """Return all topology files of a folder, by name."""
    return [_read(path) for path in sorted(folder.glob("*.toml"))]


def _read(path: Path) -> Cluster:
    value = read_toml(path, "topology file")

    unknown = sorted(set(value) - _KEYS)
    if unknown:
        raise UsageError(
            f"topology file {path}: there is no key {unknown[0]!r}; there are {', '.join(sorted(_KEYS))}"
        )

    clients = value.get("client")
    if not isinstance(clients, list) or not clients:
        raise UsageError(
            f"topology file {path} has no [[client]]; write one for each client, in their order"
        )

    shapes = tuple(_shape(path, i, c) for i, c in enumerate(clients))
    settings = network_settings(f"topology file {path}", value, len(clients))

    parties = value.get("parties", [])
    if not isinstance(parties, list) or not all(isinstance(p, str) for p in parties):
        raise UsageError(f"topology file {path}: parties is not a list of vendors")

    if parties and len(parties) != len(clients):
        raise UsageError(
            f"topology file {path} has {len(clients)} clients and {len(parties)} parties"
        )

    try:
        return Cluster(
            name=path.stem,
            topology=Topology(shapes),
            parties=parse_parties("+".join(parties)) if parties else (),
            description=str(value.get("description", "")),
            settings=settings,
        )
    except UsageError as error:
        raise UsageError(f"topology file {path}: {error.message}") from None


def _shape(path: Path, index: int, client: object) -> ClientShape:
    where = f"topology file {path}, client {index}"
    if not isinstance(client, dict):
        raise UsageError(f"{where} is not a table: give nodes and procs_per_node")

    for key in sorted(set(client) ^ _CLIENT_KEYS):
        what = f"there is no key {key!r}" if key in client else f"{key} is missing"
        raise UsageError(
            f"{where}: {what}; give nodes and procs_per_node, and nothing else"
        )

    for key, number in client.items():
        if (
            not isinstance(number, int)
            or isinstance(number, bool)
            or not 1 <= number <= 999
        ):
            raise UsageError(
                f"{where}: {key} is {number!r}; it is a number from 1 to 999"
            )

    return ClientShape(client["nodes"], client["procs_per_node"])
