"""Records beside the dataclasses that they stand for."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import pprint
import subprocess
import sys
from typing import Any, ClassVar, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.records import fresh, names_of, record, replaced, values_of

V = TypeVar("V")


@record
class Place:
    """A frozen one."""

    LIMIT: ClassVar[int] = 3
    a: int
    b: str = "x"
    """A field."""
    c: tuple[object, ...] = ()

    @property
    def twice(self) -> int:
        """A property."""
        return 2 * self.a


@dataclasses.dataclass(frozen=True, slots=True)
class PlaceTwin:
    """``Place`` by dataclasses."""

    LIMIT: ClassVar[int] = 3
    a: int
    b: str = "x"
    c: tuple[object, ...] = ()


@record(frozen=False)
class Bag(Generic[V]):
    """One that changes."""

    value: V
    items: list[int] = fresh(default_factory=list)


@record(frozen=False, eq=False)
class Alone:
    """Equal to itself only."""

    a: int


@record(kw_only=True)
class Named:
    """By name only, checked."""

    a: int = 1
    b: int

    def __post_init__(self) -> None:
        if self.b < 0:
            raise ValueError("negative")


values = st.tuples(st.integers(), st.text(), st.tuples(st.integers()) | st.just(()))


@given(values, values)
def test_equality_hash_and_text(one: tuple[Any, ...], two: tuple[Any, ...]) -> None:
    a, b, twin_a, twin_b = Place(*one), Place(*two), PlaceTwin(*one), PlaceTwin(*two)
    assert (a == b) == (twin_a == twin_b)
    plain: object = one
    assert (a == Place(*one), a != Place(*one), a == plain) == (True, False, False)
    assert hash(a) == hash(twin_a)
    assert repr(a).replace("Place", "PlaceTwin") == repr(twin_a)


@given(values)
def test_copies(given_: tuple[Any, ...]) -> None:
    place = Place(*given_)
    for other in (
        copy.copy(place),
        copy.deepcopy(place),
        pickle.loads(pickle.dumps(place)),
        replaced(place),
    ):
        assert other == place
        assert type(other) is Place
    assert replaced(place, b="other") == Place(place.a, "other", place.c)


@given(values)
def test_as_a_dictionary(given_: tuple[Any, ...]) -> None:
    place = Place(given_[0], given_[1], (Place(1), [Place(2)], 3))
    twin = PlaceTwin(given_[0], given_[1], (PlaceTwin(1), [PlaceTwin(2)], 3))
    assert values_of(place) == dataclasses.asdict(twin)


@pytest.mark.parametrize("arguments", [(), (1, "b", (), 4)])
def test_wrong_numbers_of_arguments(arguments: tuple[Any, ...]) -> None:
    for cls in (Place, PlaceTwin):
        with pytest.raises(TypeError, match=r"__init__\(\)"):
            cls(*arguments)
    with pytest.raises(TypeError, match="positional"):
        Named(1, 2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected"):
        Named(c=3)  # type: ignore[call-arg]


def test_frozen_ones_stay_as_they_are() -> None:
    place = Place(1)
    with pytest.raises(AttributeError, match="a of a Place cannot be set"):
        place.a = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del place.a
    with pytest.raises(AttributeError):
        place.d = 2  # type: ignore[attr-defined]
    assert (place.a, place.twice, Place.LIMIT) == (1, 2, 3)


def test_others_change() -> None:
    bag, other = Bag("v"), Bag("v")
    assert bag == other
    bag.items.append(1)
    assert (bag.items, other.items) == ([1], [])
    assert bag != other
    bag.value = "w"
    with pytest.raises(TypeError, match="unhashable"):
        hash(bag)
    assert Alone(1) != Alone(1)
    assert len({Alone(1), Alone(1)}) == 2


def test_checks_of_its_own() -> None:
    assert Named(b=2) == Named(a=1, b=2)
    with pytest.raises(ValueError, match="negative"):
        Named(b=-1)


def test_in_a_match() -> None:
    match Place(1, "y"):
        case Place(a, b="y"):
            assert a == 1
        case _:
            pytest.fail("it does not match")
    assert Place.__match_args__ == PlaceTwin.__match_args__
    assert names_of(Place) == names_of(Place(1)) == ("a", "b", "c")


def test_to_dataclasses_it_is_none() -> None:
    assert not dataclasses.is_dataclass(Place)
    assert pprint.pformat(Place(1)) == repr(Place(1))


def test_making_them_loads_nothing() -> None:
    code = """
import sys
from impi.base.records import record, replaced, values_of
@record
class R:
    __annotations__ = {"a": "int"}
assert values_of(replaced(R(1), a=2)) == {"a": 2}
assert "dataclasses" not in sys.modules and "inspect" not in sys.modules
"""
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
