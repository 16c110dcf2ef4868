"""What the interop tests share: a scratch folder, the programs as built, and counted failures."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import needs  # noqa: E402,F401


def parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, help="folder of the built programs")
    parser.add_argument("--plugins", required=True, help="folder of libdgx_h5zstd.so")
    parser.add_argument("--models", help="folder of TorchScript files")
    return parser


def parsed(parser):
    options = parser.parse_args()
    os.environ["HDF5_PLUGIN_PATH"] = options.plugins
    return options


def arguments():
    return parsed(parser())


class Bench:
    """Use as a context: the folder is removed at the end, and the process exits 1 if any check failed."""

    def __init__(self, bin_folder):
        self.bin, self.failures = os.path.abspath(bin_folder), 0
        self.folder = tempfile.mkdtemp(prefix="dgx-interop-")

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        shutil.rmtree(self.folder, ignore_errors=True)
        if kind is None and self.failures:
            sys.exit(1)

    def check(self, condition, what):
        if not condition:
            self.failures += 1
            print("FAILED:", what)

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, program, *words, codes=(0,)):
        """The result of a program as JSON; stops the test on another exit code than those expected."""
        command = [os.path.join(self.bin, program), *words, "--json"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=300)
        if done.returncode not in codes:
            sys.exit(f"FAILED: {' '.join(command)}: exit {done.returncode}\n{done.stderr}")
        lines = done.stdout.splitlines()
        return json.loads(lines[-1]) if lines else None
