#!/usr/bin/python3
"""All C++ is as .clang-format says. Releases of clang-format differ, so that one decides: Debian 12's; without it, exit code 77 (skipped).

usage: format.py [--accept]     --accept rewrites the files
"""

import pathlib
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FORMAT = "clang-format-14"


def main():
    if not shutil.which(FORMAT):
        print(f"skipped: {FORMAT} is not installed")
        return 77
    files = sorted(p for folder in ("lib", "tools", "tests", "examples") for p in (SOURCE / folder).rglob("*") if p.suffix in {".h", ".cc", ".cuh", ".cu"})
    mode = ["-i"] if "--accept" in sys.argv[1:] else ["--dry-run", "--Werror"]
    done = subprocess.run([FORMAT, *mode, *files], capture_output=True, text=True)
    unlike = sorted({line.split(":")[0] for line in done.stderr.splitlines() if "[-Wclang-format-violations]" in line})
    print("\n".join(f"{name}: not formatted (tests/link/format.py --accept)" for name in unlike) or done.stderr or f"{len(files)} files are formatted")
    return 1 if done.returncode or unlike else 0


if __name__ == "__main__":
    sys.exit(main())
