"""Vectors for lib/kernels/ref, derived from dgx-numerics(7) with exact arithmetic and numpy's binary32:
/usr/bin/python3 tests/vectors/kernels_ref.py > tests/vectors/kernels_ref.json"""
import json
import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np

getcontext().prec = 80
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")


def bits(value):
    return "%08x" % np.float32(value).view(np.uint32)


def round_f32(x):
    """The binary32 nearest to an exact number, ties to even. No overflow here."""
    x = Fraction(x)
    if x == 0:
        return np.float32(0)
    sign, x = (-1, -x) if x < 0 else (1, x)
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    if Fraction(2) ** exponent > x:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - 23, -149)
    return np.float32(sign * float(round(x / unit) * unit))


def pattern(seed, count):
    """splitmix64 of seed + n, as floats of both signs with exponents -12 … 12."""
    with np.errstate(over="ignore"):
        z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    sign = (z >> np.uint64(63)) << np.uint64(31)
    exponent = (np.uint64(115) + (z >> np.uint64(32)) % np.uint64(25)) << np.uint64(23)
    return (sign | exponent | (z & np.uint64(0x7FFFFF))).astype(np.uint32).view(np.float32)


def fma(a, b, c):
    return round_f32(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))


def dot(a, b):
    total = np.float32(0)
    for g in range(0, len(a), 4096):
        group = np.float32(0)
        for start in range(g, min(g + 4096, len(a)), 256):
            block = np.float32(0)
            for k in range(start, min(start + 256, len(a))):
                block = fma(a[k], b[k], block)
            group = np.float32(group + block)
        total = np.float32(total + group)
    return total


def total_sum(values):
    """Zeros behind the last value change nothing: a lane starts at +0 and so is never -0."""
    if len(values) == 0:
        return np.float32(0)
    while True:
        blocks = np.pad(values, (0, -len(values) % 2048)).reshape(-1, 64, 32)
        lanes = np.zeros((len(blocks), 32), np.float32)
        for row in range(64):
            lanes = lanes + blocks[:, row, :]
        for distance in (16, 8, 4, 2, 1):
            lanes = lanes[:, :distance] + lanes[:, distance:2 * distance]
        values = lanes[:, 0]
        if len(values) == 1:
            return values[0]


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def words(seed, stream, step, element):
    return philox([element & 0xFFFFFFFF, element >> 32, step & 0xFFFFFFFF, stream], [seed & 0xFFFFFFFF, seed >> 32])


def cosine(x):
    x = Decimal(float(x)) % (2 * PI)
    term, total, n = Decimal(1), Decimal(1), 0
    while abs(term) > Decimal("1e-70"):
        n += 2
        term *= -x * x / (n * (n - 1))
        total += term
    return round_f32(Fraction(total))


def normal(seed, stream, step, element):
    w = words(seed, stream, step, element)
    u, v = np.float32((w[0] >> 8) + 1) * np.float32(2.0 ** -24), np.float32(w[1] >> 8) * np.float32(2.0 ** -24)
    radius = np.sqrt(np.float32(-2) * round_f32(Fraction(Decimal(float(u)).ln())))
    return np.float32(radius * cosine(np.float32(float.fromhex("0x1.921fb6p+2")) * v))


def permuted(seed, n, epoch, x):
    half = ((n - 1).bit_length() + 1) // 2
    mask = (1 << half) - 1
    while True:
        left, right = x >> half, x & mask
        for r in range(6):
            left, right = right, left ^ (philox([right, epoch, r, 2 << 24], [seed & 0xFFFFFFFF, seed >> 32])[0] & mask)
        x = left << half | right
        if x < n:
            return x


def power(x, t):
    r = 1.0
    while t > 0:
        if t & 1:
            r *= x
        t >>= 1
        if t > 0:
            x *= x
    return r


