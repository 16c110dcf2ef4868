"""Vectors for pipelines, derived from dgx-placement(7), PIPELINES, with Python's standard library:
/usr/bin/python3 tests/vectors/pipelines.py > tests/vectors/pipelines.json
/usr/bin/python3 tests/vectors/pipelines.py check      exits 1 unless pipelines.json is as it would be made"""
import json
import math
import sys

from placement import HERE, SIZES, Step, head, tail


def size_of(line):
    return math.prod(line["s"]) * SIZES[line["t"]]


CODE = ["eq", "div", "mul", "rint", "max", "min", "add", "i64", "select"]


def cut_messages(step):
    """By the line that stands for an activation or a gradient behind a cut: the entry that keeps it, what that becomes, and the lines that read it."""
    lines, found = step.lines, {}
    inside = lambda v: v in step.body
    plain_map = lambda v: lines[v]["k"] == "map" and "i" not in lines[v] and step.of[v] == "S"
    is_state = lambda v: step.is_input(v) and lines[v]["src"].startswith("state ")
    own = lambda a: not a.view and a.fill is None and all(c.text() == f"i{n}" for n, c in enumerate(a.coordinates))
    readers = lambda value, among: [v for v in among if any(a.value == value for a in step.accesses[v])]
    nexts = [line["next"] for line in lines if "next" in line]
    tail = [v for v in range(len(lines)) if not inside(v)]

    def is_code(v):
        words = [each.split(" ")[0] for each in lines[v].get("do", [])]
        return plain_map(v) and lines[v]["t"] == "u8" and words == CODE and len(step.accesses[v]) == 2 and lines[step.accesses[v][0].value]["k"] == "max"

    def inputs_but(v, entry):
        return all(a.value == entry or step.is_input(a.value) and not is_state(a.value) for a in step.accesses[v])

    def kept(line, update):
        """Whether the update replaces rows of an entry by those of the line; then the entry, and what reads it."""
        of, accesses = lines[update], step.accesses[update]
        if of["k"] != "map" or "i" in of or of.get("do") != ["ge x0 0", "select t0 x1 x2"] or nexts.count(update) != 1:
            return None
        place, row, entry = accesses
        named = own(place) and own(entry) and row.value == line and row.coordinates and row.coordinates[0].text() == "$0"
        if not named or readers(update, range(len(lines))) or not is_state(entry.value) or lines[entry.value]["next"] != update or inside(place.value) or not inputs_but(place.value, None):
            return None
        old = [v for v in readers(entry.value, range(len(lines))) if v != update]
        if not all(plain_map(v) and inside(v) and inputs_but(v, entry.value) and v not in nexts and not readers(v, tail) for v in old):
            return None
        return entry.value, update, old

    for v in range(len(lines)):
        codes = [a.value for a in step.accesses[v] if is_code(a.value)] if plain_map(v) and lines[v]["t"] == "f32" else []
        if not codes or v in nexts or step.accesses[codes[0]][0].value not in [a.value for a in step.accesses[v]]:
            continue
        if any(step.whole(v, a) for a in step.accesses[v]):
            continue
        updates = readers(v, tail)
        found[v] = (None, None, []) if not updates else kept(v, updates[0]) if len(updates) == 1 else None
    found = {v: message for v, message in found.items() if message}
    another = lambda v: {value for other, (_, _, old) in found.items() if other != v for value in (other, *old)}
    return {v: message for v, message in found.items() if not another(v) & {a.value for a in step.accesses[v]}}


