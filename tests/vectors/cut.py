"""Vectors for cuts, derived from dgx-lowerings(7), AQ-SGD, with Python's standard library:
/usr/bin/python3 tests/vectors/cut.py > tests/vectors/cut.json
/usr/bin/python3 tests/vectors/cut.py check      exits 1 unless cut.json is as it would be made"""
import json
import pathlib
import random
import re
import sys

from dgc import f32, fma
from placement import Access, text_of, tree

HERE = pathlib.Path(__file__).resolve().parent


def hexed(number):
    """As a program writes a float: -0x1p+1 is -0x1p1."""
    sign, digits, exponent = re.fullmatch(r"(-?)0x1\.?([0-9a-f]*?)0*p\+?(-?\d+)", float(number).hex()).groups()
    return f"{sign}0x1{'.' if digits else ''}{digits}p{exponent}"


def quantised(rows, h):
    """a and the codes of each row."""
    sizes = [max(map(abs, row)) for row in rows]
    level = lambda x, a: int(min(max(round(f32(f32(x / a) * h)), -h), h - 1) + h)
    return sizes, [[level(x, a) if a else h for x in row] for row, a in zip(rows, sizes)]


def forward(m, y, batch, h, first, step):
    """What a step makes of m, and what it sends."""
    o = [m[sample] for sample in batch]
    a, codes = quantised([[f32(p - q) for p, q in zip(*rows)] for rows in zip(y, o)], h)
    early = step < first
    plain = [[x if early else 0.0 for x in row] for row in y]
    new = plain if early else [[fma(f32(code - h), f32(size / h), q) for code, q in zip(*rows)] for size, *rows in zip(a, codes, o)]
    place = [max((k for k, sample in enumerate(batch) if sample == row), default=-1) for row in range(len(m))]
    after = [new[k] if k >= 0 else row for k, row in zip(place, m)]
    return dict(a=a, code=codes, plain=plain, new=new, place=place, m=after)


def backward(g, h):
    a, codes = quantised(g, h)
    return dict(a=a, code=codes, gradient=[[f32(f32(code - h) * f32(size / h)) for code in row] for size, row in zip(a, codes)])


def written(value):
    if isinstance(value, list):
        return [written(each) for each in value]
    return value.hex() if isinstance(value, float) else value


def steps():
    chance = random.Random(7)
    number = lambda: f32(chance.gauss(0, 1) * chance.random() ** 3)
    for bits, first, batch in ((2, 3, [4, 1, 5, 1]), (2, 0, [0, 3, 2, 5]), (3, 0, [5, 5, 5, 5]), (8, 12, [2, 4, 0, 3]), (8, 2, [1, 0, 3, 4])):
        m, y, g = ([[number() for _ in range(7)] for _ in range(n)] for n in (6, 4, 4))
        y[3] = list(m[batch[3]])  # nothing to send
        y[2][4] = f32(m[batch[2]][4] + 1e-30)
        g[1] = [0.0] * 7
        g[2] = [f32(x * 2.0**-140) for x in g[2]]
        h = 2 ** (bits - 1)
        yield dict(bits=bits, first=first, step=3, batch=batch, before=written(m), y=written(y), g=written(g),
                   forward={key: written(value) for key, value in forward(m, y, batch, h, first, 3).items()},
                   backward={key: written(value) for key, value in backward(g, h).items()})


def message(name, of, h, like):
    """The lines of a and code."""
    n, r = like
    yield name + "a", dict(k="max", t="f32", s=[n], f=[r], do=["abs x0"], x=[(of, "[i0,k0]")])
    yield name + "code", dict(k="map", t="u8", s=[n, r], do=[
        "eq x0 0x0p0", "div x1 x0", f"mul t1 {hexed(h)}", "rint t2", f"max t3 {hexed(-h)}", f"min t4 {hexed(h - 1)}", f"add t5 {hexed(h)}", "i64 t6", f"select t0 {h} t7"],
        x=[(name + "a", "[i0]"), (of, "[i0,i1]")])


def lines_forward(samples, like, h, first):
    n, r = like
    row = "[i0,i1]"
    yield "o", dict(k="map", t="f32", s=[n, r], x=[("m", "[$1,i1]?0x0p0"), ("j", "[i0]")])
    yield "d", dict(k="map", t="f32", s=[n, r], do=["sub x0 x1"], x=[("y", row), ("o", row)])
    yield from message("", "d", h, like)
    received = [f"sub t0 {hexed(h)}", f"div x1 {hexed(h)}", "fma t1 t2 x2"]
    if first:
        yield "plain", dict(k="map", t="f32", s=[n, r], do=[f"lt x0 {first}", "select t0 x1 0x0p0"], x=[("step", "[]"), ("y", row)])
        steps = [f"lt x0 {first}", "f32 x1", f"sub t1 {hexed(h)}", f"div x2 {hexed(h)}", "fma t2 t3 x3", "select t0 x4 t4"]
        yield "new", dict(k="map", t="f32", s=[n, r], do=steps, x=[("step", "[]"), ("code", row), ("a", "[i0]"), ("o", row), ("plain", row)])
    else:
        yield "new", dict(k="map", t="f32", s=[n, r], do=["f32 x0"] + received, x=[("code", row), ("a", "[i0]"), ("o", row)])
    yield "place", dict(k="chain", t="i64", s=[samples], f=[n], init="-1", when=["eq x0 i0"], do=["add k0 0"], x=[("j", "[k0]")])
    yield "next", dict(k="map", t="f32", s=[samples, r], do=["ge x0 0", "select t0 x1 x2"], x=[("place", "[i0]"), ("new", "[$0,i1]?0x0p0"), ("m", row)])


