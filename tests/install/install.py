#!/usr/bin/python3
"""What is installed works from where it is installed: install.py --build FOLDER programs|library

Installed over older files, below a DESTDIR, under a strict umask, and then moved; the folders have names with spaces. programs: every program, page and
completion is there, for everybody to read; no file leads back to the build; the programs answer to their names and find what belongs to them; and they are
small. library: somebody else's program (examples/library) is built with the installed library, verifies a proof and judges a dispute.
"""

import argparse
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import needs  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MOST_BYTES = 60_000_000  # of all programs and libraries, libtorch aside


def run(*command, code=0, **options):
    """What it prints, on both streams; it must exit with the code."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}, expected {code}\n{done.stdout}")
    return done.stdout


def install(build, folder, *options):
    """The prefix, in the folder."""
    destination, prefix = folder / "a destination", folder / "a prefix"
    programs = destination / "opt/dgx/bin"
    programs.mkdir(parents=True)
    # An older version: programs were links that are files now, and the other way round.
    (programs / "dgx-train").write_text("older")
    (programs / "dgx-settle").symlink_to("../libexec/dgx-programs")
    run("cmake", "--install", build, "--prefix", "/opt/dgx", "--strip", *options, umask=0o077, env=os.environ | {"DESTDIR": str(destination)})
    (destination / "opt/dgx").rename(prefix)
    return prefix


def at(folder, prefix):
    """In the folder, as somebody who has nothing but what is installed."""
    return {"env": {"PATH": f"{prefix}/bin:/usr/bin:/bin", "HOME": str(folder)}, "cwd": folder}


def binaries(prefix):
    return [path for path in sorted(prefix.rglob("*")) if path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF"]


def missing_files(prefix, build):
    names = [path.stem for path in sorted((SOURCE / "tools").glob("dgx-*.cc"))]
    wanted = [f"bin/{name}" for name in names] + ["libexec/dgx-h5", "lib/dgx/hdf5-plugin/libdgx_h5zstd.so", "share/doc/dgx/examples/audit.sh"]
    wanted += [f"lib/dgx/libdgx_{name}.so" for name in ("http", "mpi") if (build / f"lib/dgx/libdgx_{name}.so").exists()]
    if shutil.which("scdoc"):
        wanted += [f"share/man/man{page.stem[-1]}/{page.stem}" for page in sorted((SOURCE / "man").glob("*.scd"))]
    for name in names:
        wanted += [f"share/bash-completion/completions/{name}", f"share/zsh/site-functions/_{name}", f"share/fish/vendor_completions.d/{name}.fish"]
    return [f"{name} is not installed" for name in wanted if not (prefix / name).is_file()]


def unreadable(prefix):
    """The files that not everybody may read. Folders are made as the umask says, by CMake."""
    return [f"{path} has mode {path.stat().st_mode:o}" for path in prefix.rglob("*")
            if path.is_file() and path.stat().st_mode & 0o444 != 0o444]


def check_links(path, build, may_miss):
    """Every library is found, in the system or beside the file."""
    problems = []
    for line in run("ldd", path).splitlines():
        if str(build) in line:
            problems.append(f"{path} links {line.strip()}")
        if "not found" in line and not any(word in line for word in may_miss):
            problems.append(f"{path}: {line.strip()}")
    return problems


def check_start(prefix, folder):
    """Every program answers to its name on PATH, its path, a link to it, and as a copy elsewhere; all are of one version. The file that several programs
    share refuses every other name."""
    options = at(folder, prefix)
    versions = set()
    for program in sorted((prefix / "bin").iterdir()):
        link = folder / "links" / program.name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(program)
        copy = shutil.copy(program, folder)
        for way in (program.name, program, link, copy, f"./{program.name}"):
            name, version = run(way, "--version", **options).splitlines()[:2]
            versions.add(version)
            if name != program.name:
                sys.exit(f"{way} says that it is {name}")
    for name in ("dgx-programs", "dgx-trains", "/", ""):
        said = run(name, "--version", executable=prefix / "libexec/dgx-programs", code=2, **options)
        if "hint: call it as one of dgx-bisect, " not in said:
            sys.exit(f"called as '{name}': {said}")
    return [] if len(versions) == 1 else [f"several versions: {versions}"]


def write_npy(path, kind, shape, data):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def check_torch(prefix, build, folder):
    """dgx-submit captures a model with the libtorch that somebody has put beside the module, and says where it belongs if they have not."""
    write_npy(folder / "x.npy", "<f4", (8, 4), struct.pack("<32f", *(number / 32 for number in range(32))))
    write_npy(folder / "y.npy", "<i8", (8,), struct.pack("<8q", *(number % 3 for number in range(8))))
    options = at(folder, prefix)
    run("dgx-key", "new", "key", **options)
    run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "data.h5", **options)
    submit = ("dgx-submit", "--data", "data.h5", "--model", "mlp:4-8-3", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1", "--batch", "4",
              "--steps", "4", "--key", "key.pem", "-o", "task.json")
    said = run(*submit, code=70, **options)
    place = prefix / "lib/dgx/torch"
    if f"libtorch is looked for in {place}" not in said:
        return [f"dgx-submit without libtorch does not say where it is looked for: {said}"]
    place.symlink_to((build / "lib/dgx/torch").resolve())
    run(*submit, **options)
    run("dgx-train", "task.json", "--data", "data.h5", "-o", "run", **options)
    return []


def check_programs(build, folder):
    prefix = install(build, folder)
    problems = missing_files(prefix, build) + unreadable(prefix)
    has_torch = (build / "lib/dgx/libdgx_torch.so").exists()
    libtorch = ["libtorch_cpu.so", "libc10.so"] if has_torch else []
    for path in binaries(prefix):
        problems += check_links(path, build, libtorch)
    problems += check_start(prefix, folder)
    if has_torch:
        problems += check_torch(prefix, build, folder)
    sizes = {path.relative_to(prefix): path.stat().st_size for path in binaries(prefix)}
    print("\n".join(f"{size / 1e6:7.2f} MB  {name}" for name, size in sizes.items()), f"{sum(sizes.values()) / 1e6:7.2f} MB  together", sep="\n")
    if sum(sizes.values()) > MOST_BYTES:
        problems.append(f"all together have {sum(sizes.values())} bytes, more than {MOST_BYTES}")
    needs.counted(2 if has_torch else 1, 0 if has_torch else 1)
    if not has_torch:
        print("skipped: dgx-submit with libtorch: built without it (DGX_TORCH=off)")
    return problems


def missing_headers(prefix):
    """Every header finds those that it includes."""
    include = prefix / "include"
    return [f"{header} includes {name}, which is not installed" for header in sorted(include.rglob("*.h"))
            for name in re.findall(r'^#include "(.*)"', header.read_text(), re.M) if not (include / name).is_file()]


def check_library(build, folder):
    needs.modules("numpy")
    prefix = install(build, folder, "--component", "dev")
    problems = missing_headers(prefix) + unreadable(prefix)
    run("cmake", "-G", "Ninja", "-S", SOURCE / "examples/library", "-B", folder / "check", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_CXX_FLAGS=-O1 -Wall -Werror")
    run("cmake", "--build", folder / "check")
    options = at(folder, build)
    run("sh", SOURCE / "tests/cli/tiny_task.sh", "1000000", **options)
    for name in ("cheat", "referee"):
        run("dgx-key", "new", name, **options)
    run("dgx-prove", "task.json", "run", "--key", "solver.pem", "-o", "proof.json", **options)
    run("sh", SOURCE / "tests/cli/dispute.sh", "step=17,op=24,element=5,bit=12", **options)
    check = folder / "check/check"
    said = [run(check, "proof", "task.json", "proof.json", "run", "data.h5", "verifier.pem", "own.json", **options),
            run(check, "proof", "task.json", "cheat.proof.json", "cheat", "data.h5", "verifier.pem", "other.json", code=1, **options),
            run(check, "dispute", "dispute.jsonl", code=1, **options),
            run(check, "dispute", "task.json", code=65, **options)]
    print("".join(said), end="")
    if "10 of 10 segments replayed\nit stands" not in said[0] or "claimed 0x" not in said[2]:
        problems.append("the example says something else")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=lambda text: pathlib.Path(os.path.abspath(text)))
    parser.add_argument("part", choices=("programs", "library"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dgx install ") as folder:
        problems = {"programs": check_programs, "library": check_library}[options.part](options.build, pathlib.Path(folder))
    print("\n".join(problems) or f"what is installed works: {options.part}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
