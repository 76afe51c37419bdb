"""The site of these pages: ``make docs`` builds it into build/site.

The source folder is the whole checkout, and the pages are those that the README reaches. So each
link is written once, and works in a checkout, on a page host for git, and here.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from posixpath import dirname, join, normpath

from sphinx.application import Sphinx

TOP = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(TOP))

from impi import __version__  # noqa: E402

project = "impi and impilab"
author = "the authors of impi"
version = release = __version__
extensions = ["myst_parser", "sphinx_copybutton", "sphinxcontrib.mermaid"]
root_doc = "docs/README"
include_patterns = [
    "*.md",
    "docs/**/*.md",
    "docs/*.md",
    "images/README.md",
    "examples/*/README.md",
    "tests/**/README.md",
]
# Folders that are not looked into; those of runs may have thousands of files.
exclude_patterns = [".*", "build", "dist", "impi", "runs", "ci", "clusters"]
suppress_warnings: list[str] = []

myst_enable_extensions = ["html_image"]
myst_fence_as_directive = ["mermaid"]
# Links to headings are as on page hosts for git.
myst_heading_anchors = 4

# Blocks without a language are shells and what they print.
highlight_language = "text"
html_theme = "furo"
html_title = f"impi {version}"
html_static_path: list[str] = []
html_additional_pages = {"index": "to_root.html"}
templates_path = ["theme"]
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"
html_show_sphinx = False
html_copy_source = False

_AS_THEY_ARE = ("docs/pictures/*.svg", "docs/reference/*.schema.json")
"""Files at the same path in the site: raw HTML shows the pictures, and editors ask for schemas."""


def pages_of(text: str, folder: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the sections of a page, each with the pages that it links to, in their order."""
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        links = re.findall(r"\]\(([^)#:\s]+)\.md(?:#[^)]*)?\)", section)
        pages = [normpath(join(folder, link)) for link in links]
        yield section.partition("\n")[0], list(dict.fromkeys(pages))


def _add_contents(app: Sphinx, docname: str, source: list[str]) -> None:
    """Make the links of the root page the table of contents, which no other file has to repeat."""
    if docname != root_doc:
        return

    seen: set[str] = set()
    for caption, pages in pages_of(source[0], dirname(docname)):
        new = [page for page in pages if page not in seen]
        seen.update(new)
        if new:
            lines = [f":caption: {caption}", ":hidden:", "", *(f"/{p}" for p in new)]
            source[0] += "\n".join(["", "```{toctree}", *lines, "```", ""])


def _copy(app: Sphinx, failure: Exception | None) -> None:
    for pattern in _AS_THEY_ARE if failure is None else ():
        for path in TOP.glob(pattern):
            to = Path(app.outdir) / path.relative_to(TOP)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect what the settings above cannot say."""
    app.connect("source-read", _add_contents)
    app.connect("build-finished", _copy)
    return {"parallel_read_safe": True}
