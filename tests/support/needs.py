"""What a test needs and may find missing. A test without it ends as ctest's own skip: it prints `skipped: REASON` and exits 77.

What is missing for a part of a test makes that part an entry of ctest, or a case counted by counted(): nothing is left out in silence.
"""

import glob
import importlib
import os
import shutil
import sys

SKIPPED = 77
# Where Debian's dataset-fashion-mnist is; tests/without.py names a place where it is not.
FASHION_MNIST = os.environ.get("DGX_FASHION_MNIST", "/usr/share/datasets/fashion-mnist")


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def modules(*names):
    """Goes on only if this Python has them all."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as missing:
            skip(missing)


def fashion_mnist(name):
    """A file of the dataset by the beginning of its name. Goes on only if it is installed."""
    found = sorted(glob.glob(os.path.join(FASHION_MNIST, f"{name}*")))
    return found[0] if found else skip("Fashion-MNIST is not installed (dataset-fashion-mnist)")


def program(name, *folders):
    """The path of a program in one of the folders or on PATH. Goes on only if it is installed."""
    path = os.pathsep.join([*folders, os.environ["PATH"]])
    found = None if name in os.environ.get("DGX_TESTS_WITHOUT", "").split() else shutil.which(name, path=path)
    return found or skip(f"{name} is not installed")


def counted(run, skipped):
    """The line that tests/cases.py adds up."""
    print(f"cases: {run} run, {skipped} skipped")
