"""Fixtures for tests of compiled programs."""

from __future__ import annotations

import os

import pytest
from cabi_programs import compile_program

from impi.base.errors import LaunchError
from impi.cabi.library import build


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """``compiled(name, abi) -> path``: a program of ours, compiled for an ABI."""
    folder = tmp_path_factory.mktemp("compiled")
    try:
        build.library("standard", os.environ)
    except LaunchError as error:
        pytest.skip(str(error))
    return lambda name, abi, *flags: compile_program(folder, name, abi, *flags)
