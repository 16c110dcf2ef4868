"""Vectors for the rules of disputes, played by a second implementation (tests/interop/spec):
/usr/bin/python3 tests/vectors/dispute.py > tests/vectors/dispute.json

A case is a transcript, its lines as numbers of _lines_, and what it comes to: the fields of the ruling but words and parties; null if the
game goes on; "refused" if it is no transcript. A line is its text, or {"keyid","sig","statement"}: the envelope of the statement's canonical JSON.
A newline ends each line.
"""

import base64
import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))
from spec import digests, dispute, evidence, games, players, statements, worlds  # noqa: E402
import dispute_forced  # noqa: E402
import dispute_readings  # noqa: E402
from spec.games import CHALLENGER, SOLVER, STRANGER, Proof, Table, Verdict, replace  # noqa: E402
from spec.players import Fool, Lie, Party  # noqa: E402
from spec.running import Flip  # noqa: E402

SMALL = worlds.small(kept=[*range(4, 18), 24, 27, 28, 33, 34, 35])
LONG, WIDE, FOLDS, EXPLODING = worlds.long(), worlds.wide(), worlds.folds(), worlds.exploding()
HONEST = {id(world): world.story() for world in (SMALL, LONG, WIDE, FOLDS, EXPLODING)}
PROOFS = {id(world): Proof(world, HONEST[id(world)]) for world in (SMALL, WIDE, FOLDS)}
CASES = {}


def case(name, text, expected="judge"):
    assert name not in CASES, name
    CASES[name] = (text, dispute.judge(text) if expected == "judge" else expected)


def honest(world=SMALL):
    return HONEST[id(world)]


def table_of(lie, world=SMALL, about="segment"):
    """A proof with this lie, challenged; and its solver."""
    story = world.story(lie)
    segment = next(n for n, end in enumerate(world.steps[1:]) if lie.step < end)
    return Table(world, Proof(world, story), about, segment), Party(world, story)


def cheat(name, lie, world=SMALL, change=None):
    """An honest challenger against a solver with this lie: the statement has to fall."""
    table, solver = table_of(lie, world)
    ruling = table.play(solver, Party(world, honest(world)), change)
    assert ruling["falls"], (name, ruling)
    case(name, table.text())
    return ruling


def inputs_and_maps():
    cheat("a: a state entry", Lie(4, 1, 7))
    for name, value, at in (("batch x", 4, 12), ("batch y", 5, 2), ("schedule", 6, 1), ("constant", 7, 0), ("bytes", 8, 2), ("uniform", 9, 11)):
        cheat(f"c: {name}", Lie(4, value, at))
    for name, value, at in (("select", 11, 5), ("gather", 16, 1), ("fill between strides", 27, 5), ("u8", 24, 2), ("copy", 34, 3), ("third leaf", 33, 600), ("exp", 13, 4)):
        cheat(f"d: map, {name}", Lie(4, value, at))
    ruling = cheat("e: a shape", Lie(6, 34, altered=lambda array: array.reshape(2, 2)))
    assert ruling["claim"] == "e"
    cheat("e: a type", Lie(6, 34, altered=lambda array: array.view("<i8")))
    cheat("e: more leaves than the shape has", Lie(6, 33, altered=lambda array: np.concatenate([array, array])))


