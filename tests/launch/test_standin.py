"""A stand-in for package mpi4py."""

from __future__ import annotations

import pytest

from impi.launch import standin


def test_options_of_mpi4py_can_be_set_and_others_cannot() -> None:
    rc = standin.Rc()
    rc(initialize=False, thread_level="serialized")
    assert (rc.initialize, rc.thread_level, rc.errors) == (
        False,
        "serialized",
        "exception",
    )
    assert standin.Rc().initialize, "each has its own"
    with pytest.raises(TypeError, match=r"mpi4py\.rc has no option 'nosuch'"):
        rc(nosuch=1)


def test_there_is_nothing_to_compile_against() -> None:
    assert standin.get_config() == {}
    with pytest.raises(ImportError, match="has no C headers; install mpi4py"):
        standin.get_include()
