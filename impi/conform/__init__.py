"""The conformance tester: judges any implementation of IMPI 0.0 over the wire.

A judge as :mod:`impi.testbed` is: it imports nothing of what it judges, encodes by
:mod:`impi.conform.encoding` and decodes by :mod:`impi.dissect`. From the bottom:

* ``encoding``, ``test_data``, ``wiring``: octets, their content, sockets that record them;
* ``setup``, ``stepping``, ``script_files``: configurations, and the tests, which are files;
* ``start_dialogue``, ``simulated_procs``, ``tested_job``: a job of which one client is under test;
* ``group_messages``, ``performer``: what a step of a test does;
* ``outcomes``, ``campaign``, ``verdict_reports``: verdicts, and what users see of them.
"""
