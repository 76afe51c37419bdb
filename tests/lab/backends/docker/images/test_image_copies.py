"""Volumes in place of an image's folders, on this machine's engine, with any storage."""

from __future__ import annotations

import io
import secrets
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Network

import docker
import pytest
from container_engine import engine_installed
from docker.errors import NotFound

from impi.lab.backends.docker.container_lab import DockerLab, LabPlan
from impi.lab.backends.docker.engine import connect
from impi.lab.backends.docker.images.image_copies import COPY_LABEL, FOLDERS, Copies
from impi.lab.backends.docker.images.node_images import Images
from impi.lab.backends.lifecycle.cleanup import lease
from impi.lab.nodes.container_node import SOURCES
from impi.lab.nodes.interface import Terms, run_on
from impi.lab.nodes.topology import parse_topology

pytestmark = [pytest.mark.docker, pytest.mark.slow]

ANOTHER = "sha256:" + "ab" * 32
"""An image that there is not."""


@pytest.fixture(scope="module")
def client() -> docker.DockerClient:
    if not engine_installed():
        pytest.skip(
            "no container engine is installed: these tests need one that answers"
        )
    return connect()


@pytest.fixture(scope="module")
def images(client: docker.DockerClient) -> dict[str, str]:
    return Images(client).ensure(["pure"])


@pytest.fixture(scope="module")
def copies(
    client: docker.DockerClient, images: dict[str, str]
) -> dict[str, dict[str, str]]:
    return Copies(client, slow=True).ensure([images["pure"]])


def nameless(client: docker.DockerClient) -> set[str]:
    return {
        str(volume.name)
        for volume in client.volumes.list()
        if len(str(volume.name)) == 64
    }


@pytest.fixture
def lab(
    client: docker.DockerClient,
    images: dict[str, str],
    copies: dict[str, dict[str, str]],
) -> Iterator[DockerLab]:
    plan = LabPlan(
        access=lease(
            "docker",
            "copies",
            ("pure", "pure"),
            parse_topology("1x1+1x1"),
            Terms(),
            images=images,
        ),
        pool=IPv4Network("10.215.0.0/16"),
        publish=False,
        copies=copies,
    )
    lab = DockerLab(client, plan)
    lab.start()
    yield lab
    lab.close()


def test_a_quick_engine_gets_none(client: docker.DockerClient) -> None:
    assert Copies(client, slow=False).ensure([ANOTHER]) == {}


def test_a_volume_for_each_folder_made_once(
    client: docker.DockerClient,
    images: dict[str, str],
    copies: dict[str, dict[str, str]],
) -> None:
    mine = copies[images["pure"]]
    assert set(mine) == set(FOLDERS.values())
    made = {name: client.volumes.get(name).attrs["CreatedAt"] for name in mine.values()}
    assert Copies(client, slow=True).ensure([images["pure"]]) == copies
    assert {
        name: client.volumes.get(name).attrs["CreatedAt"] for name in mine.values()
    } == made


@pytest.fixture
def own_image(client: docker.DockerClient, images: dict[str, str]) -> Iterator[str]:
    """An image that no lab of another test has: its copies may be made anew."""
    text = f"FROM {images['pure']}\nLABEL org.impilab.probe={secrets.token_hex(8)}\n"
    image, _ = client.images.build(fileobj=io.BytesIO(text.encode()), rm=True)
    yield str(image.id)
    for volume in client.volumes.list(filters={"label": f"{COPY_LABEL}={image.id}"}):
        with suppress(NotFound):  # another process has seen that its image is going
            volume.remove()
    client.images.remove(str(image.id), force=True)


def test_the_copies_of_an_image_that_is_gone_go(
    client: docker.DockerClient, own_image: str
) -> None:
    copies = Copies(client, slow=True)
    mine = copies.ensure([own_image])[own_image]
    left = client.volumes.create(
        "impilab-copy-abababababab-venv", labels={COPY_LABEL: ANOTHER}
    )
    copies.ensure([own_image])
    # Nothing to be made, nothing to be removed
    assert left.name in {v.name for v in client.volumes.list()}
    name = next(iter(mine.values())).rpartition("-")[0] + "-done"
    client.volumes.get(name).remove()
    copies.ensure([own_image])
    assert left.name not in {v.name for v in client.volumes.list()}
    assert name in {v.name for v in client.volumes.list()}


def test_a_node_reads_the_same_writes_nothing_and_leaves_nothing(
    client: docker.DockerClient, images: dict[str, str], lab: DockerLab
) -> None:
    node = lab.clients[0][0]
    files = "find /opt/impi/venv /usr/lib/python3.11 -type f ! -name '*.pyc' -print0"
    listing = f"{files} | sort -z | xargs -0 sha256sum"
    seen = run_on(node, ["sh", "-c", listing]).stdout
    own = client.containers.run(
        images["pure"],
        ["sh", "-c", listing],
        remove=True,
        labels={"org.impilab.probe": "x"},
    )
    assert seen == own
    assert len(seen) > 10_000
    refused = run_on(node, ["touch", "/opt/impi/venv/mine"])
    assert refused.code != 0
    assert b"Read-only" in refused.stderr
    kind = run_on(node, ["stat", "-f", "-c", "%T", SOURCES]).stdout
    assert kind == b"tmpfs\n"  # so the sources leave nothing, either
    before = nameless(client)
    lab.close()
    assert len(before - nameless(client)) == 3  # the home of each node
