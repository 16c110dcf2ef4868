"""Games about runs that diverge, truly or falsely, drawn at random: dgx-protocol(7), "Divergence". `drawn` gives a name, the table, and whether the
statement has to fall.

In a world of its own each step of seven is the one that diverges, since it draws a poisoned sample. In the others nothing diverges but by a lie.
"""

import functools

import numpy as np

from spec import digests, evidence, worlds
from spec.games import Proof, Table, Verdict
from spec.players import Fool, Lie, Party

STEPS, ZERO = 7, "0" * 64
FLOATS = [n for n in range(4, 37) if n not in (5, 8, 15, 21, 23, 24, 25, 26, 32)]  # values of `small` that are floats and no state inputs


@functools.cache
def diverging(step):
    """A world in which this step diverges, and its honest story."""
    world = worlds.small(step)
    story = world.story()
    assert [is_finite(world, story, n) for n in range(step + 2)] == [True] * (step + 1) + [False]
    return world, story


def pick(random, choices):
    return choices[int(random.integers(len(choices)))]


def some_divergence(random, first=0, end=STEPS):
    step = int(random.integers(first, end))
    return (*diverging(step), step)


def infinite(array):
    changed = array.copy()
    changed.reshape(-1)[-1] = np.inf
    return changed


def to_infinity(random, world, step):
    """The story of somebody who says that a step diverges: by a value, by the state after it, or by another input."""
    return world.story(pick(random, [Lie(step, pick(random, FLOATS), altered=infinite), Lie(step, 1, altered=infinite),
                                     Lie(step, state=lambda state: {**state, "model/b": infinite(state["model/b"])})]))


def to_finite(random, world, step):
    """The story of somebody who denies it: the state after the step has numbers, by a lie about the values or about the state."""
    def tamed(array):
        return np.where(np.isfinite(array), array, 1).astype(array.dtype)

    def state(after):
        return {name: tamed(array) if array.dtype == np.float32 else array for name, array in after.items()}

    return world.story(pick(random, [Lie(step, 4, altered=lambda array: np.clip(array, -1, 1)), Lie(step, state=state)]))


def fool(random, world, story):
    number = int(random.integers(1, 37)) if random.random() < 0.9 else None
    element = 0 if number is None else int(random.integers(int(np.prod(world.lines[number]["s"]))))
    return Fool(world, story, number, element, int(random.integers(3000)))


def last_of(proof):
    return proof.segments() - 1


def is_finite(world, story, step):
    return Party(world, story).infinite_entry(step) is None


def true_proof(random, clean):
    """A run that diverges, challenged about the diverging step."""
    world, honest, step = some_divergence(random)
    proof = Proof(world, honest, step)
    table = Table(world, proof, "segment", last_of(proof))
    return table, Party(world, honest), fool(random, world, honest), False


def earlier_segment(random, clean):
    """A run that diverges, challenged about a segment before, perhaps of one step."""
    world, honest, step = some_divergence(random, 1)
    proof = Proof(world, honest, step)
    table = Table(world, proof, "segment", int(random.integers(last_of(proof))))
    return table, Party(world, honest), fool(random, world, honest), False


def lie_before(random, clean):
    """A run that diverges, with a lie in the step before."""
    world, honest, step = some_divergence(random, 1)
    story = world.story(Lie(step - 1, int(random.integers(9, 29)), 0))
    if not is_finite(world, story, step) or story.digest(step) == honest.digest(step):
        return None
    proof = Proof(world, story, step)
    return Table(world, proof, "segment", last_of(proof) - 1), Party(world, story), Party(world, honest), True


def false_proof(random, clean):
    world, honest = clean
    step = int(random.integers(STEPS))
    story = to_infinity(random, world, step)
    proof = Proof(world, story, step)
    return Table(world, proof, "segment", last_of(proof)), Party(world, story), Party(world, honest), True


def beyond_divergence(random, clean):
    """A run that goes on where it should have ended, and says that a later step diverges: the step before is challenged."""
    world, honest, step = some_divergence(random, 0, STEPS - 1)
    proof = Proof(world, honest, step + 1)
    segment = next(n for n, end in enumerate(proof.steps[1:]) if step < end)
    return Table(world, proof, "segment", segment), Party(world, honest), Party(world, honest), True


def true_row(random, clean):
    world, honest, step = some_divergence(random)
    proof = Proof(world, honest, step)
    return row_table(random, world, proof, honest, {}), Party(world, honest), fool(random, world, honest), False


def true_refutation(random, clean):
    """A row that says which finite state a step gives that is said to diverge."""
    world, honest = clean
    step = int(random.integers(STEPS))
    proof = Proof(world, to_infinity(random, world, step), step)
    row = {"recomputed": honest.digest(step + 1).hex()}
    return row_table(random, world, proof, honest, row), Party(world, honest), fool(random, world, honest), False


def false_agreement(random, clean):
    world, honest = clean
    step = int(random.integers(STEPS))
    story = to_infinity(random, world, step)
    proof = Proof(world, story, step)
    return row_table(random, world, proof, story, {}), Party(world, story), Party(world, honest), True


