"""The conformance tester: judges any implementation of IMPI 0.0 over the wire.

A judge like all of :mod:`impi.lab`: it imports nothing of the judged code, encodes by
:mod:`.job.encoding` and decodes by :mod:`impi.lab.dissect`. From the bottom:

* ``outcomes``: what a test can end with;
* ``job``: what a job is asked for, one of which a client is under test, and simulated procs;
* ``script``: the tests, which are files, and their steps as records;
* ``steps``: what a step of a test does;
* ``server_trial``: a server under test; ``replay``: recorded octets in place of a peer;
* ``campaign``, ``report``: all tests, and what users see of them, also in a browser.
"""