def folds():
    small = {"dot, one group": (10, 3, Flip("term", 2)), "sum, one block": (14, 1, Flip("term", 3)), "sum, one block combined": (28, 2, Flip("item", 0)),
             "max": (12, 2, Flip("term", 3)), "argmax": (15, 2, Flip("term", 3)), "chain, kept": (17, 1, Flip("term", 0)), "sum, a block of one": (35, 1, Flip("term", 2048))}
    large = {"dot, several groups": (5, 1, Flip("term", 4500)), "dot, a block's addition": (5, 1, Flip("group", 5)), "dot, a group's addition": (5, 0, Flip("total", 1)),
             "sum, several blocks": (6, 0, Flip("term", 4117)), "sum, lane 40": (6, 1, Flip("term", 2088)), "sum, a block combined": (6, 1, Flip("item", 2)),
             "sum, the blocks combined": (6, 1, Flip("item", 0, 1)), "sum of integers": (10, 0, Flip("term", 69)), "max, long": (7, 0, Flip("term", 2059)),
             "argmax, long": (8, 0, Flip("term", 1029)), "argmax, the best": (8, 0, Flip("best", 700)), "argmax, both": (8, 0, Flip("both", 900)),
             "chain, long": (9, 0, Flip("term", 2098)), "chain of integers": (12, 0, Flip("term", 3)), "max of bytes": (11, 0, Flip("term", 3))}
    for name, world, (value, at, flip) in [(name, SMALL, lie) for name, lie in small.items()] + [(name, FOLDS, lie) for name, lie in large.items()]:
        ruling = cheat(f"d: {name}", Lie(4, value, at, flip), world)
        assert ruling["claim"] == "d" and ("position" in ruling["at"]), (name, ruling)
        assert flip.what in ("group", "total", "item") or ruling["at"]["position"] == flip.place, (name, ruling)
    for name, value in (("dot", 5), ("sum", 6), ("max", 7), ("argmax", 8)):
        assert cheat(f"post: {name} does not end in its element", Lie(4, value, 0), FOLDS)["reason"] == "post"


def deep():
    cheat("c: 600 steps, in the first list", Lie(100, 3, 0), LONG)
    cheat("d: 600 steps, the last step", Lie(598, 5, 1), LONG)
    cheat("d: 600 steps, three states a list", Lie(301, 4, 0), LONG)
    cheat("f: 600 steps, a state that is not finite", Lie(-1), LONG)
    cheat("a: wide, in the first list", Lie(1, 7, 1), WIDE)
    cheat("d: wide, the lone line, the lone leaf", Lie(2, 512, 65537), WIDE)
    cheat("b: wide, the lone entry", Lie(1, state=entry("step", np.array(7))), WIDE)
    cheat("b: wide, an entry is missing", Lie(3, state=without("model/250")), WIDE)


def entry(name, array):
    return lambda state: {**state, name: array.astype(state[name].dtype)}


def without(name):
    return lambda state: {key: value for key, value in state.items() if key != name}


def disordered(state):
    pairs = sorted(state.items())
    return [*pairs[:2], pairs[3], pairs[2], *pairs[4:]]


def twice(state):
    pairs = sorted(state.items())
    return [*pairs[:3], pairs[2], *pairs[3:]]


def ends():
    """The state after a step does not follow from its values."""
    nan = np.array([1, np.nan, 2, 3])
    for name, state in (("another number", entry("model/b", np.arange(4))), ("the first is missing", without("kept/04")), ("the last is missing", without("step")),
                        ("one is missing", without("kept/15")), ("another order", disordered), ("an entry twice", twice)):
        assert cheat(f"b: {name}", Lie(6, state=state))["claim"] == "b", name
    cheat("f: not finite, another end", Lie(6, state=entry("model/b", nan)))
    world, story = SMALL, table_of(Lie(4, 30, altered=lambda array: np.float32([np.inf, 1, 2, 3])))[1].story
    table = Table(world, Proof(world, story), "segment", 1)
    table.play(Party(world, story), Party(world, honest()))
    case("d: an infinity that does not follow", table.text())


def infinite():
    """A run that goes on honestly after its numbers have left the floats: claim f before or after accepting."""
    for name, early in (("instead of accepting", True), ("after accepting", False)):
        table, solver = Table(LONG, Proof(LONG, honest(LONG)), "segment", 0), Party(LONG, honest(LONG))

        def change(game, say):
            return say if early or say.get("claim") != "f" or game.want != "values" else {"kind": "accept"}

        ruling = table.play(solver, Party(LONG, honest(LONG)), change)
        assert ruling["claim"] == "f" and ruling["falls"]
        case(f"f: {name}", table.text())


