"""Costs and choices: jobs measured beside their parts, tuned tables, virtual time, and ABIs.

**Packages**::

    bench             impi bench: the cost of IMPI as ratios to its parts, measured side by side
    tune              impi tune: measure a network, predict algorithms, write a table of decisions
    simulate          impi simulate: the sans-I/O core in virtual time, at any size
    abi               impilab abi: MPI libraries held against the standard ABI, each with each
    local_job         runs a whole job on this machine for its output, for all four

**Contract.** A tool measures the very code that a job runs: it starts real jobs by ``impirun``, or
drives the real machines and generators, unchanged. A figure comes with its reference: the same work
by the MPI library alone, by plain sockets, or by a model. Results of the simulator are the same for
the same seed; all others name the machine on which they were measured.

**May import** every room but :mod:`impi.lab` and :mod:`impi.cli`. The four packages do not know
each other.

**Begin** with ``bench/suite.py``, the experiments by name; with ``tune/models.py``, the closed
formulas; or with ``simulate/drive.py``, which runs the generators of chapter 4 in virtual time.
docs/decisions/simulator.md and docs/decisions/tuned-algorithms.md have the reasons.
"""
