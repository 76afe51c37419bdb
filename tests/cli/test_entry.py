"""The commands' first moment."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from impi.cli import entry

TOP = Path(__file__).parent.parent.parent
# Ctrl-C comes while the modules of the command are being imported.
INTERRUPTED = """
import os, signal, sys
sys.argv[1:] = ["--version"]
def interrupt(name, *_):
    if name == "argparse":
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(lambda event, args: interrupt(*args) if event == "import" else None)
from impi.cli import entry
sys.exit(entry.{name}())
"""


@pytest.mark.parametrize(
    ("name", "code"), [("impi", 2), ("impilab", 2), ("impirun", 130)]
)
def test_ctrl_c_while_modules_are_loaded_is_one_sentence(name: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.replace("{name}", name)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=TOP,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        code,
        "",
        f"{name}: interrupted\n",
    )


@pytest.mark.parametrize("name", ["impi", "impilab", "impirun"])
def test_every_command_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--version"])
    with pytest.raises(SystemExit) as ended:
        getattr(entry, name)()
    assert ended.value.code in (0, None)
