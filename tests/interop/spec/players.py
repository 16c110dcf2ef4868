"""Both sides of a dispute, from a replay in NumPy: what an honest party says, and of a cheat who keeps to their story."""

import dataclasses

import numpy as np

from . import claims, digests, element, evidence, program, running, trees
from .evidence import base, listed

ORDER = str.encode


class Values:
    """The values of a step, as an element's evaluation reads them."""

    def __init__(self, table):
        self.table = table

    def shape(self, value):
        return list(self.table[value].shape)

    def number(self, value, at):
        return evidence.wide(self.table[value].reshape(-1)[at])


@dataclasses.dataclass
class Lie:
    """What is wrong in a story: an element of a value of a step (perhaps because of one running result), or what a function makes of a value
    or of the state after a step. What follows from it is computed honestly."""
    step: int
    value: int = -1
    element: int = 0
    flip: running.Flip = None
    altered: object = None
    state: object = None


def flipped(array, at):
    data = bytearray(array.tobytes())
    data[at * array.itemsize] ^= 1
    return np.frombuffer(bytes(data), array.dtype).reshape(array.shape)


def kept(array, at, number):
    changed = array.copy()
    changed.reshape(-1)[at] = number
    return changed


class Story:
    """States and values of a run from a state on, with at most one lie."""

    def __init__(self, world, step, state, lie=None):
        self.world, self.lie = world, lie
        self.states, self.tables, self.runs = {step: state}, {}, {}

    def here(self, step):
        return self.lie is not None and self.lie.step == step

    def table(self, step):
        """The values of a step, and then the state after it."""
        if step in self.tables:
            return self.tables[step]
        world, table = self.world, []
        for number, fields in enumerate(world.lines):
            if fields["k"] == "input":
                value = program.input_value(fields, world.task, self.state(step), world.data, step)
            else:
                value = program.Line(fields, table).value()
            table.append(np.ascontiguousarray(value).reshape(fields["s"]))
            if self.here(step) and self.lie.value == number:
                table[number] = self.altered(step, table, number)
        return self.take(step, table)

    def take(self, step, table):
        """Makes these the values of a step, from which the state after it follows."""
        after = {line["src"][len("state "):]: table[line["next"]] for line in self.world.lines if "next" in line}
        self.tables[step] = table
        self.states[step + 1] = self.lie.state(after) if self.here(step) and self.lie.state else after
        return table

    def altered(self, step, table, number):
        lie = self.lie
        if lie.altered:
            return lie.altered(table[number])
        if lie.flip is None:
            return flipped(table[number], lie.element)
        run = self.runs[step, number, lie.element] = running.Run(self.world.lines[number], Values(table), lie.element, lie.flip)
        return kept(table[number], lie.element, element.stored(run.result(), self.world.lines[number]["t"]))

    def run(self, step, number, at):
        """The running results of an element."""
        table = self.table(step)
        if (step, number, at) not in self.runs:
            self.runs[step, number, at] = running.Run(self.world.lines[number], Values(table), at)
        return self.runs[step, number, at]

    def state(self, step):
        if step not in self.states:
            self.state(step - 1)
            self.table(step - 1)
        return self.states[step]

    def entries(self, step):
        """(name, tensor digest) in order. A state that is a list of pairs is in an order of its own."""
        state = self.state(step)
        pairs = state if isinstance(state, list) else sorted(state.items(), key=lambda pair: ORDER(pair[0]))
        return [(name, digests.tensor(array)) for name, array in pairs]

    def array(self, step, name):
        return dict(self.state(step))[name]

    def digest(self, step):
        entries = self.entries(step)
        return evidence.state_digest(len(entries), digests.root(evidence.entry_leaf(*entry) for entry in entries))

    def value_digests(self, step):
        return [digests.tensor(value) for value in self.table(step)]


