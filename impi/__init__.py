"""IMPI 0.0 in Python: one MPI job whose processes run under different MPI libraries.

``from impi import MPI`` gives you an mpi4py-compatible module inside a job that was started by
``impirun -client``. Importing this package alone imports nothing. It has seven rooms and a small
one below them; each imports only from lines below its own, and ``lint-imports`` enforces that::

    cli               the commands: impirun, impi, impilab, impicc, impifort
    lab | tools       the judges: cells and their verdicts, the conformance tester, the decoder
                      | benchmarks, tuned tables, the simulator
    launch            impirun itself: server, clients, relay, the start of processes
    cabi              libraries with MPI's C interface, for compiled programs
    MPI               the module that programs import
    rank              the code in a process of the job: API, engine, MPI libraries
    protocol          IMPI 0.0 without input and output: octets, machines, algorithms
    base              errors, records, units, manifests, processes on nodes

The docstring of each room says what it is for, what it may import, and where to begin reading.
DESIGN.md has the glossary; docs/README.md has walks through the code.
"""

__version__ = "0.1.0"
__all__ = ["__version__"]
