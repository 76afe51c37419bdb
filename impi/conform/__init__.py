"""The conformance tester: judges any implementation of IMPI 0.0 over the wire.

A judge as :mod:`impi.testbed` is: it imports nothing of what it judges, encodes by
:mod:`impi.conform.encoding` and decodes by :mod:`impi.dissect`. From the bottom:

* ``encoding``, ``test_data``, ``wiring``: octets, their content, sockets that record them;
* ``configuration``, ``script_files``, ``expressions``: jobs, and the tests, which are files;
* ``start_dialogue``, ``simulated_procs``, ``tested_job``: a job of which one client is under test;
* ``exchange_messages``, ``group_steps``, ``channel_steps``, ``performer``: what a step does;
* ``server_trial``: a server under test; ``replay``: recorded octets in place of a peer;
* ``outcomes``, ``campaign``, ``verdict_reports``: verdicts, and what users see of them;
* ``desk``, ``web_page``: the same from a browser.
"""
