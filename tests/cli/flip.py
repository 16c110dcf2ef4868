"""Flips the lowest bit of the first number of one entry of a state bundle: flip.py FILE ENTRY."""

import sys

import h5py
import numpy as np

with h5py.File(sys.argv[1], "r+", locking=False) as file:
    entry = file["state/" + sys.argv[2]]
    numbers = entry[...]
    numbers.reshape(-1).view(np.uint8)[0] ^= 1
    entry[...] = numbers
