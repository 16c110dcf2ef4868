"""Disputes over random faults, played and judged by the second implementation (spec/): disputes.py --bin FOLDER [--games N] [--seed N]

A solver whose replay has one fault loses to an honest challenger at the scalar operation where the fault was put; a challenger who rejects
what is right loses; the vectors are what the script beside them makes of the page. dgx-referee rules the same on each transcript; of
games about runs that diverge (divergences.py), also on each beginning of it, of which dgx-bisect shows the same state.
Some transcripts, and their rulings, are audited by examples/audit.sh, too.
Exits 77 without NumPy and cryptography.
"""

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile

try:
    import cryptography  # noqa: F401
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import divergences
import first_moves
from spec import digests, dispute, evidence, worlds
from spec.games import Proof, Table, replace
from spec.players import Fool, Lie, Party, kept
from spec.running import Flip

VECTORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vectors")
sys.path.insert(0, VECTORS)
FOLDS = ("dot", "sum", "max", "argmax", "chain")
SAME = ("at", "claim", "falls", "last", "moves", "reason", "scalar")


class Referee:
    """The built one."""

    def __init__(self, folder, scratch):
        self.program = os.path.join(os.path.abspath(folder), "dgx-referee")
        self.scratch, self.count = scratch, 0
        subprocess.run([os.path.join(os.path.abspath(folder), "dgx-key"), "new", "referee"], cwd=scratch, check=True, capture_output=True)

    def rules(self, text):
        """What it says of a transcript, as dispute.judge does; "refused" if it refuses it."""
        command = [self.program, "game.jsonl", "--key", "referee.pem", "-o", "ruling.json", "--force"]
        done = subprocess.run(command, cwd=self.scratch, capture_output=True, text=True, timeout=60)
        self.count += 1
        if done.returncode in (65, 77):
            return "refused"
        if done.returncode == 3:
            return None
        if done.returncode not in (0, 1):
            sys.exit(f"FAILED: dgx-referee: exit {done.returncode}\n{done.stderr}")
        with open(os.path.join(self.scratch, "ruling.json"), "rb") as file:
            ruling = json.loads(base64.b64decode(json.loads(file.read())["payload"]))["predicate"]
        assert ruling["falls"] == (done.returncode == 1), "exit code of dgx-referee"
        return {key: ruling[key] for key in SAME if key in ruling}

    def shows(self):
        """The state of the game as dgx-bisect has it."""
        program = os.path.join(os.path.dirname(self.program), "dgx-bisect")
        done = subprocess.run([program, "show", "game.jsonl", "--json"], cwd=self.scratch, capture_output=True, text=True, timeout=60, check=True)
        return json.loads(done.stdout)


def check(referee, name, text, expected):
    with open(os.path.join(referee.scratch, "game.jsonl"), "wb") as file:
        file.write(text)
    ruled = referee.rules(text)
    if ruled != expected:
        sys.exit(f"FAILED: {name}: dgx-referee rules\n{ruled}\nand the page\n{expected}")


def check_every(referee, name, table):
    """Each beginning of a game: what it comes to, whose turn it is, and what is known."""
    for count in range(len(table.texts) - len(table.ids) + 1, len(table.texts) + 1):
        text = b"".join(line + b"\n" for line in table.texts[:count])
        judge = dispute.Judge(dispute.Transcript(text))
        check(referee, f"{name}, {count} lines", text, judge.ruling)
        shown = referee.shows()
        if judge.ruling is None or not shown["over"]:
            theirs, ours = state_shown(shown), state_of(judge)
            if theirs != ours:
                sys.exit(f"FAILED: {name}, {count} lines: dgx-bisect shows\n{theirs}\nand the page\n{ours}")


def state_of(judge):
    """What both sides know."""
    game, over = judge.game, judge.ruling is not None
    known = {"steps": [game.first, game.last], "accepted": game.before.hex(), "rejected": game.after.hex(), "value_table": game.table and game.table.hex(),
             "value": game.at.get("value"), "element": game.at.get("element"), "entry": game.entry and game.entry[0]}
    turn = None if over else judge.turn + 1
    return stated({"over": over, "turn": turn, "side": None if over else game.side, **known})


def stated(known):
    """Without a digest of no state, which stands where none has been shown."""
    return {**known, "rejected": None if known["rejected"] in ("0" * 64, digests.DIVERGED.hex()) else known["rejected"]}


def state_shown(shown):
    known = {key: shown["known"].get(key) for key in ("steps", "accepted", "rejected", "value_table", "value", "element", "entry")}
    return stated({"over": shown["over"], "turn": shown.get("turn"), "side": shown.get("side"), **known})