class Pipeline:
    """A step cut into stages, and its batch into parts (PIPELINES)."""

    FREE, NONE = -1, -2

    def __init__(self, step, cuts, parts, pipelines=1):
        self.step, self.cuts, self.parts, self.pipelines = step, cuts, parts, pipelines
        lines = step.lines
        self.entry = [step.is_input(v) and line["src"].startswith("state ") for v, line in enumerate(lines)]
        self.messages = cut_messages(step)
        self.reads = [self.bound(v) for v in range(len(lines))]
        self.of = [self.FREE if free else self.NONE for free in self.free_lines()]
        self.at = [set() for _ in range(len(cuts) + 1)]  # what lines of a stage read
        self.assign()
        self.received = {v: self.readers({v}) for v in self.messages}
        self.updated = {v: self.readers({v, *old}) or [0] for v, (entry, _, old) in self.messages.items() if entry is not None}
        self.loss = next((line["next"] for line in lines if line.get("src") == "state loss"))
        self.moves = sorted(self.find_moves())

    def reads_of(self, v):
        """What a line reads; the head has what is gathered."""
        gathered = lambda a: self.parts * self.pipelines > 1 and v in self.step.body and not self.step.is_input(a.value) and self.step.whole(v, a)
        return list(dict.fromkeys(a.value for a in self.step.accesses[v] if not gathered(a)))

    def bound(self, v, there=()):
        """The same, with what a received line was made of in its place, but for those that are there."""
        found = set()
        for read in self.reads_of(v):
            if read not in self.messages:
                found.add(read)
            elif read not in there:
                found |= set(self.reads_of(read)) - set(self.messages[read][2])
        return sorted(found)

    def readers(self, values):
        """The stages with a line that reads one of these: a received line, or with what reads its entry for a stage that has this."""
        return sorted({self.of[reader] for reader in range(len(self.of)) if self.is_made(reader) and values & {a.value for a in self.step.accesses[reader]}})

    def made_of(self, at):
        """Lines that are received, a stage that makes each, and what it is made of."""
        return [(v, stage, made) for v, stages in at.items() for stage in stages for made in self.bound(v) if self.of[made] >= 0]

    def free_lines(self):
        step, lines = self.step, self.step.lines
        leaves = {line["next"] for line in lines if "next" in line} | {a.value for v in range(len(lines)) if v not in step.body for a in step.accesses[v]}
        free = []
        for v in range(len(lines)):
            if step.is_input(v):
                free.append(not self.entry[v])
                continue
            bound = step.of[v] == "C" or v in step.body and v in leaves
            free.append(not bound and all(free[a.value] and (step.is_input(a.value) or (a.value in step.body) == (v in step.body)) for a in step.accesses[v]))
        for v, (entry, update, old) in cut_messages(step).items():
            for one in [v, *old] + ([entry, update] if entry is not None else []):
                free[one] = True
        return free

    @staticmethod
    def free(step):
        return Pipeline.free_lines(type("", (), dict(step=step, entry=[step.is_input(v) and line["src"].startswith("state ") for v, line in enumerate(step.lines)])))

    @staticmethod
    def forward(step):
        loss = next(line["next"] for line in step.lines if line.get("src") == "state loss")
        free = Pipeline.free(step)
        return [v for v in sorted(step.needed_by({loss}, True) & step.body) if not step.is_input(v) and not free[v]]

    def give(self, v, stage):
        self.of[v] = stage
        for read in self.reads[v]:
            if self.of[read] == self.NONE:
                assert self.entry[read]
                self.of[read] = stage
        self.at[stage] |= {*self.reads[v], *self.reads_of(v)}

    def cheapest(self, v):
        has = lambda stage, read: self.of[read] == stage or v in self.step.body and self.entry[read] and read in self.at[stage]
        # Parts of a received line are there already if another line reads it there.
        reads = lambda s: [read for read in self.bound(v, self.at[s]) if self.of[read] >= 0]
        stages = range(len(self.at))
        fit = [s for s in stages if all(has(s, read) for read in reads(s) if self.entry[read])] or stages
        return min(fit, key=lambda s: (sum(size_of(self.step.lines[read]) for read in reads(s) if not has(s, read)), s))

    def assign(self):
        step = self.step
        for v in Pipeline.forward(step):
            self.give(v, sum(cut <= v for cut in self.cuts))
        rest = [v for v in range(len(step.lines)) if not step.is_input(v)]
        for chosen in ([v for v in rest if v in step.body and step.of[v] != "C"], [v for v in rest if v in step.body], rest):
            for v in chosen:
                if self.of[v] == self.NONE:
                    self.give(v, self.cheapest(v))
        for v, stage in enumerate(self.of):
            if stage == self.NONE:
                self.of[v] = max(self.of[step.lines[v]["next"]], 0)

    def is_sum(self, v):
        return self.pipelines > 1 and self.step.of[v] == "C"

    def shared(self, stage):
        """Values of class S that the stage's tail and updates read, or entries become."""
        step = self.step
        read = {r for v in range(len(self.of)) if v not in step.body and not step.is_input(v) and self.of[v] == stage for r in self.reads[v]}
        read |= {line["next"] for v, line in enumerate(step.lines) if "next" in line and (self.of[v] == stage or stage == 0 and line["src"] == "state loss")}
        read |= {made for _, s, made in self.made_of(self.updated) if s == stage}
        return sorted(v for v in read if self.is_made(v) and step.of[v] == "S")

    def is_made(self, v):
        return not self.step.is_input(v) and self.of[v] >= 0

    def find_moves(self):
        pairs = [(read, self.of[v]) for v in range(len(self.of)) if self.is_made(v) for read in self.reads[v]]
        pairs += [(made, stage) for _, stage, made in self.made_of(self.received) + self.made_of(self.updated)]
        pairs += [(line["next"], self.of[v]) for v, line in enumerate(self.step.lines) if "next" in line] + [(self.loss, 0)]
        return {(value, self.of[value], to) for value, to in pairs if self.of[value] >= 0 and self.of[value] != to}

    def pieces(self):
        """Of each stage: pieces of the body; pieces of the tail that others wait for; the rest of the tail; what its column gives and makes."""
        step, depth = self.step, {}
        for v in range(len(self.of)):
            if self.is_made(v) and not self.is_sum(v):
                known = [(0 if read in step.body and v not in step.body else depth[read]) + (self.of[read] != self.of[v]) for read in self.reads[v] if self.is_made(read)]
                depth[v] = max(known, default=0)
        late = {(v, stage): 0 for v, stages in self.received.items() for stage in stages}
        for v, stage, made in self.made_of(self.received):
            if self.is_made(made):
                late[v, stage] = max(late[v, stage], depth[made] + (self.of[made] != stage))
        awaited = {value for value, _, _ in self.moves}
        for v in reversed(range(len(self.of))):
            if v in awaited and self.is_made(v) and v not in step.body:
                awaited |= {read for read in self.reads[v] if self.of[read] == self.of[v]}
        out = []
        for stage in range(len(self.at)):
            sums = [v for v in range(len(self.of)) if self.is_made(v) and self.is_sum(v) and self.of[v] == stage]
            at = {**depth, **{v: d for (v, s), d in late.items() if s == stage}}
            group = lambda chosen: [[v for v in chosen if at[v] == d] for d in sorted({at[v] for v in chosen})]
            mine = sorted([v for v in depth if self.of[v] == stage and not self.is_sum(v)] + [v for v, s in late if s == stage])
            body = group([v for v in mine if v in step.body])
            first = any(self.is_made(read) and self.of[read] == stage and depth[read] == 0 for v in depth if v in step.body and not self.is_sum(v) and self.of[v] != stage for read in self.reads[v])
            first = first or any(self.is_made(made) and self.of[made] == stage != s and depth[made] == 0 for _, s, made in self.made_of(self.received))
            if len(body) > 1 and at[body[0][0]] == 0 and not first:
                body[:2] = [sorted(body[0] + body[1])]
            rest = [v for v in mine if v not in step.body]
            out.append((body, group([v for v in rest if v in awaited]), [v for v in rest if v not in awaited], self.shared(stage) if self.pipelines > 1 else [], sums))
        return out

    def cells(self):
        pieces = [body for body, *_ in self.pieces()]
        places = [(v, (s, p)) for s, body in enumerate(pieces) for p, lines in enumerate(body) for v in lines]
        place = {v: at for v, at in places if self.of[v] >= 0}
        waits = {at: set() for _, at in places}
        for v, at in places:
            waits[at] |= {place[read] for read in self.reads[v] if read in place and place[read][0] != at[0]}
        done, out = {at: 0 for at in waits}, [[] for _ in pieces]
        while any(done[at] < self.parts for at in done):
            for limited in (True, False):
                before, some = dict(done), False
                for s, body in enumerate(pieces):
                    if not limited and some:
                        break
                    for p in range(len(body)):
                        part = done[s, p]
                        if part == self.parts or p > 0 and done[s, p - 1] <= part or any(before[other] <= part for other in waits[s, p]):
                            continue
                        if limited and p == 0 and part - done[s, len(body) - 1] >= len(pieces) - s:
                            continue
                        out[s].append([p, part])
                        done[s, p] += 1
                        some = True
                        break
                if some:
                    break
        return out


