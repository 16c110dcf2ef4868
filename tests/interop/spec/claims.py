"""Final claims, judged by their evidence: dgx-dispute(7), "Moves and claims". Each function gives whether the defender is wrong, and the scalar
operation that was recomputed, if one was; it raises Unproven where the evidence does not carry the claim."""

import numpy as np

from . import element, inputs, program
from .evidence import Entry, Leaf, Openings, digest, digest_list, fields, line_of, need, root_of, table_leaf
from .fit import fits
from .running import Layout, bits, scalar


def claim_a(game, say):
    game.at["value"] = game.node.start + say["index"]
    line, number = line_of(say["line"], game.program)
    need(number == game.at["value"], "the line of another value")
    need(line["src"].startswith("state "), "not a state input")
    entry = Entry(say["entry"])
    need(entry.state() == game.before and entry.name == line["src"][len("state "):], "not that entry of the state before")
    return game.shown[say["index"]] != entry.tensor, None


def state_line(opened, task_program):
    line, _ = line_of(opened, task_program)
    need(line["k"] == "input" and line["src"].startswith("state "), "not a state input")
    return line, line["src"][len("state "):]


def claim_b(game, say):
    """After an entry was shown, or instead of naming one."""
    need(game.entry is not None or {"before", "line"} <= set(say), "no entry was shown")
    if "digest" in say:
        game.at["value"] = game.entry_line["next"]
        shown, path = digest(say["digest"]), digest_list(say["path"])
        root = root_of(game.entry_line["next"], game.program["lines"], table_leaf(shown), path)
        need(root == game.table, "not a value of the table")
        return shown != game.entry[1], None
    before = None
    if "before" in say:
        before = Entry(say["before"])
        need(before.root == game.entries_root and before.count == game.entries_count, "not an entry of that state")
    if game.entry is None:
        need(before is not None and before.index == game.entries_count - 1, "not the last entry")
    else:
        need(game.entry_index == 0 if before is None else before.index == game.entry_index - 1, "not the entry before")
    if "line" not in say:
        return not before.name < game.entry[0], None
    _, name = state_line(say["line"], game.program)
    return (before is None or before.name < name) and (game.entry is None or name < game.entry[0]), None


def claim_c(game, say):
    """An element of an input."""
    line, flat = game.line, game.leaf_start + say["index"]
    game.at["element"] = flat
    source, _, name = line["src"].partition(" ")
    need(source != "state", "a state entry has no formula")
    has_data = source == "batch" and not is_sample_number(game.task, line)
    need(("data" in say) == has_data, "data of a field's batch, and of nothing else")
    if has_data:
        right = batch_number(game, say["data"], name, flat)
    elif source == "batch":
        need(line["s"] == [game.task["batch"]] and line["t"] == "i64", "not the numbers of a batch's samples")
        right = np.int64(sample_of(game.task, game.at["step"], flat))
    else:
        right = computed_input(game.task, line, source, name, game.at["step"], flat)
    claimed = game.numbers[say["index"]]
    shown = [element.stored_bits(number, line["t"]) for number in (claimed, right)]
    return shown[0] != shown[1], {"claimed": shown[0], "operands": [], "operation": "input", "result": shown[1]}


def is_sample_number(task, line):
    """The input `batch i`, unless a field of the dataset has that name."""
    return line.get("src") == "batch i" and "i" not in task["dataset"].get("fields", {})


def sample_of(task, step, row):
    return inputs.samples_at(int(task["seed"]), task["dataset"]["samples"], [step * task["batch"] + row])[0]


def computed_input(task, line, source, name, step, flat):
    if source == "schedule":
        return inputs.scalar(task, line["of"][flat], step)
    if source == "constant":
        return element.stored(program.literal(line["of"][flat]), line["t"])
    words = inputs.philox([np.array([flat & 0xFFFFFFFF], np.uint64), np.array([flat >> 32], np.uint64), np.array([step & 0xFFFFFFFF], np.uint64),
                           np.array([(inputs.DROPOUT << 24) + int(name)], np.uint64)], inputs.key_of(int(task["seed"])))
    return np.float32(int(words[0][0]) >> 8) * np.float32(2.0**-24)


def batch_number(game, data, name, flat):
    opened, scales, tensor = fields(data, ["entry", "scales", "tensor"])
    entry, leaf = Entry(opened), Leaf(tensor)
    need(entry.dataset(digest(scales)).hex() == game.task["dataset"]["digest"] and entry.name == name, "not that tensor of the dataset")
    need(leaf.digest == entry.tensor, "not a leaf of the dataset's tensor")
    size = int(np.prod(game.line["s"][1:], dtype=object))
    need(leaf.shape[1:] == game.line["s"][1:] and leaf.kind == game.line["t"], "a dataset of another shape")
    row, column = divmod(flat, size)
    sample = sample_of(game.task, game.at["step"], row)
    need(leaf.has(sample * size + column), "not the leaf of that sample")
    return leaf.number(sample * size + column)


def last_operation(records, claimed, right):
    """The last record with its number among those of the element or position; a copy has none."""
    if not records:
        return {"claimed": claimed, "operands": [], "operation": "copy", "result": right}
    return scalar(records[-1], claimed, right, len(records) - 1)


def opened_for(game, say):
    opened = Openings(game.table, game.program["lines"], say["operands"])
    need(fits(game.line, opened.types), "the line does not fit the operands")
    return opened


def claim_d_map(game, say):
    line, flat = game.line, game.leaf_start + say["index"]
    game.at["element"] = flat
    at = element.Evaluation(line, opened_for(game, say), flat)
    right = element.stored(at.term().number, line["t"])
    shown = [element.stored_bits(number, line["t"]) for number in (game.numbers[say["index"]], right)]
    return shown[0] != shown[1], last_operation(at.records, *shown)


def claim_d_fold(game, say):
    line, flat, listed, k = game.line, game.at["element"], game.list, say["index"]
    game.at["position"] = listed.place(k)
    source = opened_for(game, say)
    before = listed.before(k)
    if before is None:
        before = element.start(line, source, flat, listed.layout.floats)
    after, records = element.after(line, source, flat, listed.place(k), before)
    claimed, right = bits(listed.entries[k]), bits(after)
    shown = (claimed, right)
    if line["k"] == "argmax":
        which = 0 if claimed[0] != right[0] else 1
        shown = (claimed[which], right[which])
    return claimed != right, last_operation(records, *shown)


def claim_f(game, say):
    entry, leaf = Entry(say["entry"]), Leaf(say["tensor"])
    need(entry.state() == game.after, "not an entry of the state after the step")
    need(leaf.digest == entry.tensor and leaf.kind == "f32", "not floats of that entry")
    need(game.after != game.excused, "that it is not finite is what the row says")
    bad = np.flatnonzero(~np.isfinite(leaf.numbers))
    if len(bad):
        game.at["element"] = leaf.start + int(bad[0])
    return len(bad) > 0, None


def layout_of(line, size):
    """Of an argmax the length of its list tells whether its bests are floats."""
    if line["k"] != "argmax":
        return Layout(line, line["t"] == "f32")
    floats = Layout(line, True)
    return floats if floats.first().count * floats.entry_bytes() == size else Layout(line, False)
