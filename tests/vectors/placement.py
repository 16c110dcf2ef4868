"""Vectors for the cutting of steps, derived from dgx-placement(7) with Python's standard library and NumPy's binary32:
/usr/bin/python3 tests/vectors/placement.py > tests/vectors/placement.json
/usr/bin/python3 tests/vectors/placement.py table      the table of dgx-placement(7), PARTS
/usr/bin/python3 tests/vectors/placement.py check      exits 1 unless placement.json is as it would be made; 77 without NumPy"""
import hashlib
import json
import math
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ACCESS = re.compile(r"(\d+)(?:@([\d.]+))?\[([^\]]*)\](?:\?(.*))?")
COORDINATE = re.compile(r"(?:\((.+)\)|(.+?))(?:(//?)(\d+))?")
SUMMAND = re.compile(r"([+-]?)(?:(\d+)\*)?([ik$]\d+|\d+)")
SIZES = {"f32": 4, "i64": 8, "u8": 1}


class Coordinate:
    def __init__(self, text):
        inside, plain, self.division, self.divisor = COORDINATE.fullmatch(text).groups()
        self.terms, self.constant = [], 0
        for sign, factor, symbol in SUMMAND.findall(inside or plain):
            number = int(sign + (factor or "1"))
            if symbol[0] in "ik$":
                self.terms.append((symbol, number))
            else:
                self.constant += number * int(symbol)

    def number(self, symbol):
        return sum(number for name, number in self.terms if name == symbol)

    def text(self):
        parts = [("-" if z < 0 else "+") + ("" if abs(z) == 1 else f"{abs(z)}*") + name for name, z in self.terms]
        constant = f"{self.constant:+}" if self.constant or not parts else ""
        first = parts and parts[0][0] == "-" and self.constant > 0
        total = "".join([constant] + parts if first else parts + [constant]).removeprefix("+")
        if not self.division:
            return total
        bare = len(self.terms) == 1 and self.constant == 0 and self.terms[0][1] == 1
        return (total if bare else f"({total})") + self.division + self.divisor


class Access:
    def __init__(self, text):
        value, view, coordinates, self.fill = ACCESS.fullmatch(text).groups()
        self.value = int(value)
        self.view = [int(d) for d in view.split(".")] if view else None
        self.coordinates = [Coordinate(c) for c in coordinates.split(",")] if coordinates else []

    def text(self):
        view = "@" + ".".join(map(str, self.view)) if self.view else ""
        fill = "" if self.fill is None else "?" + self.fill
        return f"{self.value}{view}[{','.join(c.text() for c in self.coordinates)}]{fill}"

    def names(self):
        return {int(symbol[1:]) for c in self.coordinates for symbol, _ in c.terms if symbol[0] == "$"}


def has_slices(shape, slices):
    return bool(shape) and shape[0] % slices == 0


