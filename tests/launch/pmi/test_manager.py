"""The process manager's machine: what each query gets, and barriers under random orders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import PeerError
from impi.launch.pmi.lines import KEY_MAX, VALUE_MAX, Query, QueryReader
from impi.launch.pmi.manager import Abort, Manager, mapping


def ask(
    manager: Manager, rank: int, command: str, **fields: object
) -> dict[int, Query]:
    """The answers of each rank that hears any."""
    query = Query(command, {name: str(value) for name, value in fields.items()})
    return {
        to: next(QueryReader().feed(line)) for to, line in manager.hear(rank, query)
    }


def answer(
    manager: Manager, rank: int, command: str, **fields: object
) -> dict[str, str]:
    """The fields of the one answer."""
    heard = ask(manager, rank, command, **fields)
    assert list(heard) == [rank]
    return dict(heard[rank].fields)


def test_what_mpich_asks_at_its_start() -> None:
    manager = Manager("kvs_1", [2])
    first, second, third, fourth = manager.greeting(1).splitlines()
    assert (first, second, third, fourth) == (
        b"cmd=initack rc=0",
        b"cmd=set size=2",
        b"cmd=set rank=1",
        b"cmd=set debug=0",
    )
    assert answer(manager, 1, "init", pmi_version=1, pmi_subversion=1)["rc"] == "0"
    assert answer(manager, 1, "get_maxes") == {
        "rc": "0",
        "kvsname_max": "256",
        "keylen_max": "64",
        "vallen_max": "1024",
    }
    assert answer(manager, 1, "get_appnum")["appnum"] == "0"
    assert answer(manager, 1, "get_universe_size")["size"] == "2"
    name = answer(manager, 1, "get_my_kvsname")["kvsname"]
    assert (
        answer(manager, 1, "get", kvsname=name, key="PMI_process_mapping")["value"]
        == "(vector,(0,1,2))"
    )
    assert answer(manager, 1, "get", kvsname=name, key="PMI_hwloc_xmlfile")["rc"] == "1"
    assert answer(manager, 1, "finalize")["rc"] == "0"
    assert (manager.initialised, manager.finalized) == ({1}, {1})


@pytest.mark.parametrize(
    ("nodes", "value"),
    [
        ([4], "(vector,(0,1,4))"),
        ([2, 2, 2], "(vector,(0,3,2))"),
        ([2, 1, 1, 3], "(vector,(0,1,2),(1,2,1),(3,1,3))"),
    ],
)
def test_the_mapping_of_procs_to_nodes(nodes: list[int], value: str) -> None:
    assert mapping(nodes) == value


KEYS = st.sampled_from(["a", "b", "P0-card"])


@given(
    st.integers(1, 6).flatmap(
        lambda size: st.tuples(
            st.just(size),
            st.lists(st.tuples(st.integers(0, size - 1), KEYS, st.integers(0, 99))),
            st.randoms(),
        )
    )
)
def test_after_a_barrier_everybody_gets_what_was_put_last(
    case: tuple[int, list[tuple[int, str, int]], object],
) -> None:
    size, puts, random = case
    manager = Manager("k", [size])
    expected: dict[str, str] = {}
    for rank, key, number in puts:
        assert (
            answer(manager, rank, "put", kvsname="k", key=key, value=number)["rc"]
            == "0"
        )
        expected[key] = str(number)
    order = list(range(size))
    random.shuffle(order)  # type: ignore[attr-defined]
    for rank in order[:-1]:
        assert ask(manager, rank, "barrier_in") == {}
    assert {
        to: query.command for to, query in ask(manager, order[-1], "barrier_in").items()
    } == dict.fromkeys(range(size), "barrier_out")
    for rank in order:
        for key, value in expected.items():
            assert answer(manager, rank, "get", kvsname="k", key=key)["value"] == value


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60))
def test_barriers_of_groups_do_not_mix(calls: list[int]) -> None:
    """Group ``0,1`` and group ``1,2``; whoever is inside does not come again."""
    manager = Manager("k", [3])
    groups = {0: (0, "0,1"), 1: (1, "0,1"), 2: (1, "1,2"), 3: (2, "2,1"), 4: (0, "0")}
    inside: dict[frozenset[str], set[int]] = {}
    for call in calls:
        rank, group = groups[call]
        members = frozenset(group.split(","))
        there = inside.setdefault(members, set())
        if rank in there:
            with pytest.raises(PeerError, match="'barrier_in' came a second time"):
                ask(manager, rank, "barrier_in", group=group)
            continue
        there.add(rank)
        heard = ask(manager, rank, "barrier_in", group=group)
        if len(there) == len(members):
            assert set(heard) == there
            assert heard[rank].fields["group"] == group
            there.clear()
        else:
            assert heard == {}


def test_a_barrier_of_a_node() -> None:
    manager = Manager("k", [2, 1])
    assert ask(manager, 0, "barrier_in", group="NODE", tag=5) == {}
    assert set(ask(manager, 2, "barrier_in", group="NODE", tag=5)) == {2}
    assert set(ask(manager, 1, "barrier_in", group="NODE", tag=5)) == {0, 1}


@pytest.mark.parametrize("group", ["", "1", "0,9", "0,x", "-1,0", "0,,1"])
def test_a_group_that_is_none_gets_a_sentence(group: str) -> None:
    with pytest.raises(PeerError, match="a PMI barrier names the group"):
        ask(Manager("k", [2]), 0, "barrier_in", group=group)


def test_names_are_published_once_and_looked_up() -> None:
    manager = Manager("k", [1])
    assert answer(manager, 0, "lookup_name", service="s")["info"] == "not_published"
    assert answer(manager, 0, "unpublish_name", service="s")["rc"] == "1"
    assert answer(manager, 0, "publish_name", service="s", port="p#1")["info"] == "ok"
    assert answer(manager, 0, "publish_name", service="s", port="q")["rc"] == "1"
    assert answer(manager, 0, "lookup_name", service="s") == {
        "rc": "0",
        "info": "ok",
        "port": "p#1",
    }
    assert answer(manager, 0, "unpublish_name", service="s")["info"] == "ok"
    assert answer(manager, 0, "lookup_name", service="s")["rc"] == "1"


def test_spaces_are_made_listed_and_removed() -> None:
    manager = Manager("k", [1])
    name = answer(manager, 0, "create_kvs")["kvsname"]
    for key in ("a", "b"):
        answer(manager, 0, "put", kvsname=name, key=key, value=f"of-{key}")
    assert answer(manager, 0, "get", kvsname="k", key="a")["rc"] == "1"
    found, at = [], "0"
    while (line := answer(manager, 0, "getbyidx", kvsname=name, idx=at))["rc"] == "0":
        found.append((line["key"], line["val"]))
        at = line["nextidx"]
    assert found == [("a", "of-a"), ("b", "of-b")]
    assert answer(manager, 0, "destroy_kvs", kvsname=name)["rc"] == "0"
    assert answer(manager, 0, "destroy_kvs", kvsname=name)["rc"] == "-1"
    assert answer(manager, 0, "destroy_kvs", kvsname="k")["rc"] == "-1"
    assert answer(manager, 0, "put", kvsname=name, key="a", value="b")["rc"] == "-1"


def test_spaces_have_a_bound() -> None:
    manager = Manager("k", [1])
    assert any(answer(manager, 0, "create_kvs")["rc"] == "-1" for _ in range(2000))


def test_keys_and_values_have_bounds() -> None:
    manager = Manager("k", [1])
    assert (
        answer(manager, 0, "put", key="k" * KEY_MAX, value="v" * VALUE_MAX)["rc"] == "0"
    )
    assert answer(manager, 0, "put", key="k" * (KEY_MAX + 1), value="v")["rc"] == "-1"
    assert answer(manager, 0, "put", key="k", value="v" * (VALUE_MAX + 1))["rc"] == "-1"


def test_a_spawn_is_refused_once_for_all_its_programs() -> None:
    manager = Manager("k", [1])
    assert ask(manager, 0, "spawn", execname="a", totspawns=2, spawnssofar=1) == {}
    assert (
        answer(manager, 0, "spawn", execname="b", totspawns=2, spawnssofar=2)["rc"]
        == "-1"
    )
    assert len(manager.refused) == 1
    assert "asks PMI to start b" in manager.refused[0]


def test_another_version_is_refused() -> None:
    manager = Manager("k", [1])
    assert answer(manager, 0, "init", pmi_version=2, pmi_subversion=0)["rc"] == "-1"
    assert manager.initialised == set()
    assert manager.refused == ["asks for PMI 2.0, and there is 1.2"]


def test_the_first_abort_counts() -> None:
    manager = Manager("k", [2])
    assert ask(manager, 1, "abort", exitcode=7, message="no more memory") == {}
    assert ask(manager, 0, "abort") == {}
    assert manager.abort == Abort(1, 7, "no more memory")


def test_a_library_may_begin_again_after_its_end() -> None:
    manager = Manager("k", [1])
    for _ in range(2):
        assert answer(manager, 0, "init", pmi_version=1, pmi_subversion=1)["rc"] == "0"
        assert answer(manager, 0, "finalize")["rc"] == "0"
    with pytest.raises(PeerError, match="came after 'finalize'"):
        ask(manager, 0, "get", key="a")


COMMANDS = st.sampled_from(
    [
        *(
            "init",
            "get_maxes",
            "get_appnum",
            "get_universe_size",
            "get_my_kvsname",
            "put",
            "get",
            "getbyidx",
        ),
        *(
            "create_kvs",
            "destroy_kvs",
            "publish_name",
            "unpublish_name",
            "lookup_name",
            "spawn",
            "finalize",
        ),
        *("barrier_in", "abort", "nonsense"),
    ]
)
NAMES = st.sampled_from(
    [
        *(
            "pmi_version",
            "pmi_subversion",
            "kvsname",
            "key",
            "value",
            "idx",
            "service",
            "port",
            "exitcode",
        ),
        *("group", "tag"),
    ]
)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            COMMANDS,
            st.dictionaries(NAMES, st.sampled_from(["", "1", "x", "k"])),
        )
    )
)
def test_any_queries_get_lines_or_a_sentence(
    queries: list[tuple[int, str, dict[str, str]]],
) -> None:
    manager = Manager("k", [3])
    for rank, command, fields in queries:
        try:
            lines = manager.hear(rank, Query(command, fields))
        except PeerError as error:
            assert "PMI" in str(error)
            continue
        assert all(line.endswith(b"\n") for _, line in lines)
        assert len({to for to, _ in lines}) == len(lines)
