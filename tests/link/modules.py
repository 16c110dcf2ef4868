#!/usr/bin/python3
"""The table of lib/README.md, derived both ways: every module that a row names is included and linked by the row's module, no other one is, each level
is one above the highest that is used, and the compiler sees no more than that.

usage: modules.py --compiler CXX --modules FILE

FILE has two lines a module, whose name is its folder under lib: `links;MODULE;target;…`, what its targets link; `shows;MODULE;folder;…`, the include
folders that a user of the module is given. A module of which nothing is shown is not in this build.
"""

import argparse
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import needs  # noqa: E402

LIB = pathlib.Path(__file__).resolve().parents[2] / "lib"

# Who may include a third party's headers; nobody does so in a public header.
THIRD_PARTY = {
    "nlohmann/": ["core"],
    "curl/": ["http"],
    "mpi": ["exchange"],
    "sodium": ["crypto"],
    "openssl/": ["crypto"],
    "hwy/": ["crypto", "kernels/cpu"],
    "cuda": ["kernels/cuda"],
    "hdf5": ["bundle"],
    "H5": ["bundle"],
    "zstd": ["bundle"],
    "zlib": ["bundle"],
    "jpeglib": ["bundle"],
    "png": ["bundle"],
    "zip.": ["bundle", "torch"],
    "torch/": ["torch"],
    "ATen/": ["torch"],
    "c10/": ["torch"],
    "CLI/": ["cli"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)
ROW = re.compile(r"^\| (\d+) \| `([\w/]+)` \| ([^|]*) \|", re.M)


def read_table():
    """(level, modules that the row names) of each module."""
    return {module: (int(level), set(re.findall(r"[\w/]+", uses))) for level, module, uses in ROW.findall((LIB / "README.md").read_text())}


def module_of_header(name):
    """"dgx/kernels/cpu/x.h" is kernels/cpu, "dgx/kernels/x.h" kernels/ref, "dgx/merkle/x.h" merkle."""
    parts = name.split("/")
    if parts[1] == "kernels":
        return f"kernels/{parts[2]}" if parts[2] in ("cpu", "cuda") else "kernels/ref"
    return parts[1]


def module_of_file(path):
    parts = path.relative_to(LIB).parts
    return "/".join(parts[:2]) if parts[0] == "kernels" else parts[0]


def read_includes():
    """(module, whether in a public header, file, quote mark, included name) of every include."""
    for path in sorted(p for p in LIB.rglob("*") if p.suffix in (".h", ".cc", ".cu", ".cuh")):
        for mark, name in INCLUDE.findall(path.read_text()):
            yield module_of_file(path), "include" in path.relative_to(LIB).parts, path.relative_to(LIB), mark, name


def check_third_party(includes):
    for module, public, path, mark, name in includes:
        for prefix, owners in THIRD_PARTY.items():
            if mark == "<" and name.startswith(prefix) and module not in owners:
                yield f"lib/{path}: <{name}> belongs to {', '.join(owners)}"
            if mark == "<" and name.startswith(prefix) and public:
                yield f"lib/{path}: <{name}> in a public header"


def check_table(table, includes, links):
    used = {module: set() for module in table}
    for module, _, path, _, name in includes:
        other = module_of_header(name) if name.startswith("dgx/") else module
        if other == module:
            continue
        used.setdefault(module, set()).add(other)
        if module not in table or other not in table[module][1]:
            yield f"lib/{path}: the row of {module} names no {other}, of which this includes {name}"
    for module, (level, named) in table.items():
        for other in sorted(named - used[module]):
            yield f"lib/README.md: the row of {module} names {other}, of which it includes nothing"
        for other in sorted(links.get(module, named) ^ named):
            yield f"lib/README.md: the row of {module} {'names' if other in named else 'does not name'} {other}, which CMake {'does not link' if other in named else 'links'}"
        lowest = 1 + max((table[other][0] for other in named if other in table), default=-1)
        if level != lowest:
            yield f"lib/README.md: {module} stands at level {level}; what it uses puts it at {lowest}"


def a_header_of(module, folders):
    """A public header as others would include it; None for a module without any (torch, which is opened by name)."""
    folder = pathlib.Path(folders[0]) / "dgx" / module.removesuffix("/ref")
    headers = sorted(path.name for path in folder.glob("*.h"))
    return f"{folder.relative_to(folders[0])}/{headers[0]}" if headers else None


def preprocesses(compiler, header, folders):
    flags = [f"-I{folder}" for folder in folders]
    done = subprocess.run([compiler, "-std=c++20", "-E", "-x", "c++", "-o", "/dev/null", *flags, "-"],
                          input=f'#include "{header}"\n', capture_output=True, text=True)
    return done.returncode == 0


def check_sight(compiler, includes, shows):
    """A user of a module must see its headers and those of the modules that its public headers include, and so on, but of no other module."""
    named = {module: {module} for module in shows}
    for module, public, _, _, name in includes:
        if public and module in shows and name.startswith("dgx/"):
            named[module].add(module_of_header(name))
    headers = {module: header for module, folders in shows.items() if (header := a_header_of(module, folders))}
    for module, folders in shows.items():
        wanted = {module}
        while wider := set().union(*(named[other] for other in wanted)) - wanted:
            wanted |= wider
        seen = {other for other, header in headers.items() if preprocesses(compiler, header, folders)}
        for other in sorted((seen ^ wanted) & set(headers)):
            yield f"{module}: its users {'see' if other in seen else 'do not see'} headers of {other}, which its public headers {'do not need' if other in seen else 'need'}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--modules", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    table, includes = read_table(), list(read_includes())
    targets = {f"dgx_{module.replace('/', '_')}": module for module in table}
    links, shows = {}, {}
    for line in arguments.modules.read_text().splitlines():
        kind, module, *items = line.split(";")
        if kind == "shows":
            shows[module] = [folder for folder in items if folder]
        else:
            links[module] = {targets[name] for name in re.findall(r"dgx_\w+", line) if name in targets} - {module}
    absent = [module for module, folders in shows.items() if not folders]
    for module in absent:
        print(f"skipped: what {module} links and shows: it is not in this build")
        del links[module], shows[module]
    needs.counted(len(shows), len(absent))
    problems = [*check_third_party(includes), *check_table(table, includes, links), *check_sight(arguments.compiler, includes, shows)]
    problems += [f"lib/README.md has no row of {module}" for module in sorted(set(shows) - set(table))]
    print("\n".join(problems) or f"{len(shows)} modules keep the rule")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
