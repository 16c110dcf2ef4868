"""Vectors for experts that are at home on one rank each, derived from dgx-placement(7), EXPERTS and CODINGS, with Python's standard library:
/usr/bin/python3 tests/vectors/experts.py > tests/vectors/experts.json
/usr/bin/python3 tests/vectors/experts.py table      what a step moves for each number of ranks, and what is carried without homes
/usr/bin/python3 tests/vectors/experts.py check      exits 1 unless experts.json is as it would be made"""
import json
import math
import random
import sys

import placement
from placement import HERE, Piece, Step


class Experts:
    def __init__(self, step, watched=()):
        self.step, lines = step, step.lines
        self.count = len(lines)
        is_line = lambda v: not step.is_input(v)
        fans = {}
        for v in range(self.count):
            if self.is_dispatch(v):
                fans.setdefault(tuple(access.value for access in step.accesses[v]), []).append(v)
        self.fan = {v: read for read, dispatches in fans.items() if len(dispatches) > 1 for v in dispatches}
        self.branch = {v: {v} for v in self.fan}  # by dispatch: the dispatches of its branch
        self.joined, self.entries = {}, {}  # by line, and by entry, the first dispatch that is found
        for v in sorted(step.body):
            if is_line(v) and v not in self.fan:
                self.join(v)
        bad, good = set(), set()
        for v in sorted(step.body):
            for access in step.accesses[v]:
                u = access.value
                if u not in self.joined or v in self.joined and self.first(self.joined[v]) == self.first(self.joined[u]):
                    continue
                if not (step.of[v] == "S" == step.of[u] and not step.whole(v, access)):
                    bad.add(self.first(self.joined[u]))
        for dispatch in self.entries.values():
            good.add(self.first(dispatch))
        self.all = sorted({self.first(d) for d in self.joined.values()} & good - bad)
        self.of = {v: self.first(d) for v, d in self.joined.items() if self.first(d) in self.all}
        self.add_tail(set(watched))

    def is_dispatch(self, v):
        line, accesses = self.step.lines[v], self.step.accesses[v]
        if line["k"] != "map" or line["t"] != "f32" or line.get("do") or len(accesses) != 2 or self.step.of[v] != "S":
            return False
        rows, numbers = accesses
        is_index = lambda c: c.terms == [("$1", 1)] and c.constant == 0 and not c.division
        return self.step.of[rows.value] == "S" == self.step.of[numbers.value] and self.step.lines[numbers.value]["t"] == "i64" and any(map(is_index, rows.coordinates))

    def first(self, dispatch):
        return min(self.branch[dispatch])

    def join(self, v):
        reads = {self.first(u if u in self.fan else self.joined[u]) for u in (a.value for a in self.step.accesses[v]) if u in self.fan or u in self.joined}
        if len(reads) != 1:
            return
        self.joined[v] = reads.pop()
        for access in self.step.accesses[v]:
            e = access.value
            if not self.step.lines[e].get("src", "").startswith("state "):
                continue
            if e not in self.entries:
                self.entries[e] = self.joined[v]
                continue
            one, other = self.branch[self.entries[e]], self.branch[self.joined[v]]
            if one is not other and not {self.fan[d] for d in one} & {self.fan[d] for d in other}:
                one |= other
                for dispatch in other:
                    self.branch[dispatch] = one

    def add_tail(self, watched):
        """Of lines of the tail and entries, -1: of none. Those that nothing has decided are not in `of`."""
        step, of = self.step, self.of
        in_body = lambda v: v in step.body and not step.is_input(v)
        tail = [v for v in range(self.count) if not in_body(v) and not step.is_input(v)]
        entries = [v for v in range(self.count) if step.lines[v].get("src", "").startswith("state ")]
        becomes = {v: step.lines[v]["next"] for v in entries if "next" in step.lines[v]}
        reads = [[a.value for a in accesses] for accesses in step.accesses]
        read_by_body = {u for v in step.body for u in reads[v]}
        readers = {v: [] for v in range(self.count)}
        for v in tail:
            for u in set(reads[v]):
                readers[u].append(v)
        for v in range(self.count):
            if in_body(v):
                of.setdefault(v, -1)
        for e in entries:
            if e in read_by_body:
                joined = self.first(self.entries[e]) if e in self.entries else None
                of[e] = joined if joined in self.all else -1
            if step.lines[e]["src"] in ("state loss", "state step") or e in watched:
                of[e] = -1
        fits = lambda v, expert: all(of[u] == expert for u in reads[v] if in_body(u))
        for v in reversed(tail):
            uses = {of[u] for u in readers[v] + [e for e in becomes if becomes[e] == v] if u in of}
            if v in watched or len(uses) > 1 or uses and not fits(v, min(uses)):
                of[v] = -1
            elif uses:
                of[v] = uses.pop()
        for v in tail:
            if v not in of:
                found = {of[u] for u in reads[v] if of.get(u, -1) >= 0}
                of[v] = found.pop() if len(found) == 1 and fits(v, min(found)) else -1
        for e in entries:
            if e not in of:
                of[e] = of[becomes[e]] if becomes.get(e) in tail else -1
        for v in range(self.count):
            of.setdefault(v, -1)
        movable = {*tail, *entries}
        pairs = [(v, u) for v in range(self.count) for u in reads[v]] + list(becomes.items()) + [(b, a) for a, b in becomes.items()]
        while True:
            leave = {u for v, u in pairs if u in movable and of[u] >= 0 and of[v] != of[u]}
            if not leave:
                break
            of.update(dict.fromkeys(leave, -1))
        self.of = {v: expert for v, expert in of.items() if expert >= 0}

    def homes(self, ranks):
        """By line and entry the rank that alone has it, or -1."""
        blocks, place = [], {}
        for expert in self.all:
            if self.fan[expert] not in blocks:
                blocks.append(self.fan[expert])
        of_block = lambda n: [expert for expert in self.all if self.fan[expert] == blocks[n]]
        for n in range(len(blocks)):
            for j, expert in enumerate(of_block(n)):
                place[expert] = (j * ranks // len(of_block(n)) + n) % ranks
        return [place[self.of[v]] if v in self.of else -1 for v in range(self.count)]


class Placed:
    """A step whose experts have homes among so many ranks."""

    def __init__(self, step, experts, ranks):
        self.step, self.home, self.ranks = step, experts.homes(ranks), ranks
        self.is_line = lambda v: not step.is_input(v)
        self.was = list(step.of)
        for v in step.body:
            if self.home[v] >= 0 and self.is_line(v):
                step.of[v] = "W"

    def restore(self):
        self.step.of = self.was

    def here(self, v, rank):
        return self.home[v] in (-1, rank)

    def local(self, rank, a, b):
        step, piece = self.step, Piece()
        share = lambda shape: [shape[0] // step.slices * (b - a)] + shape[1:]
        mine = [v for v in sorted(step.body) if self.here(v, rank)]
        whole = {x.value for v in mine for x in step.accesses[v] if step.whole(v, x)}
        slices = {x.value for v in mine for x in step.accesses[v] if not step.whole(v, x)}
        for v in sorted(step.body):
            line = {key: value for key, value in step.lines[v].items() if key != "next"}
            if not self.here(v, rank):
                if self.is_line(v) and v in slices:
                    piece.made[v] = piece.add_state(f"value/{v}", dict(line, s=share(line["s"])))
                continue
            if not self.is_line(v):
                if step.of[v] == "S":
                    line["s"] = share(line["s"])
                if v in slices:
                    piece.made[v] = piece.add(line)
            else:
                elsewhere = [u for u in range(v) if self.is_line(u) and u in step.body and not self.here(u, rank)]
                for u in elsewhere:  # of class S, as it is read
                    step.of[u] = "S"
                line = placement.cut(step, piece, v, line, a, share)
                for u in elsewhere:
                    step.of[u] = "W"
                if step.of[v] == "C":
                    carry = piece.add_state(f"carry/{v}", step.lines[v])
                    piece.lines[carry]["next"] = carry + 1
                    line = placement.begun(line, carry) if line["k"] == "chain" and a > 0 else line
                piece.made[v] = piece.add(line)
            if v in whole:
                piece.whole_[v] = piece.add_state(f"value/{v}", step.lines[v])
        return piece

    def tail(self, rank):
        step, piece = self.step, Piece()
        mine = [v for v in range(len(step.lines)) if v not in step.body and self.is_line(v) and self.here(v, rank)]
        reads = {x.value for v in mine for x in step.accesses[v]} | {line["next"] for v, line in enumerate(step.lines) if "next" in line and self.here(v, rank)}
        for v, line in enumerate(step.lines):
            if not self.is_line(v):
                if self.here(v, rank) and (v in reads or line["src"].startswith("state ")):
                    piece.made[v] = piece.add(line)
            elif v in mine:
                texts = []
                for access in map(placement.Access, line.get("x", [])):
                    access.value = piece.any(access.value)
                    texts.append(access.text())
                piece.made[v] = piece.add(dict(line, x=texts) if "x" in line else line)
            elif v in step.body and v in reads:
                piece.whole_[v] = piece.add_state(f"value/{v}", line)
        for line in piece.lines:
            if "next" in line:
                line["next"] = piece.any(line["next"])
        return piece

    def waits(self):
        out = [0] * len(self.step.lines)
        for v in sorted(self.step.body):
            for access in self.step.accesses[v]:
                u = access.value
                if self.is_line(u):
                    back = self.home[u] >= 0 and self.home[v] != self.home[u]
                    out[v] = max(out[v], out[u] + (1 if back or self.step.whole(v, access) else 0))
        return out

    def moves(self):
        """What is moved: phase, value, and the homes that need it, or none for what a home gives."""
        step, waits = self.step, self.waits()
        pairs = [(a, v) for v in sorted(step.body) for a in step.accesses[v] if self.is_line(a.value)]
        gathered = {a.value for a, v in pairs if self.home[v] < 0 and step.whole(v, a)}
        out = {}
        for access, v in pairs:
            u = access.value
            if self.home[u] >= 0 and self.home[v] != self.home[u]:
                out.setdefault(u, set())
            elif self.home[v] >= 0 and step.whole(v, access) and u not in gathered:
                out.setdefault(u, set()).add(self.home[v])
        return sorted([waits[u], u, sorted(homes)] for u, homes in out.items())

    def given(self):
        step = self.step
        everybody = [v for v in range(len(step.lines)) if v not in step.body and self.is_line(v) and self.home[v] < 0]
        reads = {x.value for v in everybody for x in step.accesses[v]} | {line["next"] for v, line in enumerate(step.lines) if "next" in line and self.home[v] < 0}
        return sorted(v for v in reads if v in step.body and self.is_line(v) and self.home[v] >= 0)


def bounds_of(slices, ranks):
    """Unequal parts, as far as there are slices."""
    bounds = [0] + [max(n, slices * n * (n + 1) // (ranks * (ranks + 1))) for n in range(1, ranks)] + [slices]
    return [min(bound, slices - (ranks - n)) for n, bound in enumerate(bounds)]


def described(path, slices=None):
    step = Step([json.loads(line) for line in path.read_text().splitlines()], slices)
    experts = Experts(step)
    out = dict(program=str(path.relative_to(HERE)), slices=step.slices, experts=len(experts.all),
               of=[experts.all.index(experts.of[v]) if v in experts.of else -1 for v in range(len(step.lines))], ranks=[])
    for ranks in (1, 2, 3, 4, 6):
        if ranks > step.slices or not experts.all:
            continue
        placed, bounds = Placed(step, experts, ranks), bounds_of(step.slices, ranks)
        parts = list(enumerate(zip(bounds, bounds[1:])))
        out["ranks"].append(dict(bounds=bounds, home=placed.home, moves=placed.moves(), given=placed.given(), phases=1 + max(placed.waits()),
                                 parts=[placed.local(rank, a, b).root() for rank, (a, b) in parts], tails=[placed.tail(rank).root() for rank, _ in parts]))
        placed.restore()
    return out


def coded_rows(values, row):
    """The rows coding of CODINGS."""
    rows = [values[n:n + row] for n in range(0, len(values), row)]
    bits = sum(1 << n for n, each in enumerate(rows) if any(each))
    return bits.to_bytes((len(rows) + 7) // 8, "little") + b"".join(each for each in rows if any(each))


def row_vectors():
    numbers = random.Random(5)
    for row, zeros in ((4, "0"), (4, "1"), (12, "101101"), (64, "10000001"), (4, "110100100"), (1, "0110001111010001")):
        values = b"".join(bytes(row) if zero == "1" else bytes(numbers.choice((0, 0, 128, 255)) for _ in range(row - 1)) + b"\1" for zero in zeros)
        yield dict(row=row, values=values.hex(), coded=coded_rows(values, row).hex())


def programs():
    yield from ((path, None) for path in sorted((HERE / "placement").glob("*.program.jsonl")))
    yield from ((path, 3 if path.name.startswith("workers") else None) for path in sorted((HERE / "experts").glob("*.program.jsonl")))


def table():
    """Bytes in the slots that go to homes and back, and those of experts' gradients."""
    size = lambda line: math.prod(line["s"]) * placement.SIZES[line["t"]]
    for path, slices in programs():
        vector = described(path, slices)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for row in vector["ranks"]:
            slots = sum(size(lines[v]) for _, v, _ in row["moves"])
            print(vector["program"], len(row["bounds"]) - 1, "ranks:", vector["experts"], "experts, slots", slots, "given", sum(size(lines[v]) for v in row["given"]), "phases", row["phases"])


def main():
    if sys.argv[1:] == ["table"]:
        return table()
    text = json.dumps(dict(programs=[described(path, slices) for path, slices in programs()], rows=list(row_vectors())), sort_keys=True, separators=(",", ":"))
    if sys.argv[1:] == ["check"]:
        same = text + "\n" == (HERE / "experts.json").read_text()
        sys.exit(None if same else "experts.json is not what this makes")
    print(text)


if __name__ == "__main__":
    main()
