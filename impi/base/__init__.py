"""Tools without knowledge of IMPI or of MPI, which every other room may import.

**Modules.** :mod:`.errors` says who is at fault when something fails: the user, a peer, the lab, a
library, or we. :mod:`.exit_codes` turns that into the code of a command. :mod:`.records`
makes classes of named values that load fast, :mod:`.units` reads and shows sizes, times and rates,
:mod:`.variables` names the environment variables that impirun and the judges share.
:mod:`.manifests` finds the MPI libraries: each has a folder in ``images/`` with a manifest, so no
code names one. :mod:`.plotting` draws. :mod:`.remote` starts programs on nodes, watches them, and
ends them so that nothing survives.

**Contract.** A module is here only if both the judged code and its judges need it. A mistake in
this room is a mistake of both, so nothing belongs here that a judge must not share with the code
that it judges. All modules raise classes of :mod:`.errors`, with one sentence that says what
failed, where, and the cure.

**May import** the standard library, and from this room. The programs of :mod:`.remote` that are
sent to nodes import the standard library alone.

**Begin** with :mod:`.errors`: the first lines of its text are the tree of all errors. Then read
:mod:`.manifests` if you add an MPI library, and :mod:`.remote` if you care how processes end.
"""
