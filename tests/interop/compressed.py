"""The optimiser dgc by the formulas of dgx-lowerings(7), DGC, on NumPy's arrays: for updates.py and trainer_choices.py."""

import math

import numpy as np

from spec import folds, numbers

F32 = np.float32


def fma(a, b, c):
    return numbers.apply("fma", list(np.broadcast_arrays(F32(a), F32(b), F32(c))))


def sample(n):
    most = min(n // 65536, 100)
    return max([s for s in range(1, most + 1) if math.gcd(s, n) == 1], default=1)


def want(spec, m, step):
    density = float.fromhex(spec["density"])
    quarters = [d for n, d in enumerate((0.25, 0.0625, 0.015625, 0.00390625), 1) if 4 * step < n * spec["warmup"]]
    return max(1, math.ceil(max(quarters[0] if quarters else density, density) * m))


def threshold(sizes, wanted):
    t = sizes.max()
    for b in (2, 1 / 4, 1 / 32, 1 / 256):
        candidates = t * np.array([2.0 ** (-j * b) for j in range(8)]).astype(F32)
        t = candidates[0]
        for c in candidates:
            if np.count_nonzero(sizes >= c) < wanted:
                t = c
    return t * F32(2.0 ** (-1 / 256))


def sent_of(spec, v, step):
    """s of one worker, whose v' is flat."""
    stride = sample(v.size)
    sizes = np.abs(v[::stride])
    s = np.where(np.abs(v) >= threshold(sizes, want(spec, sizes.size, step)), v, F32(0))
    if spec.get("bits") == 8:
        x = s * F32(65537)
        s = x - (x - s)
    return s


def update(spec, state, name, g, step):
    """The entries that become others, and s, of a parameter with the gradients g, [K, shape]; and what the workers send, added up."""
    rows = g.reshape(len(g), -1)
    if "clip" in spec:
        bound = F32(float.fromhex(spec["clip"]) / math.sqrt(len(g)))
        length = np.sqrt(folds.sum(np.ascontiguousarray((rows * rows).T)))
        rows = rows * np.minimum(bound / (length + F32(1e-6)), F32(1))[:, None]
    momentum = float.fromhex(spec["momentum"])
    u = rows
    if momentum:
        u = fma(momentum, state[f"optimizer/velocity/{name}"].reshape(rows.shape), rows)
    v = state[f"optimizer/residual/{name}"].reshape(rows.shape) + u
    s = np.stack([sent_of(spec, row, step) for row in v])
    kept = v - s
    assert (s + kept).tobytes() == v.tobytes(), "nothing is lost"
    out = {f"optimizer/residual/{name}": kept.reshape(g.shape)}
    if momentum:
        out[f"optimizer/velocity/{name}"] = np.where(s != 0, F32(0), u).reshape(g.shape)
    total = np.zeros_like(s[0])
    for row in s:
        total = total + row
    return out, s, total.reshape(g.shape[1:])
