"""Labs in a stand-in of a cluster's API, whose pods are said to run."""

from __future__ import annotations

from pathlib import Path

from impi.lab.backends.kubernetes.cluster_api import KubernetesCluster
from impi.lab.backends.kubernetes.cluster_jobs import Jobs
from impi.lab.backends.lifecycle.cleanup import lease, new_labels
from impi.lab.backends.placed.lab import Login
from impi.lab.nodes.interface import Terms
from impi.lab.nodes.topology import parse_topology

SHAPE = parse_topology("1x2+1x2")


NODES = [("server", "pure"), ("client0", "mpich"), ("client1", "openmpi")]


IMAGES = {name: f"impilab/{name}:1" for name in ("pure", "mpich", "openmpi")}


LAB = "20261126T070000-AB12-c0ffee"


def jobs(tmp_path: Path, lab: str = LAB, ttl_s: float = 3600.0) -> Jobs:
    access = lease(
        "kubernetes", "a run", ["mpich", "openmpi"], SHAPE, Terms(ttl_s=ttl_s), lab=lab
    )
    labels = new_labels(access, "")
    return Jobs(KubernetesCluster(), lab, labels, Login.make(tmp_path), "Never")
