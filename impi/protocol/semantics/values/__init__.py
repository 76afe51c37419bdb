"""Values in memory and on the wire: datatypes, external32, and the operations of reductions.

Begin with :mod:`.datatype`; :mod:`.basic` has the predefined types, :mod:`.derive` the
constructors, :mod:`.op` the reductions. ``words`` and ``wordops`` do without numpy, which is slow
to load.
"""
