"""A fork of a warm process, beside a fresh Python with the same program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from impi.launch.start import as_fresh
from impi.launch.start.program import ROOT, base_environment

FORKS = Path(__file__).parent.parent / "programs" / "fork_of_python.py"
LIMIT_S = 60

PROGRAMS = {
    "names": """
import os, sys
main = sys.modules["__main__"]
print({k: v for k, v in vars(main).items() if k.startswith("__") and k != "__loader__"}, type(__loader__))
print(sys.argv, sys.orig_argv, sys.executable, sys.path, os.getcwd(), sys.flags, sys.warnoptions)
print(list(vars(main)))
""",
    "process": """
import os, signal
print(open("/proc/self/cmdline", "rb").read(), open("/proc/self/comm").read(), sorted(os.environ.items()))
print(sorted(filter(None, open("/proc/self/environ", "rb").read().split(b"\\0"))))
print(sorted(os.listdir("/proc/self/fd")), os.umask(0))
print({n: signal.getsignal(n) for n in signal.valid_signals()}, signal.pthread_sigmask(signal.SIG_BLOCK, []))
print([line for line in open("/proc/self/status") if line.startswith(("Sig", "Cap", "Threads")) and "SigQ" not in line])
""",
    "streams": """
import sys
for stream in (sys.stdin, sys.stdout, sys.stderr):
    print(repr(stream), stream.encoding, stream.errors, stream.line_buffering, stream.write_through, stream.newlines)
    print(type(stream.buffer), stream.buffer.name, stream.fileno(), stream.isatty())
assert sys.stdout is sys.__stdout__ and sys.stderr is sys.__stderr__ and sys.stdin is sys.__stdin__
print(sys.stdin.read())
""",
    "output before an end without return": """
import atexit, os
atexit.register(os._exit, 5)
print("printed")
""",
    "output before an exception that ends without return": """
import os, sys
sys.excepthook = lambda *_: os._exit(6)
print("printed")
raise ValueError
""",
    "hooks": """
import gc, sys, threading
print(sys.excepthook, sys.exc_info(), threading.enumerate()[0].name, threading.active_count(), gc.isenabled())
print(sys.gettrace(), sys.getprofile(), hasattr(sys, "last_value"), gc.get_threshold())
""",
    "end by itself": """
import atexit, threading, time
class Last:
    def __del__(self):
        print("deleted", flush=True)
last = Last()
file = open("written", "w")
file.write("not closed")
atexit.register(print, "first registered")
atexit.register(print, "second registered")
threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
""",
    "exit code": "import sys\nsys.exit(7)",
    "exit code beyond": "import sys\nsys.exit(259)",
    "exit message": "import sys\nprint('before')\nsys.exit('what went wrong')",
    "exit in a hook": "import sys\nsys.excepthook = lambda *_: sys.exit(5)\n1 / 0",
    "exception": """
def inner():
    return 1 / 0
try:
    inner()
except ZeroDivisionError as cause:
    raise RuntimeError("told") from cause
""",
    "failing hook": "import sys\nsys.excepthook = None\nraise ValueError(1)",
    "syntax": "print('never')\nif\n",
    "encoding": "# -*- coding: latin-1 -*-\nprint('caf\xe9' == 'caf\\xe9')",
    "Ctrl-C": "import atexit\natexit.register(print, 'at exit')\nraise KeyboardInterrupt",
    "Ctrl-C with a file open": """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
file = open("written", "w")
file.write("not closed")
raise KeyboardInterrupt
""",
    "Ctrl-C of a class of its own": """
class Own(KeyboardInterrupt):
    pass
raise Own
""",
    "a file in a module that was loaded before": """
import json
json.log = open("written", "w")
json.log.write("not closed")
""",
    "a file deep in a module that was loaded before": """
import json
json.JSONDecoder.log = open("written", "w")
json.JSONDecoder.log.write("not closed")
class Last:
    def __del__(self):
        print("deleted", flush=True)
json.last = Last()
""",
    "a failure while threads end": """
import atexit, threading
atexit.register(print, "at exit")
def fail():
    raise ValueError("while threads end")
threading._register_atexit(fail)
""",
    "an interrupt while threads end": """
import atexit, os, signal, threading, time
atexit.register(print, "at exit")
ends = threading.Event()
def interrupt():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
    ends.wait(1)
threading.Thread(target=interrupt).start()
""",
    "a failure at exit": """
import atexit
atexit.register(print, "first registered")
class Fails:
    def __repr__(self):
        return "Fails"
    def __call__(self):
        return 1 / 0
atexit.register(Fails())
""",
    "exit with what cannot be printed": """
import atexit, sys
atexit.register(print, "at exit")
class Odd:
    def __str__(self):
        raise ValueError("unprintable")
sys.exit(Odd())
""",
    "exit code of 65 bits": "import sys\nsys.exit(2**64)",
    "exit code of 33 bits": "import sys\nsys.exit(2**32 + 3)",
    "exit code less than 0": "import sys\nsys.exit(-3)",
    "exit code true": "import sys\nsys.exit(True)",
    "exit message without a stream": "import sys\nsys.stderr = None\nsys.exit('what went wrong')",
    "exception without a stream": "import sys\nsys.stderr = None\n1 / 0",
    "exception that cannot be printed": """
class Odd(Exception):
    def __str__(self):
        raise ValueError("unprintable")
