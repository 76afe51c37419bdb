"""The look of a process in /proc that becomes another program."""

from __future__ import annotations

import json
import os
from pathlib import Path

from impi.base.remote import processes, shown_process

ARGV = ["/usr/bin/a-program-of-a-long-name", "--text", "", "\udcff", "x" * 5000]
ENV = {"IMPI_ONE": "1", "TWO": "2=3"}


def test_a_fork_is_shown_with_its_own_words() -> None:
    assert shown_process.possible()
    reader, writer = os.pipe()

    def become() -> int:
        shown = shown_process.show(ARGV, ENV)
        files = [
            Path("/proc/self", name).read_bytes()
            for name in ("cmdline", "environ", "comm")
        ]
        os.write(1, json.dumps([shown, *(octets.hex() for octets in files)]).encode())
        return 0

    nothing = os.open(os.devnull, os.O_RDWR)
    pid = processes.fork((nothing, writer, nothing), become)
    os.close(nothing)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        shown, *files = json.loads(pipe.read())
    assert os.waitpid(pid, 0)[1] == 0
    assert shown
    words, variables, name = map(bytes.fromhex, files)
    assert words == b"".join(os.fsencode(word) + b"\0" for word in ARGV)
    assert variables == b"IMPI_ONE=1\0TWO=2=3\0"
    assert name == b"a-program-of-a-\n"
