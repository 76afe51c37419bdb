"""``memoryview()`` of objects of classes written in Python."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from impi.rank.api.windows.exported import export_buffers
from impi.rank.api.windows.window import Win

pytestmark = pytest.mark.usefixtures("active")


def test_a_window(win: Win, memory: Any) -> None:
    assert memoryview(win).cast("i")[3] == memory[3]


class Shown:
    def __init__(self, octets: bytearray) -> None:
        self.octets = octets

    def __buffer__(self, flags: int, /) -> memoryview:
        if not self.octets:
            raise ValueError("nothing to show")
        return memoryview(self.octets)


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="Python 3.12 asks __buffer__ itself"
)
def test_a_class_is_asked_for_its_buffer() -> None:
    shown: Any = Shown(bytearray(b"abc"))
    with pytest.raises(TypeError):
        memoryview(shown)
    export_buffers(Shown)
    view = memoryview(shown)
    view[0] = ord("x")
    assert shown.octets == b"xbc"
    with pytest.raises(SystemError):
        memoryview(Shown(bytearray()))
    assert bytes(memoryview(b"d")) == b"d"  # no other type has changed
