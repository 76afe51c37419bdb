"""An SSH server in a thread, by which this machine is a host."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sshd_thread import Sshd

from impi.base.remote.ssh import new_key


@pytest.fixture(scope="module")
def sshd() -> Iterator[Sshd]:
    server = Sshd(host_key=new_key(), user_key=new_key())
    server.start()
    yield server
    server.stop()
