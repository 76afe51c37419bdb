"""Did a job of several MPI libraries really happen, and as planned?

``cases`` declare, ``programs`` run on the nodes, ``plan`` makes cells of both, ``run`` runs cells
on the labs of ``backends`` (their interface is in ``lab``), ``evidence`` holds the observations,
``judge`` judges them, ``report`` writes results. A judge imports nothing of the code it judges:
only :mod:`impi.dissect`, :mod:`impi.remote` and :mod:`impi.errors`.
"""
