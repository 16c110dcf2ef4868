"""Cases of dispute.py that tell readings of dgx-dispute(7) apart: evidence that nobody needs, forms at their limits, claims where they are of no use."""

import numpy as np
from spec import digests, evidence
from spec.games import SOLVER, Proof, Table, Verdict, replace
from spec.players import Fool, Lie, Party
from spec.running import Flip

made = None


def add_to(script):
    """Adds the cases to those of dispute.py, the module given."""
    global made
    made = script
    readings_of_operands()
    readings_of_claims()
    readings_of_forms()
    proof = made.PROOFS[id(made.SMALL)]
    text = made.void({}, SOLVER)
    made.case("refused: a challenge by the defender", text, "refused")
    verdict = Verdict(made.SMALL, proof, made.honest(), policy=True)
    table = Table(made.SMALL, proof, "segment", 1, verdict)
    made.case("refused: a beacon that is not needed", b"".join(each + b"\n" for each in (*table.texts[:3], *verdict.sources, table.texts[3])), "refused")


def decided(name, lie, change, falls, reason="claim", world=None):
    """The challenger is right but for what `change` makes of a move."""
    world = world or made.SMALL
    table, solver = made.table_of(lie, world)
    ruling = table.play(solver, Party(world, made.honest(world)), change)
    assert (ruling["falls"], ruling["reason"]) == (falls, reason), (name, ruling)
    made.case(f"{'falls' if falls else 'stands' if reason == 'claim' else reason}: {name}", table.text())


def readings_of_operands():
    """Of a map, whose access 2 is read, and of a select, whose last branch is not."""
    copied, chosen = Lie(4, 13, 4), Lie(4, 11, 5)

    def operands(change):
        return replace(kind="claim", operands=change)

    def unread(change):
        return operands(lambda shown: [change(each) if "table" not in each else each for each in shown])

    decided("d, an operand more", copied, operands(lambda shown: [*shown, shown[-1]]), True)
    decided("d, an operand more that is not of the table", copied, operands(lambda shown: [*shown, {**shown[0], "table": made.spoiled(shown[0]["table"])}]), False)
    decided("d, an operand more that says another type", copied, operands(lambda shown: [*shown, {"shape": [12], "t": "f32", "value": shown[0]["value"]}]), False)
    decided("d, nothing of the branch not taken", chosen, operands(lambda shown: [each for each in shown if "table" in each]), False)
    decided("d, another shape of the branch not taken", chosen, unread(lambda each: {**each, "shape": [*each["shape"], 1]}), False)
    decided("d, another type of the branch not taken", chosen, unread(lambda each: {**each, "t": "i64"}), False)
    decided("d, another size of the branch not taken", chosen, unread(lambda each: {**each, "shape": [size + 1 for size in each["shape"]]}), True)


def readings_of_claims():
    story, proof = made.honest(), made.PROOFS[id(made.SMALL)]

    def with_data(game, say):
        if say.get("claim") != "c":
            return say
        array = made.SMALL.data["x"]
        entries = [(each, digests.tensor(made.SMALL.data[each])) for each in ("x", "y")]
        scales = digests.sha(made.SMALL.recipe).hex()
        return {**say, "data": {"entry": evidence.open_entry(entries, 0), "scales": scales, "tensor": evidence.open_leaf(array, 0)}}

    decided("c, data of a schedule", Lie(4, 6, 1), with_data, False)
    for name, claim in (("a digest", {"digest": "ab" * 32, "path": ""}), ("an order", {"before": evidence.open_entry(story.entries(7), 0)}),
                        ("a line alone", {"line": made.SMALL.state_line("step")})):
        table = Table(made.SMALL, proof, "segment", 1)

        def instead(game, say, claim=claim):
            return {"kind": "claim", "claim": "b", **claim} if game.want == "entries" and game.side == "challenger" else say

        ruling = table.play(Party(made.SMALL, story), Fool(made.SMALL, story, None), instead)
        assert not ruling["falls"] and ruling["claim"] == "b", ruling
        made.case(f"stands: b, {name} before an entry is shown", table.text())


def readings_of_forms():
    """What has another form is malformed, whether or not it would be needed."""
    lie = Lie(4, 13, 4)
    first = {"a type that is none": {"t": "f16"}, "nine dimensions": {"shape": [1] * 9}, "a dimension of 0": {"shape": [0]},
             "more elements than 2^53": {"shape": [2**53, 2]}, "a leaf of 1,025 bytes": {"bytes": evidence.base(bytes(1025))},
             "a path of 65 digests": {"path": evidence.base(bytes(65 * 32))}}
    for name, fields in first.items():
        decided(f"d, {name}", lie, replace(kind="claim", operands=lambda shown, fields=fields: [{**shown[0], **fields}, *shown[1:]]), False, "malformed")
    decided("d, 97 operands", lie, replace(kind="claim", operands=lambda shown: (shown * 97)[:97]), False, "malformed")
    decided("d, more than 16 KiB", lie, replace(kind="claim", operands=lambda shown: shown * 40), False, "malformed")
    decided("a, a name of 513 characters", Lie(4, 1, 7), replace(kind="claim", entry=lambda shown: {**shown, "name": "n" * 513}), False, "malformed")
    decided("a, a name with a control character", Lie(4, 1, 7), replace(kind="claim", entry=lambda shown: {**shown, "name": "n\x7f"}), False, "malformed")
    decided("a text that is no line is named", lie, made.second_name(lambda line: {**line, "text": "x"}), False, "post")
    decided("a line of more than 3,072 bytes is named", lie, made.second_name(lambda line: {**line, "text": "x" * 3073}), False, "malformed")
    state = Lie(6, state=made.entry("model/b", np.arange(4)))
    decided("an entry with a text that is no line", state, replace(kind="entry", line=lambda line: {**line, "text": "x"}), True, "post")
    decided("entries of another count, and half a digest", state,
            replace(kind="entries", count=30, nodes=lambda text: evidence.base(evidence.decoded(text)[:-16])), True, "malformed")
    decided("a tensor of another root, and a leaf too few", Lie(4, 33, 600),
            replace(kind="tensor", root=digests.sha(b"x").hex(), nodes=made.shortened), True, "post")
    decided("a tensor of its root, and a leaf too few", Lie(4, 33, 600), replace(kind="tensor", nodes=made.shortened), True, "malformed")
    decided("an entry's name of 257 characters", state, replace(kind="entry", name="n" * 257), True, "malformed")
    decided("more than 16,640 bytes of numbers", Lie(4, 5, 1, Flip("term", 4500)), replace(kind="numbers", numbers=evidence.base(bytes(16644))), True, "malformed", made.FOLDS)
    maximum, best = Lie(4, 12, 2, Flip("term", 3)), Lie(4, 15, 2, Flip("term", 3))
    decided("another NaN among the numbers", maximum, replace(kind="numbers", numbers=evidence.base(np.array([0x7FC00001] * 4, "<u4").tobytes())), True, "malformed")
    decided("a list of an argmax that contradicts, of 17 bytes an entry", best, replace(kind="numbers", numbers=evidence.base(bytes(4 * 17))), True, "post")
    decided("a list of an argmax, too short", best, replace(kind="numbers", numbers=evidence.base(bytes(4 * 15))), True, "malformed")
    decided("a first list that contradicts, and more behind it", Lie(4, 12, 0, Flip("term", 2)), replace(kind="numbers", numbers=evidence.base(bytes(48))), True, "post", made.FOLDS)