def ends_of_proofs():
    other = digests.sha(b"another state").hex()
    false_start = Proof(SMALL, players.Story(SMALL, 0, entry("model/b", np.arange(4))(SMALL.initial)))
    for name, proof, about, segment in (("initial, false", false_start, "initial", 0), ("initial, right", PROOFS[id(SMALL)], "initial", 0),
                                        ("initial, two of them", Proof(SMALL, honest(), initial=other), "initial", 0),
                                        ("final, false", Proof(SMALL, honest(), **games.ending("another")), "final", 1),
                                        ("final, right", PROOFS[id(SMALL)], "final", 1)):
        case(f"g: {name}", Table(SMALL, proof, about, segment).text())


def verdicts():
    proof, story = PROOFS[id(FOLDS)], honest(FOLDS)
    lie = FOLDS.story(Lie(4, 12, 0, Flip("term", 1)))
    refuter = Verdict(FOLDS, proof, story, {1: {"recomputed": lie.digest(7).hex()}})
    table = Table(FOLDS, proof, "segment", 1, refuter)
    assert table.play(Party(FOLDS, lie), Party(FOLDS, story))["falls"]
    case("d: a refutation that is wrong", table.text())
    right = Proof(FOLDS, lie)
    table = Table(FOLDS, right, "segment", 1, Verdict(FOLDS, right, story, {1: {"recomputed": story.digest(7).hex()}}))
    assert not table.play(Party(FOLDS, story), Fool(FOLDS, story, 12))["falls"]
    case("d: a refutation that is right", table.text())
    for policy in (False, True):
        how = "policy" if policy else "chosen"
        idle = Verdict(FOLDS, proof, story, policy=policy, interior={1: FOLDS.story(Lie(3, 14))})
        table = Table(FOLDS, proof, "witness", 1, idle)
        assert table.play(Party(FOLDS, idle.interior[1]), Party(FOLDS, story))["falls"]
        case(f"d: a false witness, {how} draw", table.text())
        table = Table(FOLDS, proof, "witness", 1, idle)
        assert table.play(Party(FOLDS, story), Party(FOLDS, story))["reason"] == "post"
        case(f"post: another state than the witness's, {how} draw", table.text())
    table = Table(FOLDS, proof, "witness", 0, Verdict(FOLDS, proof, story))
    assert not table.play(Party(FOLDS, story), Fool(FOLDS, story, 13))["falls"]
    case("d: a witness that is right", table.text())
    table = Table(FOLDS, proof, "witness", 1, Verdict(FOLDS, proof, story, {1: {"witness": "0" * 64}}))
    table.play(Party(FOLDS, story), Party(FOLDS, story))
    case("post: no witness", table.text())


def diverging():
    """EXPLODING diverges at step 4, in the segment after one of a single step."""
    story, step = honest(EXPLODING), 4
    proof, party = Proof(EXPLODING, story, step), Party(EXPLODING, story)
    table = Table(EXPLODING, proof, "segment", 2)
    assert not table.play(party, Fool(EXPLODING, story, 5))["falls"]
    case("diverging: a step that does", table.text())
    table = Table(EXPLODING, proof, "segment", 2)
    fool = Fool(EXPLODING, story, None)
    ruling = table.play(party, fool, lambda game, say: fool.claim_f(game.last, 1) if say["kind"] == "accept" else say)
    assert ruling["claim"] == "f" and not ruling["falls"]
    case("diverging: not finite, as it says", table.text())
    table = Table(EXPLODING, proof, "segment", 2)
    assert table.play(party, fool, replace(kind="fault", line=EXPLODING.state_line("model/b")))["reason"] == "malformed"
    case("malformed: a fault with a line that it has no use for", table.text())
    table = Table(EXPLODING, proof, "segment", 1)
    assert table.play(party, Fool(EXPLODING, story, 5))["at"]["step"] == 3 and table.judge.ruling["moves"] == 4
    case("diverging: the segment of one step before it", table.text())
    liar = EXPLODING.story(Lie(2, 5, altered=lambda array: np.float32([array[0], np.inf])))
    false = Proof(EXPLODING, liar, 2)
    table = Table(EXPLODING, false, "segment", 1)
    assert table.play(Party(EXPLODING, liar), party)["claim"] == "d" and table.judge.ruling["falls"]
    case("diverging: a step that does not", table.text())
    table = Table(EXPLODING, false, "segment", 1, Verdict(EXPLODING, false, liar))
    assert table.play(Party(EXPLODING, liar), party)["claim"] == "d" and table.judge.ruling["falls"]
    case("diverging: a row that agrees, and should not", table.text())
    tame = EXPLODING.story(Lie(step, 5, altered=lambda array: np.float32([array[0], 1])))
    table = Table(EXPLODING, proof, "segment", 2, Verdict(EXPLODING, proof, story, {2: {"recomputed": tame.digest(step + 1).hex()}}))
    assert table.play(Party(EXPLODING, tame), party)["claim"] == "d" and table.judge.ruling["falls"]
    case("diverging: a row that denies it", table.text())
    row = {"reason": "non-finite", "recomputed": "0" * 64}
    table = Table(EXPLODING, proof, "segment", 2, Verdict(EXPLODING, proof, story, {2: row}))
    assert table.judge.ruling == {"at": {"segment": 2, "step": 4}, "falls": True, "last": table.id, "moves": 0, "reason": "post"}
    case("diverging: a row that objects to what the proof says", table.text())
    void_divergences(proof, story)


