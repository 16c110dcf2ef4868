"""Vectors for the optimiser dgc, derived from dgx-lowerings(7), DGC and WORKERS, with Python's standard library:
/usr/bin/python3 tests/vectors/dgc.py > tests/vectors/dgc.json
/usr/bin/python3 tests/vectors/dgc.py check      exits 1 unless dgc.json is as it would be made"""
import itertools
import json
import math
import pathlib
import random
import re
import struct
import sys
from decimal import Decimal, getcontext
from fractions import Fraction

from placement import Access, Step, text_of, tree
from workers import ONE, folds, later, only_adds

HERE = pathlib.Path(__file__).resolve().parent
getcontext().prec = 60


def f32(x):
    """A binary64, or a quotient of integers, rounded to binary32. Sums, products, quotients and roots of binary32 may be rounded to binary64 first."""
    if isinstance(x, Fraction):
        if x == 0:
            return 0.0
        # Rounded to odd at 53 bits, and then once more.
        shift = 52 - (x.numerator.bit_length() - x.denominator.bit_length())
        scaled = x * Fraction(2) ** shift
        low = math.floor(scaled)
        x = math.ldexp(low | 1 if scaled != low else low, -shift)
    return struct.unpack("<f", struct.pack("<f", x))[0]


def fma(a, b, c):
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return f32(exact) if exact else a * b + c


def power_of_two(exponent):
    """2^exponent, rounded once."""
    exact = Decimal(2) ** exponent
    near = f32(float(exact))
    bits = struct.unpack("<I", struct.pack("<f", near))[0]
    around = [struct.unpack("<f", struct.pack("<I", bits + step))[0] for step in (-1, 0, 1)]
    return min(around, key=lambda number: abs(Decimal(number) - exact))


def fold_sum(terms):
    """A sum of at most 2,048 terms: dgx-numerics(7), FOLDS."""
    assert len(terms) <= 2048
    lanes = [0.0] * 32
    for position, term in enumerate(terms):
        lanes[position % 32] = f32(lanes[position % 32] + term)
    for distance in (16, 8, 4, 2, 1):
        lanes = [f32(lanes[lane] + lanes[lane + distance]) for lane in range(distance)]
    return lanes[0]


