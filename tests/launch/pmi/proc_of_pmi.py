"""A proc under somebody's process manager: puts, fences, and gets of its neighbour."""

import os
import socket
import sys

from impi.launch.pmi.client import Client

version, rank, size = (
    int(sys.argv[1]),
    int(os.environ["PMI_RANK"]),
    int(os.environ["PMI_SIZE"]),
)
sock = socket.socket(fileno=int(os.environ["PMI_FD"]))
client = Client(version, rank)


def ask(octets: bytes) -> dict[str, str]:
    sock.sendall(octets)
    while (answer := client.read(sock.recv(4096))) is None:
        pass
    return dict(answer.fields)


ask(client.begin())
ask(client.enter())
job = ask(client.named())["kvsname" if version == 1 else "jobid"]
ask(client.put(job, f"key-{rank}", f"of-{rank}"))
ask(client.fence())
print(
    f"{rank}:" + ask(client.get(job, f"key-{(rank + 1) % size}"))["value"], flush=True
)
ask(client.leave())
sock.close()
