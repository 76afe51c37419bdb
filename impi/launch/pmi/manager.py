"""The process manager's side of PMI-1, without a socket.

How it works: :meth:`Manager.hear` takes one query of one rank. It returns the lines that follow
from it, for that rank or for several: the last rank in a barrier lets all of them out. A value is
visible as soon as it is put, so puts are answered at once, and a *commit* needs no line. A query
that the manager does not offer gets an answer with ``rc`` other than 0, and the library's call
fails. A query that breaks the protocol raises :class:`~impi.base.errors.PeerError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from impi.base.errors import PeerError
from impi.base.records import record
from impi.launch.pmi.lines import KEY_MAX, NAME_MAX, VALUE_MAX, Query, encode

VERSION: Final = 1
SUBVERSION: Final = 2
"""Version of PMI: 1.2 has barriers of groups."""
MOST_SPACES: Final = 1024
MAPPING: Final = "PMI_process_mapping"
"""The key by which a library finds out which procs share a node."""
_MAXES: Final = encode(
    "maxes", rc=0, kvsname_max=NAME_MAX, keylen_max=KEY_MAX, vallen_max=VALUE_MAX
)
Lines: TypeAlias = "list[tuple[int, bytes]]"
"""Pairs of a rank and the octets for it."""


@record
class Abort:
    """A rank's request to end the whole job."""

    rank: int
    code: int
    message: str


def mapping(nodes: Sequence[int]) -> str:
    """Return the value of :data:`MAPPING`, such as ``(vector,(0,2,4))``.

    Each block has the first node, the number of nodes, and the number of procs on each of them.

    Args:
        nodes: number of procs on each node, in the order of ranks.
    """
    blocks: list[list[int]] = []
    for node, procs in enumerate(nodes):
        if blocks and blocks[-1][2] == procs:
            blocks[-1][1] += 1
        else:
            blocks.append([node, 1, procs])

    return (
        "(vector,"
        + ",".join(f"({first},{count},{procs})" for first, count, procs in blocks)
        + ")"
    )