class Party:
    """What somebody with this story says in a game, when it is their turn."""

    def __init__(self, world, story):
        self.world, self.story = world, story

    def say(self, game):
        made = getattr(self, ("defend_" if game.side == "defender" else "challenge_") + game.want.replace(" ", "_"))(game)
        return made

    # The defender.

    def defend_interior(self, game):
        return {"kind": "interior", "digest": self.story.digest(game.last).hex()}

    def defend_states(self, game):
        stride = -(-(game.last - game.first) // 255)
        return {"kind": "states", "digests": listed(self.story.digest(step) for step in range(game.first + stride, game.last, stride))}

    def hashes(self, step):
        return [evidence.table_leaf(each) for each in self.story.value_digests(step)]

    def defend_values(self, game):
        step = game.first
        root = digests.root(self.hashes(step))
        return {"kind": "values", "root": root.hex(), "nodes": self.value_nodes(step, trees.Node(0, len(self.world.lines), root))}

    def value_nodes(self, step, node):
        end = node.start + node.count
        return listed(self.story.value_digests(step)[node.start:end] if node.bottom() else trees.children(self.hashes(step)[node.start:end]))

    def defend_values_nodes(self, game):
        return {"kind": "nodes", "nodes": self.value_nodes(game.at["step"], game.node)}

    def value(self, game):
        return self.story.table(game.at["step"])[game.value_number]

    def defend_tensor(self, game):
        leaves = evidence.leaves_of(self.value(game))
        if evidence.leaf_count(game.line["t"], game.line["s"]) == 1:
            return {"kind": "tensor", "bytes": base(self.value(game).tobytes())}
        return {"kind": "tensor", "root": digests.root(leaves).hex(), "nodes": listed(trees.children(leaves))}

    def below(self, leaves, node):
        return listed(trees.children(leaves[node.start:node.start + node.count]))

    def defend_tensor_nodes(self, game):
        return {"kind": "nodes", "nodes": self.below(evidence.leaves_of(self.value(game)), game.node)}

    def defend_leaf(self, game):
        start = game.node.start * digests.LEAF_BYTES
        return {"kind": "leaf", "bytes": base(self.value(game).tobytes()[start:start + digests.LEAF_BYTES])}

    def defend_numbers(self, game):
        run = self.story.run(game.at["step"], game.value_number, game.at["element"])
        listing, data = run.layout.first() if game.list is None else game.following, b""
        while True:
            listing.entries = listing.honest(run)
            data += b"".join(running.raw(entry) for entry in listing.entries)
            if listing.count > 1 or listing.fine:
                return {"kind": "numbers", "numbers": base(data)}
            listing = listing.following(0)

    def entry_hashes(self, step):
        return [evidence.entry_leaf(*entry) for entry in self.story.entries(step)]

    def defend_entries(self, game):
        leaves = self.entry_hashes(game.last)
        return {"kind": "entries", "count": len(leaves), "root": digests.root(leaves).hex(), "nodes": listed(trees.children(leaves) if leaves else [])}

    def defend_entries_nodes(self, game):
        return {"kind": "nodes", "nodes": self.below(self.entry_hashes(game.last), game.node)}

    def defend_entry(self, game):
        name, tensor = self.story.entries(game.last)[game.entry_index]
        return {"kind": "entry", "digest": tensor.hex(), "line": self.world.state_line(name), "name": name}

    def defend_chunk(self, game):
        line, part = game.demanded
        name = line["src"][len("state "):]
        parts = parts_of(self.story.array(game.first, name))
        return {"kind": "chunk", "entry": self.open_entry(game.first, name), "location": "file:chunk", "path": listed(trees.path(part, parts)),
                "root": parts[part].hex()}

    def open_entry(self, step, name):
        entries = self.story.entries(step)
        return evidence.open_entry(entries, [each for each, _ in entries].index(name))

    def defend_fault(self, game):
        """Of a state that is not finite; other reasons are shown by who knows them."""
        step = next(step for step in range(game.first + 1, game.last + 1) if self.infinite_entry(step) is not None)
        found = self.claim_f(step, self.infinite_entry(step))
        return {"kind": "fault", "digest": self.story.digest(step).hex(), "step": step, "entry": found["entry"], "tensor": found["tensor"]}

    # The challenger.

    def challenge_interior(self, _):
        return {"kind": "name", "index": 0}

    def challenge_fault(self, _):
        return {"kind": "name", "index": 0}

    def challenge_states(self, game):
        """The first state that is not mine; or that nobody may have, since it is not finite."""
        wrong = (k for k, step in enumerate(game.steps) if self.story.digest(step) != game.shown[k] or self.infinite_entry(step) is not None)
        return {"kind": "name", "index": next(wrong)}

    def first_wrong(self, game, leaves):
        """The first of the node's children that is not mine; None if all are."""
        mine = trees.children(leaves[game.node.start:game.node.start + game.node.count])
        return next((k for k, mine in enumerate(mine) if mine != game.hashes[k]), None)

    def challenge_ranges(self, game):
        k = self.first_wrong(game, self.hashes(game.at["step"]))
        return self.accept(game) if k is None else {"kind": "name", "index": k}

    def challenge_values(self, game):
        k = self.first_wrong(game, self.hashes(game.at["step"]))
        if k is None:
            return self.accept(game)
        number = game.node.start + k
        line, opened = self.world.lines[number], evidence.open_line(self.world.texts, number)
        if line["k"] == "input" and line["src"].startswith("state "):
            return {"kind": "claim", "claim": "a", "index": k, "line": opened, "entry": self.open_entry(game.first, line["src"][6:])}
        return {"kind": "name", "index": k, "line": opened}

    def accept(self, game):
        return self.not_finite(game) or {"kind": "accept"}

    def not_finite(self, game):
        """Claim f, if the honest state after the step is not finite either."""
        index = self.infinite_entry(game.last)
        if index is None or self.story.digest(game.last) != game.after:
            return None
        return self.claim_f(game.last, index)

    def infinite_entry(self, step):
        arrays = [self.story.array(step, name) for name, _ in self.story.entries(step)]
        return next((n for n, array in enumerate(arrays) if array.dtype == np.float32 and not np.isfinite(array).all()), None)

    def claim_f(self, step, index):
        entries = self.story.entries(step)
        array = self.story.array(step, entries[index][0])
        bad = next(iter(np.flatnonzero(~np.isfinite(array))), 0)
        return {"kind": "claim", "claim": "f", "entry": evidence.open_entry(entries, index),
                "tensor": evidence.open_leaf(array, int(bad) * array.itemsize // digests.LEAF_BYTES)}

    def challenge_tensor_nodes(self, game):
        return {"kind": "name", "index": self.first_wrong(game, evidence.leaves_of(self.value(game)))}

    def challenge_leaf(self, game):
        k = self.wrong_element(game)
        at = game.leaf_start + k
        if game.line["k"] == "input":
            return {"kind": "claim", "claim": "c", "index": k, **self.data_of(game, at)}
        if game.line["k"] == "map":
            return {"kind": "claim", "claim": "d", "index": k, "operands": self.operands(game, at, 0)}
        return {"kind": "name", "index": k}

    def wrong_element(self, game):
        mine = self.value(game).reshape(-1)[game.leaf_start:game.leaf_start + len(game.numbers)]
        return next(k for k, number in enumerate(mine) if number.tobytes() != game.numbers[k].tobytes())

    def data_of(self, game, at):
        source, _, name = game.line["src"].partition(" ")
        if source != "batch" or claims.is_sample_number(self.world.task, game.line):
            return {}
        row, column = divmod(at, self.value(game)[0].size)
        array = self.world.data[name]
        sample = program.inputs.batch_indices(int(self.world.task["seed"]), len(array), self.world.task["batch"], game.at["step"])[row]
        names = sorted(self.world.data, key=str.encode)
        entries = [(each, digests.tensor(self.world.data[each])) for each in names]
        leaf = (sample * array[0].size + column) * array.itemsize // digests.LEAF_BYTES
        return {"data": {"entry": evidence.open_entry(entries, names.index(name)), "scales": digests.sha(self.world.recipe).hex(),
                         "tensor": evidence.open_leaf(array, leaf)}}

    def operands(self, game, at, position, accumulator=None):
        """Openings of all that the evaluation of one element or position reads."""
        table, read = self.story.table(game.at["step"]), Reader(self.story.table(game.at["step"]))
        if accumulator is None and game.line["k"] == "chain":
            element.start(game.line, read, at, game.line["t"] == "f32")
        if game.line["k"] == "map":
            element.Evaluation(game.line, read, at).term()
        else:
            before = accumulator if accumulator is not None else element.start(game.line, read, at, self.story.run(
                game.at["step"], game.value_number, at).layout.floats)
            element.after(game.line, read, at, position, before)
        leaves = self.hashes(game.at["step"])

        def of(value, opening):
            return {**opening, "table": listed(path_in(game, "values", leaves, value)), "value": value}

        opened = [of(value, evidence.open_leaf(table[value], leaf)) for value, leaf in sorted(read.read)]
        looked, used = read.shapes - {value for value, _ in read.read}, accessed(game.line)
        opened += [of(value, evidence.open_shape(table[value])) for value in sorted(looked)]
        return opened + [{**evidence.shape_of(table[value]), "value": value} for value in sorted(used - looked - {value for value, _ in read.read})]

    def challenge_numbers(self, game):
        k = self.wrong_entry(game)
        if not game.list.fine:
            return {"kind": "name", "index": k}
        return {"kind": "claim", "claim": "d", "index": k,
                "operands": self.operands(game, game.at["element"], game.list.place(k), game.list.before(k))}

    def wrong_entry(self, game):
        mine = game.list.honest(self.story.run(game.at["step"], game.value_number, game.at["element"]))
        return next(k for k, entry in enumerate(mine) if running.bits(entry) != running.bits(game.list.entries[k]))

    def challenge_entries(self, game):
        """Names the first entry that is not mine; if theirs end early, claims what is missing."""
        mine = self.entry_hashes(game.last)
        found = self.not_finite(game)
        if found:
            return found
        theirs = game.hashes
        for k in range(len(theirs)):
            start, end = trees.ranges(game.node.count)[k]
            if digests.root(mine[game.node.start + start:game.node.start + end]) != theirs[k] or game.node.start + end > len(mine):
                return {"kind": "name", "index": k}
        entries = self.story.entries(game.last)
        return {"kind": "claim", "claim": "b", **self.before(game, game.entries_count), "line": self.world.state_line(entries[game.entries_count][0])}

    def before(self, game, index):
        """The defender's entry before that of this index: they have given all its leaves, and those before are mine."""
        if not index:
            return {}
        name, tensor = self.story.entries(game.last)[index - 1]
        path = path_in(game, "entries", self.entry_hashes(game.last), index - 1, game.entries_count)
        return {"before": {"count": game.entries_count, "digest": tensor.hex(), "index": index - 1, "name": name, "path": listed(path)}}

    def challenge_entry(self, game):
        mine, index = self.story.entries(game.last), game.entry_index
        name = game.entry[0]
        if index and not mine[index - 1][0] < name:
            return {"kind": "claim", "claim": "b", **self.before(game, index)}
        if mine[index][0] != name:
            return {"kind": "claim", "claim": "b", **self.before(game, index), "line": self.world.state_line(mine[index][0])}
        value, leaves = game.entry_line["next"], self.hashes(game.at["step"])
        return {"kind": "claim", "claim": "b", "digest": self.story.value_digests(game.at["step"])[value].hex(),
                "path": listed(path_in(game, "values", leaves, value))}


class Fool(Party):
    """A challenger who rejects what is right: a state, a value, an element, a running result; or, if `value` is None, an entry."""

    def __init__(self, world, story, value, at=0, entry=0, state=0):
        super().__init__(world, story)
        self.number, self.element, self.position, self.state = value, at, entry, state

    def challenge_states(self, game):
        return {"kind": "name", "index": min(self.state, len(game.steps) - 1)}

    def first_wrong(self, game, leaves):
        """The child that holds what the challenger rejects; None to accept."""
        wanted = self.number
        if game.tree == "tensor":
            wanted = self.element * self.value(game).itemsize // digests.LEAF_BYTES
        return None if wanted is None else (wanted - game.node.start) // trees.width(game.node.count)

    def wrong_element(self, game):
        return self.element - game.leaf_start

    def wrong_entry(self, game):
        return min(self.position, game.list.count - 1)

    def challenge_entries(self, game):
        return {"kind": "name", "index": min(self.position // trees.width(game.node.count), game.node.child_count() - 1)}


class Reader(Values):
    """Notes which leaves are read, and of which values the shape was looked at."""

    def __init__(self, table):
        super().__init__(table)
        self.shapes, self.read = set(), set()

    def shape(self, value):
        self.shapes.add(value)
        return super().shape(value)

    def number(self, value, at):
        self.read.add((value, at * self.table[value].itemsize // digests.LEAF_BYTES))
        return super().number(value, at)


def path_in(game, tree, mine, index, count=None):
    """The audit path of a leaf that is mine in the defender's tree: of what they have shown, and of mine where they have shown only the root."""
    node, found = trees.Node(0, count or len(mine), b""), []
    while node.count > 1:
        hashes = game.lists.get((tree, node.start, node.count)) or trees.children(mine[node.start:node.start + node.count])
        k = (index - node.start) // trees.width(node.count)
        found = trees.path(k, hashes) + found
        node = node.child(k, hashes)
    return found


def accessed(line):
    return {int(program.ACCESS.fullmatch(text).group(1)) for text in line.get("x", [])}


def parts_of(array):
    """Roots of its parts of a MiB."""
    leaves = evidence.leaves_of(array)
    return [digests.root(leaves[i:i + 1024]) for i in range(0, len(leaves), 1024)]
