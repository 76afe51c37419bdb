from __future__ import annotations

import pytest

from impi.testbed.backends.docker.lab_network import neighbours_short


def test_a_full_mesh_must_fit_the_kernels_table(tmp_path):
    table = tmp_path / "gc_thresh3"
    table.write_text("1024\n")
    assert neighbours_short(31, table) == ""
    reason = neighbours_short(32, table)
    assert "32 nodes need 1056 neighbours, and this machine's kernel keeps 1024" in reason
    assert "gc_thresh3=2112" in reason


@pytest.mark.parametrize("text", [None, "many"])
def test_where_nothing_is_known_it_is_tried(tmp_path, text):
    table = tmp_path / "gc_thresh3"
    if text is not None:
        table.write_text(text)
    assert neighbours_short(100, table) == ""