def void_divergences(proof, story):
    """Challenges of a run that diverged that are none."""
    verdict = Verdict(EXPLODING, proof, story)
    for name, how in (("an end of the diverging step", {"end": proof.opened(2)}), ("beyond the diverging step", {"segment": 3}),
                      ("a witness of one step", {"about": "witness", "segment": 1, "verdict": verdict}), ("a diverging step is not final", {"about": "final"})):
        fields = {"about": "segment", "segment": 2, "verdict": None, **how}
        text = challenge_of(proof, fields.pop("about"), fields.pop("segment"), fields.pop("verdict"), fields)
        case(f"refused: {name}", text, "refused")


def challenge_of(proof, about, segment, verdict, changes):
    """A transcript with a challenge in this world, whether or not it is one."""
    world, start = proof.world, proof.opened(min(segment, 2))
    fields = {"task": world.task_id, "proof": proof.id, "about": about, "segment": segment, "start": start, **changes}
    if segment < 2:
        fields["end"] = proof.opened(segment + 1)
    if verdict:
        fields.update(verdict=verdict.id, row=verdict.opened(segment))
    text, _ = world.sign("challenge", fields, CHALLENGER, [("statement", verdict.id if verdict else proof.id), ("start", start["digest"])])
    return b"".join(each + b"\n" for each in (world.task_text, proof.text, *([verdict.text] if verdict else []), text))


def fools():
    """The defender is right; the challenger shows true evidence, or false."""
    proof, story = PROOFS[id(SMALL)], honest()
    for name, value, at, position in (("a", 2, 0, 0), ("c, batch", 4, 3, 0), ("c, uniform", 9, 3, 0), ("d, map", 13, 5, 0), ("d, copy", 34, 1, 0),
                                      ("d, dot", 19, 1, 1), ("d, sum", 18, 1, 2), ("d, max", 20, 0, 1249), ("d, argmax", 15, 1, 1), ("d, chain", 17, 0, 0),
                                      ("b", None, 0, 5)):
        table = Table(SMALL, proof, "segment", 1)
        ruling = table.play(Party(SMALL, story), Fool(SMALL, story, value, at, position))
        assert ruling["reason"] == "claim" and not ruling["falls"], (name, ruling)
        case(f"stands: {name}", table.text())
    for name, value, change in (("no operands", 13, replace(kind="claim", operands=[])), ("foreign bytes", 13, replace(kind="claim", operands=other_bytes)),
                                ("no data", 4, lambda _, say: {key: item for key, item in say.items() if key != "data"}),
                                ("a dot without operands", 10, replace(kind="claim", operands=[])), ("a chain without its init", 22, replace(kind="claim", operands=[])),
                                ("another entry", 2, replace(kind="claim", entry=evidence.open_entry(story.entries(3), 0))),
                                ("another line", 2, replace(kind="claim", line=evidence.open_line(SMALL.texts, 3))),
                                ("another path of an entry's value", None, replace(kind="claim", path=spoiled))):
        table = Table(SMALL, proof, "segment", 1)
        assert not table.play(Party(SMALL, story), Fool(SMALL, story, value, 1), change)["falls"]
        case(f"stands: {name}", table.text())
    table = Table(SMALL, proof, "segment", 1)
    fool = Fool(SMALL, story, None)
    table.play(Party(SMALL, story), fool, lambda game, say: fool.claim_f(game.last, 1) if say["kind"] == "accept" else say)
    case("stands: f", table.text())


