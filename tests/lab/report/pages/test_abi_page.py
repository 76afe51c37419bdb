"""The page of impilab abi in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from page_links import check_for_everybody

from impi.cli.lab import abi
from impi.lab.report.pages.run_pages import render
from impi.tools.abi.audit import ITEMS
from impi.tools.abi.verdicts import AbiReport, Audited, Finding, Program, Ran

VERDICTS = ("pass", "fail", "unsupported", "untested")


@pytest.mark.proof
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_for_everybody(
    width: int, scheme: str, browser: Any, tmp_path: Path
) -> None:
    names = [f"a-library-with-a-long-name-{number}" for number in range(5)]
    found = tuple(
        Finding(
            item=item,
            verdict=VERDICTS[i % 4],
            detail=f"/a/path/{'long' * 30} {'words ' * 30}",
        )
        for i, item in enumerate(ITEMS)
    )
    libraries = tuple(
        Audited(
            name=name,
            prefix=f"/{'deep/' * 30}",
            vendor="",
            file="",
            soname="",
            compiler="",
            audit=found,
        )
        for name in names
    )
    programs = tuple(
        Program(name=name, compiler="cc", verdict="pass") for name in names
    )
    cells = tuple(
        Ran(program=a, under=b, verdict=VERDICTS[(i + j) % 4], detail="words " * 40)
        for i, a in enumerate(names)
        for j, b in enumerate((*names, "mixed"))
    )
    report = AbiReport(
        libraries=libraries, programs=programs, cells=cells, required=(names[0],)
    )
    file = tmp_path / "abi.html"
    file.write_text(render("abi.html", **abi._page(report)))
    page = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    page.goto(f"file://{file}")
    check_for_everybody(page, width)
