"""Join the job, print the pids of this proc and of a detached child, and stay until ended."""

import subprocess
import sys
import time

from mpi4py import MPI

child = subprocess.Popen(
    ["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL
)
maps = open("/proc/self/maps").read()  # noqa: PTH123, SIM115
files = {
    word
    for word in maps.split()
    if word.startswith(("/dev/shm/sm_segment", "/dev/shm/mpich_shm"))
}
sys.stdout.write(
    f"holding {MPI.COMM_WORLD.rank} {MPI.COMM_WORLD.size} {child.pid} {' '.join(files)}\n"
)
sys.stdout.flush()
time.sleep(600)
