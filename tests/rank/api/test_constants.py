from __future__ import annotations

import pickle

import pytest

from impi.protocol.semantics.constants import ERROR_CLASSES
from impi.rank.api import constants as C


def test_error_classes_have_their_values_from_one_table() -> None:
    for name, (number, _) in ERROR_CLASSES.items():
        assert getattr(C, name) == number
    assert len({number for number, _ in ERROR_CLASSES.values()}) == len(ERROR_CLASSES)


@pytest.mark.parametrize(
    "prefix", ["ERR_", "COMBINER_", "THREAD_", "TYPECLASS_", "DISTRIBUTE_", "MODE_"]
)
def test_values_of_one_family_differ(prefix: str) -> None:
    values = [getattr(C, name) for name in C.__all__ if name.startswith(prefix)]
    assert len(values) > 3
    assert len(set(values)) == len(values)


def test_wildcards_are_no_ranks_or_tags() -> None:
    assert len({C.ANY_SOURCE, C.PROC_NULL, C.ROOT}) == 3
    assert max(C.ANY_SOURCE, C.ANY_TAG, C.PROC_NULL, C.ROOT, C.UNDEFINED) < 0
    assert C.THREAD_SINGLE < C.THREAD_FUNNELED < C.THREAD_SERIALIZED < C.THREAD_MULTIPLE


def test_all_names_exist() -> None:
    assert [name for name in C.__all__ if not hasattr(C, name)] == []


@pytest.mark.parametrize("name", ["BOTTOM", "IN_PLACE", "BUFFER_AUTOMATIC"])
def test_special_buffers(name: str) -> None:
    special = getattr(C, name)
    assert repr(special) == name
    assert special == type(special)()
    assert special == int(special)
    assert special != int(special) + 1
    assert special is not None
    assert hash(special) == hash(int(special))
    assert bool(special) is bool(int(special))
    assert pickle.loads(pickle.dumps(special)) is special
    with pytest.raises(TypeError):
        special + 1


def test_special_buffers_differ() -> None:
    assert C.BOTTOM != C.IN_PLACE != C.BUFFER_AUTOMATIC
    assert C.BOTTOM.__index__() == 0