def audit(referee, name, ruled):
    """examples/audit.sh on the transcript just judged, with the ruling that was signed."""
    script = os.path.join(VECTORS, "..", "..", "examples", "audit.sh")
    done = subprocess.run(["sh", script, "game.jsonl", "ruling.json"], cwd=referee.scratch, capture_output=True, text=True, timeout=300)
    said = done.stdout.splitlines()[-1:] == ["The statement falls." if ruled["falls"] else "The statement stands."]
    if done.returncode != ruled["falls"] or not said:
        sys.exit(f"FAILED: {name}: examples/audit.sh: exit {done.returncode}\n{done.stdout}{done.stderr}")


def vectors(referee):
    import dispute as made  # tests/vectors/dispute.py, which plays only when it is asked to

    with open(os.path.join(VECTORS, "dispute.json")) as file:
        stored = json.load(file)
    lines = [line if isinstance(line, str) else made.envelope_of(line) for line in stored["lines"]]
    for number, case in enumerate(stored["cases"]):
        text = "".join(lines[line] + "\n" for line in case["lines"]).encode()
        try:
            ruled = dispute.judge(text)
        except dispute.Refused:
            ruled = "refused"
        if ruled != case["ruling"]:
            sys.exit(f"FAILED: {case['name']}: {ruled}, stored {case['ruling']}")
        check(referee, case["name"], text, ruled)
        if (number % 8 == 0 or case["name"].startswith("diverging")) and isinstance(ruled, dict):
            audit(referee, case["name"], ruled)
    return len(stored["cases"])


