"""How values of collectives are seen as octets."""

from __future__ import annotations

import numpy as np
import pytest

from impi.engine.collective import ArrayCodec, Codec, OctetCodec
from impi.semantics.datatype import TypeMap


@pytest.mark.parametrize("value", [b"", bytearray(), np.zeros((0, 3)).data])
def test_nothing_can_be_written_too(value: object) -> None:
    """Libraries refuse what is not writable, even where they write nothing."""
    view = OctetCodec().view(value)
    assert (view.nbytes, view.readonly) == (0, False)


def test_no_elements_can_be_written_too() -> None:
    typemap: TypeMap = None  # type: ignore[assignment]  # not looked at
    codec: Codec = ArrayCodec(typemap, np.dtype("d"), 8)
    view = codec.view(np.zeros(0))
    assert (view.nbytes, view.readonly) == (0, False)
