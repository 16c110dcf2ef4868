"""Games about folds of every kind and type, of sizes around each limit of dgx-dispute(7), "Numbers": fold_limits.py --bin FOLDER --plugins FOLDER
[--sizes few|all|large] [--games N] [--seed N]

One side plays by the built programs: dgx-bisect, from a run of dgx-train. The other is the second implementation (spec/), which lies: a solver of whom one
running result is wrong, or a challenger who rejects one that is right. Each fold is attacked and defended N times (default 1), at its first, its last or a
drawn position, and dgx-referee must rule for the honest side as the second implementation does. "few" (the default) are some of the sizes. "large" are
2047 · 2048, 2048² and their neighbours, of which the second implementation would compute no running result in time: there both sides play by the
programs, the solver with a drill, a bit of the fold that is flipped, and the second implementation judges. Exits 77 without NumPy, h5py and cryptography.
"""

import base64
import json
import os
import sys

try:
    import h5py
    import numpy as np
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import support
from spec import games, statements, worlds, written
from spec.players import Fool, Lie, Party
from spec.running import BLOCK, GROUP, ITEMS, Flip

INPUTS = 7
FEW = (33, 257, 2048, 2049)
ALL = (1, 2, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097)
# Where the lists of a fold get another level.
LARGE = {"sum": (2047 * 2048, 2047 * 2048 + 1, 2048**2 - 1, 2048**2, 2048**2 + 1), "max": (2048**2, 2048**2 + 1), "chain": (2048**2, 2048**2 + 1),
         "argmax": (1024**2, 1024**2 + 1), "dot": (2048 * 4096, 2048 * 4096 + 1)}
# The kind, the type of what is folded, and the operations at a position.
FORMS = (("dot", "f32", []), ("sum", "f32", ["mul x0 0x1.1p0"]), ("sum", "i64", ["add x0 k0"]), ("sum", "u8", ["lt k0 x0"]), ("max", "f32", ["abs x0"]),
         ("max", "i64", []), ("max", "u8", []), ("argmax", "f32", ["mul x0 x0"]), ("argmax", "i64", ["mul x0 x0"]),
         ("chain", "f32", ["mul acc 0x1.fp-1", "add t0 x0"]), ("chain", "i64", ["mul acc 3", "add t0 x0"]))
SAME = ("at", "claim", "falls", "last", "moves", "reason", "scalar")  # what two judges say of a game
STEP = 1  # where solvers lie: the last of the two steps of the only segment


def fold(made, form, size):
    """Adds a fold of `size` positions, of seven numbers that are each read at size / 7 of them."""
    kind, element, do = form
    read = {"f32": "2[0,{}]", "i64": "3[1,{}]", "u8": "4[{}]"}[element]
    fields = {"f": [size], "x": [read.format(f"k0//{size // INPUTS + 2}")]}
    if do:
        fields["do"] = do
    if kind == "dot":
        fields["x"].append(read.format(f"k0//{size // 5 + 2}"))
    if kind == "chain":
        fields["init"] = "0x1p0" if element == "f32" else "1"
    return made.add(kind, "i64" if kind == "argmax" else element, [], **fields)


def packed(bench):
    """Data of twelve samples, and the recipe that dgx-pack made it by."""
    random = np.random.default_rng(8)
    data = {"x": random.normal(size=(12, INPUTS)).astype("<f4"), "y": random.integers(-(2**20), 2**20, (12, INPUTS))}
    for name, array in data.items():
        np.save(bench.path(f"{name}.npy"), array)
    bench.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "data.h5")
    with h5py.File(bench.path("data.h5"), "r") as file:
        return data, file.attrs["recipe"]


