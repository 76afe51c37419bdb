"""Costs and choices: jobs beside what they are made of, tuned tables, and jobs in virtual time.

**What is here**::

    bench             impi bench: the cost of IMPI as ratios to its parts, measured side by side
    tune              impi tune: measure a network, predict algorithms, write a table of decisions
    simulate          impi simulate: the sans-I/O core in virtual time, at any size
    local_job         a whole job on this machine, run for its output: what the three measure

**Contract.** A tool measures the very code that a job runs: it starts real jobs by ``impirun``, or
drives the real machines and generators. It changes nothing of them. A figure comes with its
reference: the same work by the MPI library alone, by plain sockets, or by a model. Results are the
same for the same seed in the simulator, and name the machine where they were measured.

**May import** every room but :mod:`impi.lab` and :mod:`impi.cli`. The three packages do not know
each other.

**Begin** with ``bench/suite.py``, the experiments by name; with ``tune/models.py``, the closed
formulas; or with ``simulate/drive.py``, which runs the generators of chapter 4 in virtual time.
docs/decisions/simulator.md and docs/decisions/tuned-algorithms.md say why they are as they are.
"""
