from __future__ import annotations

from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.lab.plan.clusters import find_cluster, list_clusters

OURS = Path(__file__).parents[3] / "clusters"


def test_ours_are_all_readable():
    found = {c.name: c for c in list_clusters(OURS)}
    assert str(found["two-nodes"].topology) == "2x2+2x2"
    assert found["three-vendors"].parties == ("pure", "mpich", "openmpi")
    assert all(c.description for c in found.values())


def test_a_token_a_name_and_a_path_are_the_same():
    for text in ("2x2+2x2", "two-nodes", str(OURS / "two-nodes.toml")):
        assert str(find_cluster(text, OURS).topology) == "2x2+2x2"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[client]]\nnodes = 1", "give nodes and procs_per_node"),
        ("[[client]]\nnodes = 1\nprocs_per_node = 0", "it is a number from 1"),
        ("[[client]]\nnodes = true\nprocs_per_node = 1", "it is a number from 1"),
        ("[[client]]\nnodes = 1\nprocs_per_node = 1\nextra = 2", "nothing else"),
        ("client = 3", "no \\[\\[client\\]\\]"),
        ("", "no \\[\\[client\\]\\]"),
        ("nodes = [", "not TOML"),
        ("name = 1", "no key 'name'"),
        (
            "parties = ['mpich']\n" + "[[client]]\nnodes=1\nprocs_per_node=1\n" * 2,
            "2 clients and 1 parties",
        ),
        (
            "parties = ['foo']\n[[client]]\nnodes=1\nprocs_per_node=1\n",
            "no vendor 'foo'",
        ),
        ("parties = 7\n[[client]]\nnodes=1\nprocs_per_node=1\n", "not a list"),
        ("[[client]]\nnodes=1\nprocs_per_node=1\n" * 33, "IMPI allows 32"),
    ],
)
def test_wrong_files_are_one_sentence(tmp_path, text, complaint):
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=complaint) as error:
        find_cluster(str(path), tmp_path)
    assert "\n" not in str(error.value)


def test_what_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        find_cluster("no.toml", tmp_path)
    with pytest.raises(UsageError, match="or name a file of"):
        find_cluster("two", OURS)
