"""A stand-in for package ``mpi4py`` if not installed: its names besides ``mpi4py.MPI``."""

from __future__ import annotations

from typing import NoReturn

__version__ = "4.1.0"  # the version of the interface that mpi4py.MPI has here


class Rc:
    """Options like ``mpi4py.rc``; setting or calling it changes them."""

    initialize = True
    threads = True
    thread_level = "multiple"
    finalize: bool | None = None
    fast_reduce = True
    recv_mprobe = True
    irecv_bufsz = 32768
    errors = "exception"

    def __call__(self, **options: object) -> None:
        """Set options; raises TypeError for one that mpi4py does not have."""
        for name, value in options.items():
            if not hasattr(type(self), name):
                raise TypeError(f"mpi4py.rc has no option {name!r}")
            setattr(self, name, value)


rc = Rc()


def get_include() -> NoReturn:
    """Raise ImportError: there are no C headers."""
    raise ImportError("this mpi4py is impi's stand-in and has no C headers; install mpi4py to compile against it")


def get_config() -> dict[str, str]:
    """Return nothing: there was no compilation."""
    return {}
