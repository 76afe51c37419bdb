"""The lines between a starter and its asker."""

from __future__ import annotations

import json
import typing

import pytest

from impi.base.manifests import LEAVES
from impi.base.remote.starter_lines import NOTHING, Leaves, Spec, pack, unpack


@pytest.mark.parametrize("data", [b"", b"text\n", bytes(range(256)) * 100])
def test_octets_travel_in_one_line_of_json(data: bytes) -> None:
    line = json.dumps({"data": pack(data)})
    assert "\n" not in line
    assert unpack(json.loads(line)["data"]) == data


def test_a_manifest_says_what_a_starter_asks_for() -> None:
    assert set(typing.get_type_hints(Leaves)) == set(LEAVES) == set(NOTHING)
    assert "leaves" in typing.get_type_hints(Spec)
