"""The judges. Did a job of several MPI libraries really happen, as planned, and by the standard?

**What is here**::

    cases, programs   what a cell runs, how it must end, what must cross the wire
    plan              cells: one case, vendors in client order, one topology
    nodes             what a lab is: nodes, links, commands; who takes part in it
    backends          what opens labs: containers, loopback, SSH, a swarm, Kubernetes
    run               runs cells on labs, and causes faults where a case wants them
    evidence, judge   observations from outside | verdicts, pure functions of these
    report            results on disk and on the terminal
    conform           the conformance tester: one implementation, clause by clause
    dissect           the decoder: captures to packets, accounts and breaches

**Contract.** A judge imports nothing of the code that it judges. The decoder is written from the
clauses of IMPI 0.0 alone, so a mistake of :mod:`impi.protocol` cannot hide in it. No evidence, no
pass: a verdict needs observations from outside the judged processes. Backends know labs and nothing
of cells. Programs run alone, each a process under any MPI library: they are plain mpi4py.

**May import** :mod:`impi.base` and this room. Judged code is started by its command lines alone.

**Begin** with ``cases/case.py`` and one declaration, such as ``cases/calls/p2p.py``; then
``run/execute.py`` for what happens to a cell, and ``judge/verdict.py`` for how it is judged.
CONTRIBUTING.md says how to add a case; docs/how-it-works/a-cell.md is the walk.
"""