def again(step):
    """Lines of the body that the tail makes, too: received ones for updates, and what is free of their needs."""
    free, found = Pipeline.free(step), {v for v, (entry, *_) in cut_messages(step).items() if entry is not None}
    for v in reversed(range(len(step.lines))):
        if v in found:
            found |= {a.value for a in step.accesses[v] if a.value in step.body and not step.is_input(a.value) and free[a.value]}
    return found


def pipelines(step):
    """Stages at even places, and at uneven ones, in one part and in several, of one pipeline and of two."""
    forward = Pipeline.forward(step)
    several = min(4, step.slices) if head(step) != "state" else 1
    chosen = [[forward[n * len(forward) // count] for n in range(1, count)] for count in (2, 3, 4) if count <= len(forward)] + [[forward[1], forward[-1]]]
    counts = {(1, 1), (several, 1)} | ({(1, 2), (several // 2, 2)} if several > 1 else set())
    for cuts, parts, pipelines in [(cuts, *count) for cuts in chosen for count in sorted(counts, key=lambda count: count[::-1])]:
        pipeline = Pipeline(step, cuts, parts, pipelines)
        of_stages = dict(zip(("pieces", "early", "last", "shared", "sums"), zip(*pipeline.pieces())))
        yield dict(cuts=cuts, parts=parts, pipelines=pipelines, of=pipeline.of, moves=[list(move) for move in pipeline.moves], cells=pipeline.cells(), **of_stages)


def described(path):
    step = Step([json.loads(line) for line in path.read_text().splitlines()])
    return dict(program=str(path.relative_to(HERE)), forward=Pipeline.forward(step), tail=tail(step, again(step)).root(), pipelines=list(pipelines(step)))


def main():
    paths = [*sorted((HERE / "placement").glob("*.program.jsonl")), HERE / "tasks/quickstart.program.jsonl"]
    forward = lambda path: "state loss" in path.read_text()
    text = json.dumps(dict(programs=[described(path) for path in paths if forward(path)]), sort_keys=True, separators=(",", ":"))
    if sys.argv[1:] == ["check"]:
        same = text + "\n" == (HERE / "pipelines.json").read_text()
        sys.exit(None if same else "pipelines.json is not what this makes")
    print(text)


if __name__ == "__main__":
    main()