def world_of(wanted, data, recipe):
    """A task of the folds `wanted`, pairs of form and size, each of which becomes an entry of the state; and the numbers of their lines."""
    made = worlds.Lines()
    loss, step = made.source("f32", [], "state loss"), made.source("i64", [], "state step")
    made.source("f32", [3, INPUTS], "batch x")
    made.source("i64", [3, INPUTS], "batch y")
    made.source("u8", [INPUTS], "constant", of=["1", "2", "250", "7", "90", "0", "33"])
    folds = [fold(made, *each) for each in wanted]
    made.lines[loss]["next"] = made.add("map", "f32", [], x=["2[0,0]"])
    made.lines[step]["next"] = made.add("map", "i64", [], x=[f"{step}[]"], do=["add x0 1"])
    worlds.keep(made, folds, "optimizer/made")
    evaluation = [{**worlds.EVALUATION[0], "s": [3, INPUTS]}, {**worlds.EVALUATION[1], "f": [INPUTS]}]
    return games.World(made.lines, evaluation, data, None, worlds.options(3, STEP + 1, STEP + 1), recipe), evaluation, folds


class Programs:
    """The world as the programs take it: task, data, keys, and a run, whose state must be the second implementation's."""

    def __init__(self, bench, world, evaluation, honest):
        self.bench, self.count = bench, 0
        written.write_task(bench.path("task.json"), world.lines, evaluation, world.task)
        with open(bench.path("task.json"), "wb") as file:
            file.write(world.task_text + b"\n")
        for name, key in (("defender", games.SOLVER), ("challenger", games.CHALLENGER)):
            with open(os.open(bench.path(f"{name}.pem"), os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
                file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        bench.run("dgx-key", "new", "referee")
        trained = bench.run("dgx-train", "task.json", "--data", "data.h5", "-o", "run")
        bench.check(trained["state"] == honest.digest(STEP + 1).hex(), "the state that dgx-train ends in")

    def write(self, table):
        with open(self.bench.path("game.jsonl"), "wb") as file:
            file.write(table.text())

    def move(self, table, side, run="run", *options):
        """The move of dgx-bisect for `side`, added to the table."""
        self.write(table)
        self.count += 1
        self.bench.run("dgx-bisect", "move", "task.json", "game.jsonl", "--from", run, "--data", "data.h5", "--key", f"{side}.pem", "--notes",
                       f"notes{self.count}", *options, codes=(0, 1))
        with open(self.bench.path("game.jsonl"), "rb") as file:
            said = statements.Statement(file.read().splitlines()[-1])
        table.move(said.predicate["say"])

    def ruling(self, table):
        self.write(table)
        self.bench.run("dgx-referee", "game.jsonl", "--key", "referee.pem", "-o", "ruling.json", "--force", codes=(0, 1))
        with open(self.bench.path("ruling.json"), "rb") as file:
            said = json.loads(base64.b64decode(json.loads(file.read())["payload"]))["predicate"]
        return {name: said[name] for name in SAME if name in said}


def ruled(table):
    return {name: table.judge.ruling[name] for name in SAME if name in table.judge.ruling}


def played(programs, table, liar, side):
    """The ruling of a game in which the liar is on that side, and the programs on the other."""
    while table.judge.ruling is None:
        if table.judge.game.side == side:
            table.move(liar.say(table.judge.game))
        else:
            programs.move(table, table.judge.game.side)
    return ruled(table), programs.ruling(table)


def place_of(random, size):
    return int(random.choice([0, size - 1, random.integers(size)]))


def flip_of(random, line):
    """A running result, of one kind or another."""
    size = line["f"][0]
    kinds = {"dot": {"term": 1, "group": BLOCK, "total": BLOCK * GROUP}, "sum": {"term": 1, "item": ITEMS}, "argmax": {"term": 1, "best": 1, "both": 1}}
    of_kind = kinds.get(line["k"], {"term": 1})
    what = str(random.choice(list(of_kind)))
    return Flip(what, place_of(random, -(-size // of_kind[what])))


def lying(honest, lie):
    """The story of a lie about a value that no other value reads."""
    story, table = honest.world.story(lie), list(honest.table(STEP))
    story.states = {step: honest.state(step) for step in range(STEP + 1)}
    table[lie.value] = story.altered(STEP, table, lie.value)
    story.take(STEP, table)
    return story


def attack(programs, random, world, honest, value):
    """The programs challenge a solver of whom one running result is wrong. False if what was drawn leaves nothing wrong in the end."""
    for _ in range(100):
        lie = Lie(STEP, value, 0, flip_of(random, world.lines[value]))
        story = lying(honest, lie)
        if story.digest(STEP + 1) != honest.digest(STEP + 1):
            break
    else:
        return False
    table = games.Table(world, games.Proof(world, story), "segment", 0)
    ours, theirs = played(programs, table, Party(world, story), "defender")
    place = ours["at"].get("position") if lie.flip.what in ("term", "best", "both") else lie.flip.place
    found = ours["falls"] and ours["at"].get("value") == value and place == lie.flip.place
    programs.bench.check(found and ours == theirs, f"attack on {world.lines[value]} with {lie.flip}: {ours}, and dgx-referee {theirs}")
    return True


def defend(programs, random, world, honest, proof, value):
    """The programs defend a fold against a challenger who rejects a running result that is right."""
    at = place_of(random, world.lines[value]["f"][0])
    table = games.Table(world, proof, "segment", 0)
    ours, theirs = played(programs, table, Fool(world, honest, value, 0, at), "challenger")
    programs.bench.check(not ours["falls"] and ours == theirs, f"defence of {world.lines[value]} at {at}: {ours}, and dgx-referee {theirs}")


def drilled(programs, world, honest, value):
    """The programs challenge a solver whose run has a drill, and who defends it by the programs, too."""
    bits = 8 * honest.table(STEP)[value].itemsize
    bit, folder = {8: 2, 32: 22, 64: 2}[bits], f"drilled{value}"

    def flipped(number):
        kind = np.dtype(f"u{bits // 8}")
        return (number.view(kind) ^ kind.type(1 << bit)).view(number.dtype)

    story = lying(honest, Lie(STEP, value, altered=flipped))
    trained = programs.bench.run("dgx-train", "task.json", "--data", "data.h5", "-o", folder, "--drill", f"step={STEP},op={value},element=0,bit={bit}")
    table = games.Table(world, games.Proof(world, story), "segment", 0)
    while table.judge.ruling is None:
        side = table.judge.game.side
        programs.move(table, side, *((folder, "--drill") if side == "defender" else ("run",)))
    ours, theirs = ruled(table), programs.ruling(table)
    found = trained["state"] == story.digest(STEP + 1).hex() and ours["falls"] and ours["at"].get("value") == value
    programs.bench.check(found and ours == theirs, f"drill of {world.lines[value]}: {ours}, and dgx-referee {theirs}")


def play_large(bench, wanted):
    world, evaluation, folds = world_of(wanted, *packed(bench))
    honest = world.story()
    programs = Programs(bench, world, evaluation, honest)
    for value in folds:
        drilled(programs, world, honest, value)
    print(f"{len(folds)} games about folds of {min(size for _, size in wanted)} to {max(size for _, size in wanted)} positions, {programs.count} moves")


def play_all(bench, wanted, options):
    world, evaluation, folds = world_of(wanted, *packed(bench))
    honest = world.story()
    programs, proof = Programs(bench, world, evaluation, honest), games.Proof(world, honest)
    random, count = np.random.default_rng(options.seed), 0
    for value in folds:
        for _ in range(options.games):
            found = attack(programs, random, world, honest, value)
            defend(programs, random, world, honest, proof, value)
            count += 1 + found
            alone = world.lines[value]["k"] == "argmax" and world.lines[value]["f"] == [1]  # has only one answer
            bench.check(found or alone, f"no wrong result drawn leaves a wrong {world.lines[value]}")
    print(f"{count} games about {len(folds)} folds, {programs.count} moves by dgx-bisect")


def main():
    parser = support.parser()
    parser.add_argument("--sizes", choices=("few", "all", "large"), default="few")
    parser.add_argument("--games", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = support.parsed(parser)
    with support.Bench(options.bin) as bench:
        if options.sizes == "large":
            play_large(bench, [(form, size) for form in FORMS for size in LARGE[form[0]]])
        else:
            play_all(bench, [(form, size) for form in FORMS for size in (FEW if options.sizes == "few" else ALL)], options)


main()
