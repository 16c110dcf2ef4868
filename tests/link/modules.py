#!/usr/bin/python3
"""The dependency rule (lib/README.md): a module includes only what its row names, and the compiler sees no more than that.

usage: modules.py --compiler CXX --roots FILE      FILE: `module;include folder;...` a line, what a user of the module is given;
                                                   `module` alone is not in this build
"""

import argparse
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import needs  # noqa: E402

LIB = pathlib.Path(__file__).resolve().parents[2] / "lib"

# What each module may include, beside itself. `module/file.h` allows one header.
MAY_USE = {
    "core": [],
    "crypto": ["core"],
    "kernels_ref": ["core"],
    "kernels_cpu": ["core", "kernels_ref"],
    "kernels_cuda": ["core", "kernels_ref"],
    "merkle": ["core", "crypto"],
    "program": ["core", "crypto", "merkle", "kernels_ref"],
    "bundle": ["core", "crypto", "merkle"],
    "manifest": ["core", "crypto", "merkle", "kernels_ref", "program"],
    "ledger": ["core", "crypto", "merkle", "kernels_ref", "program", "manifest"],
    "protocol": ["core", "crypto", "merkle", "kernels_ref", "program", "manifest", "ledger"],
    "exec": ["core", "crypto", "merkle", "kernels_ref", "kernels_cpu", "kernels_cuda", "program", "manifest", "ledger", "protocol/executor.h"],
    "torch": ["core", "kernels_ref", "program", "protocol/executor.h"],
    "jobs": ["core", "crypto", "merkle", "kernels_ref", "kernels_cpu", "kernels_cuda", "program", "bundle", "manifest", "ledger", "protocol", "exec"],
    "cli": ["core"],
}
# Who may include a third party's headers; nobody does so in a public header.
THIRD_PARTY = {
    "nlohmann/": ["core"],
    "sodium": ["crypto"],
    "openssl/": ["crypto"],
    "hwy/": ["kernels_cpu"],
    "cuda": ["kernels_cuda"],
    "hdf5": ["bundle"],
    "H5": ["bundle"],
    "zstd": ["bundle"],
    "zlib": ["bundle"],
    "torch/": ["torch"],
    "ATen/": ["torch"],
    "c10/": ["torch"],
    "CLI/": ["cli"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)


def module_of_header(name):
    """"dgx/kernels/cpu/x.h" is kernels_cpu, "dgx/merkle/x.h" merkle."""
    parts = name.split("/")
    if parts[1] == "kernels":
        return f"kernels_{parts[2]}" if parts[2] in ("cpu", "cuda") else "kernels_ref"
    return parts[1]


def module_of_file(path):
    parts = path.relative_to(LIB).parts
    return f"kernels_{parts[1]}" if parts[0] == "kernels" else parts[0]


def check_includes():
    problems = []
    for path in sorted(p for p in LIB.rglob("*") if p.suffix in (".h", ".cc", ".cu", ".cuh")):
        module, where = module_of_file(path), path.relative_to(LIB)
        allowed = MAY_USE[module] + [module]
        for mark, name in INCLUDE.findall(path.read_text()):
            if name.startswith("dgx/"):
                used = module_of_header(name)
                if used not in allowed and name.removeprefix("dgx/") not in allowed:
                    problems.append(f"lib/{where}: {module} may not include {name}")
            for prefix, owners in THIRD_PARTY.items():
                if mark == "<" and name.startswith(prefix) and module not in owners:
                    problems.append(f"lib/{where}: <{name}> belongs to {', '.join(owners)}")
                if mark == "<" and name.startswith(prefix) and "include" in where.parts:
                    problems.append(f"lib/{where}: <{name}> in a public header")
    return problems


def a_header_of(module, roots):
    """A public header as others would include it; None for a module without any (torch, which is opened by name)."""
    folder = pathlib.Path(roots[module][0]) / "dgx" / (module.replace("_", "/") if module in ("kernels_cpu", "kernels_cuda") else module.split("_")[0])
    headers = sorted(path.name for path in folder.glob("*.h"))
    return f"{folder.relative_to(roots[module][0])}/{headers[0]}" if headers else None


def preprocesses(compiler, header, folders):
    flags = [f"-I{folder}" for folder in folders]
    done = subprocess.run([compiler, "-std=c++20", "-E", "-x", "c++", "-o", "/dev/null", *flags, "-"],
                          input=f'#include "{header}"\n', capture_output=True, text=True)
    return done.returncode == 0


def check_roots(compiler, roots):
    """Every module that a module may not use must be out of its compiler's sight, and the module itself in it."""
    problems = []
    headers = {module: header for module in roots if (header := a_header_of(module, roots))}
    for module, folders in roots.items():
        seen = {other for other, header in headers.items() if preprocesses(compiler, header, folders)}
        if module in headers and module not in seen:
            problems.append(f"{module}: its own headers are out of sight")
        partly = {name.split("/")[0] for name in MAY_USE[module] if "/" in name}
        for other in sorted(seen - set(MAY_USE[module]) - partly - {module}):
            problems.append(f"{module}: the compiler finds headers of {other}, which it may not use")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--roots", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    roots = {}
    for line in arguments.roots.read_text().splitlines():
        module, *folders = line.split(";")
        roots[module] = [folder for folder in folders if folder]
    absent = [module for module, folders in roots.items() if not folders]
    for module in absent:
        print(f"skipped: what the compiler sees of {module}: it is not in this build")
        del roots[module]
    needs.counted(len(roots), len(absent))
    problems = check_includes() + check_roots(arguments.compiler, roots)
    print("\n".join(problems) or f"{len(roots)} modules keep the rule")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