class Step:
    """A step program, classed for so many slices."""

    def __init__(self, lines, slices=None):
        self.lines = lines
        batches = {line["s"][0] for line in lines if line.get("src", "").startswith("batch ")}
        assert len(batches) == 1
        self.samples = batches.pop()
        self.slices = slices or self.samples
        assert self.samples % self.slices == 0
        self.accesses = [[Access(text) for text in line.get("x", [])] for line in lines]
        self.of = []
        for line, accesses in zip(lines, self.accesses):
            self.of.append(self.class_of(line, accesses))
        self.candidates = {v for v, c in enumerate(self.of) if c == "C"}
        self.demote()
        self.body = self.needed_by({v for v, c in enumerate(self.of) if c in "SC" and not self.is_input(v)}, True)

    def is_input(self, v):
        return self.lines[v]["k"] == "input"

    def stays(self, line, access, letter):
        seen = access.view or self.lines[access.value]["s"]
        run = line.get("i", line["s"]) if letter == "i" else line.get("f", [])
        if not has_slices(seen, self.slices) or not has_slices(run, self.slices):
            return False
        m, j = seen[0] // self.slices, run[0] // self.slices
        first = access.coordinates[0]
        if first.division or any(symbol[0] == "$" for symbol, _ in first.terms) or first.number(letter + "0") * j != m:
            return False
        low = high = first.constant
        for symbol, z in first.terms:
            sizes = line.get("i", line["s"]) if symbol[0] == "i" else line["f"]
            most = z * ((j if symbol == letter + "0" else sizes[int(symbol[1:])]) - 1)
            low, high = low + min(most, 0), high + max(most, 0)
        return 0 <= low and high < m

    def class_of(self, line, accesses):
        if line["k"] == "input":
            kind = line["src"].split(" ")[0]
            return "S" if kind == "batch" or kind == "uniform" and has_slices(line["s"], self.slices) else "W"
        cut = [access for access in accesses if self.of[access.value] == "S"]
        if not cut:
            return "W"
        if has_slices(line["s"], self.slices) and has_slices(line.get("i", line["s"]), self.slices) and any(self.stays(line, a, "i") for a in cut):
            return "S"
        fold = line["k"] == "dot" or line["k"] == "chain" and line["t"] in ("f32", "i64")
        if all(self.is_input(access.value) for access in cut):
            return "W"
        return "C" if fold and has_slices(line["f"], self.slices) and all(self.stays(line, a, "k") for a in cut) else "W"

    def needed_by(self, lines, with_them):
        """What these lines depend on, directly or through others."""
        found, open_ = set(lines) if with_them else set(), list(lines)
        while open_:
            for access in self.accesses[open_.pop()]:
                if access.value not in found:
                    found.add(access.value)
                    open_.append(access.value)
        return found

    def demote(self):
        """Candidates that a line of class S or another candidate needs become W."""
        needed = self.needed_by({v for v, c in enumerate(self.of) if c in "SC" and not self.is_input(v)}, False)
        for v in self.candidates & needed:
            self.of[v] = "W"

    def whole(self, v, access):
        """An access of line v that needs a value of class S whole."""
        if self.of[access.value] != "S" or self.of[v] == "C":
            return False
        return self.of[v] == "W" or not self.stays(self.lines[v], access, "i")

    def gathers(self):
        pairs = [(a.value, v) for v in range(len(self.lines)) for a in self.accesses[v] if self.whole(v, a) and not self.is_input(a.value)]
        return list(dict.fromkeys(pairs))


    def divided(self):
        """Entries of which each rank has its slices alone."""
        nexts = [line.get("next") for line in self.lines]
        needs = {u for u, _ in self.gathers()}

        def is_divided(v, line):
            becomes = line.get("next")
            if not line.get("src", "").startswith("state ") or becomes is None or not has_slices(line["s"], self.slices):
                return False
            if self.of[becomes] != "S" or self.is_input(becomes) or becomes in needs or nexts.count(becomes) > 1:
                return False
            return all(self.of[r] == "S" and self.stays(self.lines[r], a, "i") for r in range(len(self.lines)) for a in self.accesses[r] if a.value == v)

        return [v for v, line in enumerate(self.lines) if is_divided(v, line)]

    def sparse(self):
        kept = {a.value for v in self.divided() for a in self.accesses[self.lines[v]["next"]]}

        def is_sent(v):
            last = self.lines[v].get("do", [""])[-1].split(" ")
            return v in kept and self.lines[v]["t"] == "f32" and last[0] == "select" and last[-1] == "0x0p0"

        of_slices = lambda v: self.of[v] == "C" and self.lines[v]["k"] == "dot" and self.lines[v]["f"] == [self.slices]
        return [v for v in range(len(self.lines)) if of_slices(v) and all(self.of[a.value] != "S" or is_sent(a.value) for a in self.accesses[v])]


class Piece:
    def __init__(self):
        self.lines, self.made, self.whole_ = [], {}, {}

    def add(self, fields):
        assert len(self.lines) < 65536
        line = dict(fields, v=len(self.lines))
        assert len(text_of(line)) <= 3072 and all(len(line.get(key, [])) <= 64 for key in ("do", "when", "x"))
        self.lines.append(line)
        return line["v"]

    def add_state(self, name, like):
        return self.add({"k": "input", "t": like["t"], "s": like["s"], "src": "state " + name})

    def any(self, v):
        return self.made.get(v, self.whole_.get(v))

    def root(self):
        return tree([text_of(line).encode() for line in self.lines]).hex()


def text_of(line):
    return json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def tree(leaves):
    """RFC 6962."""
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + tree(leaves[:half]) + tree(leaves[half:])).digest()


def shifted(steps, symbol, by):
    """A list of steps in which this index is `by` more."""
    words = [step.split(" ") for step in steps]
    if not any(symbol in step[1:] for step in words):
        return steps
    move = lambda word: "t0" if word == symbol else f"t{int(word[1:]) + 1}" if re.fullmatch(r"t\d+", word) else word
    return [f"add {symbol} {by}"] + [" ".join(step[:1] + [move(word) for word in step[1:]]) for step in words]


