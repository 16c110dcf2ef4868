"""Games that a first move decides, or begins: demanded chunks, and rows of a verdict that were not replayed. `games()` yields name, table, and whether
the statement has to fall; None if that is open without receipts."""

import numpy as np

from spec import answers, digests, evidence, worlds
from spec.games import VERIFIER, Proof, Table, Verdict, key_id
from spec.players import Fool, Lie, Party

ZERO = "0" * 64


def entry(name, array):
    return lambda state: {**state, name: array.astype(state[name].dtype)}


def without(name):
    return lambda state: {key: value for key, value in state.items() if key != name}


def not_replayed(world, proof, honest, segment, reason, **changes):
    row = {"reason": reason, "recomputed": ZERO, "witness": ZERO, **changes}
    return Table(world, proof, "segment", segment, Verdict(world, proof, honest, {segment: row}))


def opened(story, step, name):
    return Party(story.world, story).open_entry(step, name)


def with_start(world, honest, state):
    """A proof whose state at step 3 is not what it should be; it goes on with honest states."""
    story = world.story()
    story.states.update({step: honest.state(step) for step in range(8)})
    story.states[3] = state(honest.state(3))
    return story, Proof(world, story)


def chunks(world, honest, proof):
    for name, part in (("model/a", 0), ("kept/33", 0)):
        table = Table(world, proof, "chunk", 2, chunk=(name, part))
        yield f"chunk of {name}", table.move(Party(world, honest).say(table.judge.game)), None
    table = Table(world, proof, "chunk", 1, chunk=("model/a", 0))
    say = Party(world, honest).say(table.judge.game)
    yield "chunk with another root", table.move({**say, "root": digests.sha(b"x").hex()}), True
    table = Table(world, proof, "chunk", 1, chunk=("model/a", 0))
    yield "chunk without a place", table.move({**say, "location": ""}), True
    table = Table(world, proof, "chunk", 1, chunk=("model/b", 0))
    yield "chunk of another entry", table.move(say), True


def steps(world, honest, proof):
    story, false = with_start(world, honest, entry("step", np.array(4)))
    for name, made, told in (("that is so", false, story), ("that is not so", proof, honest)):
        table = not_replayed(world, made, honest, 1, "step")
        say = {"kind": "fault", "entry": opened(told, 3, "step"), "tensor": evidence.open_leaf(told.array(3, "step"), 0)}
        yield f"row of another step, {name}", table.move(say), made is proof


def states(world, honest, proof):
    lines = {name: world.state_line(name) for name in ("loss", "step", "kept/20", "model/b")}
    faults = {
        "another shape": (entry_of_shape, {"entry": "model/b", "line": "model/b"}),
        "another shape, without elements": (lambda state: {**state, "model/b": np.zeros(0, "<f4")}, {"entry": "model/b", "line": "model/b"}),
        "one missing": (without("kept/20"), {"before": "kept/19", "after": "kept/21", "line": "kept/20"}),
        "the last missing": (without("step"), {"before": "model/b", "line": "step"}),
        "a foreign entry": (lambda state: {**state, "kept/20a": np.zeros(2, "<f4")}, {"entry": "kept/20a"}),
        "an entry that is not finite": (entry("model/b", np.array([1, np.inf, 2, 3])), {"entry": "model/b", "tensor": "model/b"}),
        "an entry that is finite": (lambda state: state, {"entry": "model/b", "tensor": "model/b"}),
        "an entry of the program": (lambda state: state, {"entry": "model/b"}),
        "none missing": (lambda state: state, {"before": "kept/19", "after": "kept/20", "line": "loss"}),
        "no neighbours": (without("kept/20"), {"before": "kept/18", "after": "kept/21", "line": "kept/20"}),
    }
    for name, (change, shown) in faults.items():
        story, made = with_start(world, honest, change)
        table = not_replayed(world, made, honest, 1, "state")
        say = {"kind": "fault", **{key: lines[each] if key == "line" else opened(story, 3, each) for key, each in shown.items()}}
        if set(shown) == {"entry", "line"}:
            array = story.array(3, "model/b")
            say.update(root=digests.root(evidence.leaves_of(array)).hex(), shape=list(array.shape), t=evidence.kind_of(array))
        if "tensor" in shown:
            say["tensor"] = evidence.open_leaf(story.array(3, "model/b"), 0)
        table.move(say)
        if set(shown) == {"entry"}:
            for how, claim in claims_of_lines(story, lines["model/b"]).items():
                made_again = not_replayed(world, made, honest, 1, "state").move(say).move({"kind": "claim", "claim": "b", **claim})
                yield f"row of another state, {name}, {how}", made_again, name == "an entry of the program" and "line" in claim
            table.move({"kind": "claim", "claim": "b", "line": lines["model/b"]})
        yield f"row of another state, {name}", table, name in ("an entry of the program", "an entry that is finite", "none missing", "no neighbours")


