#!/usr/bin/python3
"""What the built programs link: no libtorch in any, nothing heavy in those that must be trusted most, and a quick start.

usage: programs.py --build FOLDER
"""

import argparse
import pathlib
import re
import subprocess
import sys

FORBIDDEN = {
    "*": ["torch", "c10", "cuda"],
    "dgx-key": ["hdf5"],
}
# Of Debian's shared HDF5, and half of a program's start.
SLOW = ["curl"]
# The judge links nothing but these, and its file is small.
REFEREE = ["linux-vdso", "ld-linux", "libc", "libm", "libgcc_s", "libstdc++", "libfmt", "libsodium", "libcrypto"]
REFEREE_BYTES = 3 << 20


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def is_sanitized(program):
    return "__asan_init" in output("nm", program)


def check_program(program):
    problems = []
    libraries = re.findall(r"^\s*(\S+)", output("ldd", program), re.M)
    for word in FORBIDDEN["*"] + FORBIDDEN.get(program.name, []) + ([] if is_sanitized(program) else SLOW):
        problems += [f"{program.name} links {library}" for library in libraries if word in library]
    if re.search(r" U .*(at::|c10::|torch::)", output("nm", "-C", "-u", program)):
        problems.append(f"{program.name} uses symbols of libtorch")
    return problems


def check_run_path(path):
    """A library is looked for where the system keeps them, or at a place relative to the file: an absolute one may be anybody's some day."""
    found = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", output("readelf", "-d", path))
    places = [place for line in found for place in line.split(":")]
    return [f"{path.name} looks for libraries in {place or 'the working folder'}" for place in places if not re.match(r"\$ORIGIN(/|$)", place)]


def check_referee(program):
    if is_sanitized(program):
        return []  # a build with sanitizers is not the one that judges
    names = [pathlib.Path(name).name for name in re.findall(r"^\s*(\S+)", output("ldd", program), re.M)]
    problems = [f"{program.name} links {name}" for name in names if re.split(r"\.so|-x86|-aarch", name)[0] not in REFEREE]
    size = program.stat().st_size
    if size > REFEREE_BYTES:
        problems.append(f"{program.name} has {size} bytes, more than {REFEREE_BYTES}")
    return problems


def check_module(path):
    """It is opened by name, so one C function is all it shows. CUDA's runtime is inside, and the driver is looked for when it is opened."""
    exported = [line.split()[-1] for line in output("nm", "-D", "--defined-only", path).splitlines()]
    problems = [f"{path.name} exports {name}" for name in exported if not name.startswith("dgx_")]
    if len(exported) != 1:
        problems.append(f"{path.name} exports {len(exported)} symbols, not one")
    libraries = [] if "torch" in path.name else re.findall(r"^\s*(\S+)", output("ldd", path), re.M)
    return problems + [f"{path.name} links {library}" for library in libraries if "cuda" in library or "nv" in library]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=pathlib.Path)
    build = parser.parse_args().build
    programs = sorted(p for p in (build / "bin").glob("dgx-*") if p.is_file())
    problems = [problem for program in programs for problem in check_program(program)]
    problems += [problem for program in programs if program.name == "dgx-referee" for problem in check_referee(program)]
    for module in sorted((build / "lib").glob("libdgx_*.so")):
        problems += check_module(module)
    for path in [*programs, *sorted((build / "lib").rglob("*.so"))]:
        problems += check_run_path(path)
    print("\n".join(problems) or f"{len(programs)} programs link what they may")
    return 1 if problems or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
