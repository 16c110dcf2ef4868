#!/usr/bin/python3
"""Prints the datasets of dataset bundles as h5py reads them, and recomputes their digests from the page: read_bundle.py DATA.h5 …"""

import json
import pathlib
import sys

import h5py

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "interop"))
from spec import digests  # noqa: E402

for path in sys.argv[1:]:
    with h5py.File(path) as bundle:
        data = {name: bundle[name][:] for name in sorted(bundle) if not name.endswith(".nodes")}
        recipe = bundle.attrs["recipe"]
        others = data.keys() & {"classes", "channels"}
        fields = {name: data[name] for name in data.keys() - others}
        assert bundle.attrs["digest"].decode() == digests.dataset(fields, recipe), f"{path}: digest"
        for name, array in fields.items():
            assert [bytes(row) for row in bundle[f"{name}.nodes"][:]] == digests.nodes(array), f"{path}: {name}: nodes"
        for name in others:
            assert json.loads(recipe)[name] == digests.tensor(data[name]).hex(), f"{path}: {name}"
    for name, array in data.items():
        print(path, name, bytes(array).decode() if name == "classes" else " ".join(str(array.tolist()).split()))
