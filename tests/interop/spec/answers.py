"""First moves that answer by themselves: a demanded chunk, and the reason why a row was not replayed (dgx-dispute(7), _chunk_ and _fault_).
The functions get the game, which is a generator's frame as those of game.py."""

import numpy as np

from . import digests, evidence, statements
from .claims import state_line
from .evidence import Entry, Leaf, digest, digest_list, is_integer, line_of

FAULTS = {"step": [["entry", "tensor"]],
          "state": [["entry", "tensor"], ["entry", "line", "root", "shape", "t"], ["line"], ["before", "line"], ["after", "line"], ["after", "before", "line"],
                    ["after", "before"], ["entry"]],
          "non-finite": [["digest", "entry", "step", "tensor"]]}
PART = 1 << 20
ZERO = "0" * 64


def draw(beacon, proof, verifier, segments, count):
    """dgx-protocol(7), "Draw": the segments, ascending."""
    chosen, j = set(), 0
    while len(chosen) < count:
        drawn = digests.sha(b"dgx-draw" + beacon + proof + verifier + j.to_bytes(8, "big"))
        chosen.add(int.from_bytes(drawn[:8], "big") % segments)
        j += 1
    return sorted(chosen)


def forced_segment(task, steps, drawn, round_value, secret, proof):
    """dgx-protocol(7), "FORCED ERRORS": the segment whose witness has to be false, or None. `steps`: those of the committed states."""
    lot = digests.sha(b"dgx-forced" + round_value + secret + proof)
    if int.from_bytes(lot[:8], "big") >= task["policy"]["forced_error_ppm"] * 2**64 // 10**6:
        return None
    segment = drawn[int.from_bytes(lot[8:16], "big") % len(drawn)]
    return segment if segment + 1 < len(steps) and steps[segment + 1] - steps[segment] > 1 else None


def is_row(row):
    """Whether it is a row of dgx-manifest(5), "verdict"."""
    if not isinstance(row, dict) or set(row) != {"agrees", "expected", "index", "reason", "recomputed", "witness"} or not is_integer(row["index"]):
        return False
    for key in ("expected", "recomputed", "witness"):
        digest(row[key])
    agrees = row["expected"] == row["recomputed"]
    rest = row["reason"] in ("step", "state", "non-finite") and row["recomputed"] == ZERO
    return row["agrees"] is agrees and (row["reason"] == "equal" if agrees else row["reason"] == "digest" or rest)


def row_is_shown(game, say, asked):
    """Whether it is the verdict's row of the segment; `asked` has its place among those drawn, and what else is known."""
    verdict = asked["verdict"]
    leaf = digests.leaf(statements.canonical(say["row"]))
    root = evidence.root_of(say["index"], verdict["rows"]["count"], leaf, digest_list(say["path"]))
    right = root.hex() == verdict["rows"]["root"] and say["index"] == asked["place"] and say["row"]["index"] == game.at["segment"]
    return right and not game.is_false_on_its_face(say["row"], game.after) and (verdict["outcome"] != "accepted" or say["row"]["agrees"])


def demanded(opened, part, program):
    """The line and part of a challenge; Unproven if there is none such."""
    line, _ = state_line(opened, program)
    evidence.need(part < -(-evidence.byte_count(line["t"], line["s"]) // PART), "no such part")
    return line, part


def chunk_is_right(game, say, line, part):
    """Whether what is shown leads to the state; the location is only text."""
    entry, parts = Entry(say["entry"]), -(-evidence.byte_count(line["t"], line["s"]) // PART)
    whole = evidence.root_of(part, parts, digest(say["root"]), digest_list(say["path"]))
    name = line["src"][len("state "):]
    return entry.state() == game.before and entry.name == name and evidence.tensor_digest(line["t"], line["s"], whole) == entry.tensor


def fault_is_shown(game, say):
    """Whether the start state is as the row says; of a step that is not finite, whether that is so in the state shown."""
    if game.reason == "step":
        entry, leaf = Entry(say["entry"]), Leaf(say["tensor"])
        known = entry.state() == game.before and entry.name == "step" and leaf.digest == entry.tensor
        return known and leaf.kind == "i64" and leaf.shape == [] and int(leaf.numbers[0]) != game.first
    if game.reason == "non-finite":
        entry, leaf = Entry(say["entry"]), Leaf(say["tensor"])
        good = is_integer(say["step"]) and game.first < say["step"] <= game.last and entry.state() == digest(say["digest"])
        return good and leaf.digest == entry.tensor and leaf.kind == "f32" and not np.isfinite(leaf.numbers).all()
    if "tensor" in say:
        entry, leaf = Entry(say["entry"]), Leaf(say["tensor"])
        known = entry.state() == game.before and leaf.digest == entry.tensor
        return known and leaf.kind == "f32" and not np.isfinite(leaf.numbers).all()
    if "root" in say:
        entry, (line, name) = Entry(say["entry"]), state_line(say["line"], game.program)
        other = evidence.tensor_digest(say["t"], say["shape"], digest(say["root"])) == entry.tensor and (say["t"], say["shape"]) != (line["t"], line["s"])
        return entry.state() == game.before and entry.name == name and other
    if "entry" in say:
        return Entry(say["entry"]).state() == game.before
    return not_between(game, say)


def not_between(game, say):
    """Neighbours between which a name is missing, or that do not ascend."""
    before, after = (Entry(say[key]) if key in say else None for key in ("before", "after"))
    for entry in filter(None, (before, after)):
        evidence.need(entry.state() == game.before, "not an entry of the start state")
    if before and after:
        evidence.need(after.index == before.index + 1, "not neighbours")
    elif before:
        evidence.need(before.index == before.count - 1, "not the last entry")
    elif after:
        evidence.need(after.index == 0, "not the first entry")
    else:
        evidence.need(evidence.state_digest(0, digests.root([])) == game.before, "not a state without entries")
    if "line" not in say:
        return not before.name < after.name
    _, name = state_line(say["line"], game.program)
    return (before is None or before.name < name) and (after is None or name < after.name)


def is_of_program(game, opened, name):
    line, _ = line_of(opened, game.program)
    return line.get("src") == f"state {name}"
