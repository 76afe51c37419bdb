"""What the hook gives as package ``mpi4py`` where none is installed: what programs touch besides ``mpi4py.MPI``."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["get_config", "get_include", "rc"]

__version__ = "4.1.0"
"""The interface that ``mpi4py.MPI`` follows here."""


class Rc:
    """Options as of ``mpi4py.rc``; setting or calling it changes them."""

    initialize = True
    threads = True
    thread_level = "multiple"
    finalize: bool | None = None
    fast_reduce = True
    recv_mprobe = True
    irecv_bufsz = 32768
    errors = "exception"

    def __call__(self, **options: object) -> None:
        for name, value in options.items():
            if not hasattr(type(self), name):
                raise TypeError(f"mpi4py.rc has no option {name!r}")
            setattr(self, name, value)


rc = Rc()


def get_include() -> NoReturn:
    """There are no C headers."""
    raise ImportError("this mpi4py is impi's stand-in and has no C headers; install mpi4py to compile against it")


def get_config() -> dict[str, str]:
    """Nothing was compiled."""
    return {}