def flip_of(random, line):
    """A place in a fold's running results."""
    positions = int(np.prod(line["f"]))
    whats = {"dot": ["term", "term", "group", "total"], "sum": ["term", "term", "item"], "argmax": ["term", "best", "both"]}.get(line["k"], ["term"])
    what = whats[int(random.integers(len(whats)))]
    size = {"group": -(-positions // 256), "total": -(-positions // 4096), "item": -(-positions // 2048)}.get(what, positions)
    return Flip(what, int(random.integers(size)))


def lie_of(random, world, step):
    number = int(random.integers(1, 37))
    line = world.lines[number]
    element = int(random.integers(int(np.prod(line["s"]))))
    return Lie(step, number, element, flip_of(random, line) if line["k"] in FOLDS else None)


def is_in_state(story, honest, lie):
    """Whether anything of the fault is left in the state after the step: a state input may be read by nobody, a running result be lost in a rounding."""
    return story.digest(lie.step + 1) != honest.digest(lie.step + 1)


def cheat(random, world, honest):
    """The text and the ruling of a game against one fault; None if the fault shows nowhere."""
    lie = lie_of(random, world, int(random.integers(7)))
    story = world.story(lie)
    proof, segment = Proof(world, story), int(lie.step >= 3)
    if not is_in_state(story, honest, lie) or story.digest(world.steps[segment + 1]) == honest.digest(world.steps[segment + 1]):
        return None
    table = Table(world, proof, "segment", segment)
    ruling = table.play(Party(world, story), Party(world, honest))
    where = {"segment": segment, "step": lie.step, "value": lie.value}
    found = ruling["falls"] and where.items() <= ruling["at"].items() and ruling["at"].get("element", lie.element) == lie.element
    if lie.flip and lie.flip.what in ("term", "best", "both"):
        found = found and ruling["at"]["position"] == lie.flip.place
    if not found or ruling.get("claim") not in ("a", "c", "d"):
        sys.exit(f"FAILED: {lie}: {ruling}")
    return table.text(), ruling


def fool(random, world, honest, proof):
    """An honest solver before a challenger who rejects what is right."""
    segment = int(random.integers(2))
    number = int(random.integers(1, 37)) if random.random() < 0.9 else None
    element = 0 if number is None else int(random.integers(int(np.prod(world.lines[number]["s"]))))
    table = Table(world, proof, "segment", segment)
    ruling = table.play(Party(world, honest), Fool(world, honest, number, element, int(random.integers(3000)), int(random.integers(4))))
    if ruling["falls"] or ruling["reason"] != "claim":
        sys.exit(f"FAILED: value {number}, element {element} of an honest solver: {ruling}")
    return table.text(), ruling


def other_field(world, claim):
    """The claim's field in the place of x, which is a field, too."""
    names = sorted(world.data, key=str.encode)
    entries = [(each, digests.tensor(world.data[each])) for each in names]
    return {**claim, "entry": evidence.open_entry(entries, names.index("x")), "tensor": evidence.open_leaf(world.data["x"], 0)}


def untrue(_, claim):
    """Another number in the leaf."""
    data = bytearray(base64.b64decode(claim["tensor"]["bytes"]))
    data[7] ^= 1
    return {**claim, "tensor": {**claim["tensor"], "bytes": base64.b64encode(bytes(data)).decode()}}


def next_leaf(world, claim):
    """A leaf that is the field's, but not the sample's."""
    field = world.data[claim["entry"]["name"]]
    leaf = claim["tensor"]["leaf"]
    return {**claim, "tensor": evidence.open_leaf(field, leaf - 1 if leaf else 1)} if field.nbytes > 1024 else untrue(world, claim)


def under_name(_, claim):
    """The field's leaf, under the name of another one."""
    return {**claim, "entry": {**claim["entry"], "name": "x" if claim["entry"]["name"] != "x" else "mask"}}


def fields(referee):
    """Claims about the rows of fields besides x and y. A solver whose training had another number of a field falls by the field's own;
    a challenger who opens anything else proves nothing, and a solver who shows other numbers than they committed to is convicted for that."""
    world = worlds.masked()
    honest = world.story()
    count = 0

    def game(name, story, challenger, falls, change=None, **wanted):
        nonlocal count
        table = Table(world, Proof(world, story), "segment", 1)
        ruling = table.play(Party(world, story), challenger, change)
        if ruling["falls"] != falls or any(ruling.get(key) != value for key, value in wanted.items()):
            sys.exit(f"FAILED: {name}: {ruling}")
        check(referee, name, table.text(), ruling)
        count += 1

    for value, element in ((3, 5), (3, 1100 + 1099), (4, 2), (5, 7)):
        name, cheat = world.lines[value]["src"], world.story(Lie(4, value, altered=lambda array, at=element: kept(array, at, array.flat[at] + 1)))
        assert is_in_state(cheat, honest, cheat.lie)
        game(f"{name}, another number", cheat, Party(world, honest), True, claim="c")
        for wrong in (other_field, untrue, next_leaf, under_name):
            if name == "batch x" and wrong is other_field:
                continue
            change = replace(kind="claim", data=lambda claim, wrong=wrong: wrong(world, claim))
            game(f"{name}, opened wrongly: {wrong.__name__}", cheat, Party(world, honest), False, change, claim="c")
        game(f"{name}, honest", honest, Fool(world, honest, value, element, 0, 1), False, claim="c")
        shown = replace(kind="leaf", bytes=lambda text: base64.b64encode(bytes([base64.b64decode(text)[0] ^ 1]) + base64.b64decode(text)[1:]).decode())
        if honest.table(4)[value].nbytes > 1024:
            game(f"{name}, not what is in the value", cheat, Party(world, honest), True, shown, reason="post")
    return count


def diverging(referee, random, clean, name):
    made = None
    while made is None:
        made = divergences.drawn(random, clean)
    kind, table, falls = made
    ruling = table.judge.ruling
    if falls is not None and (ruling is None or ruling["falls"] != falls):
        sys.exit(f"FAILED: {name}, {kind}: {ruling}")
    check_every(referee, f"{name}, {kind}", table)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, help="folder of the built programs")
    parser.add_argument("--games", type=int, default=40)
    parser.add_argument("--diverging", type=int, default=24, help="games about runs that diverge")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random, world = np.random.default_rng(options.seed), worlds.small()
    honest = world.story()
    proof, games = Proof(world, honest), 0
    with tempfile.TemporaryDirectory(prefix="dgx-interop-") as scratch:
        referee = Referee(options.bin, scratch)
        stored = vectors(referee)
        for name, table, falls in first_moves.games(world, honest, proof):
            if (table.judge.ruling and table.judge.ruling["falls"]) != falls:
                sys.exit(f"FAILED: {name}: {table.judge.ruling}")
            check(referee, name, table.text(), table.judge.ruling)
            stored += 1
        stored += fields(referee)
        while games < options.games:
            made = cheat(random, world, honest) if games % 4 else fool(random, world, honest, proof)
            if made:
                games += 1
                check(referee, f"game {games} of seed {options.seed}", *made)
        for number in range(options.diverging):
            diverging(referee, random, (world, honest), f"game {number} about divergence of seed {options.seed}")
        games += options.diverging
        print(f"{stored} given and {games} drawn games; {referee.count} also judged by dgx-referee")


main()
