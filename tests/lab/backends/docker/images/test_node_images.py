"""Rules for the images' text, and a build that fails."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import docker
import pytest
from docker.errors import ImageNotFound

from impi.base.errors import LabError
from impi.base.manifests import Manifest, names, vendors
from impi.lab.backends.docker.backend import DockerBackend
from impi.lab.backends.docker.images import node_images
from impi.lab.backends.docker.images.node_images import SPY, Images
from impi.lab.nodes.parties import is_remote

ROOT = Path(__file__).parents[5]
NAMES = ("base", SPY, *(name for name in names() if not is_remote(name)))
LIBRARIES = [each for each in vendors() if each.has_library and each.kind == "backed"]


def text(name: str) -> str:
    return (ROOT / "images" / name / "Dockerfile").read_text("utf-8")


def instructions(name: str) -> list[str]:
    """One line each, without comments."""
    lines = [
        line for line in text(name).splitlines() if not line.lstrip().startswith("#")
    ]
    return [
        line
        for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines()
        if line.strip()
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_base_is_an_argument(name: str) -> None:
    default = "debian:bookworm-slim" if name == "base" else "impilab/base"
    assert instructions(name)[:2] == [f"ARG BASE={default}", "FROM ${BASE}"]


@pytest.mark.parametrize("name", NAMES)
def test_python_packages_are_pinned_exactly(name: str) -> None:
    for line in instructions(name):
        for command in line.removeprefix("RUN ").split("&&"):
            words = command.split()
            if "install" in words and words[0].endswith("pip"):
                after = words[words.index("install") + 1 :]
                prefixes = {
                    after[i + 1]
                    for i, word in enumerate(after[:-1])
                    if word == "--prefix"
                }
                packages = [
                    word
                    for word in after
                    if not word.startswith("-") and word not in prefixes
                ]
                assert packages
                assert all(
                    re.fullmatch(r"[a-z0-9-]+==[0-9.]+", package)
                    for package in packages
                ), packages


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_one_machine_and_nothing_for_one_builder(name: str) -> None:
    assert not re.search(
        r"https?://|index-url|trusted-host|pip\.conf|--mount|# *syntax|\bADD\b|\bENV\b",
        text(name),
    )


def test_pins_agree_with_the_projects() -> None:
    pins = (ROOT / "pyproject.toml").read_text("utf-8")
    for name in NAMES:
        for pin in re.findall(r"\b(?:mpi4py|py-spy)==[0-9.]+", text(name)):
            assert pin in pins


@pytest.mark.parametrize("vendor", LIBRARIES, ids=lambda each: each.name)
def test_vendors_have_prefixes_of_their_own(vendor: Manifest) -> None:
    [line] = [line for line in instructions(vendor.name) if "vendor/install" in line]
    assert line.startswith(
        f'RUN sh /opt/impi/vendor/install /opt/mpi/{vendor.name} "${{VERSION}}" '
    )


def test_a_tag_changes_with_every_file_and_with_what_is_below() -> None:
    files = {"Dockerfile": b"FROM x", "a": b"1"}
    tags = {
        node_images._tag("base", files, "below:1"),
        node_images._tag("base", {**files, "a": b"2"}, "below:1"),
        node_images._tag("base", {**files, "b": b""}, "below:1"),
        node_images._tag("base", files, "below:2"),
    }
    assert len(tags) == 4
    assert node_images._tag("base", dict(reversed(files.items())), "below:1") in tags


class Engine:
    """An engine that builds each image at once, and forgets the first ones that it has built."""

    def __init__(self, forgets: int) -> None:
        self.api = self.images = self
        self.forgets = forgets
        self.tags = {"debian:bookworm-slim"}
        self.built: list[str] = []

    def get(self, tag: str) -> SimpleNamespace:
        if tag not in self.tags:
            raise ImageNotFound(tag)

        return SimpleNamespace(id=f"id of {tag}")

    def build(self, *, tag: str, **_: object) -> list[dict[str, str]]:
        self.tags.add(tag)
        self.built.append(tag)
        return []


class Forgetful(Images):
    """Images of an engine where another process removes them once all are there."""

    def present(self, vendors: Sequence[str]) -> dict[str, str]:
        engine = cast("Engine", self._client)
        if engine.built and engine.forgets > 0:
            engine.forgets -= 1
            engine.tags = {"debian:bookworm-slim"}

        return super().present(vendors)


def images(forgets: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Engine, Images]:
    monkeypatch.setattr(node_images, "machine_files", dict)
    engine = Engine(forgets)
    return engine, Forgetful(cast("docker.DockerClient", engine))


def test_images_that_another_process_removes_are_built_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, mine = images(1, monkeypatch)
    assert set(mine.ensure(["pure"])) == {"base", "pure", SPY}
    assert len(engine.built) == 6, "each of them twice"


def test_images_that_are_always_gone_are_a_fault_of_the_lab(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, mine = images(99, monkeypatch)
    with pytest.raises(LabError, match=r"are gone again .*base.*pure"):
        mine.ensure(["pure"])


def test_an_image_that_is_there_waits_for_no_build(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, mine = images(0, monkeypatch)
    first = mine.tool("net")
    compiled = mine.with_programs(["mpich"])
    built = list(engine.built)

    def refuse() -> None:
        raise AssertionError("it asks for the lock")

    monkeypatch.setattr(node_images, "only_one_builds", refuse)
    assert mine.tool("net") == first
    assert mine.with_programs(["mpich"]) == compiled
    assert engine.built == built


@pytest.mark.docker
@pytest.mark.slow
def test_a_failing_build_names_itself_and_shows_its_last_lines(
    backend: DockerBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("base", "pure", "spy"):
        shutil.copytree(ROOT / "images" / name, tmp_path / "images" / name)
    with (tmp_path / "images/pure/Dockerfile").open("a") as file:
        file.write("RUN echo last words; exit 9\n")
    monkeypatch.setattr("impi.lab.backends.docker.images.node_images.SHARED", tmp_path)
    monkeypatch.setattr("impi.lab.backends.docker.images.node_images.names", tuple)
    with pytest.raises(
        LabError,
        match=r"(?s)image pure cannot be built.*last words.*returned a non-zero code: 9",
    ):
        Images(backend._client).ensure(["pure"])
