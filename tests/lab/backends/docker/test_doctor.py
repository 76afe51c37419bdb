"""The doctor's findings about an engine that runs labs."""

from __future__ import annotations

import pytest

from impi.lab.backends.docker.backend import DockerBackend
from impi.lab.nodes.interface import Lab

pytestmark = [pytest.mark.docker, pytest.mark.slow]


def test_doctor(backend: DockerBackend, lab: Lab) -> None:
    findings = {f.subject: f for f in backend.doctor()}
    assert {
        "engine",
        "cores",
        "memory",
        "subnets",
        "leftovers",
        "images",
        "captures",
    } <= set(findings)
    for subject in ("engine", "subnets", "captures"):
        assert findings[subject].ok, findings[subject]
