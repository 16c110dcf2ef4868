#!/usr/bin/env python3
"""Loads trained weights into the model that export.py exported, and compares its outputs with those of dgx-train --predictions.

    python3 load.py FOLDER/net.json MODEL.safetensors --data DATA.h5 --predictions OUTPUTS.npz [--save FOLDER]

--save writes a folder that transformers loads by from_pretrained.
"""

import argparse
import json
import sys

import export
import h5py
import numpy as np
import torch
from safetensors.torch import load_file


def main():
    parser = argparse.ArgumentParser(prog="load.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("made", metavar="NET.json", help="how export.py made the model")
    parser.add_argument("weights", metavar="MODEL.safetensors")
    parser.add_argument("--data", required=True, metavar="DATA.h5", help="a dataset of tokens")
    parser.add_argument("--predictions", required=True, metavar="OUTPUTS.npz")
    parser.add_argument("--save", metavar="FOLDER")
    options = parser.parse_args()
    with open(options.made) as file:
        model = export.remake(**json.load(file)).eval()
    unknown = model.load_state_dict(load_file(options.weights), strict=False).unexpected_keys
    if unknown:
        sys.exit(f"load.py: error: {options.weights}: the model has no {unknown[0]}")
    with h5py.File(options.data) as file, torch.no_grad():
        outputs = model(input_ids=torch.from_numpy(file["x"][()].astype("i8"))).logits.numpy()
    theirs = np.load(options.predictions)["outputs"]
    error = np.abs(outputs.reshape(theirs.shape) - theirs).max() / np.abs(theirs).max()
    print(f"{len(outputs)} samples: outputs differ by at most {error:.1e} of the largest")
    if options.save:
        model.save_pretrained(options.save)
    sys.exit(0 if error < 1e-4 else 1)


if __name__ == "__main__":
    main()
