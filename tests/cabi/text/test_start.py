"""The part of the libraries in C that is not generated: handles that are known without Python."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from impi.cabi.tables.abi_tables import FOLDER

READERS_AND_WRITERS = r"""
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
%s
enum { READERS = 2, WRITERS = 2, KEYS = 60000 };
static int stop, wrong;

static void *ask(void *nothing)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        const impi_entry *known = impi_known(7);
        if (!known || known->first != 70 || known->second != 71) wrong = 1;
    }
    return nothing;
}

static void *tell(void *first)
{
    for (intptr_t key = (intptr_t)first; key < KEYS; key += WRITERS) impi_know(key, (int)key, 2, 3);
    return NULL;
}

int main(void)
{
    pthread_t readers[READERS], writers[WRITERS];
    impi_know(7, 70, 71, 72);
    for (int i = 0; i < READERS; i++) pthread_create(&readers[i], NULL, ask, NULL);
    for (int i = 0; i < WRITERS; i++) pthread_create(&writers[i], NULL, tell, (void *)(intptr_t)(100 + i));
    for (int i = 0; i < WRITERS; i++) pthread_join(writers[i], NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < READERS; i++) pthread_join(readers[i], NULL);
    for (intptr_t key = 100; key < KEYS; key++) {
        const impi_entry *known = impi_known(key);
        if (!known || known->first != key) wrong = 2;
    }
    impi_know(100, -1, 0, 0);
    if (impi_known(100)) wrong = 3;
    return wrong;
}
"""


def table(text: str) -> str:
    """Return the part of the source that keeps numbers by handle."""
    return text[
        text.index("/* ---- numbers by handle") : text.index("static void impi_now(")
    ]


@pytest.mark.parametrize(
    "flags", [("-O2",), ("-O1", "-g", "-fsanitize=thread")], ids=" ".join
)
def test_handles_are_known_to_threads_while_others_add_more(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    if shutil.which("cc") is None:
        pytest.skip("cc is not installed")
    source = tmp_path / "table.c"
    source.write_text(
        READERS_AND_WRITERS % table((FOLDER / "start.c").read_text("utf-8"))
    )
    argv = ["cc", "-w", *flags, "-o", str(tmp_path / "table"), str(source), "-lpthread"]
    subprocess.run(argv, check=True)
    done = subprocess.run(
        [str(tmp_path / "table")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr[:2000]
