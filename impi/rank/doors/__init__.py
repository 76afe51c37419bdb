"""Doors of processes: connections at listeners, of members of the job and of strangers.

Imported by all that accept connections: the server, impirun's control socket, the hosts in the
dance, the procs of one client. Nothing here knows the purpose of a connection.
"""