def sample(n):
    most = min(n // 65536, 100)
    stride = max([s for s in range(1, most + 1) if math.gcd(s, n) == 1], default=1)
    return stride, -(-n // stride)


def wanted(options, m):
    densities = [max(d, options["density"]) for d in (0.25, 0.0625, 0.015625, 0.00390625)] + [options["density"]]
    return [max(1, math.ceil(d * float(m))) for d in densities]


def want_at(options, m, step):
    warmup = options.get("warmup", 0)
    quarters = [n for n in range(1, 5) if 4 * step < n * warmup]
    return wanted(options, m)[quarters[0] - 1 if quarters else 4]


def threshold(sizes, want):
    """h of a worker whose sample has these sizes."""
    t = max(sizes)
    for b in (Decimal(2), Decimal(1) / 4, Decimal(1) / 32, Decimal(1) / 256):
        c = [f32(t * power_of_two(-j * b)) for j in range(8)]
        t = c[0]
        for candidate in c:
            if sum(size >= candidate for size in sizes) < want:
                t = candidate
    return f32(t * power_of_two(Decimal(-1) / 256))


def step_of_worker(options, workers, want, stride, u, v, g):
    """u' and v' as they become entries, and s."""
    if "clip" in options:
        bound = f32(options["clip"] / math.sqrt(workers))
        length = f32(math.sqrt(fold_sum([f32(x * x) for x in g])))
        scale = min(f32(bound / f32(length + float.fromhex("0x1.0c6f7ap-20"))), 1.0)
        g = [f32(x * scale) for x in g]
    if options["momentum"]:
        u = [fma(f32(options["momentum"]), a, b) for a, b in zip(u, g)]
    else:
        u = g
    v = [f32(a + b) for a, b in zip(v, u)]
    h = threshold([abs(x) for x in v[::stride]], want)
    s = [x if abs(x) >= h else 0.0 for x in v]
    if options.get("bits") == 8:
        s = [f32(f32(x * 65537.0) - f32(f32(x * 65537.0) - x)) if x else 0.0 for x in s]
    return dict(velocity=[0.0 if x else a for a, x in zip(u, s)], residual=[f32(a - b) for a, b in zip(v, s)], sent=s), v


def numbers(values):
    return [float(value).hex() for value in values]


def update(name, options, workers, shape, step, make):
    chance, n = random.Random(name), math.prod(shape)
    stride, m = sample(n)
    want = want_at(options, m, step)
    given, made, total = dict(velocity=[], residual=[], gradient=[]), dict(velocity=[], residual=[]), [0.0] * n
    for worker in range(workers):
        u, v, g = ([f32(make(chance)) for _ in range(n)] for _ in range(3))
        for key, values in zip(("velocity", "residual", "gradient"), (u, v, g)):
            given[key] += numbers(values)
        rows, whole = step_of_worker(options, workers, want, stride, u, v, g)
        sent = rows.pop("sent")
        assert all(f32(a + b) == c for a, b, c in zip(sent, rows["residual"], whole)), "s + v is v'"
        assert make is not heavy or want <= sum(map(bool, sent)) <= want + 2, "the threshold has enough, and hardly more"
        for key, values in rows.items():
            made[key] += numbers(values)
        total = [f32(a + b) for a, b in zip(total, sent)]
    if not options["momentum"]:
        del given["velocity"], made["velocity"]
    text = ",".join(f"{key}={value}" for key, value in options.items())
    return dict(optimizer="dgc:" + text, workers=workers, shape=shape, step=step, given=given, next=made, update=numbers(total))


def heavy(chance):
    return chance.gauss(0, 1) * chance.random() ** 3


def updates():
    plain = dict(momentum=0.9, density=0.01)
    yield update("plain", plain, 3, [4, 50], 0, heavy)
    yield update("bits", dict(plain, bits=8, clip=0.5), 2, [5, 3, 10], 0, heavy)
    for step in (0, 1, 2, 3, 4, 5, 9):
        yield update(f"warm-up {step}", dict(momentum=0.5, density=0.02, warmup=5), 2, [47], step, heavy)
    yield update("no momentum", dict(momentum=0, density=0.5, clip=100), 4, [3, 11], 0, heavy)
    yield update("all", dict(momentum=0.75, density=1), 2, [17], 0, heavy)
    yield update("one", dict(momentum=0.9, density=0.001, bits=8), 1, [], 3, heavy)
    yield update("zeros", plain, 2, [20], 0, lambda chance: 0.0)
    yield update("ties", plain, 2, [40], 0, lambda chance: chance.choice((-1.0, 1.0)))
    yield update("small", dict(plain, bits=8), 2, [40], 0, lambda chance: math.ldexp(chance.gauss(0, 1), -145))
    yield update("far apart", dict(plain, density=0.5), 2, [40], 0, lambda chance: math.ldexp(1, chance.randrange(-100, 100)))


# Rows of gradients.

LINEAR, OTHER, CONSTANT, ZERO = "linear", "other", "constant", "zero"


def product(a, b):
    if OTHER in (a, b) or a == b == LINEAR:
        return OTHER
    return LINEAR if LINEAR in (a, b) else CONSTANT


def summed(a, b):
    return b if a == ZERO else a if b == ZERO or a == b else OTHER


def degrees(line, steps, access_degrees):
    found = []
    for text in steps:
        operation, *operands = text.split(" ")
        at = []
        for word in operands:
            if word == "acc":
                at.append(OTHER)
            elif re.fullmatch(r"[xt]\d+", word):
                at.append((access_degrees if word[0] == "x" else found)[int(word[1:])])
            else:
                at.append(ZERO if word in ("0x0p0", "-0x0p0") else CONSTANT)
        constant = lambda degree: degree in (ZERO, CONSTANT)
        if operation in ("add", "sub"):
            found.append(summed(*at))
        elif operation == "mul":
            found.append(product(*at))
        elif operation == "fma":
            found.append(summed(product(at[0], at[1]), at[2]))
        elif operation in ("neg", "f32"):
            found.append(at[0])
        elif operation == "div":
            found.append(product(*at) if constant(at[1]) else OTHER)
        elif operation == "select":
            found.append(summed(at[1], at[2]) if constant(at[0]) else OTHER)
        else:
            found.append(CONSTANT if all(map(constant, at)) else OTHER)
    return found


def is_linear(line, has_rows):
    if line["k"] == "input" or line["t"] != "f32":
        return False
    accesses = [Access(text) for text in line["x"]]
    if any(has_rows[a.value] and a.fill not in (None, "0x0p0", "-0x0p0") for a in accesses):
        return False
    of = [LINEAR if has_rows[a.value] else CONSTANT for a in accesses]
    if line["k"] == "dot":
        return product(of[0], of[1]) == LINEAR
    if line["k"] not in ("map", "sum") and not only_adds(line):
        return False
    if "do" not in line:
        return bool(of) and of[0] == LINEAR
    if line["k"] != "chain":
        return degrees(line, line["do"], of)[-1] == LINEAR
    if "when" in line and degrees(line, line["when"], of)[-1] != CONSTANT:
        return False
    other = next(word for word in line["do"][-1].split(" ")[1:] if word != "acc")
    return degrees(line, line["do"][:-1] + [f"f32 {other}"], of)[-1] == LINEAR


def of_rows(line, workers, rows):
    out = dict(line, s=[workers] + line["s"], x=[])
    if "i" in line:
        out["i"] = [workers] + line["i"]
    for access in map(Access, line["x"]):
        for c in access.coordinates:
            c.terms = [(later(symbol), number) for symbol, number in c.terms]
        text = access.text()
        if access.value in rows:
            _, view, coordinates = re.fullmatch(r"(\d+)(@[\d.]+)?\[(.*)", text, re.S).groups()
            view = f"@{workers}." + view[1:] if view else ""
            text = f"{rows[access.value]}{view}[i0" + ("" if coordinates.startswith("]") else ",") + coordinates
        out["x"].append(text)
    for key in ("do", "when"):
        if key in line:
            out[key] = [" ".join(map(later, text.split(" "))) for text in line[key]]
    return out


def fits(line):
    return len(line["s"]) <= 8 and len(line.get("i", [])) <= 8 and len(text_of(dict(line, v=65535))) <= 3072


def ways(lines, workers):
    """By line: "folds" or "linear" if it has rows, else None."""
    step = Step(lines)
    candidates = [step.class_of(line, accesses) for line, accesses in zip(lines, step.accesses)]
    found = []
    for v, line in enumerate(lines):
        if candidates[v] == "C":
            found.append("folds" if (line["k"] == "dot" or only_adds(line)) and folds(line, workers) else None)
        elif candidates[v] == "W" and is_linear(line, found) and fits(of_rows(line, workers, {})):
            found.append("linear")
        else:
            found.append(None)
    return found


def rows_of(lines, value, workers, way):
    """The lines of a value's rows, behind the program's."""
    needed, open_ = {value}, [value]
    while open_:
        line = open_.pop()
        if way[line] == "linear":
            for access in map(Access, lines[line]["x"]):
                if way[access.value] and access.value not in needed:
                    needed.add(access.value)
                    open_.append(access.value)
    rows, out = {}, []
    for v in sorted(needed):
        made = folds(lines[v], workers) if way[v] == "folds" else of_rows(lines[v], workers, rows)
        rows[v] = len(lines) + len(out)
        out.append(dict(made, v=rows[v]))
    return out


def gradients(lines):
    """By parameter, the value that its update takes: the lines that Adam or SGD have in the programs stored here, read from their ends."""
    found = {}
    for line in lines:
        if line.get("src", "").startswith("state optimizer/") and "/" in line["src"].partition("/")[2]:
            kind, _, name = line["src"].partition("/")[2].partition("/")
            reads = {a.value for a in map(Access, lines[line["next"]]["x"])}
            computed = sorted(v for v in reads if lines[v]["k"] != "input")
            if len(computed) == 1 and kind in ("momentum", "exp_avg"):
                found[name] = computed[0]
    return found


def stored_rows():
    for path in sorted((HERE / "placement").glob("*.program.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        samples = Step(lines).samples
        for workers in [k for k in range(2, samples + 1) if samples % k == 0]:
            way = ways(lines, workers)
            having = "".join({"folds": "F", "linear": "L", None: "-"}[w] for w in way)
            made = {}
            for name, value in gradients(lines).items():
                made[name] = dict(value=value, lines=[])
                if way[value]:
                    made[name]["root"] = tree([text_of({k: x for k, x in line.items() if k != "g"}).encode() for line in rows_of(lines, value, workers, way)]).hex()
                del made[name]["lines"]
            yield dict(program=str(path.relative_to(HERE)), workers=workers, having=having, gradients=made)


def coded(values):
    """dgx-placement(7), CODINGS."""
    bits = [struct.unpack("<I", struct.pack("<f", value))[0] for value in values]
    places = [n for n, b in enumerate(bits) if b]
    width = 4 if any(bits[n] & 0xFFFF for n in places) else 2
    out, count = bytearray([width]), len(places)
    while count >= 0x80:
        out.append(count & 0x7F | 0x80)
        count >>= 7
    out.append(count)
    if not places:
        return bytes(out)
    share = (len(values) // len(places)) * 177 // 256
    low = max(share.bit_length() - 1, 0)
    text = ""
    for before, place in zip([-1] + places, places):
        gap = place - before - 1
        text += "1" * (gap >> low) + "0" + "".join(str(gap >> n & 1) for n in range(low))
    text += "0" * (-len(text) % 8)
    out += bytes(int(text[n:n + 8][::-1], 2) for n in range(0, len(text), 8))
    for n in places:
        out += struct.pack("<I", bits[n])[4 - width:]
    return bytes(out)


def codings():
    chance = random.Random(1)
    for n, kept in ((0, 0), (1, 0), (1, 1), (5, 5), (1000, 0), (1000, 1), (1000, 3), (1000, 130), (1000, 999), (3000, 300), (70000, 70), (70000, 200)):
        for halves in (False, True):
            places = sorted(chance.sample(range(n), kept))
            values = [f32(chance.choice((chance.gauss(0, 1), math.ldexp(1, -149), -0.0))) for _ in places]
            if halves:
                values = [f32(round(value * 16) / 16) or -0.0 for value in values]
            whole = [0.0] * n
            for place, value in zip(places, values):
                whole[place] = value
            yield dict(count=n, places=places, values=[struct.unpack("<I", struct.pack("<f", value))[0] for value in values], coded=coded(whole).hex())


def vectors():
    sizes = [1, 2, 97, 65535, 65536, 65537, 131071, 131072, 131073, 200704, 196611, 589824, 6553600, 6553601, 7000003, 44564480, 2 ** 40, 2 ** 53]
    return dict(samples=[dict(elements=n, stride=sample(n)[0], count=sample(n)[1]) for n in sizes],
                wanted=[dict(density=float(d).hex(), count=m, wanted=wanted(dict(density=d), m))
                        for d, m in itertools.product((1e-300, 1e-3, 0.004, 1 / 3, 0.5, 1.0), (1, 10, 97, 65536, 66667))],
                updates=list(updates()), codings=list(codings()), rows=list(stored_rows()))


def main():
    text = json.dumps(vectors(), sort_keys=True, separators=(",", ":"))
    if sys.argv[1:] == ["check"]:
        sys.exit(None if text + "\n" == (HERE / "dgc.json").read_text() else "dgc.json is not what this makes")
    print(text)


if __name__ == "__main__":
    main()
