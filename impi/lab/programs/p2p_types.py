"""Every predefined datatype, as external32 on the wire (IMPI 1.2.2)."""

import numpy as np
from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI


def values(name: str, code: str, most: int, of: int) -> np.ndarray:
    """Return values of rank ``of``: small numbers; the second part of a value is one more."""
    numbers = np.array([v % most for v in report.numbers(f"types/{name}/{of}", 5)])
    if "," in code:
        pairs = list(zip(numbers, numbers + 1, strict=True))
        return np.array([*pairs], dtype=np.dtype(code, align=True))

    return (numbers + 1j * (numbers + 1) if code[0] in "cG" else numbers).astype(code)


for tag, (name, code, most) in enumerate(report.plan["params"]["types"], 100):
    out, expected = (values(name, code, most, of) for of in (rank, source))
    into = np.zeros_like(out)
    datatype = getattr(MPI, name)
    comm.Sendrecv([out, 5, datatype], to, tag, [into, 5, datatype], source, tag)
    report.check(name, into.tolist(), expected.tolist())

report.done()
