"""The references for the forms of user data."""

from __future__ import annotations

from impi.tools.bench.measures.data import derived, native
from impi.tools.bench.measures.effort import Effort
from impi.tools.bench.measures.limits import limited
from impi.tools.bench.timed_jobs import Imp

PURE = ("pure", "pure")


def test_libraries_take_no_part() -> None:
    assert [
        *derived(("pure", "mpich"), Effort()),
        *native(("mpich", "mpich"), Effort()),
    ] == []


def test_vectors_in_place_are_held_against_packed_ones() -> None:
    for experiment in map(limited, derived(PURE, Effort())):
        [packed] = experiment.references
        assert isinstance(experiment.ours, Imp) and isinstance(packed, Imp)
        assert experiment.ours.argv == packed.argv
        assert experiment.ours.environ == (("IMPI_ZERO_COPY", "0"),)
        assert packed.title.endswith(", packed")
        bound = {
            line.key.rpartition("/")[2]: line.bound is not None
            for line in experiment.lines
        }
        assert bound == {block: int(block) >= 2048 for block in bound}
        blocks = experiment.ours.argv[experiment.ours.argv.index("--blocks") + 1]
        assert blocks.split(",") == list(bound)


def test_native_numbers_are_held_against_external32() -> None:
    [experiment] = map(limited, native(PURE, Effort(sizes=(64, 1 << 24))))
    [reference] = experiment.references
    assert isinstance(reference, Imp)
    assert reference.options == ("--external32",)
    assert [(line.size, line.bound is not None) for line in experiment.lines] == [
        (64, False),
        (1 << 24, True),
    ]