def other_bytes(operands):
    return [{**operands[0], "bytes": evidence.base(bytes(len(evidence.decoded(operands[0]["bytes"]))))}, *operands[1:]]


def spoiled(text):
    """The same list with one bit of its first digest changed."""
    data = evidence.decoded(text)
    return evidence.base(bytes([data[0] ^ 1]) + data[1:])


def shortened(text):
    return evidence.base(evidence.decoded(text)[:-32])


def broken():
    """Moves that lose by what they are."""
    lies = {"map": Lie(4, 33, 600), "b": Lie(6, state=entry("model/b", np.arange(4)))}
    lies_of_folds = {"dot": Lie(4, 5, 1, Flip("term", 4500)), "max": Lie(4, 7, 0, Flip("term", 2059)), "sum": Lie(4, 6, 0, Flip("term", 4117))}
    changes = {
        "post: values beside another root": ("map", replace(kind="values", nodes=spoiled), True),
        "malformed: a value too few": ("map", replace(kind="values", nodes=shortened), True),
        "malformed: a state too few": ("map", replace(kind="states", digests=shortened), True),
        "malformed: a number for a list": ("map", replace(kind="states", digests=7), True),
        "malformed: base64 without its end": ("map", replace(kind="states", digests="AAA"), True),
        "malformed: a field more": ("map", replace(kind="values", more=1), True),
        "malformed: an unknown kind": ("map", replace(kind="tensor", **{}), True),
        "e: another root of the numbers": ("map", replace(kind="tensor", root=digests.sha(b"x").hex()), True),
        "post: leaves beside their root": ("map", replace(kind="tensor", nodes=spoiled), True),
        "post: another leaf": ("map", replace(kind="leaf", bytes=spoiled), True),
        "post: a shorter leaf": ("map", replace(kind="leaf", bytes=shortened), True),
        "malformed: no such value": ("map", replace(kind="name", index=len(SMALL.lines)), False),
        "malformed: index below 0": ("map", replace(kind="name", index=-1), False),
        "post: a line that is not the program's": ("map", second_name(lambda line: {**line, "text": line["text"].replace("mul", "add")}), False),
        "post: the line of another value": ("map", second_name(lambda line: evidence.open_line(SMALL.texts, 32)), False),
        "malformed: a value without its line": ("map", lambda game, say: {"kind": "name", "index": say["index"]} if "line" in say else say, False),
        "malformed: a state input is named": ("map", lambda game, say: {**say, "index": 2, "line": evidence.open_line(SMALL.texts, 2)} if "line" in say else say, False),
        "malformed: a claim of another letter": ("map", replace(kind="claim", claim="c"), False),
        "malformed: an element beyond the leaf": ("map", replace(kind="claim", index=256), False),
        "post: the story changes in a dot's group": ("dot", nth_numbers(1), True),
        "post: the story changes in a dot's block": ("dot", nth_numbers(2), True),
        "post: the story changes in a max": ("max", nth_numbers(1), True),
        "post: the story changes in a sum": ("sum", nth_numbers(1), True),
        "post: the sum and its blocks disagree": ("sum", nth_numbers(0), True),
        "malformed: a running result too few": ("dot", replace(kind="numbers", numbers=lambda text: evidence.base(evidence.decoded(text)[:-4])), True),
        "malformed: half a running result": ("dot", replace(kind="numbers", numbers=lambda text: evidence.base(evidence.decoded(text) + b"00")), True),
        "post: entries beside another count": ("b", replace(kind="entries", count=30), True),
        "post: no entries": ("b", replace(kind="entries", count=0, nodes="", root=digests.sha(b"").hex()), True),
        "post: an entry of another digest": ("b", replace(kind="entry", digest=digests.sha(b"x").hex()), True),
        "post: an entry with another's line": ("b", replace(kind="entry", line=SMALL.state_line("loss")), True),
        "post: an entry with a map's line": ("b", replace(kind="entry", line=evidence.open_line(SMALL.texts, 30)), True),
        "post: an entry with a line of no program": ("b", replace(kind="entry", line={**SMALL.state_line("model/b"), "index": 3}), True),
        "malformed: accepting after an entry": ("b", lambda game, say: {"kind": "accept"} if game.want == "entry" and game.side == "challenger" else say, False),
    }
    for name, (which, change, falls) in changes.items():
        world = FOLDS if which in lies_of_folds else SMALL
        table, solver = table_of({**lies, **lies_of_folds}[which], world)
        if name == "malformed: an unknown kind":
            change = lambda _, say: {**say, "kind": "tensors"} if say["kind"] == "tensor" else say  # noqa: E731
        ruling = table.play(solver, Party(world, honest(world)), change)
        assert ruling["falls"] == falls and name.startswith(ruling.get("claim", ruling["reason"]) if name[0] == "e" else ruling["reason"]), (name, ruling)
        case(name, table.text())