def lines_backward(like, h):
    yield from message("back ", "gradient", h, like)
    yield "returned", dict(k="map", t="f32", s=like, do=["f32 x0", f"sub t0 {hexed(h)}", f"div x1 {hexed(h)}", "mul t1 t2"], x=[("back code", "[i0,i1]"), ("back a", "[i0]")])


def program(plain, samples, block, bits, first):
    """The step program of the perceptron of placement/regression with a cut behind its first layer."""
    old = [json.loads(line) for line in plain.read_text().splitlines()]
    provenance = f"cut {block}"
    activation = next(v for v, line in enumerate(old) if line.get("g", "").endswith(" relu"))
    later = next(v for v, line in enumerate(old) if line.get("g", "").endswith(" threshold_backward"))
    gradient = int(re.match(r"\d+", old[later]["x"][1])[0])
    like = old[activation]["s"]
    source = lambda line: line.get("src", "")
    out = []  # (name, line) in order; names are old numbers, or those of the cut
    for v, line in enumerate(old):
        if source(line) == "state step":
            out.append(("m", dict(k="input", t="f32", s=[samples, like[1]], src=f"state optimizer/message/{block}", next="next")))
        if source(line) == "batch x":
            out.append(("j", dict(k="input", t="i64", s=[like[0]], src="batch i")))
        if v == later:
            out += [(name, dict(each, g=provenance)) for name, each in lines_backward(like, 2 ** (bits[1] - 1))]
        line = dict(line)
        call = re.fullmatch(r"(\d+) (.*)", line.get("g", ""))
        if call and v > activation:  # the copy that is captured at a cut is a call, too
            line["g"] = f"{int(call[1]) + (2 if v >= later else 1)} {call[2]}"
        if "x" in line:
            renamed = {activation: "new"} if v != later else {gradient: "returned"}
            line["x"] = [(renamed.get(access.value, access.value), access.text()[len(str(access.value)):]) for access in map(Access, line["x"])]
        out.append((v, line))
        if v == activation:
            out += [(name, dict(each, g=provenance)) for name, each in lines_forward(samples, like, 2 ** (bits[0] - 1), first)]
    names = {name: n for n, (name, _) in enumerate(out)}
    names |= dict(y=names[activation], gradient=names[gradient], step=next(n for n, (_, line) in enumerate(out) if source(line) == "state step"))
    for v, (_, line) in enumerate(out):
        line["v"] = v
        if "x" in line:
            line["x"] = [f"{names[name]}{access}" for name, access in line["x"]]
        if "next" in line:
            line["next"] = names[line["next"]]
    return [line for _, line in out]


def is_as_written(lines, samples, block, bits, first):
    """True if the lines of a cut in a program of any model are those of the page, in their order, but for how they see y and the gradient."""
    found = [line for line in lines if line.get("g") == f"cut {block}"]
    like = next(line["s"] for line in found if line["t"] == "u8")
    wanted = [*lines_forward(samples, like, 2 ** (bits[0] - 1), first), *lines_backward(like, 2 ** (bits[1] - 1))]
    names = {line["v"]: name for line, (name, _) in zip(found, wanted)}
    names |= {line["v"]: {f"state optimizer/message/{block}": "m", "batch i": "j", "state step": "step"}.get(line.get("src"), names.get(line["v"])) for line in lines}
    seen = lambda access: (names[access.value], access.text()[len(str(access.value)):]) if names[access.value] else None
    same = lambda text, of: of[0] in ("y", "gradient") or seen(Access(text)) == of
    entry = next(line for line in lines if names[line["v"]] == "m")
    return len(found) == len(wanted) and names[entry["next"]] == "next" and all(
        {key: value for key, value in line.items() if key not in "gvx"} == {key: value for key, value in of.items() if key != "x"}
        and len(line["x"]) == len(of["x"]) and all(map(same, line["x"], of["x"])) for line, (_, of) in zip(found, wanted))


def programs():
    for bits, first in (((2, 8), 4), ((3, 4), 0), ((8, 2), 1)):
        lines = program(HERE / "placement/regression.program.jsonl", 40, 1, bits, first)
        made = [text_of(line) for line in lines]
        codes = [line["v"] for line in lines if line["t"] == "u8"]
        yield dict(block=1, forward=bits[0], backward=bits[1], first=first, samples=40, lines=len(made), root=tree([line.encode() for line in made]).hex(), codes=codes)


def messages():
    """Codes as they cross a network (dgx-placement(7), CODINGS): one integer, of which the bytes are the message, the lowest first."""
    chance = random.Random(11)
    for bits in range(1, 8):
        for count in (0, 1, 7, 8, 9, 1003):
            numbers = [chance.randrange(2 ** bits) for _ in range(count)]
            whole = sum(number << bits * n for n, number in enumerate(numbers))
            yield dict(bits=bits, numbers=numbers, message=whole.to_bytes((bits * count + 7) // 8, "little").hex())


def main():
    text = json.dumps(dict(steps=list(steps()), programs=list(programs()), messages=list(messages())), sort_keys=True, separators=(",", ":"))
    if sys.argv[1:] == ["check"]:
        sys.exit(None if text + "\n" == (HERE / "cut.json").read_text() else "cut.json is not what this makes")
    if sys.argv[1:] == ["program"]:  # placement/cut
        for line in program(HERE / "placement/regression.program.jsonl", 40, 1, (2, 8), 4):
            print(text_of(line))
        return
    print(text)


if __name__ == "__main__":
    main()
