"""Constants that are data or functions of a library, in programs linked with the vendor's own.

The loader copies such data into programs that are not position-independent, or keeps pointers to
it: before any code of ours runs.
"""

from __future__ import annotations

import subprocess

import pytest

from impi.cabi.tables import abi_tables
from impi.cabi.text import emit

_FORTRAN = "-DFORTRAN"
_ABIS = {
    "standard": (),
    "mpich": (_FORTRAN, "-DCALLS_COPY"),
    "openmpi": (_FORTRAN, "-DCALLS_COPY", "-DCALLS_OTHERS"),
}
"""ABIs, and what their headers have."""


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize("link", ["-pie", "-no-pie"])
@pytest.mark.parametrize("abi", sorted(_ABIS))
def test_constants_that_are_symbols(compiled, run_job, abi, link):
    place = ("-no-pie", "-fno-pic") if link == "-no-pie" else ("-fpie",)
    program = compiled("constants", abi, *_ABIS[abi], *place)
    clients = ["mpich:2", "openmpi:1"] if link == "-pie" else ["pure:2", "pure:1"]
    # In front mode they are the vendor's, whose pointers for Fortran may be null.
    done = run_job([program], clients, options={0: ["--stand-in"], 1: ["--stand-in"]})
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [
        f"rank {rank} of 3: right" for rank in range(3)
    ]
    assert all("different size" not in client.err for client in done.clients)


@pytest.mark.parametrize("abi", abi_tables.NAMES)
def test_every_symbol_is_data_or_a_function(abi, tmp_path):
    """A handle's address is its value; other data is a pointer that is its value, and not null."""
    found = abi_tables.abi(abi)
    text = "\n".join(emit.definitions(found))
    for symbol in found.symbols:
        assert (
            text.count(f"int {symbol}(")
            + text.count(f"long {symbol}[")
            + text.count(f"*{symbol} =")
            == 1
        ), symbol
    (tmp_path / "x.c").write_text(f"#include <stdint.h>\n{text}\n")
    subprocess.run(
        [
            "cc",
            "-Wall",
            "-Werror",
            "-c",
            "-o",
            str(tmp_path / "x.o"),
            str(tmp_path / "x.c"),
        ],
        check=True,
    )
