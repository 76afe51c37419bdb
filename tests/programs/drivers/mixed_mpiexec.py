"""An mpiexec whose every rank is a client of its own: ``mixed_mpiexec.py VENDORS -n N COMMAND...``.

VENDORS is such as ``mpich,openmpi``; ranks take them in turn. The exit code is that of the
rank that failed: its client alone passes it on, and the other clients end with 1.
"""

import subprocess
import sys

vendors = sys.argv[1].split(",")
flag, n, *command = sys.argv[2:]
if flag not in ("-n", "-np"):
    raise SystemExit(f"mixed_mpiexec: -n N must come first, not {flag}")
impirun = [sys.executable, "-m", "impi.cli.impirun"]
server = subprocess.Popen(
    [*impirun, "-server", n, "--interface", "127.0.0.1"],
    stdout=subprocess.PIPE,
    text=True,
)
where = server.stdout.readline().strip()
clients = [
    subprocess.Popen(
        [
            *impirun,
            "-client",
            str(i),
            where,
            "-np",
            "1",
            "--vendor",
            vendors[i % len(vendors)],
            *command,
        ]
    )
    for i in range(int(n))
]
codes = [client.wait() for client in clients]
server.wait()
sys.exit(next((code for code in codes if code not in (0, 1)), int(any(codes))))