def second_name(changed):
    return lambda _, say: {**say, "line": changed(say["line"])} if "line" in say and say["kind"] == "name" else say


def nth_numbers(n):
    """The n-th move of numbers has another number at its end."""
    seen = []

    def change(_, say):
        if say["kind"] != "numbers":
            return say
        seen.append(say)
        data = bytearray(evidence.decoded(say["numbers"]))
        data[-2] ^= 0x40 if len(seen) == n + 1 else 0
        return {**say, "numbers": evidence.base(bytes(data))}

    return change


def until(name, kind, then, lie=None):
    """Play until somebody is to say this kind; `then` goes on from the table, what they would say, and the game."""
    table, solver = table_of(lie or Lie(4, 13, 2))
    found = []

    def change(_, say):
        if say["kind"] == kind:
            found.append(say)
            return None
        return say

    table.play(solver, Party(SMALL, honest()), change)
    then(table, found[0])
    case(name, table.text())
    return table.judge.ruling


def orders():
    """Turns, two moves, what goes on."""
    def two(table, say):
        table.move(say).move({**say, "index": say["index"] + 1}, turn=len(table.ids) - 1, previous=table.ids[-2])

    assert not until("h: two moves of the challenger", "name", two)["falls"]

    def two_of_the_defender(table, say):
        table.move(say)
        before = table.ids[-2]
        table.move({"kind": "name", "index": 13, "line": evidence.open_line(SMALL.texts, 13)})
        table.move({**say, "nodes": spoiled(say["nodes"])}, key=SOLVER, turn=len(table.ids) - 2, previous=before)

    assert until("h: two moves of the defender, one later", "values", two_of_the_defender)["falls"]
    assert not until("out-of-turn: the challenger for the defender", "values", lambda table, say: table.move(say, key=CHALLENGER))["falls"]
    assert until("out-of-turn: the defender for the challenger", "name", lambda table, say: table.move(say, key=SOLVER))["falls"]
    assert until("malformed: a turn is left out", "values", lambda table, say: table.move(say, turn=len(table.ids) + 2))["falls"]
    case_open = Table(SMALL, PROOFS[id(SMALL)], "segment", 1)
    case("open: a challenge alone", case_open.text())
    assert until("open: half a game", "tensor", lambda table, say: None) is None
    table, solver = table_of(Lie(4, 13, 2))
    table.play(solver, Party(SMALL, honest()))
    decided = table.judge.ruling
    table.move({"kind": "accept"}, turn=len(table.ids))
    assert dispute.judge(table.text()) == decided
    case("d: with a move after its end", table.text())


