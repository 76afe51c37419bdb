"""The hook in its own processes, over a copy of the package with a tiny ``MPI``: no job."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FAKE_MPI = """
import os
JOIN = os.environ.pop("IMPI_JOIN", None)
INT = object()
COMM_WORLD = ("the world",)
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a program under the hook: ``run(code)``; without mpi4py: ``run(code, mpi4py=False)``."""
    checkout = tmp_path / "checkout"
    shutil.copytree(
        ROOT / "impi" / "launch" / "hook", checkout / "impi" / "launch" / "hook"
    )
    shutil.copy(ROOT / "impi" / "launch" / "standin.py", checkout / "impi" / "launch")
    (checkout / "impi" / "__init__.py").write_text("")
    (checkout / "impi" / "MPI.py").write_text(FAKE_MPI)
    hook = checkout / "impi" / "launch" / "hook"

    def start(
        code: str,
        *,
        join: bool = True,
        mpi4py: bool = True,
        path: str = "",
        more: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("IMPI")
        }
        env["PYTHONPATH"] = os.pathsep.join([str(hook), *([path] if path else [])])
        env.update(more or {})
        if join:
            env["IMPI_JOIN"] = json.dumps({"vendor": "pure"})
        if not mpi4py:
            # As on a node where nothing is installed.
            code = f"import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n{code}"
        return subprocess.run(
            [sys.executable, "-c", code],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return start


@pytest.mark.parametrize("mpi4py", [True, False])
@pytest.mark.parametrize(
    "first",
    [
        "from mpi4py import MPI",
        "import mpi4py.MPI as MPI",
        "from mpi4py.MPI import COMM_WORLD; from mpi4py import MPI",
        "import importlib; MPI = importlib.import_module('mpi4py.MPI')",
        "import impi.MPI as MPI",
        "from impi import MPI",
        "import mpi4py; mpi4py.rc.initialize; from mpi4py import MPI",
    ],
)
def test_every_form_gives_the_same_module(first: str, mpi4py: bool, run: Run) -> None:
    code = f"""
{first}
import sys, mpi4py.MPI, impi.MPI, importlib
from mpi4py.MPI import COMM_WORLD
from mpi4py import MPI as again
same = [mpi4py.MPI, impi.MPI, again, sys.modules["mpi4py.MPI"], sys.modules["impi.MPI"]]
same.append(importlib.import_module("mpi4py.MPI"))
assert all(module is MPI for module in same), same
assert COMM_WORLD is MPI.COMM_WORLD == ("the world",)
assert MPI.JOIN
assert MPI.__name__ == MPI.__spec__.name == "impi.MPI"
import mpi4py
print(mpi4py.__version__)
"""
    result = run(code, mpi4py=mpi4py)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()[0].isdigit()


def test_without_an_invitation_nothing_is_changed(run: Run) -> None:
    code = """
import sys, os
assert not any(getattr(finder, "gives_mpi4py", False) for finder in sys.meta_path)
import mpi4py
print(mpi4py.__file__)
"""
    result = run(code, join=False)
    assert result.returncode == 0, result.stderr
    assert "site-packages" in result.stdout


def test_a_grandchild_does_not_join(run: Run) -> None:
    """The first import took the invitation; the hook stays on PYTHONPATH, inactive."""
    code = """