def false_denial(random, clean):
    """A row with another state after a step that diverges: finite, or the one that is not."""
    world, honest, step = some_divergence(random)
    proof = Proof(world, honest, step)
    story = honest if random.random() < 0.3 else to_finite(random, world, step)
    row = {"recomputed": story.digest(step + 1).hex()}
    return row_table(random, world, proof, honest, row), Party(world, story), Party(world, honest), True


def objection(random, clean):
    """A row of a reason for which nothing is recomputed, against a step that diverges or one that is said to."""
    if random.random() < 0.5:
        world, honest = clean
        step = int(random.integers(STEPS))
        proof = Proof(world, to_infinity(random, world, step), step)
    else:
        world, honest, step = some_divergence(random)
        proof = Proof(world, honest, step)
    reason = pick(random, ["non-finite", "step", "state"])
    table = row_table(random, world, proof, honest, {"reason": reason, "recomputed": ZERO})
    return table, Objector(world, honest, step), Party(world, honest), True


def other_end(random, clean):
    """A row that expects another end than a diverging step has."""
    world, honest, step = some_divergence(random)
    proof = Proof(world, honest, step)
    word = digests.sha(b"another end").hex()
    row = {"expected": word, "recomputed": pick(random, [word, digests.DIVERGED.hex()])}
    return row_table(random, world, proof, honest, row), Party(world, honest), Party(world, honest), True


class Objector(Party):
    """Shows that the start state is what it should be, which is no reason."""

    def __init__(self, world, story, step):
        super().__init__(world, story)
        self.step = step

    def defend_fault(self, game):
        name = "step" if game.reason == "step" else "model/b"
        tensor = evidence.open_leaf(self.story.array(self.step, name), 0)
        return {"kind": "fault", "entry": self.open_entry(self.step, name), "tensor": tensor}


def row_table(random, world, proof, honest, row, segment=None, named=0):
    """A challenge of the row of a segment, by default of the diverging step: the row is shown in it, or has to be shown first."""
    segment, hidden = last_of(proof) if segment is None else segment, random.random() < 0.5
    verdict = Verdict(world, proof, honest, {segment: row}, policy=hidden, drawn=hidden)
    if hidden and segment not in verdict.segments:
        return None
    table = Table(world, proof, "row" if hidden else "segment", segment, verdict)
    if hidden:
        table.move({"kind": "row", **verdict.opened(segment)})
        if table.judge.ruling is None:
            table.move({"kind": "name", "index": named})
    return table


def one_step_row(random, clean):
    """The row of a segment of one step, whose witness is not played on."""
    step = pick(random, [1, 4])
    world, honest = diverging(step)
    proof = Proof(world, honest, step)
    table = row_table(random, world, proof, honest, {}, last_of(proof) - 1, int(random.integers(2)))
    return table and (table, Party(world, honest), fool(random, world, honest), False)


KINDS = [true_proof, earlier_segment, lie_before, false_proof, beyond_divergence, true_row, true_refutation, false_agreement, false_denial, objection,
         other_end, one_step_row]


# Fields that a move has no use for, though another one may.
MORE = [{"more": 0}, {"index": 0}, {"digest": ZERO}, {"path": ""}, {"step": 1}, {"operands": []}, {"root": ZERO, "shape": [], "t": "f32"}]


def spoil(random, say):
    """Another move than the rules allow, mostly: another field, or another number, digest or text, in the move or in its evidence."""
    keys = [key for key in say if key != "kind"]
    how = int(random.integers(4))
    nested = [key for key in keys if isinstance(say[key], dict) or (isinstance(say[key], list) and say[key] and isinstance(say[key][0], dict))]
    if how == 3 and nested:
        key = pick(random, nested)
        inside = spoil(random, say[key] if isinstance(say[key], dict) else say[key][0])
        return {**say, key: inside if isinstance(say[key], dict) else [inside, *say[key][1:]]}
    if how == 0 or not keys:
        return {"kind": "concede"} if random.random() < 0.3 and "kind" in say else {**say, **pick(random, MORE)}
    key = pick(random, keys)
    if how == 1:
        return {name: value for name, value in say.items() if name != key}
    if isinstance(say[key], int):
        return {**say, key: say[key] + 1}
    if isinstance(say[key], str) and len(say[key]) > 1:
        at = int(random.integers(len(say[key])))
        return {**say, key: say[key][:at] + ("A" if say[key][at] != "A" else "B") + say[key][at + 1:]}
    return {**say, key: pick(random, [0, "", [], {}])}


def drawn(random, clean):
    """A game of a random kind, played to its end: a name, the table, and whether the statement has to fall, None if somebody said what they liked."""
    kind = pick(random, KINDS)
    made = kind(random, clean)
    if made is None or made[0] is None:
        return None
    table, defender, challenger, falls = made
    at = int(random.integers(8)) if random.random() < 0.4 else -1
    done = []

    def change(game, say):
        if len(table.ids) - 1 == at:
            done.append(True)
            return spoil(random, say)
        return say

    try:
        table.play(defender, challenger, change)
    except StopIteration:  # what is wrong is not where the other was sent to look
        assert done
    return f"{kind.__name__} of {table.world.task_id[:8]}{', spoilt' if done else ''}", table, None if done else falls
