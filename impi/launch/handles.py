"""``impirun --handles ABI``: programs in Python get mpi4py itself, over our library of an ABI.

Extension modules that were compiled for that ABI, and take handles of C from objects of mpi4py,
then work in a job. The hook (:mod:`.hook.sitecustomize`) reads the variables.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence

from impi.errors import UsageError
from impi.launch.without_mpi import title
from impi.variables import HANDLES_FROM, STANDS_IN


def environment(
    abi: str, argv: Sequence[str], environ: Mapping[str, str], tell: Callable[[str], object]
) -> dict[str, str]:
    """Return the variables of procs whose programs get mpi4py itself; none without an ABI.

    Args:
        abi: that of the program's extension modules; empty: none.
        argv: what starts the program, after :func:`impi.launch.compiled.served`.
        environ: of the user.
        tell: is told what takes long.

    Raises:
        UsageError: the program is a compiled one.
        LaunchError: library or extension cannot be made.
    """
    if not abi:
        return {}
    if argv[0] == "env" and any(word.startswith(f"{STANDS_IN}=") for word in argv):
        raise UsageError(f"--handles is for programs in Python, and {title(argv)} is a compiled one: leave it out")
    from impi.cabi import build, mpi4py_extension  # takes a while, and most programs need none

    libraries = build.preloaded(abi, environ)
    extension = mpi4py_extension.extension(abi, environ, tell)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = {HANDLES_FROM: os.pathsep.join([version, str(extension), *map(str, libraries)])}
    if abi != "standard":
        found[STANDS_IN] = abi  # the vendor's library may have the same name
    return found
