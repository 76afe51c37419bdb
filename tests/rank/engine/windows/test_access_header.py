"""Headers of accesses: what is encoded is decoded, whatever the datatype."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.protocol.semantics.values import derive
from impi.protocol.semantics.values.datatype import FORTRAN_PAIRS, NAMED, TypeMap
from impi.protocol.semantics.values.op import OPS
from impi.rank.engine.windows import access_header as wire

NAMES = st.sampled_from(sorted(NAMED))


def nested(inner: st.SearchStrategy[TypeMap]) -> st.SearchStrategy[TypeMap]:
    counts = st.integers(1, 4)
    return st.one_of(
        st.builds(lambda t, n: derive.contiguous(n, t), inner, counts),
        st.builds(
            lambda t, n, b, s: derive.hvector(n, b, s * 64, t),
            inner,
            counts,
            counts,
            st.integers(-3, 3),
        ),
    )


DERIVED = st.recursive(NAMES.map(lambda name: NAMED[name]), nested, max_leaves=4)


@given(
    st.integers(0, 7), st.integers(0, 255), st.sampled_from(sorted(OPS)), DERIVED, st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**40), st.binary(),
)  # fmt: skip
def test_round_trip(
    kind: int,
    flags: int,
    op: str,
    typemap: TypeMap,
    offset: int,
    count: int,
    data: bytes,
) -> None:
    head, rest = wire.decode(
        wire.encode(kind, flags, op, typemap, offset, count) + data
    )
    assert (head.kind, head.flags, head.op, head.offset, head.count) == (
        kind,
        flags,
        op,
        offset,
        count,
    )
    assert bytes(rest) == data
    assert (head.typemap.runs, head.typemap.lb, head.typemap.extent) == (
        typemap.runs,
        typemap.lb,
        typemap.extent,
    )
    assert head.typemap.sizes == typemap.sizes
    if typemap.name:
        assert head.typemap is typemap


@pytest.mark.parametrize("name", sorted(FORTRAN_PAIRS))
def test_pairs_of_fortran(name: str) -> None:
    octets = wire.encode(wire.ACCUMULATE, 0, "MAXLOC", FORTRAN_PAIRS[name], 8, 1)
    assert wire.decode(octets)[0].typemap is FORTRAN_PAIRS[name]


def test_a_bare_header_is_short() -> None:
    assert len(wire.bare(wire.SYNC, wire.ACKNOWLEDGE)) < 40
