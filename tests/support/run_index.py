"""The index of a run, as somebody changes it who knows the format: run_index.py RUN DRILL writes DRILL into RUN/index.h5, and the digest that it then has."""

import pathlib
import sys

import h5py

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
from spec import digests  # noqa: E402


def digest_of(file):
    header = {name: file.attrs[name] for name in ("diverged", "drill", "interval", "program", "task")}
    header = {name: value.decode() if isinstance(value, bytes) else int(value) for name, value in header.items()}
    return digests.run({name: item[()] for name, item in file.items()}, header)


def main():
    folder, drill = sys.argv[1:]
    with h5py.File(f"{folder}/index.h5", "r+", locking=False) as file:
        del file.attrs["drill"]  # a ninth attribute, for a moment, would move all of them out of the header
        file.attrs.create("drill", drill.encode(), dtype=h5py.string_dtype("ascii", len(drill) or 1))
        file.attrs.modify("digest", digest_of(file).encode())


if __name__ == "__main__":
    main()
