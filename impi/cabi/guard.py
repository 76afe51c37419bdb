"""The files that keep a vendor's own library and ours apart; see :mod:`.vendor_library`."""

from __future__ import annotations

from pathlib import Path

from impi.cabi import compilation
from impi.errors import LaunchError


def fill(folder: Path, extension: Path, real: Path, soname: str, name: str) -> None:
    """Make the folder of a guard and a copy of mpi4py's extension that needs it.

    Args:
        folder: made here; what is beside it is for scratch.
        extension: mpi4py's.
        real: the vendor's library.
        soname: the name that the extension needs.
        name: that of the guard, as long.

    Raises:
        LaunchError: the compiler is missing, or the extension is another one than mpi4py's.
    """
    folder.mkdir()
    absent = sorted(compilation.symbols(extension, "w") - compilation.symbols(real, "TDBRWV"))
    # The linker writes down the name that a library gives itself: here the path of the real one.
    stand_in = folder.with_name("named.so")
    compilation.link_shared(stand_in, str(real), compilation.NO_CODE)
    missing = [f"-Wl,--defsym={symbol}=0" for symbol in absent]
    argv = [*compilation.NO_CODE, *missing, "-Wl,--no-as-needed", str(stand_in)]
    compilation.link_shared(folder / name, name, argv)
    octets, needed = extension.read_bytes(), b"\0" + soname.encode() + b"\0"
    if octets.count(needed) != 1:
        raise LaunchError(f"{extension} does not need {soname} as mpi4py's extensions do")
    (folder / extension.name).write_bytes(octets.replace(needed, b"\0" + name.encode() + b"\0"))