def refused():
    """What convicts nobody, since it is no transcript."""
    table, solver = table_of(Lie(4, 13, 2))
    say = solver.say(table.judge.game)
    strange = {"a move of somebody else": {"key": STRANGER}, "a move that answers nothing here": {"previous": "ab" * 32}, "a move of another game": {"game": "cd" * 32}}
    for name, how in strange.items():
        made, _ = table_of(Lie(4, 13, 2))
        try:
            made.move(say, **how)
        except dispute.Refused:
            case(f"refused: {name}", made.text(), "refused")
    whole = table.move(say).text()
    lines = whole.splitlines(keepends=True)
    flawed = lines[3].replace(b'"sig":"', b'"sig":"AAAA', 1)[:-6] + b"\n"
    for name, text in {"a line twice": b"".join([*lines, lines[-1]]), "no task": b"".join(lines[1:]), "no challenge": b"".join(lines[:2] + lines[3:]),
                       "the proof twice": b"".join([lines[0], lines[1], *lines[1:]]), "an empty line": whole + b"\n",
                       "a signature that is none": b"".join([*lines[:3], flawed])}.items():
        case(f"refused: {name}", text, "refused")
    proof, other = PROOFS[id(SMALL)], digests.sha(b"x").hex()
    voids = {"a start that is not committed": {"start": {**proof.opened(1), "digest": other}}, "an end at another place": {"end": proof.opened(1)},
             "no such segment": {"segment": 2}, "final is the last": {"about": "final", "segment": 0, "start": proof.opened(0), "end": proof.opened(1)},
             "of another proof": {"proof": other}}
    for name, changes in voids.items():
        case(f"refused: {name}", void(changes), "refused")


def void(changes, key=CHALLENGER):
    """A transcript with a challenge that is none."""
    proof = PROOFS[id(SMALL)]
    fields = {"task": SMALL.task_id, "proof": proof.id, "about": "segment", "segment": 1, "start": proof.opened(1), "end": proof.opened(2), **changes}
    text, _ = SMALL.sign("challenge", fields, key, [("statement", fields["proof"]), ("start", fields["start"]["digest"])])
    return b"".join(each + b"\n" for each in (SMALL.task_text, proof.text, text))


def check():
    """What has been asserted of each case above is what the whole transcript comes to."""
    for name, (text, expected) in CASES.items():
        try:
            assert dispute.judge(text) == expected, name
        except dispute.Refused:
            assert expected == "refused", name


def in_clear(line):
    """The statement instead of its base64, where that says all."""
    try:
        envelope = json.loads(line)
        body = base64.b64decode(envelope["payload"])
        made = {"keyid": envelope["signatures"][0]["keyid"], "sig": envelope["signatures"][0]["sig"], "statement": json.loads(body)}
        return made if envelope_of(made) == line else line
    except (ValueError, KeyError):
        return line


def envelope_of(made):
    body = base64.b64encode(statements.canonical(made["statement"])).decode()
    return statements.canonical({"payload": body, "payloadType": statements.PAYLOAD_TYPE,
                                 "signatures": [{"keyid": made["keyid"], "sig": made["sig"]}]}).decode()


def main():
    for part in (inputs_and_maps, folds, deep, ends, infinite, ends_of_proofs, verdicts, diverging, fools, broken, orders, refused):
        part()
    dispute_readings.add_to(sys.modules[__name__])
    dispute_forced.add_to(sys.modules[__name__])
    check()
    numbers, cases = {}, []
    for name, (text, expected) in CASES.items():
        lines = [numbers.setdefault(line, len(numbers)) for line in text.decode().removesuffix("\n").split("\n")]
        cases.append({"name": name, "lines": lines, "ruling": expected})
    json.dump({"cases": cases, "lines": [in_clear(line) for line in numbers]}, sys.stdout, sort_keys=True, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
