from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from impi.rank.api.types.dlpack import from_cuda, from_dlpack
from impi.rank.api.types.memory import octets_and_place


class Exporter:
    """Offers an array by DLPack only; may claim to be on another device."""

    def __init__(
        self, values: Any, device: tuple[int, int] = (1, 0), old: bool = False
    ) -> None:
        self.values = values
        self.device = device
        self.old = old

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        if self.old and "max_version" in options:
            raise TypeError("unexpected keyword")
        options.pop("stream", None)
        return self.values.__dlpack__(**options)


class Cuda:
    """Offers memory by the CUDA array interface."""

    def __init__(self, values: Any, **changes: Any) -> None:
        self.values = values
        self.__cuda_array_interface__ = {
            "version": 3,
            "data": (values.ctypes.data, False),
            "typestr": values.dtype.str,
            "shape": values.shape,
            **changes,
        }


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(
    ("dtype", "format"),
    [("i4", "i"), ("u1", "B"), ("f8", "d"), ("c16", "Zd"), ("?", "?")],
)
def test_dlpack(dtype: str, format: str, old: bool) -> None:
    values = np.ones((2, 3), dtype)
    view, code, on_device = octets_and_place(Exporter(values, old=old), readonly=False)
    assert (bytes(view), code, on_device) == (values.tobytes(), format, False)
    view[0] = 0
    assert values.view(np.uint8)[0, 0] == 0


def test_the_array_lives_as_long_as_the_view() -> None:
    view, _, _ = octets_and_place(Exporter(np.arange(1000)), readonly=True)
    assert np.frombuffer(view, int).tolist() == list(range(1000))


def test_dlpack_refusals() -> None:
    assert from_dlpack(object(), readonly=True) is None
    assert from_dlpack(Exporter, readonly=True) is None
    with pytest.raises(BufferError, match="contiguous"):
        from_dlpack(Exporter(np.arange(8)[::2]), readonly=True)
    broken = Exporter(np.arange(3))
    broken.values = type("Odd", (), {"__dlpack__": lambda self, **options: 5})()
    with pytest.raises(BufferError, match="capsule"):
        from_dlpack(broken, readonly=True)


def test_memory_that_only_a_device_reaches_is_refused() -> None:
    with pytest.raises(BufferError, match="out of the processor's reach"):
        octets_and_place(Cuda(np.arange(3), data=(4096, False)), readonly=True)
    assert from_cuda(Cuda(np.arange(3), data=(4096, False)), readonly=True) is not None


def test_memory_of_a_device_that_the_processor_reaches_is_taken() -> None:
    values = np.arange(3, dtype="f4")
    view, format, on_device = octets_and_place(Cuda(values), readonly=False)
    assert (bytes(view), format, on_device) == (values.tobytes(), "f", True)
    assert octets_and_place(Exporter(values, device=(2, 0)), readonly=False)[2]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"typestr": ">i8" if np.little_endian else "<i8"}, "byte order"),
        ({"typestr": "=i8"}, "byte order"),
        ({"mask": object()}, "mask"),
        ({"shape": (-1,)}, "negative"),
        ({"strides": (16,)}, "contiguous"),
        ({"data": (0, True)}, "read-only"),
    ],
)
def test_cuda_refusals(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(BufferError, match=reason):
        from_cuda(Cuda(np.arange(3), **changes), readonly=False)


def test_cuda_descr_is_ignored_with_a_warning() -> None:
    with pytest.warns(RuntimeWarning, match="descr"):
        from_cuda(Cuda(np.arange(3), descr=[("x", "<i8")]), readonly=True)
    assert from_cuda(object(), readonly=True) is None
