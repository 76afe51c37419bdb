"""The judges' table of tags, beside that of the implementation."""

from __future__ import annotations

import pytest

from impi.lab.dissect.chapter4.collective_tags import Tag
from impi.protocol.collectives import tags


@pytest.mark.clause("4.25")
def test_the_table() -> None:
    ours = {
        name: value
        for name, value in vars(tags).items()
        if name.endswith("_TAG") and value <= Tag.FREE
    }
    assert ours == {
        {"FREE": "COMM_FREE"}.get(tag.name, tag.name) + "_TAG": tag for tag in Tag
    }
