"""Did a job of several MPI libraries really happen, and as planned?

``cases`` declare, ``programs`` run on the nodes, ``execute`` gathers what was seen, ``verdict`` judges it by ``items``;
``schedule`` runs many cells on the labs of ``backends``; ``results`` and ``show`` tell. A judge imports nothing of what
it judges: only :mod:`impi.dissect`, :mod:`impi.remote` and :mod:`impi.errors`.
"""
