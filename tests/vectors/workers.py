"""Vectors for gradients of workers, derived from dgx-lowerings(7), WORKERS, with Python's standard library:
/usr/bin/python3 tests/vectors/workers.py > tests/vectors/workers.json
/usr/bin/python3 tests/vectors/workers.py check      exits 1 unless workers.json is as it would be made"""
import json
import pathlib
import re
import sys

from placement import Access, Step, text_of, tree

HERE = pathlib.Path(__file__).resolve().parent
ONE = {"k": "input", "of": ["0x1p0"], "s": [1], "src": "constant", "t": "f32"}


def only_adds(line):
    """A chain of f32 that starts at +0, adds to acc in its last step, and reads it nowhere else."""
    if line["k"] != "chain" or line["t"] != "f32" or line["init"] != "0x0p0" or "do" not in line:
        return False
    operation, *operands = line["do"][-1].split(" ")
    others = line["do"][:-1] + line.get("when", [])
    return operation == "add" and operands.count("acc") == 1 and not any("acc" in step.split(" ") for step in others)


def later(text):
    """An operand or a symbol: iM is i(M+1)."""
    return f"i{int(text[1:]) + 1}" if re.fullmatch(r"i\d+", text) else text


def moved(steps, h):
    words = [[later(word) for word in step.split(" ")] for step in steps]
    if not any("k0" in step[1:] for step in words):
        return [" ".join(step) for step in words]
    rename = lambda word: "t1" if word == "k0" else f"t{int(word[1:]) + 2}" if re.fullmatch(r"t\d+", word) else word
    return [f"mul i0 {h}", "add k0 t0"] + [" ".join(step[:1] + list(map(rename, step[1:]))) for step in words]


def folds(line, workers):
    h = line["f"][0] // workers
    out = dict(line, s=[workers] + line["s"], f=[h] + line["f"][1:], x=[])
    if "i" in line:
        out["i"] = [workers] + line["i"]
    for access in map(Access, line["x"]):
        for c in access.coordinates:
            z = c.number("k0")
            c.terms = ([("i0", z * h)] if z else []) + [(later(symbol), number) for symbol, number in c.terms]
        out["x"].append(access.text())
    for key in ("do", "when"):
        if key in line:
            out[key] = moved(line[key], h)
    fits = len(out["s"]) <= 8 and len(out.get("i", [])) <= 8 and all(len(out.get(key, [])) <= 64 for key in ("do", "when"))
    fits = fits and all(len(c.terms) <= 16 for access in map(Access, out["x"]) for c in access.coordinates)
    return out if fits and len(text_of(dict(out, v=65535))) <= 3072 else None


def divided(lines, workers):
    step, out, number, one = Step(lines), [], {}, None
    renamed = lambda access: re.sub(r"^\d+", lambda v: str(number[int(v[0])]), access)
    for v, line in enumerate(lines):
        if line["k"] != "input" and one is None:
            one = len(out)
            out.append(dict(ONE))
        line = dict(line)
        if "x" in line:
            line["x"] = [renamed(access) for access in line["x"]]
        g = folds(line, workers) if step.of[v] == "C" and (line["k"] == "dot" or only_adds(line)) else None
        if g:
            indices = "".join(f",i{n}" for n in range(len(line["s"])))
            line = {key: line[key] for key in ("g", "s") if key in line}
            line.update(k="dot", t="f32", f=[workers], x=[f"{one}[0]", f"{len(out)}[k0{indices}]"])
            out.append(g)
        if {key: value for key, value in line.items() if key != "v"} == ONE:
            one = len(out)
        number[v] = len(out)
        out.append(line)
    for v, line in enumerate(out):
        line["v"] = v
        if "next" in line:
            line["next"] = number[line["next"]]
    return out


def vectors():
    for path in sorted((HERE / "placement").glob("*.program.jsonl")) + [HERE / "tasks/quickstart.program.jsonl"]:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        samples = Step(lines).samples
        for workers in [k for k in range(1, samples + 1) if samples % k == 0 and (k <= 16 or k == samples)]:
            made = [text_of(line) for line in divided(lines, workers)]
            classes = "".join(Step(list(map(json.loads, made)), workers).of)
            yield dict(program=str(path.relative_to(HERE)), workers=workers, lines=len(made), root=tree([line.encode() for line in made]).hex(),
                       classes=classes)


def main():
    text = json.dumps(list(vectors()), sort_keys=True, separators=(",", ":"))
    if sys.argv[1:] == ["check"]:
        sys.exit(None if text + "\n" == (HERE / "workers.json").read_text() else "workers.json is not what this makes")
    print(text)


if __name__ == "__main__":
    main()
