from __future__ import annotations

import json
import pickle as standard
from typing import Any

import numpy as np
import pytest

from impi.rank.api.types.bufferclass import buffer
from impi.rank.api.types.pickling import Pickle, pickle


def test_default() -> None:
    data = pickle.dumps({"a": [1, 2]})
    assert isinstance(data, bytes)
    assert pickle.loads(data) == {"a": [1, 2]}
    assert pickle.loads(memoryview(data)) == pickle.loads(buffer(data)) == {"a": [1, 2]}
    assert standard.HIGHEST_PROTOCOL == pickle.PROTOCOL


@pytest.mark.parametrize("protocol", range(standard.HIGHEST_PROTOCOL + 1))
def test_protocols(protocol: int) -> None:
    mine = Pickle(protocol=protocol)
    assert mine.dumps([1]) == standard.dumps([1], protocol)
    mine.PROTOCOL = None
    assert mine.PROTOCOL == standard.HIGHEST_PROTOCOL


def test_functions_of_ones_own() -> None:
    mine = Pickle(
        lambda obj: json.dumps(obj).encode(), lambda data: json.loads(bytes(data))
    )
    assert mine.PROTOCOL is None
    assert mine.loads(mine.dumps({"k": 1})) == {"k": 1}
    seen: list[Any] = []
    Pickle(lambda obj, protocol: seen.append(protocol) or b"", None, 3).dumps(0)
    assert seen == [3]


def test_large_buffers_stay_out_of_the_stream_and_are_not_copied() -> None:
    mine = Pickle(threshold=1000)
    small, large = np.arange(10), np.arange(1000)
    data, buffers = mine.dumps_oob([small, large])
    assert [b.nbytes for b in buffers] == [large.nbytes]
    assert len(data) < 1000
    large[0] = 77
    again_small, again_large = mine.loads_oob(data, buffers)
    assert again_small.tolist() == small.tolist()
    assert again_large[0] == 77
    mine.THRESHOLD = None
    assert pickle.THRESHOLD == mine.THRESHOLD == 1 << 18
