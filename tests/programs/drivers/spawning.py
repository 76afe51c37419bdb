"""mpi4py's demo/spawning: its worker must be a program, which its makefile makes of the script."""

import runpy
import sys
from pathlib import Path

folder = Path(sys.argv[1])
worker = Path("cpi-worker-py.exe")
worker.write_text(f"#!{sys.executable}\n{(folder / 'cpi-worker.py').read_text()}")
worker.chmod(0o755)
sys.argv = ["cpi-master.py", f"./{worker}"]
runpy.run_path(str(folder / "cpi-master.py"))
