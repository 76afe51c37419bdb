"""Links, addresses and events of topology files."""

from __future__ import annotations

import pytest
from forge import FakeBackend

from impi.base.errors import UsageError
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cluster_networks import network_settings
from impi.lab.plan.clusters import find_cluster
from impi.lab.plan.matrix import choose
from impi.lab.plan.variant import parse_variant

PAIR = parse_topology("1x2+1x2")
CLIENTS = "[[client]]\nnodes = 1\nprocs_per_node = 2\n" * 2
LINK = {"between": ["c0", "c1"], "delay": "20ms", "loss": "1%"}


def cluster(tmp_path, text):
    (tmp_path / "mine.toml").write_text(text)
    return find_cluster("mine", tmp_path)


def test_a_files_network_becomes_settings(tmp_path):
    assert cluster(tmp_path, CLIENTS).settings == {}
    assert cluster(tmp_path, 'net = "wan"\nip = 6\n' + CLIENTS).settings == {
        "ip": "6",
        "net": "wan",
    }
    event = '[[event]]\nat = "case"\ndo = "partition"\n'
    link = '[[link]]\nbetween = ["c0", "server"]\nnet = "slow"\n[[link]]\nbetween = ["c0", "c1"]\ndelay = "1ms"\n'
    found = cluster(tmp_path, CLIENTS + link + event).settings
    assert found == {"net": "c0-server@slow~c0-c1@delay:1ms", "fault": "partition@case"}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"net": "fast"}, "f.toml: variant 'net=fast': 'fast' is not a link"),
        ({"ip": 4}, "ip has no value '4'; it has 6"),
        (
            {"link": {"between": ["c0", "c1"]}},
            r"link is not a table; write \[\[link\]\]",
        ),
        ({"link": [LINK], "net": "wan"}, "net is for all links"),
        (
            {"link": [{**LINK, "colour": "red"}]},
            "link 0: there is no key 'colour'; there are between, net, delay",
        ),
        (
            {"link": [{**LINK, "between": ["c0", "c7"]}]},
            "link 0: between is .*; name two of server, c0, c1",
        ),
        (
            {"link": [{"between": ["c0", "c1"]}]},
            "link 0: give either net or some of delay",
        ),
        (
            {"link": [{**LINK, "net": "wan"}]},
            "link 0: give either net or some of delay",
        ),
        ({"link": [{**LINK, "delay": "20"}]}, "'20' is not a time"),
        ({"event": [{"at": "case"}]}, "event 0: give at and do"),
        (
            {"event": [{"at": "2s", "do": "pause"}]},
            "event 0: at is '2s'; it is a phase: init, case, finalize",
        ),
        (
            {"event": [{"at": "case", "do": "flood"}]},
            "event 0: do is 'flood'; it is one of partition, pause",
        ),
        ({"event": [{"at": "init", "do": "reset"}]}, "fault has no value 'reset@init'"),
        (
            {"event": [{"at": "case", "do": "pause"}] * 2},
            "has 2 events; a cell has one fault",
        ),
    ],
)
def test_what_is_wrong_is_told_with_file_key_and_cure(value, said):
    with pytest.raises(UsageError, match=said):
        network_settings("f.toml", value, 2)


def test_cells_of_a_file_get_its_settings():
    plan = choose(
        FakeBackend(),
        topologies=[PAIR],
        parties=[("pure", "pure")],
        more={"net": "wan"},
    )
    assert {parse_variant(cell.variant)["net"] for cell in plan.cells} == {"wan"}
    assert "startup.key/pure+pure/1x2+1x2/auth=key,net=wan" in {
        cell.id for cell in plan.cells
    }
    events = choose(
        FakeBackend(),
        topologies=[PAIR],
        parties=[("pure", "pure")],
        more={"fault": "pause@case"},
    )
    assert {cell.case.name for cell in events.cells} == {"network.steady"}