raise Odd
""",
    "failing hook without a stream": "import sys\nsys.excepthook = sys.stderr = None\nraise ValueError(1)",
    "odd streams": """
import sys
class Odd:
    def write(self, text):
        raise ValueError
    def flush(self):
        raise KeyError
sys.stdout = sys.stderr = Odd()
""",
    "thread": """
import os, threading
print(threading.main_thread().native_id == os.getpid(), threading.get_native_id() == os.getpid())
print(threading.current_thread() is threading.main_thread())
""",
    "debugger": """
import io, pdb, sys, threading
pdb.Pdb(readrc=False, stdin=io.StringIO("step\\n" * 8 + "continue\\n"), stdout=sys.stdout).set_trace()
a = 1
b = 2
""",
    "tracer": """
import atexit, os, sys, threading
def last():
    return 1
atexit.register(last)
def seen(frame, event, _):
    if "importlib" not in frame.f_code.co_filename and (event != "line" or frame.f_globals is globals()):
        os.write(1, f"{event} {frame.f_code.co_name} {frame.f_lineno}\\n".encode())
    return seen
sys._getframe().f_trace = seen
sys.settrace(seen)
a = 1
""",
    "profiler": """
import os, sys, threading
def seen(frame, event, arg):
    if event in ("call", "return"):
        os.write(1, f"{event} {frame.f_code.co_name} {frame.f_lineno}\\n".encode())
    elif frame.f_code.co_name == "<module>":
        os.write(1, f"{event} {arg!r}\\n".encode())
sys.setprofile(seen)
a = 1
""",
    "main module at exit": """
import atexit, sys
atexit.register(lambda: print(sorted(vars(sys.modules["__main__"]))))
""",
    "killed": "import os\nos.kill(os.getpid(), 9)",
    "deep": "def deep(n):\n    return n and deep(n - 1)\nprint(deep(985))",
    "too deep": """
def deep(n):
    return deep(n + 1)
try:
    deep(0)
except RecursionError:
    print("too deep")
""",
    "beside": "import beside\nprint(beside.__file__)",
    "multiprocessing": """
import multiprocessing
def square(n):
    return n * n
if __name__ == "__main__":
    for way in ("spawn", "fork"):
        with multiprocessing.get_context(way).Pool(1) as pool:
            print(way, pool.map(square, [3]))
""",
    "pickle": """
import pickle
class Own:
    pass
print(type(pickle.loads(pickle.dumps(Own()))) is Own)
""",
}

ODD_SINCE_3_12 = ("exit with what cannot be printed", "exit code of 65 bits")
"""Programs after which Python 3.12 and later print an exception of their own, here another."""


def result(
    command: list[str], folder: Path, environ: dict[str, str]
) -> tuple[int, str, str, str]:
    """How a command ends, what it prints, and the file that it writes."""
    written = folder / "written"
    written.unlink(missing_ok=True)
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environ,
        input=b"fed",
        capture_output=True,
        timeout=LIMIT_S,
    )
    file = written.read_text() if written.exists() else ""
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode(), file


CASES = [
    *((name, "", False) for name in PROGRAMS),
    *((name, "1", False) for name in ("streams", "exit message")),
    ("process", "", True),
]
"""Programs, with PYTHONUNBUFFERED, and whether SIGHUP is ignored."""


@pytest.mark.parametrize(("name", "unbuffered", "ignored"), CASES)
def test_a_program_meets_what_a_fresh_python_gives_it(
    name: str, unbuffered: str, ignored: bool, tmp_path: Path
) -> None:
    (tmp_path / "below").mkdir()
    program = tmp_path / "below" / "program.py"
    program.write_text(PROGRAMS[name], encoding="latin-1")
    (tmp_path / "below" / "beside.py").write_text("")
    path = os.pathsep.join([ROOT, str(tmp_path)])
    environ = base_environment(
        {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": unbuffered}
    )
    command = ["below/program.py", "--option", "a b"]
    # Ignored signals are inherited, as nohup needs it.
    hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        fresh, fork = (
            result([*words, *command], tmp_path, environ)
            for words in ([], [str(FORKS)])
        )
    finally:
        signal.signal(signal.SIGHUP, hangup)
    if name in ODD_SINCE_3_12 and sys.version_info >= (3, 12):
        fresh, fork = ((code, out, "", file) for code, out, _, file in (fresh, fork))
    assert fork == fresh


def test_output_that_nobody_takes_is_an_exit_code(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import os\nprint('unwritten')\nos.close(1)")
    environ = base_environment(
        {**os.environ, "PYTHONPATH": ROOT, "PYTHONUNBUFFERED": ""}
    )
    fresh, fork = (
        result([*words, str(program)], tmp_path, environ)
        for words in ([], [str(FORKS)])
    )
    assert fork[0] == fresh[0] == 120
    assert fork[2].splitlines()[-1] == fresh[2].splitlines()[-1]


def test_the_folder_of_a_link_is_that_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "program.py").write_text("")
    (tmp_path / "link.py").symlink_to(tmp_path / "real" / "program.py")
    assert as_fresh.folder_of(str(tmp_path / "link.py")) == str(
        (tmp_path / "real").resolve()
    )


def test_forks_draw_different_random_numbers(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import os, random\nprint(random.random(), os.urandom(4))")
    environ = base_environment({**os.environ, "PYTHONPATH": ROOT})
    assert (
        len({result([str(FORKS), str(program)], tmp_path, environ) for _ in range(3)})
        == 3
    )
