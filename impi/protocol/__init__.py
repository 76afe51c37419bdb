"""IMPI 0.0 itself, sans I/O: octets, start-up, messages, collectives and MPI's meaning.

**What is here**, each package one chapter or one idea::

    collectives       chapter 4: each operation is a generator of sends and receives
    slots             communicators that one proc makes alone, beyond IMPI 0.0
    semantics         MPI's meaning: groups, context ids, datatypes, reductions, matching
    startup           chapter 2: many clients become one job, as two state machines
    transfer          chapter 3: messages as packets, with credit, cancelling and the end
    options, settings each option of impirun, declared once, with its label on the wire
    job, quirks       the facts that all clients have agreed on; the user's word about peers
    wire              octets to typed values and back
    decisions         the choice of a collective's algorithm, by clients and octets
    proofs            that both ends of a connection know one secret

**Contract.** A machine takes octets and gives events and octets. It has no socket, clock, thread
or randomness: its driver brings these. So tests and the simulator drive the very objects that a
job drives. A line that obeys IMPI 0.0 cites the clause (``IMPI 3.6``); where the text is in doubt,
our reading stands at that line. Input from a peer is checked before it is used; a violation is a
:class:`~impi.base.errors.PeerError` that has the clause and the octets.

Two modules are not free of the outside: ``settings`` and ``options`` read the
environment and files of the user, because an option is declared once, with its label on the wire.

**May import** :mod:`impi.base`, but not its manifests and its processes on nodes. Inside, a
package imports only from lines below its own in the table above; ``semantics``, ``startup`` and
``transfer`` do not know each other, nor do ``collectives`` and ``slots``.

**Begin** with :mod:`.wire`: an octet is decoded in ``wire/packets.py``, a short message in
``transfer/inbound.py``. A credit is counted in ``transfer/credit.py``. A master is chosen in
``collectives/layout.py``; ``teams.py`` lets a root stand in for its own. A peer's quirk is in
``quirks.py``. docs/how-it-works/a-message.md walks from there to the socket.
"""
