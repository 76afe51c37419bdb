"""Variables that a program gets back after it has cleared its environment."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from impi.cabi.tables import kept

NAMES = {
    "IMPI_JOIN": True,
    "PMI_RANK": True,
    "OMPI_COMM_WORLD_RANK": True,
    "HOME": True,
    "HOMEPAGE": False,
    "PATH": True,
    "MANPATH": False,
    "LANG": False,
    "": False,
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_the_job_and_of_libraries_are_kept(name: str) -> None:
    assert kept.is_kept(name) == NAMES[name]


def test_c_keeps_the_same_names_as_python(tmp_path: Path) -> None:
    rows = "".join(f'impi_is_kept("{name}=value"), ' for name in NAMES)
    text = f"""{kept.c_text()}
#include <stdio.h>
int main(void)
{{
    int found[] = {{{rows} impi_is_kept("IMPI_JOIN")}};
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) putchar('0' + found[i]);
}}
"""
    source, program = tmp_path / "kept.c", tmp_path / "kept"
    source.write_text(text, "utf-8")
    subprocess.run(["cc", "-o", program, source], check=True)
    found = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    # The last row has no value, so it is not a variable.
    assert found == "".join(map(str, map(int, NAMES.values()))) + "0"