class Manager:
    """Answers the ranks of one client.

    Args:
        name: name of the job's space of keys.
        nodes: number of procs on each node, in the order of ranks.
    """

    def __init__(self, name: str, nodes: Sequence[int]) -> None:
        self.size = sum(nodes)
        self._name = name
        self._spaces: dict[str, dict[str, str]] = {name: {MAPPING: mapping(nodes)}}
        self._node_of = [
            number for number, procs in enumerate(nodes) for _ in range(procs)
        ]
        self._created = 0
        self._published: dict[str, str] = {}
        # Barriers by members and tag: the ranks that are in, with the line that lets each out.
        self._waiting: dict[tuple[frozenset[int], str], dict[int, bytes]] = {}
        self.finalized: set[int] = set()
        self.initialised: set[int] = set()
        self.abort: Abort | None = None
        # Sentences for the user about requests that the manager refuses
        self.refused: list[str] = []
        self._answers: dict[str, Callable[[int, Query], bytes]] = {
            "init": self._init,
            "get_maxes": lambda _rank, _query: _MAXES,
            "get_appnum": lambda _rank, _query: encode("appnum", rc=0, appnum=0),
            "get_universe_size": lambda _rank, _query: encode(
                "universe_size", rc=0, size=self.size
            ),
            "get_my_kvsname": lambda _rank, _query: encode(
                "my_kvsname", rc=0, kvsname=self._name
            ),
            "put": self._put,
            "get": self._get,
            "getbyidx": self._get_by_index,
            "create_kvs": self._create,
            "destroy_kvs": self._destroy,
            "publish_name": self._publish,
            "unpublish_name": self._unpublish,
            "lookup_name": self._look_up,
            "spawn": self._spawn,
            "finalize": self._finalize,
        }

    def greeting(self, rank: int) -> bytes:
        """Return the answer to ``initack``, the first line of a rank that connects to PMI_PORT."""
        values = (("size", self.size), ("rank", rank), ("debug", 0))
        return encode("initack", rc=0) + b"".join(
            encode("set", **{name: value}) for name, value in values
        )

    def hear(self, rank: int, query: Query) -> Lines:
        """Take a query of a rank, and return the lines that follow from it.

        Raises:
            PeerError: it is not a query of PMI-1, or is not allowed at this point.
        """

        if rank in self.finalized and query.command == "init":
            self.finalized.discard(rank)  # a library may begin again

        if rank in self.finalized:
            raise PeerError(f"a PMI command {query.command!r} came after 'finalize'")

        match query.command:
            case "barrier_in":
                return self._barrier(rank, query)
            case "abort":
                code = query.number("exitcode") if "exitcode" in query.fields else 1
                # The first abort counts: others are mostly its consequences.
                self.abort = self.abort or Abort(
                    rank, code, query.fields.get("message", query.fields.get("msg", ""))
                )
                return []
            case "spawn" if query.fields.get("totspawns") != query.fields.get(
                "spawnssofar"
            ):
                # One block of several programs, and not the last: only that is answered
                return []
            case known if known in self._answers:
                return [(rank, self._answers[known](rank, query))]

        raise PeerError(f"{query.command[:32]!r} is not a command of PMI-1")

    # ---- begin and end

    def _init(self, rank: int, query: Query) -> bytes:
        version, minor = query.number("pmi_version"), query.number("pmi_subversion")
        if version != VERSION:
            self.refused.append(
                f"asks for PMI {version}.{minor}, and there is {VERSION}.{SUBVERSION}"
            )
            return encode(
                "response_to_init",
                rc=-1,
                pmi_version=VERSION,
                pmi_subversion=SUBVERSION,
            )

        self.initialised.add(rank)

        return encode(
            "response_to_init", rc=0, pmi_version=VERSION, pmi_subversion=SUBVERSION
        )

    def _finalize(self, rank: int, _query: Query) -> bytes:
        self.finalized.add(rank)
        return encode("finalize_ack", rc=0)

    def _barrier(self, rank: int, query: Query) -> Lines:
        members = self._members(rank, query.fields.get("group", "WORLD"))
        tag = query.fields.get("tag", "")
        # A library may wait in several barriers with different tags, and finds its answer by these.
        told = {
            name: query.fields[name]
            for name in ("group", "tag")
            if name in query.fields
        }

        # The set of members is the key, so WORLD and a list of all ranks name one barrier.
        inside = self._waiting.setdefault((members, tag), {})
        if rank in inside:
            raise PeerError(
                "a PMI command 'barrier_in' came a second time before the barrier was complete"
            )

        inside[rank] = encode("barrier_out", rc=0, **told)
        if len(inside) < len(members):
            return []

        return list(self._waiting.pop((members, tag)).items())

    def _members(self, rank: int, group: str) -> frozenset[int]:
        if group == "WORLD":
            return frozenset(range(self.size))

        if group == "NODE":
            return frozenset(
                other
                for other, node in enumerate(self._node_of)
                if node == self._node_of[rank]
            )

        # Short words only, so that no number of thousands of digits is parsed.
        words = group.split(",")
        if not all(
            one.isascii() and one.isdecimal() and len(one) < 10 for one in words
        ):
            raise PeerError(
                f"a PMI barrier names the group {group[:32]!r}, which is not a list of ranks"
            )

        found = frozenset(map(int, words))
        if rank not in found or max(found) >= self.size:
            raise PeerError(
                f"a PMI barrier names the group {group[:32]!r}, to which this rank does not belong"
            )

        return found

    # ---- keys and values

    def _put(self, _rank: int, query: Query) -> bytes:
        key, value = query.text("key"), query.text("value")

        space = self._spaces.get(query.fields.get("kvsname", self._name))
        if space is None:
            # Underscores, since a value of PMI-1 has no blank.
            return encode("put_result", rc=-1, msg="no_such_kvs")

        # The limits that get_maxes has told.
        if len(key.encode()) > KEY_MAX or len(value.encode()) > VALUE_MAX:
            return encode(
                "put_result",
                rc=-1,
                msg=f"more_than_{KEY_MAX}_octets_of_key_or_{VALUE_MAX}_of_value",
            )

        space[key] = value

        return encode("put_result", rc=0, msg="success")

    def _get(self, _rank: int, query: Query) -> bytes:
        key = query.text("key")

        space = self._spaces.get(query.fields.get("kvsname", self._name), {})
        if key not in space:
            return encode("get_result", rc=1, msg="key_not_found", value="unknown")

        return encode("get_result", rc=0, msg="success", value=space[key])

    def _get_by_index(self, _rank: int, query: Query) -> bytes:
        space, index = (
            self._spaces.get(query.fields.get("kvsname", self._name), {}),
            query.number("idx"),
        )
        if not 0 <= index < len(space):
            return encode("getbyidx_results", rc=-1, reason="no_more_keyvals")

        key, value = list(space.items())[index]

        return encode("getbyidx_results", rc=0, nextidx=index + 1, key=key, val=value)

    def _create(self, _rank: int, _query: Query) -> bytes:
        # Bounded: a faulty rank must not fill impirun's memory.
        if len(self._spaces) > MOST_SPACES:
            return encode("newkvs", rc=-1, msg="too_many_kvs")

        self._created += 1
        name = f"{self._name}_{self._created}"
        self._spaces[name] = {}

        return encode("newkvs", rc=0, kvsname=name)

    def _destroy(self, _rank: int, query: Query) -> bytes:
        name = query.text("kvsname")
        if name == self._name or self._spaces.pop(name, None) is None:
            return encode("kvs_destroyed", rc=-1, msg="no_such_kvs")

        return encode("kvs_destroyed", rc=0, msg="success")

    # ---- names of services, and procs

    def _publish(self, _rank: int, query: Query) -> bytes:
        service, port = query.text("service"), query.text("port")
        if service in self._published:
            return encode(
                "publish_result",
                rc=1,
                info="already_published",
                msg="already_published",
            )

        self._published[service] = port

        return encode("publish_result", rc=0, info="ok")

    def _unpublish(self, _rank: int, query: Query) -> bytes:
        if self._published.pop(query.text("service"), None) is None:
            return encode(
                "unpublish_result", rc=1, info="not_published", msg="not_published"
            )

        return encode("unpublish_result", rc=0, info="ok")

    def _look_up(self, _rank: int, query: Query) -> bytes:
        port = self._published.get(query.text("service"))
        if port is None:
            return encode(
                "lookup_result", rc=1, info="not_published", msg="not_published"
            )

        return encode("lookup_result", rc=0, info="ok", port=port)

    def _spawn(self, _rank: int, query: Query) -> bytes:
        program = query.fields.get("execname", "a program")
        self.refused.append(
            f"asks PMI to start {program}, which it does not: Spawn of a job goes through impi.MPI"
        )
        return encode("spawn_result", rc=-1, msg="spawn_goes_through_impi")
