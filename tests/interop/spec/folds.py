"""Folds: dgx-numerics(7), "Folds". Terms are arrays [positions, elements]; every element is folded by itself, in the order of the page."""

import numpy as np

from . import numbers

F32 = np.float32


def quiet(function):
    def run(*operands):
        with np.errstate(all="ignore"):
            return function(*operands)

    return run


@quiet
def dot(a, b):
    """Blocks of 256 positions, groups of 16 blocks, each from +0."""
    products = a.astype(np.float64) * b.astype(np.float64)
    count, elements = products.shape
    whole = count // 256
    blocks = np.zeros([-(-count // 256), elements], F32)
    blocks[:whole] = blocks_of(products[:whole * 256].reshape(whole, 256, elements))
    if count % 256:
        blocks[whole:] = blocks_of(products[whole * 256:].reshape(1, count % 256, elements))
    total = np.zeros(elements, F32)
    for start in range(0, len(blocks), 16):
        group = np.zeros(elements, F32)
        for block in blocks[start:start + 16]:
            group = group + block
        total = total + group
    return total


def blocks_of(products):
    block = np.zeros([products.shape[0], products.shape[2]], F32)
    for position in range(products.shape[1]):
        block = numbers.add_to_product(products[:, position], block)
    return block


@quiet
def sum(terms):
    """Blocks of 2,048 positions, 32 lanes each, lanes joined at distance 16, 8, 4, 2, 1; the same again over the blocks."""
    if terms.dtype != F32:
        return terms.sum(axis=0, dtype=np.int64)
    while True:
        terms = block_sums(terms)
        if len(terms) == 1:
            return terms[0]


def block_sums(terms):
    count, elements = terms.shape
    rows = 64 if count > 2048 else -(-count // 32)
    blocks = -(-count // (rows * 32))
    # Zeros behind the last term change nothing: a lane starts at +0 and so is never -0.
    padded = np.zeros([blocks * rows * 32, elements], F32)
    padded[:count] = terms
    padded = padded.reshape(blocks, rows, 32, elements)
    lanes = np.zeros([blocks, 32, elements], F32)
    for row in range(rows):
        lanes = lanes + padded[:, row]
    for distance in (16, 8, 4, 2, 1):
        lanes = lanes[:, :distance] + lanes[:, distance:2 * distance]
    return lanes[:, 0]


def argmax(terms):
    """NumPy's has the page's rules: the first of equal greatest ones; a NaN is above all, and the first one counts; -0 equals +0."""
    return np.argmax(terms, axis=0)


@quiet
def max(terms):
    if terms.dtype == F32:
        terms = terms + F32(0)
    return np.take_along_axis(terms, argmax(terms)[None], axis=0)[0]
