"""Our library compiled with the sanitizers for addresses and undefined behaviour.

The programs are compiled with them, too: they bring the runtime, which must be in a process before
our library. Clients are pure, because the sanitizers do not stand RTLD_DEEPBIND.
"""

from __future__ import annotations

import os

import pytest

from impi.cabi.library import build

FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
OPTIONS = "detect_leaks=0:verify_asan_link_order=0"  # Python keeps memory to its end
ABI = "mpich"


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    """Variables by which impirun takes our library with the sanitizers, which is compiled here."""
    folder = tmp_path_factory.mktemp("sanitized")
    compiler = folder / "cc"
    compiler.write_text(f'#!/bin/sh\nexec cc {" ".join(FLAGS)} "$@"\n')
    compiler.chmod(0o755)
    environ = {"CC": str(compiler), "IMPI_CACHE": str(folder / "cache")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", environ["CC"])
        build.library(ABI, {**os.environ, **environ})
    return {**environ, "ASAN_OPTIONS": OPTIONS}


@pytest.mark.proof
@pytest.mark.parametrize("name", ["ring", "found", "edges", "files"])
def test_nothing_is_found(compiled, run_job, sanitized, monkeypatch, tmp_path, name):
    program = compiled(name, ABI, *FLAGS)
    for variable, value in sanitized.items():
        monkeypatch.setenv(variable, value)
    done = run_job([program, str(tmp_path / "file")], ["pure:2", "pure:1"])
    assert done.codes == [0, 0, 0], done
    assert not any(
        word in client.err
        for client in done.clients
        for word in ("Sanitizer", "runtime error")
    ), done


@pytest.mark.proof
def test_a_fault_is_found(compiled, run_job, sanitized, monkeypatch):
    """Our library writes a status beyond the program's memory."""
    program = compiled("beyond", ABI, *FLAGS)
    for variable, value in sanitized.items():
        monkeypatch.setenv(variable, value)
    done = run_job([program], ["pure:1", "pure:1"])
    assert all(done.codes), done
    # Both write it; the first one's end ends the job, perhaps in the midst of the other's report.
    reports = [client.err for client in done.clients]
    assert any(
        "AddressSanitizer: heap-buffer-overflow" in err and "impi_set_status" in err
        for err in reports
    ), done