import subprocess, sys
from mpi4py import MPI
child = "import os, sys; print('IMPI_JOIN' in os.environ, any(hasattr(f, 'gives_mpi4py') for f in sys.meta_path))"
sys.exit(subprocess.run([sys.executable, "-c", child]).returncode)
"""
    result = run(code)
    assert result.stdout == "False False\n", result.stderr


def test_files_that_a_program_leaves_open_are_written(tmp_path: Path, run: Run) -> None:
    # The collector is told at the import to keep what there is: with the function, its module.
    result = run(
        "def function(): pass\nfile = open('left', 'w')\nfile.write('all')\nfrom mpi4py import MPI"
    )
    assert (result.returncode, (tmp_path / "left").read_text()) == (0, "all")


def test_the_hidden_sitecustomize_runs(tmp_path: Path, run: Run) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text(
        "import builtins\nbuiltins.hidden = __file__\n"
    )
    for join in (True, False):
        result = run(
            "import sitecustomize; print(hidden, sitecustomize.__file__)",
            path=str(other),
            join=join,
        )
        assert result.stdout.split() == [str(other / "sitecustomize.py")] * 2, (
            result.stderr
        )


def test_an_error_in_the_hidden_sitecustomize_costs_nothing_of_ours(
    tmp_path: Path, run: Run
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("1 / 0\n")
    result = run("from mpi4py import MPI; print(MPI.COMM_WORLD)", path=str(other))
    assert result.stdout == "('the world',)\n"
    assert "ZeroDivisionError" in result.stderr  # as Python itself reports it


@pytest.mark.parametrize("mpi4py", [True, False])
def test_the_package_of_impirun_is_used_and_no_other(
    mpi4py: bool, tmp_path: Path, run: Run
) -> None:
    other = tmp_path / "other" / "impi"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise AssertionError('the wrong impi')")
    result = run(
        "import impi; print(impi.__file__)", path=str(other.parent), mpi4py=mpi4py
    )
    assert result.stdout.strip() == str(
        tmp_path / "checkout" / "impi" / "__init__.py"
    ), result.stderr


@pytest.mark.parametrize("name", ["__pyx_capi__", "_addressof", "_sizeof", "_handleof"])
def test_compiled_extensions_are_told_why(name: str, run: Run) -> None:
    result = run(
        f"from mpi4py import MPI\ntry: MPI.{name}\nexcept AttributeError as e: print(e)"
    )
    assert f"mpi4py.MPI has no {name} in an IMPI job" in result.stdout
    assert "no C handles" in result.stdout


def test_a_missing_name_is_reported_as_usual(run: Run) -> None:
    result = run(
        "from mpi4py import MPI\nassert not hasattr(MPI, 'NoSuchName')\nfrom mpi4py.MPI import NoSuchName"
    )
    assert "ImportError: cannot import name 'NoSuchName'" in result.stderr


def test_an_error_of_our_own_module_is_shown_and_not_hidden(
    tmp_path: Path, run: Run
) -> None:
    (tmp_path / "checkout" / "impi" / "MPI.py").write_text("import no_such_numpy")
    result = run("from mpi4py import MPI")
    assert result.returncode == 1
    assert "No module named 'no_such_numpy'" in result.stderr


@pytest.mark.parametrize("name", ["mpi4py", "impi"])
def test_an_older_python_is_named(name: str, run: Run) -> None:
    result = run(
        f"import sys; sys.version_info = (3, 10, 2)\ntry:\n from {name} import MPI\nexcept Exception: 1 / 0"
    )
    assert result.returncode == 1
    assert result.stderr.startswith(f"impi: {sys.executable} is Python ")
    assert result.stderr.endswith(
        "but impi needs 3.11 or later: name another Python before the program\n"
    )


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (
            "2.7:/x.so:/y.so",
            "is Python 3.{}, but --handles has made a library for Python 2.7: start impirun with",
        ),
        ("3.{}:/x.so:/y.so", "--handles cannot load its library in"),
    ],
)
def test_a_library_that_cannot_be_had_is_told_at_the_import_alone(
    found: str, told: str, run: Run
) -> None:
    pytest.importorskip("_cffi_backend")
    minor = sys.version_info.minor
    result = run("print('no MPI')", more={"IMPI_HANDLES_FROM": found.format(minor)})
    assert (result.returncode, result.stdout, result.stderr) == (0, "no MPI\n", "")
    result = run(
        "try:\n from mpi4py import MPI\nexcept Exception: 1 / 0",
        more={"IMPI_HANDLES_FROM": found.format(minor)},
    )
    assert result.returncode == 1
    assert result.stderr.startswith("impi: ")
    assert told.format(minor) in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_stand_in(run: Run) -> None:
    code = """
import mpi4py
mpi4py.rc.initialize = False
mpi4py.rc(finalize=False, thread_level="serialized")
assert (mpi4py.rc.finalize, mpi4py.rc.thread_level) == (False, "serialized")
assert mpi4py.get_config() == {}
for call in (lambda: mpi4py.rc(no_such_option=1), mpi4py.get_include, lambda: __import__("mpi4py.futures")):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error)
"""
    result = run(code, mpi4py=False)
    lines = result.stdout.splitlines()
    assert lines[0] == "TypeError mpi4py.rc has no option 'no_such_option'", (
        result.stderr
    )
    assert lines[1].startswith("ImportError ")
    assert lines[2].startswith(
        "ModuleNotFoundError mpi4py.futures is a part of mpi4py itself, which "
    )
    assert "-m pip install mpi4py" in lines[2]


def test_options_may_be_imported_first(run: Run) -> None:
    result = run("from mpi4py import rc; from mpi4py import MPI; print(MPI.COMM_WORLD)")
    assert result.stdout == "('the world',)\n", result.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "mpi4py.MPI.Datatype size changed, may indicate binary incompatibility",
            "ImportError: ext needs C handles",
        ),
        (
            "numpy.ndarray size changed, may indicate binary incompatibility",
            "ValueError: numpy.ndarray size changed",
        ),
    ],
)
def test_a_cython_module_is_told_why(text: str, expected: str, run: Run) -> None:
    code = f"""
import types
from importlib.machinery import ExtensionFileLoader
def stopped(loader, module):
    raise ValueError({text!r})
ExtensionFileLoader.exec_module.__globals__["_exec_extension"] = stopped  # sitecustomize may be another
ExtensionFileLoader("ext", "ext.so").exec_module(types.ModuleType("ext"))
"""
    result = run(code)
    assert expected in result.stderr.splitlines()[-1], result.stderr


NEEDS_BISECT = (
    FAKE_MPI
    + """
import bisect, json.decoder
USES = (bisect.bisect, json.decoder.JSONDecoder)
"""
)


@pytest.mark.parametrize("form", ["from mpi4py import MPI", "from impi import MPI"])
@pytest.mark.parametrize("first", ["", "import bisect, json.decoder"])
def test_a_module_of_the_program_may_have_a_name_of_the_standard_library(
    form: str, first: str, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "checkout" / "impi" / "MPI.py").write_text(NEEDS_BISECT)
    (tmp_path / "bisect.py").write_text("MINE = 1")
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "__init__.py").write_text("")
    (tmp_path / "json" / "decoder.py").write_text("MINE = 2")
    code = "import bisect, json.decoder, sys; print(bisect.MINE, json.decoder.MINE, sys.path[0] == '')"
    done = run(f"{first}\n{form}\n{code}\nprint(MPI.USES[0]([1], 2))")
    assert done.stdout == "1 2 True\n1\n", done.stderr
