"""The commands: impirun, impi and impilab, impicc and impifort; their options, and how they end.

**What is here**::

    entry             where an installed command begins
    impirun, impi, impilab, impicc, impifort      one parser each
    bench, conform, decode, lab, simulate, tune   verbs of impi and of impilab
    compiling         what impicc and impifort share
    ending            how a command ends: messages, exit codes, Ctrl-C

**Contract.** A module here parses, calls one function of a room below, and turns its outcome into
an exit code. It decides nothing: ranges and defaults of impirun's options are declared once, in
:mod:`impi.protocol.options`, and the parser follows from them. Bad input gets one sentence
that says what, where and the cure, and exit code 2. Modules of a verb are imported when it runs,
since imports are most of the time of a short command.

**May import** every room. Inside: commands import verbs, both import ``ending``, and nothing
imports a command.

**Begin** with ``impirun.py``. CONTRIBUTING.md says how to add an option; exit codes stand in
:mod:`impi.base.exit_codes`; docs/reference/options.md is written from the declarations.
"""
