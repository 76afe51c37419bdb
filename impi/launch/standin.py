"""The package ``mpi4py`` where it is not installed: its names besides ``mpi4py.MPI``."""

from __future__ import annotations

from typing import NoReturn

__version__ = "4.1.0"  # the version of the interface that mpi4py.MPI has here


class Rc:
    """The options of ``mpi4py.rc`` with mpi4py's defaults; set attributes, or call it."""

    initialize = True
    threads = True
    thread_level = "multiple"
    finalize: bool | None = None
    fast_reduce = True
    recv_mprobe = True
    irecv_bufsz = 32768
    errors = "exception"

    def __call__(self, **options: object) -> None:
        """Set options; TypeError: mpi4py has no such option."""
        for name, value in options.items():
            if not hasattr(type(self), name):
                raise TypeError(f"mpi4py.rc has no option {name!r}")

            setattr(self, name, value)


rc = Rc()


def get_include() -> NoReturn:
    """Raise ImportError, because there are no C headers."""
    raise ImportError(
        "this mpi4py is impi's stand-in and has no C headers; install mpi4py to compile against it"
    )


def get_config() -> dict[str, str]:
    """Return an empty dictionary, because nothing was compiled."""
    return {}
