"""The commands: impirun, impi and impilab, impicc and impifort; their options, and how they end.

**Modules**::

    entry             where an installed command begins
    impirun, impi, impilab, impicc, impifort      one parser each
    bench, conform, decode, lab, simulate, tune   verbs of impi and of impilab
    compiling         the common part of impicc and impifort
    ending            the end of a command: messages, exit codes, Ctrl-C

**Contract.** A module here parses, calls one function of a room below, and turns its outcome into
an exit code. It decides nothing: ranges and defaults of impirun's options are declared once, in
:mod:`impi.protocol.options`, and the parser is made from them. Bad input gets one sentence with the
fault, the place and the cure, and exit code 4. A verb's modules are imported only when it runs,
because imports take most of the time of a short command.

**May import** every room. Inside: commands import verbs, both import ``ending``, and nothing
imports a command.

**Begin** with ``impirun.py``. CONTRIBUTING.md says how to add an option. Exit codes are in
:mod:`impi.base.exit_codes`. docs/reference/options.md is generated from the declarations.
"""
