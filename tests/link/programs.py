#!/usr/bin/python3
"""What the built programs link: no libtorch and no MPI in any, nothing heavy in those that must be trusted most, and a quick start.

usage: programs.py --build FOLDER [--release]

--release: what is asked of builds that are used, that the judge is small and programs start quickly; exits 77 where sanitizers are built in.
"""

import argparse
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import needs  # noqa: E402

FORBIDDEN = {
    "*": ["torch", "c10", "cuda", "libmpi", "libopen-rte"],
    "dgx-key": ["hdf5"],
}
# Libraries that decode others' images and archives, and the only program that may link them.
DECODERS, DECODES = ["jpeg", "png", "libzip"], "dgx-pack"
# Each is a file of its own, which holds what the program uses and no more; the others share one.
APART = ["dgx-key", "dgx-pack", "dgx-referee", "dgx-settle", "dgx-submit"]
# Code that a program must not hold: dgx-settle, which pays, recomputes scalars and trains nothing; dgx-key only makes keys.
HOLDS_NO = {"dgx-key": ["dgx::exec::", "dgx::bundle::"], "dgx-settle": ["dgx::exec::", "dgx::kernels::cpu::"]}
# It captures models, and one of those in the shared file shows what is in them: no other file knows the module by its name.
OPENS_TORCH = ["dgx-submit", "dgx-programs"]
# The only file that can talk to servers, by the module that it opens for URLs.
OPENS_HTTP = "dgx-programs"
# The only file that may be one of several ranks, by the module that it opens for MPI.
OPENS_MPI = "dgx-programs"
# It makes step programs of captured models; all others read them, and hold no code that makes them.
LOWERS = "dgx-submit"
# Of Debian's shared HDF5, and half of a program's start.
SLOW = ["curl"]
# The judge links nothing but these, and its file is small.
REFEREE = ["linux-vdso", "ld-linux", "libc", "libm", "libgcc_s", "libstdc++", "libfmt", "libsodium", "libcrypto"]
REFEREE_BYTES = 3 << 20


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def is_sanitized(program):
    return "__asan_init" in output("nm", "-D", program)  # the judge has no other symbols


def linked(program, words):
    libraries = re.findall(r"^\s*(\S+)", output("ldd", program), re.M)
    return [f"{program.name} links {library}" for word in words for library in libraries if word in library]


def check_program(program):
    problems = linked(program, FORBIDDEN["*"] + FORBIDDEN.get(program.name, []))
    if program.name != DECODES:
        problems += linked(program, DECODERS)
    symbols = output("nm", "-C", program)
    if re.search(r" U .*(at::|c10::|torch::)", symbols):
        problems.append(f"{program.name} uses symbols of libtorch")
    if ("dgx::lowering::" in symbols) != (program.name == LOWERS):
        problems.append(f"{program.name} holds {'code' if program.name != LOWERS else 'no code'} of lib/lowering")
    opens_torch = b"dgx_torch_module_" in program.read_bytes()
    if opens_torch != (program.resolve().name in OPENS_TORCH):
        problems.append(f"{program.name} {'may open' if opens_torch else 'does not open'} libtorch")
    if (b"dgx_open_http" in program.read_bytes()) != (program.resolve().name == OPENS_HTTP):
        problems.append(f"{program.name} {'does not open' if program.resolve().name == OPENS_HTTP else 'may open'} libcurl")
    if b"dgx_open_mpi" in program.read_bytes() and program.resolve().name != OPENS_MPI:
        problems.append(f"{program.name} may open MPI")
    problems += [f"{program.name} holds code of {space}" for space in HOLDS_NO.get(program.name, []) if space in symbols]
    if program.is_symlink() == (program.name in APART):
        problems.append(f"{program.name} {'shares its file' if program.is_symlink() else 'is a file of its own'}")
    return problems


def check_run_path(path):
    """A library is looked for where the system keeps them, or at a place relative to the file: an absolute one may be anybody's some day."""
    found = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", output("readelf", "-d", path))
    places = [place for line in found for place in line.split(":")]
    return [f"{path.name} looks for libraries in {place or 'the working folder'}" for place in places if not re.match(r"\$ORIGIN(/|$)", place)]


def check_referee(program):
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
    parser.add_argument("--release", action="store_true")
    options = parser.parse_args()
    build = options.build
    programs = sorted(p for p in (build / "bin").glob("dgx-*") if p.is_file())
    if options.release:
        if is_sanitized(build / "bin/dgx-referee"):
            needs.skip("sanitizers are built in: this is not the referee that judges")
        problems = check_referee(build / "bin/dgx-referee") + [problem for program in programs for problem in linked(program, SLOW)]
    else:
        problems = [problem for program in programs for problem in check_program(program)]
        modules = build / "lib/dgx"
        for module in sorted(modules.glob("libdgx_*.so")):
            problems += check_module(module)
        for path in [*programs, *sorted(modules.glob("*.so")), *sorted(modules.glob("hdf5-plugin/*.so"))]:
            problems += check_run_path(path)
    print("\n".join(problems) or f"{len(programs)} programs link what they may")
    return 1 if problems or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
