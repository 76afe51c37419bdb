"""Write the tables of impi/cabi: the functions of MPI 5.0, and the constants of three ABIs.

You need MPICH and Open MPI in ``.mpi``, and the package pympistandard. The tables are committed, so
run this only for a new standard or ABI. Functions come from the machine-readable standard
(pympistandard). Constants come from the libraries' headers: a C program prints their values.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pympistandard

from impi.cabi.tables.abi_tables import HANDLES

ROOT = Path(__file__).absolute().parents[1]
CABI = ROOT / "impi" / "cabi"
HEADERS = {
    "standard": (".mpi/mpich/include", "mpi_abi.h"),
    "mpich": (".mpi/mpich/include", "mpi.h"),
    "openmpi": (".mpi/openmpi/include", "mpi.h"),
}
# Functions that MPI 3 removed and libraries still export; their successors have the same
# parameters.
REMOVED = {
    "MPI_Address": ("MPI_Get_address", {}),
    "MPI_Errhandler_create": ("MPI_Comm_create_errhandler", {}),
    "MPI_Errhandler_get": ("MPI_Comm_get_errhandler", {}),
    "MPI_Errhandler_set": ("MPI_Comm_set_errhandler", {}),
    "MPI_Type_hindexed": (
        "MPI_Type_create_hindexed",
        {"const MPI_Aint": "MPI_Aint", "const int": "int"},
    ),
    "MPI_Type_hvector": ("MPI_Type_create_hvector", {}),
    "MPI_Type_struct": (
        "MPI_Type_create_struct",
        {
            "const MPI_Aint": "MPI_Aint",
            "const int": "int",
            "const MPI_Datatype": "MPI_Datatype",
        },
    ),
}
KEPT = ("name", "kind", "length", "root_only")
NOT_IN_C = ("mpi_f_sync_reg", "mpi_sizeof")


def functions() -> list[dict[str, object]]:
    """Return a row for each C function: name, prototypes, parameters with kind and direction."""
    pympistandard.use_api_version(1)
    database = json.loads(
        (Path(pympistandard.__file__).parent / "data" / "apis.json").read_text()
    )
    rows: list[dict[str, object]] = []
    for key, procedure in pympistandard.PROCEDURES.items():
        if key in NOT_IN_C:
            continue
        given = [
            each
            for each in database[key]["parameters"]
            if "c_parameter" not in each["suppress"]
        ]
        small = str(procedure.express.iso_c)
        large = (
            str(procedure.express.embiggen.iso_c)
            if procedure.has_embiggenment()
            else ""
        )
        # Its large form has more parameters
        if any(each["large_only"] for each in given):
            rows += [
                _row(small, "", [each for each in given if not each["large_only"]]),
                _row(large, "", given),
            ]
        else:
            rows.append(_row(small, large, given))
    by_name = {str(row["name"]): row for row in rows}
    for old, (new, changes) in REMOVED.items():
        text = str(by_name[new]["c"]).replace(f"{new}(", f"{old}(")
        for before, after in changes.items():
            text = text.replace(before, after)
        rows.append({**by_name[new], "name": old, "c": text, "large": "", "like": new})
    for name in ("extent", "lb", "ub"):
        out = {"name": name, "kind": "DISPLACEMENT", "direction": "out"}
        text = f"int MPI_Type_{name}(MPI_Datatype datatype, MPI_Aint* {name})"
        given = {"name": "datatype", "kind": "DATATYPE", "direction": "in"}
        rows.append(
            {
                "name": f"MPI_Type_{name}",
                "c": text,
                "large": "",
                "parameters": [given, out],
            }
        )
    return sorted(rows, key=lambda row: str(row["name"]))


def _row(small: str, large: str, given: list[dict[str, object]]) -> dict[str, object]:
    # Python has a statement of that name.
    small, large = (text.replace(" assert,", " assertion,") for text in (small, large))
    small = small.replace(
        "MPI_Info_create_env(int argc, char argv[]",
        "MPI_Info_create_env(int argc, char* argv[]",
    )
    parameters = [
        {
            **{name: each[name] for name in KEPT if each[name]},
            "direction": each["param_direction"],
        }
        for each in given
    ]
    for each in parameters:
        each["name"] = {"assert": "assertion"}.get(str(each["name"]), each["name"])
    return {
        "name": small.split("(")[0].split()[-1],
        "c": small,
        "large": large,
        "parameters": parameters,
    }


def constants(folder: str, header: str) -> dict[str, int | str]:
    """Return the values of names in a header: integers, or symbols with these addresses."""
    path = ROOT / folder / header
    text = path.read_text()
    names = sorted(set(re.findall(r"\b(MPI_[A-Z0-9][A-Z0-9_]+)\b", text)))
    symbols = _symbols(folder, header, names)
    good = _compiling(folder, header, [name for name in names if name not in symbols])
    exported = _exported(folder, header, good)
    symbols |= exported
    good = [name for name in good if name not in exported]
    lines = "".join(
        f'printf("{name} %lld\\n", (long long)(intptr_t)({name}));\n' for name in good
    )
    includes = f"#include <stdio.h>\n#include <stdint.h>\n#include <{header}>\n"
    program = f"{includes}int main(void) {{\n{lines}return 0; }}\n"
    with tempfile.TemporaryDirectory() as place:
        source, binary = Path(place, "print.c"), Path(place, "print")
        source.write_text(program)
        # Linked without the library: a constant that is an address would fail here, and none is
        # left.
        subprocess.run(
            ["gcc", "-w", "-I", str(ROOT / folder), str(source), "-o", str(binary)],
            check=True,
        )
        printed = subprocess.run(
            [str(binary)], check=True, capture_output=True, text=True
        ).stdout
    found: dict[str, int | str] = {}
    for line in printed.splitlines():
        name, value = line.split()
        found[name] = int(value)
    return dict(sorted({**found, **symbols}.items()))


def types(folder: str, header: str, names: list[str]) -> dict[str, str]:
    """Return the C types of a header's constants that are not integers."""
    handles = [f"MPI_{name}" for name in HANDLES.values()]
    pointers = ["void *", "char **", "char ***", "int *", "MPI_Status *"]
    functions = [
        f"{name} *"
        for name in re.findall(
            r"\((MPI_\w+_function(?:_c)?)\)\(", (ROOT / folder / header).read_text()
        )
    ]
    checks = "".join(
        f'if (__builtin_types_compatible_p(__typeof__({name}), {kind})) puts("{name}:{kind}");\n'
        for name in names
        for kind in (*handles, *pointers, *functions)
    )
    program = f"#include <stdio.h>\n#include <{header}>\nint main(void) {{\n{checks}return 0; }}\n"
    with tempfile.TemporaryDirectory() as place:
        binary = Path(place, "print")
        argv = [
            "gcc",
            "-w",
            "-I",
            str(ROOT / folder),
            "-x",
            "c",
            "-",
            "-o",
            str(binary),
        ]
        subprocess.run(argv, input=program, check=True, text=True)
        printed = subprocess.run(
            [str(binary)], check=True, capture_output=True, text=True
        ).stdout
    return dict(line.split(":") for line in printed.splitlines())


