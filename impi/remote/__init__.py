"""How is an argument vector run on a node so that nothing of it survives?

``supervisor`` is a program of the standard library alone that is sent to the node and runs one command; ``supervised``
is its other end; ``channels`` are the pipe and ``ssh`` the connection between them. Used by the testbed and by the
launchers; imports nothing of impi but the errors.
"""