def claims_of_lines(story, line):
    """Forms of claim b after an entry that is said not to be the program's: only a line is looked at."""
    before = opened(story, 3, "kept/20")
    return {"a line and an entry": {"before": before, "line": line}, "an entry alone": {"before": before}, "a digest": {"digest": "ab" * 32, "path": ""}}


def entry_of_shape(state):
    return {**state, "model/b": state["model/b"].reshape(2, 2)}


def not_finite(world, honest, proof):
    infinite = world.story(Lie(4, 30, altered=lambda array: np.float32([np.inf, 1, 2, 3])))
    table = not_replayed(world, proof, honest, 1, "non-finite")
    table.play(Party(world, infinite), Party(world, honest))
    yield "row of a state that is finite", table, True
    long = worlds.long()
    story = long.story()
    table = not_replayed(long, Proof(long, story), story, 0, "non-finite")
    table.play(Party(long, story), Fool(long, story, 5))
    yield "row of a state that is not finite", table, False
    table = not_replayed(long, Proof(long, story), story, 0, "non-finite")
    party = Party(long, story)
    table.play(party, Fool(long, story, None), lambda game, say: party.claim_f(game.last, 1) if say["kind"] == "accept" else say)
    yield "row of a state that is not finite, claimed again", table, False


def rows(world, honest, proof):
    expected = {"expected": digests.sha(b"x").hex(), "recomputed": digests.sha(b"x").hex()}
    yield "row that expects another state", Table(world, proof, "segment", 1, Verdict(world, proof, honest, {1: expected})), True
    lie = world.story(Lie(6, 10, 1))
    verdict = Verdict(world, proof, honest, {1: {"recomputed": lie.digest(7).hex()}})
    table = Table(world, proof, "segment", 1, verdict, row={"index": 0, "path": "", "row": verdict.rows[1]})
    table.play(Party(world, lie), Party(world, honest))
    yield "row that the verdict gives, without its path", table, True


def hidden_rows(world, honest, proof):
    """The draw of a task of two segments that samples one in twenty is one; the verdict has that row alone."""
    lie = world.story(Lie(6, 10, 1))
    for name, changes, story, named, falls in (("false end", {"recomputed": lie.digest(7).hex()}, lie, 0, True), ("right", {}, honest, 0, False),
                                               ("false witness", {}, world.story(Lie(0, 29, 2)), 1, True)):
        first = Verdict(world, proof, honest, policy=True)
        segment = drawn_of(world, proof, first)
        if segment == 0 and name == "false end":
            lie = story = world.story(Lie(2, 10, 1))
            changes = {"recomputed": lie.digest(3).hex()}
        if segment == 1 and name == "false witness":
            story = world.story(Lie(3, 29, 2))
        interior = {segment: story} if named else None
        verdict = Verdict(world, proof, honest, {segment: changes}, policy=True, interior=interior, only=segment)
        for wrong in (False, True):
            table = Table(world, proof, "row", segment, verdict)
            shown = verdict.opened(segment)
            table.move({"kind": "row", **shown, "path": evidence.base(bytes(32)) if wrong else shown["path"]})
            if not wrong:
                table.move({"kind": "name", "index": named})
                table.play(Party(world, story), Party(world, honest) if falls else Fool(world, honest, 29, 3))
            yield f"hidden row, {name}{', another path' if wrong else ''}", table, falls or wrong


def drawn_of(world, proof, verdict):
    return answers.draw(verdict.beacon["value"], bytes.fromhex(proof.id), bytes.fromhex(key_id(VERIFIER)), len(world.steps) - 1, 1)[0]


def games(world, honest, proof):
    for kind in (chunks, steps, states, not_finite, rows, hidden_rows):
        yield from kind(world, honest, proof)