def callbacks() -> list[str]:
    """Return the types of functions that programs give to MPI, as C declares them."""
    every = list(pympistandard.CALLBACKS.values())
    texts = [str(each.express.iso_c) for each in every]
    texts += [
        str(each.express.embiggen.iso_c) for each in every if each.has_embiggenment()
    ]
    return sorted(text.replace("\\ldots", "...") + ";" for text in texts)


def _symbols(folder: str, header: str, names: list[str]) -> dict[str, int | str]:
    """Return the names that are addresses of exported data (Open MPI's handles)."""
    source = f"#include <{header}>\n" + "".join(
        f"impi_at_{name} = {name};\n" for name in names
    )
    done = subprocess.run(
        ["gcc", "-E", "-P", "-I", str(ROOT / folder), "-x", "c", "-"],
        input=source,
        check=True,
        capture_output=True,
        text=True,
    )
    # Names that C itself does not see, such as MPI_Fortran's, stay themselves.
    return dict(re.findall(r"impi_at_(\w+) = .*&\s*\(?(ompi_\w+)\)?", done.stdout))


def _exported(folder: str, header: str, names: list[str]) -> dict[str, int | str]:
    """Return the names that are data or functions of the library itself, with their symbols."""
    lines = "".join(
        f"intptr_t at_{name}(void) {{ return (intptr_t)({name}); }}\n" for name in names
    )
    source = f"#include <stddef.h>\n#include <stdint.h>\n#include <{header}>\n{lines}"
    with tempfile.TemporaryDirectory() as place:
        out = Path(place, "names.s")
        subprocess.run(
            [
                "gcc",
                "-S",
                "-O1",
                "-fPIC",
                "-w",
                "-I",
                str(ROOT / folder),
                "-x",
                "c",
                "-",
                "-o",
                str(out),
            ],
            input=source,
            check=True,
            text=True,
        )
        bodies = re.findall(
            r"^at_(\w+):(.*?)\bret\b", out.read_text(), re.MULTILINE | re.DOTALL
        )
    found = {
        name: re.search(r"((?:MPIR?|ompi|OMPI)_\w+)@GOTPCREL", body)
        for name, body in bodies
    }
    return {name: symbol[1] for name, symbol in found.items() if symbol}


def _compiling(folder: str, header: str, names: list[str]) -> list[str]:
    """Return the names that are C expressions, which is found out by compiling them."""
    lines = "".join(
        f"long long at_{i} (void) {{ return (long long)(intptr_t)({name}); }}\n"
        for i, name in enumerate(names)
    )
    done = subprocess.run(
        [
            "gcc",
            "-fsyntax-only",
            "-w",
            "-fmax-errors=0",
            "-I",
            str(ROOT / folder),
            "-x",
            "c",
            "-",
        ],
        input=f"#include <stddef.h>\n#include <stdint.h>\n#include <{header}>\n#line 1\n{lines}",
        capture_output=True,
        text=True,
        check=False,
    )
    bad = {
        int(line) - 1
        for line in re.findall(r"^<stdin>:(\d+):\d+: error", done.stderr, re.MULTILINE)
    }
    return [name for i, name in enumerate(names) if i not in bad]


def main() -> None:
    """Write all tables."""
    rows = [json.dumps(row, sort_keys=True) for row in functions()]
    (CABI / "functions.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")
    for abi, (folder, header) in HEADERS.items():
        table = constants(folder, header)
        (CABI / "constants" / f"{abi}.json").write_text(
            json.dumps(table, indent=0) + "\n"
        )
        print(f"{abi}: {len(table)} constants", file=sys.stderr)
    folder, header = HEADERS["standard"]
    names = list(json.loads((CABI / "constants" / "standard.json").read_text()))
    shown = {"types": types(folder, header, names), "callbacks": callbacks()}
    (CABI / "header.json").write_text(json.dumps(shown, indent=0) + "\n")
    print(f"{len(rows)} functions", file=sys.stderr)


if __name__ == "__main__":
    main()