def local(step, a, b):
    piece, part = Piece(), b - a
    share = lambda shape: [shape[0] // step.slices * part] + shape[1:]
    whole = {x.value for v in step.body for x in step.accesses[v] if step.whole(v, x)}
    slices = {x.value for v in step.body for x in step.accesses[v] if not step.whole(v, x)}
    for v in sorted(step.body):
        line = {key: value for key, value in step.lines[v].items() if key != "next"}
        if step.is_input(v):
            if step.of[v] == "S":
                line["s"] = share(line["s"])
            if v in slices:
                piece.made[v] = piece.add(line)
        else:
            line = cut(step, piece, v, line, a, share)
            if step.of[v] == "C":
                carry = piece.add_state(f"carry/{v}", step.lines[v])
                piece.lines[carry]["next"] = carry + 1
                line = begun(line, carry) if line["k"] == "chain" and a > 0 else line
            piece.made[v] = piece.add(line)
        if v in whole:
            piece.whole_[v] = piece.add_state(f"value/{v}", step.lines[v])
    return piece


def cut(step, piece, v, line, a, share):
    of, letter = step.of[v], "k" if step.of[v] == "C" else "i"
    first = 0 if of == "W" else a * (line["f"] if of == "C" else line.get("i", line["s"]))[0] // step.slices
    for key in {"S": ("s", "i"), "C": ("f",), "W": ()}[of]:
        if key in line:
            line[key] = share(line[key])
    texts = []
    for text in step.lines[v]["x"] if "x" in step.lines[v] else []:
        access = Access(text)
        needs = step.whole(v, access)
        stays = of != "W" and step.of[access.value] == "S" and not needs
        access.value = (piece.whole_ if needs else piece.made)[access.value]
        if stays and access.view:
            access.view = share(access.view)
        for coordinate in access.coordinates[1 if stays else 0:]:
            coordinate.constant += coordinate.number(letter + "0") * first
        texts.append(access.text())
    if "x" in line:
        line["x"] = texts
    if first:
        for key in ("do", "when"):
            if key in line:
                line[key] = shifted(line[key], letter + "0", first)
    return line


def operands(line):
    return [word for key in ("do", "when") for step in line.get(key, []) for word in step.split(" ")[1:]]


def used(line):
    read = {int(word[1:]) for word in operands(line) + [line.get("init", "")] if re.fullmatch(r"x\d+", word)}
    if "do" not in line and line["x"]:
        read.add(0)
    return read | {n for m in read for n in Access(line["x"][m]).names()}


def begun(line, carry):
    """A chain that begins at its carry."""
    count = len(line.get("i", line["s"]))
    view = "@" + ".".join(map(str, line["i"])) if "i" in line else ""
    access = f"{carry}{view}[{','.join(f'i{n}' for n in range(count))}]"
    if line.get("i") == []:
        access = f"{carry}[{','.join('0' for _ in line['s'])}]"
    init = line.pop("init")
    x = list(line["x"])
    line = dict(line, x=x)
    if re.fullmatch(r"x\d+", init) and int(init[1:]) not in used(line):
        x[int(init[1:])] = access
        line["init"] = init
    else:
        line["init"] = f"x{len(x)}"
        x.append(access)
    kept = sorted(used(line))
    number = {old: new for new, old in enumerate(kept)}
    rename = lambda text, sign: re.sub(rf"(?<![\w]){sign}(\d+)\b", lambda m: f"{sign.strip(chr(92))}{number[int(m[1])]}", text)
    for key in ("do", "when"):
        if key in line:
            line[key] = [rename(step, "x") for step in line[key]]
    line["init"] = rename(line["init"], "x")
    line["x"] = [rename(x[n], r"\$") for n in kept]
    return line


def tail(step, again=frozenset()):
    """Lines of the body that are `again` are made in the tail, too."""
    body = step.body - again
    piece = Piece()
    rest = [v for v in range(len(step.lines)) if v not in body and not step.is_input(v)]
    divided = lambda v: step.of[v] == "S" and step.lines[v].get("src", "").startswith("state ")
    reads = {x.value for v in rest for x in step.accesses[v]} | {line["next"] for v, line in enumerate(step.lines) if "next" in line and not divided(v)}
    for v, line in enumerate(step.lines):
        if step.is_input(v):
            if v in reads or line["src"].startswith("state ") and not divided(v):
                piece.made[v] = piece.add(line)
        elif v not in body:
            texts = []
            for access in map(Access, line.get("x", [])):
                access.value = piece.any(access.value)
                texts.append(access.text())
            piece.made[v] = piece.add(dict(line, x=texts) if "x" in line else line)
        elif v in reads:
            piece.whole_[v] = piece.add_state(f"value/{v}", line)
    for line in piece.lines:
        if "next" in line:
            line["next"] = piece.any(line["next"])
    return piece


def head(step):
    """What the body gathers, made first; "state" if that depends on the state, "none" if it gathers nothing."""
    piece = Piece()
    needed = step.needed_by({u for u, v in step.gathers() if v in step.body}, True)
    if any(step.is_input(v) and step.lines[v]["src"].startswith("state ") for v in needed):
        return "state"
    for v in sorted(needed):
        line = dict(step.lines[v])
        if "x" in line:
            line["x"] = []
            for access in map(Access, step.lines[v]["x"]):
                access.value = piece.made[access.value]
                line["x"].append(access.text())
        piece.made[v] = piece.add(line)
    return piece.root() if needed else "none"


def parts_of(slices):
    """Unequal parts: two, three and five, as far as there are so many slices."""
    for count in (2, 3, 5):
        if count <= slices:
            bounds = [0] + [max(n, slices * n * (n + 1) // (count * (count + 1))) for n in range(1, count)] + [slices]
            yield [min(bound, slices - (count - n)) for n, bound in enumerate(bounds)]


def described(path, slices):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    step = Step(lines, slices)
    work = lambda v: math.prod(lines[v]["s"]) * math.prod(lines[v].get("f", [1])) * (0 if step.is_input(v) else 1)
    gathers = step.gathers()
    roots = lambda: [dict(bounds=bounds, roots=[local(step, a, b).root() for a, b in zip(bounds, bounds[1:])]) for bounds in parts_of(step.slices)]
    together, divided = dict(parts=roots(), head=head(step), tail=tail(step).root()), step.divided()
    on_ranks = {}
    if divided:
        for v in divided:
            step.of[v] = "S"
        on_ranks = dict(on_ranks=dict(divided=divided, parts=roots(), tail=tail(step).root()))
        for v in divided:
            step.of[v] = "W"
    return dict(
        program=str(path.relative_to(HERE)) if path.is_relative_to(HERE) else path.name, slices=step.slices, classes="".join(step.of),
        body="".join("1" if v in step.body else "0" for v in range(len(lines))), gathers=[list(pair) for pair in gathers],
        sparse=step.sparse(), **together, **on_ranks), dict(
        name=path.name.removesuffix(".program.jsonl"), samples=step.samples,
        counts=[sum(1 for v, c in enumerate(step.of) if c == letter and not step.is_input(v)) for letter in "SCW"],
        gathered=[len({u for u, v in gathers if (v in step.body) == inside}) for inside in (True, False)],
        whole=sum(work(v) for v, c in enumerate(step.of) if c == "W" and v in step.body) / sum(map(work, range(len(lines)))),
        carried=sum(math.prod(lines[v]["s"]) * SIZES[lines[v]["t"]] for v, c in enumerate(step.of) if c == "C"))


def programs():
    yield from ((path, None) for path in sorted((HERE / "placement").glob("*.program.jsonl")))
    yield HERE / "tasks/quickstart.program.jsonl", None
    yield HERE / "tasks/quickstart.program.jsonl", 4
    yield HERE / "tasks/compressed.program.jsonl", 6


def dot_states():
    """Dots that stop after some positions: the words that exist, and the dot in the end."""
    import numpy as np
    from kernels_ref import bits, fma, pattern

    for n, positions in ((1000, (1, 255, 256, 257, 511, 512, 999)), (9000, (255, 4095, 4096, 4097, 4352, 5000, 8191, 8192, 8193, 8999))):
        a, b = pattern(2 * n, n), pattern(2 * n + 1, n)
        block = group = total = np.float32(0)
        states = []
        for p in range(n):
            block = fma(a[p], b[p], block)
            if (p + 1) % 256 == 0:
                group, block = np.float32(group + block), np.float32(0)
            if (p + 1) % 4096 == 0:
                total, group = np.float32(total + group), np.float32(0)
            if p + 1 in positions:
                words = dict(block=block) if (p + 1) % 256 else {}
                words.update(dict(group=group) if (p + 1) % 4096 >= 256 else {})
                words.update(dict(total=total) if p + 1 >= 4096 else {})
                states.append(dict(n=n, position=p + 1, **{name: bits(word) for name, word in words.items()}))
        if n % 256:
            group = np.float32(group + block)
        if n % 4096:
            total = np.float32(total + group)
        yield from (dict(state, value=bits(total)) for state in states)


def main():
    try:
        import numpy  # noqa: F401
    except ImportError as missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    found = [described(path, slices) for path, slices in programs()]
    if sys.argv[1:] == ["table"]:
        for _, row in found[:-2]:
            print(row["name"], row["samples"], "/".join(map(str, row["counts"])), "/".join(map(str, row["gathered"])), row["carried"], f"{100 * row['whole']:.2f} %")
        return
    text = json.dumps(dict(programs=[vector for vector, _ in found], dot_states=list(dot_states())), sort_keys=True, separators=(",", ":"))
    if sys.argv[1:] == ["check"]:
        same = text + "\n" == (HERE / "placement.json").read_text()
        sys.exit(None if same else "placement.json is not what this makes")
    print(text)


if __name__ == "__main__":
    main()
