"""A lab's network, and the limit of the kernel's table of neighbours."""

from __future__ import annotations

import pytest
from open_labs import DEADLINE_S

from impi.lab.backends.docker.backend import DockerBackend
from impi.lab.backends.docker.lab_network import neighbours_short
from impi.lab.nodes.interface import Lab, run_on
from impi.lab.nodes.topology import parse_topology


def test_a_full_mesh_must_fit_the_kernels_table(tmp_path):
    table = tmp_path / "gc_thresh3"
    table.write_text("1024\n")
    assert neighbours_short(31, table) == ""
    reason = neighbours_short(32, table)
    assert (
        "32 nodes need 1056 neighbours, and this machine's kernel keeps 1024" in reason
    )
    assert "gc_thresh3=2112" in reason


@pytest.mark.parametrize("text", [None, "many"])
def test_where_nothing_is_known_it_is_tried(tmp_path, text):
    table = tmp_path / "gc_thresh3"
    if text is not None:
        table.write_text(text)
    assert neighbours_short(100, table) == ""


@pytest.mark.docker
@pytest.mark.slow
def test_another_labs_subnet_is_passed_over_even_when_it_came_unseen(
    backend: DockerBackend, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the other lab had been made between the look and our own try.
    monkeypatch.setattr(
        "impi.lab.backends.docker.lab_network.network_subnets", lambda client: []
    )
    monkeypatch.setattr("impi.lab.backends.docker.lab_network.host_routes", list)
    taken = {lab.server.address.rpartition(".")[0], lab.server.address}
    other = backend.open(["pure", "pure"], parse_topology("1x1+1x1"), run="test")
    try:
        assert other.server.address not in taken
        assert run_on(other.server, ["hostname"], timeout_s=DEADLINE_S).code == 0
    finally:
        other.close()