def rate(p, s):
    lr, w = p["lr"], p["warmup"]
    if s < w:
        return lr * ((s + 1) / w)
    if p["kind"] == "constant":
        return lr
    if p["kind"] == "step":
        return lr * power(p["gamma"], (s - w) // p["every"])
    q = 1.0 if s >= p["total"] else (s - w) / (p["total"] - w)
    if p["kind"] == "linear":
        return p["minimum"] + (lr - p["minimum"]) * (1.0 - q)
    return p["minimum"] + (lr - p["minimum"]) * (0.5 * (1.0 + float(cosine(np.float32(math.pi * q)))))


def scalars(p, s):
    r, t = rate(p, s), s + 1
    return [bits(x) for x in (r, -r, r / (1.0 - power(p["beta1"], t)), 1.0 / math.sqrt(1.0 - power(p["beta2"], t)),
                              1.0 - r * p["wd"])]


def grouped():
    """Names of groups: the rate times the group's factor, and the group's decay."""
    p = dict(lr=0.003, beta1=0.9, beta2=0.999, every=7, gamma=0.1, minimum=1e-05, total=1000, kind="cosine", warmup=100)
    for factor, decay in ((0.1, 0.0), (3.0, 0.3), (1 / 3, 1e-30)):
        for s in (0, 99, 500, 1000):
            f = rate(p, s) * factor
            values = [bits(x) for x in (f, -f, f / (1.0 - power(p["beta1"], s + 1)), 1.0 - f * decay)]
            yield dict({k: v.hex() if isinstance(v, float) else v for k, v in p.items()}, factor=factor.hex(), wd=decay.hex(), step=s, values=values)


def schedules():
    common = dict(lr=0.003, beta1=0.9, beta2=0.999, wd=0.1, every=7, gamma=0.1, minimum=1e-05, total=1000)
    for kind in ("constant", "step", "cosine", "linear"):
        for warmup in (0, 100):
            p = dict(common, kind=kind, warmup=warmup)
            for s in (0, 1, 6, 7, 50, 99, 100, 101, 500, 998, 999, 1000, 123456):
                text = {k: v.hex() if isinstance(v, float) else v for k, v in p.items()}
                yield dict(text, step=s, values=scalars(p, s))


def fall(x, y, q):
    a = np.float32(float.fromhex("0x1.921fb54442d18p+1") * q)
    return y + (x - y) * (0.5 * (1.0 + float(cosine(a))))


def later_rate(lr, total, schedule, s):
    """The rate of step s by a schedule as a task holds it."""
    kind, w = schedule["kind"], schedule.get("warmup", 0)
    x = {key: float.fromhex(value) for key, value in schedule.items() if isinstance(value, str) and key != "kind"}
    if s < w:
        return lr * ((s + 1) / w)
    if kind == "inverse-sqrt":
        return lr / math.sqrt(s / w)
    if kind == "wsd":
        start = total - schedule["decay"]
        return lr if s < start else x["min"] + (lr - x["min"]) * (1.0 - (1.0 if s >= total else (s - start) / schedule["decay"]))
    if kind == "one-cycle":
        z = x["up"] * total - 1.0
        if s <= z:
            return fall(x["start"], lr, s / z)
        return fall(lr, x["end"], 1.0 if s >= total else (s - z) / ((total - 1) - z))
    if kind == "cosine":
        return fall(lr, x["min"], 1.0 if s >= total else schedule["cycles"] * (s - w) % (total - w) / (total - w))
    assert kind == "polynomial", kind
    d = 1.0 - (1.0 if s >= total else (s - w) / (total - w))
    p = power(d, int(x["power"]))
    if x["power"] % 1:
        p = p * math.sqrt(d)
    return x["min"] + (lr - x["min"]) * p


def rates():
    """Rates, and the same divided as Adagrad's may be."""
    low, total, ld = (1e-05).hex(), 1000, 0.01
    schedules = [dict(kind="cosine", cycles=c, min=low, warmup=w) for c in (2, 7) for w in (0, 100)]
    schedules += [dict(kind="polynomial", power=float(power).hex(), min=low, warmup=w) for power in (0.5, 1, 2, 2.5, 64) for w in (0, 100)]
    schedules += [dict(kind="inverse-sqrt", warmup=w) for w in (1, 100)]
    schedules += [dict(kind="wsd", decay=d, min=low, warmup=w) for d in (1, 333) for w in (0, 100)]
    schedules += [dict(kind="one-cycle", start=(0.003 / 25).hex(), end=low, up=up.hex()) for up in (0.3, 0.0123, 1.0)]
    for schedule in schedules:
        steps = (0, 1, 11, 12, 50, 99, 100, 101, 299, 300, 500, 666, 667, 668, 998, 999, 1000, 123456)
        found = [later_rate(0.003, total, schedule, s) for s in steps]
        yield dict(schedule=schedule, lr=(0.003).hex(), lr_decay=ld.hex(), total=total, steps=steps, rates=[bits(r) for r in found],
                   decayed=[bits(-(r / (1.0 + s * ld))) for r, s in zip(found, steps)])


def main():
    orders = [("0", 1, 1), ("1", 2, 1), ("7", 3, 2), ("deadbeefcafe", 100, 7), ("ffffffffffffffff", 60000, 128), ("5", 4097, 32)]
    vectors = {
        "dot": [dict(n=n, value=bits(dot(pattern(2 * n, n), pattern(2 * n + 1, n))))
                for n in (0, 1, 2, 255, 256, 257, 4095, 4096, 4097, 9000)],
        "sum": [dict(n=n, value=bits(total_sum(pattern(n, n))))
                for n in (0, 1, 2, 31, 32, 33, 64, 2047, 2048, 2049, 4095, 4096, 4097, 100000, 4194304, 4194305)],
        "words": [dict(seed="%x" % s, stream=st, step=t, element=e, words=["%08x" % w for w in words(s, st, t, e)],
                       normal=bits(normal(s, st, t, e)))
                  for s in (0, 1, 0x123456789ABCDEF0) for st in (1 << 24, (3 << 24) + 5) for t in (0, 99) for e in (0, 1, 7 << 32)],
        "order": [dict(seed=s, n=n, batch=b, step=t,
                       indices=[permuted(int(s, 16), n, p // n, p % n) for p in range(t * b, t * b + b)])
                  for s, n, b in orders for t in (0, 1, 500)],
        "rates": list(rates()),
        "schedule": list(schedules()),
        "schedule_group": list(grouped()),
    }
    print(json.dumps(vectors, sort_keys=True, separators=(",", ":")))


if __name__ == "__main__":
    main()
