"""What does the program hold, and what happens when a call on it fails?

Handles and their MPI objects, error handlers, MPI's exceptions, Info, attribute keys, and the
guard around every public method.

May import ``impi.api.constants`` and ``impi.api.runtime``; must not import another folder of
``impi.api``.
"""
