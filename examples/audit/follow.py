"""The second part of audit.sh: what follows from the statements of a dispute. Python's standard library only. Each function is a rule of
dgx-dispute(7); `game` holds what is bound so far. It prints every step; it believes nobody."""

import base64
import json
import math
import pathlib
import struct
import sys

from arithmetic import ACCESS, Element, bits, item, kind_size, unpack
from ground import begin, begin_steps
from judging import End, due, falls, lost, stands, sure
from trees import climb, digests, entry, entry_leaf, leaf, leaf_count, opened_leaf, root, sha, tensor_digest, u64, width

SHOWN = 3  # so many digests of a list are printed
FALLS = 10  # exit status if the statement falls: Python's own failures exit with 1

COMPARED = []  # the bits of the number that was claimed, and of the right one


def program_line(game, opened):
    """A line of the program that the task binds, or None."""
    program = game["task"]["program"]
    found = climb(opened["index"], program["lines"], leaf(opened["text"].encode()), digests(opened["path"]))
    print(f"  line {opened['index']} of the program: {opened['text']}")
    print(f"  its path leads to {found.hex() if found else 'no root'}; the task's program has root {program['root']}")
    return json.loads(opened["text"]) if found is not None and found.hex() == program["root"] else None


class Operands:
    """The numbers that a claim opens in the value table."""

    def __init__(self, game, operands):
        self.shapes, self.leaves, types = {}, {}, {}
        for opened in operands:
            value = opened["value"]
            if types.setdefault(value, (opened["t"], opened["shape"])) != (opened["t"], opened["shape"]):
                stands("the challenger opened one value with two types")
            if "table" not in opened:
                continue
            if "bytes" in opened:
                digest, first, numbers = opened_leaf(opened)
            else:
                digest, first, numbers = tensor_digest(opened["t"], opened["shape"], bytes.fromhex(opened["root"])), 0, []
            found = climb(value, game["task"]["program"]["lines"], leaf(b"\5" + digest), digests(opened["table"]))
            print(f"  operand value {value}, {opened['t']} {opened['shape']}, digest {digest.hex()}, leads to the value table {found.hex() if found else '-'}")
            if found != game["table"]:
                stands("the challenger opened a number that is not in the defender's value table")
            self.shapes[value] = opened["shape"]
            self.leaves.setdefault(value, []).append((first, numbers))
        for access in game["line"]["x"]:
            self.fit(access, types)

    @staticmethod
    def fit(access, types):
        """Each value that the line names is opened, if only with its type and shape, and has as many dimensions as the access. Whether its type is
        one that the line's steps take is not looked at here; dgx-referee does."""
        value, view, coordinates, _ = ACCESS.fullmatch(access).groups()
        if int(value) not in types:
            stands(f"the challenger did not open value {value}, so they have proven nothing")
        own = types[int(value)][1]
        sizes = own if view is None else [int(size) for size in view.split(".") if size]
        if math.prod(sizes) != math.prod(own) or len(sizes) != (coordinates.count(",") + 1 if coordinates else 0):
            stands(f"the line does not fit value {value} as the challenger opened it, so they have proven nothing")

    def shape(self, value):
        if value not in self.shapes:
            stands(f"the challenger did not open value {value}, so they have proven nothing")
        return self.shapes[value]

    def number(self, value, element):
        for first, numbers in self.leaves.get(value, []):
            if first <= element < first + len(numbers):
                return numbers[element - first]
        return stands(f"the challenger did not open element {element} of value {value}, so they have proven nothing")


# The defender's moves.


def shown(game, nodes, what, bottom=None):
    """A list must hash to the node it was asked for."""
    start, count, node = game["node"]
    at_bottom = width(count) == 1
    hashes = [bottom(each) for each in nodes] if bottom and at_bottom else nodes
    print(f"  {len(nodes)} {what} below leaves {start} ... {start + count - 1}: {', '.join(each.hex() for each in nodes[:SHOWN])}{' ...' if len(nodes) > SHOWN else ''}")
    print(f"  hashed together they give {root(hashes).hex()}, but must give {node.hex()}")
    if root(hashes) != node or len(nodes) != -(-count // width(count)):
        lost(game, "The list is not what its signer is bound to")
    game["list"], game["hashes"], game["bottom"] = nodes, hashes, at_bottom


def descend(game, index):
    start, count, _ = game["node"]
    size = width(count)
    game["node"] = (start + index * size, min(size, count - index * size), game["hashes"][index])


def table_leaf(digest):
    return leaf(b"\5" + digest)


def on_interior(game, say):
    found = sha(b"dgx-witness", bytes.fromhex(game["defender"]), bytes.fromhex(say["digest"]))
    print(f"  the state after step {game['q']} is said to be {say['digest']}; the witness of that is {found.hex()}, the row's is {game['row']['witness']}")
    if game["row"]["index"] == game.get("forced"):
        found = sha(b"dgx-false-witness", found)
        print(f"  but an error is forced here: the row's has to be H(\"dgx-false-witness\" | .), {found.hex()}")
    if found.hex() != game["row"]["witness"]:
        lost(game, "The witness is not of that state")
    due(game, "name")
    game["Z"], game["list"] = bytes.fromhex(say["digest"]), [bytes.fromhex(say["digest"])]


def on_fault(game, say):
    digest, numbers = bytes.fromhex(say["digest"]), not_finite(say, bytes.fromhex(say["digest"]))
    if not numbers or not game["p"] < say["step"] <= game["q"]:
        lost(game, "That does not show a state in the segment that is not finite")
    print(f"  the state after step {say['step']} is said to be {say['digest']}, which is not finite: element {numbers[0][0]} of {say['entry']['name']} is {bits(numbers[0][1])}")
    due(game, "name")
    game["q"], game["Z"], game["list"], game["excused"] = say["step"], digest, [digest], digest


def on_states(game, say):
    due(game, "name")
    stride = -(-(game["q"] - game["p"]) // 255)
    game["list"] = [*digests(say["digests"]), game["Z"]]
    game["steps"] = [*range(game["p"] + stride, game["q"], stride), game["q"]]
    if len(game["list"]) != len(game["steps"]):
        lost(game, f"There must be {len(game['steps']) - 1} states")
    print(f"  the states after steps {game['steps'][0]} ... {game['steps'][-2]}, every {stride}")


def on_values(game, say):
    game["table"], game["node"], game["tree"] = bytes.fromhex(say["root"]), (0, game["task"]["program"]["lines"], bytes.fromhex(say["root"])), "values"
    shown(game, digests(say["nodes"]), "digests of values", table_leaf)
    due(game, "name", "accept", "claim a", "claim f")


def on_nodes(game, say):
    shown(game, digests(say["nodes"]), "nodes", table_leaf if game["tree"] == "values" else None)
    due(game, "name", *{"values": ["accept", "claim a", "claim f"], "entries": ["claim b", "claim f"], "tensor": []}[game["tree"]])


def on_tensor(game, say):
    line, game["tree"] = game["line"], "tensor"
    tree = bytes.fromhex(say["root"]) if "root" in say else leaf(base64.b64decode(say["bytes"]))
    digest = tensor_digest(line["t"], line["s"], tree)
    print(f"  with type {line['t']} and shape {line['s']} of the line the value's digest is {digest.hex()}; it was posted as {game['value'].hex()}")
    if digest != game["value"]:
        lost(game, "The defender's tensor does not have the value's digest, type or shape")
    game["node"], game["first"] = (0, leaf_count(line["t"], line["s"]), tree), 0
    due(game, "name")
    if "root" in say:
        shown(game, digests(say["nodes"]), "nodes")
    else:
        numbers(game, base64.b64decode(say["bytes"]))


def numbers(game, data):
    game["numbers"] = game["list"] = unpack(game["line"]["t"], data)
    due(game, {"input": "claim c", "map": "claim d"}.get(game["line"]["k"], "name"))


def on_leaf(game, say):
    data = base64.b64decode(say["bytes"])
    print(f"  the {len(data)} bytes of leaf {game['node'][0]} hash to {leaf(data).hex()}, the node is {game['node'][2].hex()}")
    if leaf(data) != game["node"][2]:
        lost(game, "The bytes are not those of the leaf")
    game["first"] = game["node"][0] * 1024 // kind_size(game["line"]["t"])
    numbers(game, data)


def on_numbers(game, say):
    data, line = base64.b64decode(say["numbers"]), game["line"]
    if "running" not in game:
        game["fold"] = Element(line, None, game["element"], data)
        game["running"] = game["fold"].first_list()
        first = True
    else:
        game["running"], first = game["running"].following(game["named"]), False
    while True:
        listing = game["running"]
        if len(data) < listing.count * listing.entry_bytes():
            lost(game, f"There must be {listing.count} running results")
        data = listing.read(data)
        print(f"  {len(listing.entries)} running results, {listing.text}: {', '.join(bits(each) for each in listing.entries[:SHOWN])}"
              f"{' ...' if len(listing.entries) > SHOWN else ''} {bits(listing.entries[-1])}")
        if first and game["fold"].stored(listing.entries[-1]) != bits(game["claimed"], line["t"]):
            lost(game, f"The fold does not end in the element {bits(game['claimed'], line['t'])} that was posted")
        first = False
        problem = listing.problem()
        if problem:
            lost(game, problem)
        if len(listing.entries) > 1 or listing.fine:
            if data:
                lost(game, "There are more running results than there may be")
            game["list"] = listing.entries
            return due(game, "claim d" if listing.fine else "name")
        game["running"] = listing.following(0)


def on_entries(game, say):
    state = sha(b"\3", u64(say["count"]), bytes.fromhex(say["root"]))
    print(f"  a state of {say['count']} entries with root {say['root']} is {state.hex()}; the state after the step is {game['Z'].hex()}")
    if state != game["Z"]:
        lost(game, "Those are not the entries of that state")
    game["node"], game["tree"], game["entries"] = (0, say["count"], bytes.fromhex(say["root"])), "entries", (say["count"], bytes.fromhex(say["root"]))
    shown(game, digests(say["nodes"]), "nodes")
    due(game, "name", "claim b", "claim f")


def on_entry(game, say):
    found, line = entry_leaf(say["name"], bytes.fromhex(say["digest"])), program_line(game, say["line"])
    print(f"  the entry {say['name']} of digest {say['digest']} has the leaf {found.hex()}; the leaf named is {game['node'][2].hex()}")
    if found != game["node"][2] or line is None or line.get("src") != f"state {say['name']}":
        lost(game, "That is not the entry, or not its line")
    due(game, "claim b")
    game["entry"], game["next"] = (say["name"], bytes.fromhex(say["digest"])), line["next"]


# The challenger's.


def on_name(game, say):
    index = say["index"]
    if "table" not in game and "steps" not in game:
        print(f"  the challenger rejects the state after step {game['q']}")
        begin_steps(game)
    elif "table" not in game:
        steps = game["steps"]
        game["p"], game["A"] = (steps[index - 1], game["list"][index - 1]) if index else (game["p"], game["A"])
        game["q"], game["Z"] = steps[index], game["list"][index]
        print(f"  the challenger accepts the state after step {game['p']}, {game['A'].hex()}, and rejects that after step {game['q']}, {game['Z'].hex()}")
        begin_steps(game)
    elif "line" in say:
        game["value_number"], game["value"] = game["node"][0] + index, game["list"][index]
        print(f"  the challenger rejects value {game['value_number']}, of digest {game['value'].hex()}, and so accepts those before")
        game["line"] = program_line(game, say["line"])
        if game["line"] is None or say["line"]["index"] != game["value_number"]:
            lost(game, "That is not this line of the program")
        if game["line"].get("src", "").startswith("state "):
            lost(game, "A state input is claimed (a), not named")
        due(game, "tensor")
    elif "running" in game:
        due(game, "numbers")
        game["named"] = index
        print(f"  the challenger rejects running result {index}: {bits(game['running'].entries[index])}")
    elif "numbers" in game:
        game["element"], game["claimed"] = game["first"] + index, game["numbers"][index]
        due(game, "numbers")
        print(f"  the challenger rejects element {game['element']}: {bits(game['claimed'], game['line']['t'])}")
    else:
        descend(game, index)
        due(game, {"tensor": "leaf", "entries": "entry"}.get(game["tree"], "nodes") if game["node"][1] == 1 else "nodes")
        print(f"  the challenger rejects node {index}: leaves {game['node'][0]} ... {game['node'][0] + game['node'][1] - 1}, {game['node'][2].hex()}")


def on_accept(game, say):
    due(game, "entries")
    print("  the challenger accepts all values, and says that the state after the step does not follow from them")


def verdict(claimed, right, kind=None):
    """Of two numbers, by their bits."""
    shown_bits = [bits(each, kind) for each in (claimed, right)]
    print(f"  claimed {shown_bits[0]}, right {shown_bits[1]}")
    COMPARED[:] = shown_bits
    if shown_bits[0] == shown_bits[1]:
        stands("What the defender claimed is right")
    falls("What the defender claimed is wrong")


def claim_a(game, say):
    number = game["node"][0] + say["index"]
    line, (_, good) = program_line(game, say["line"]), entry(say["entry"], game["A"])
    if line is None or say["line"]["index"] != number or line.get("src") != f"state {say['entry']['name']}" or not good:
        stands("The challenger's evidence is not of that value's entry")
    print(f"  value {number} was posted as {game['list'][say['index']].hex()}, and is the entry of digest {say['entry']['digest']}")
    (stands if game["list"][say["index"]].hex() == say["entry"]["digest"] else falls)("So much for an input that is an entry of the state before")


def claim_b(game, say):
    if "entry" not in game and set(say) & {"before", "line"} != {"before", "line"}:
        stands("No entry was shown, so the challenger has proven nothing")
    if "digest" in say:
        found = climb(game["next"], game["task"]["program"]["lines"], table_leaf(bytes.fromhex(say["digest"])), digests(say["path"]))
        print(f"  the entry becomes value {game['next']}, of digest {say['digest']}, in the value table {found.hex() if found else '-'}")
        if found != game["table"]:
            stands("That is not a value of the table")
        (stands if say["digest"] == game["entry"][1].hex() else falls)(f"The entry in the state after the step is {game['entry'][1].hex()}")
    before = None
    if "before" in say:
        tree, _ = entry(say["before"])
        last = game["entries"][0] if "entry" not in game else game["node"][0]
        if tree != game["entries"][1] or say["before"]["count"] != game["entries"][0] or say["before"]["index"] != last - 1:
            stands("That is not the entry before")
        before = say["before"]["name"]
    after = game["entry"][0] if "entry" in game else None
    if "line" not in say:
        (stands if before < after else falls)(f"Names have to ascend, and here {before} comes before {after}")
    line = program_line(game, say["line"])
    name = line["src"].removeprefix("state ") if line and line.get("src", "").startswith("state ") else stands("That is not the line of an entry")
    missing = (before is None or before < name) and (after is None or name < after) and (before is not None or game["node"][0] == 0)
    (falls if missing else stands)(f"Between {before} and {after} there is no {name}, which the program has")


def claim_c(game, say):
    flat = game["first"] + say["index"]
    line, task, step = game["line"], game["task"], game["p"]
    if line["src"].startswith("batch ") != ("data" in say):
        stands("The dataset must be opened for a batch input and for no other, so the challenger has proven nothing")
    if line["src"].startswith("batch "):
        (tree, _), (tensor, first, numbers) = entry(say["data"]["entry"]), opened_leaf(say["data"]["tensor"])
        digest = sha(b"\7", tree or b"", bytes.fromhex(say["data"]["scales"]))
        print(f"  the dataset is {digest.hex()}; the task's {task['dataset']['digest']}")
        row, column = divmod(flat, math.prod(line["s"][1:]))
        sample = item(task, step * task["batch"] + row)
        place = sample * math.prod(line["s"][1:]) + column
        print(f"  row {row} of the batch of step {step} is sample {sample} of the keyed permutation; its number is element {place} of the dataset's")
        of_field = say["data"]["entry"]["name"] == line["src"].removeprefix("batch ") and say["data"]["tensor"]["t"] == line["t"]
        of_data = digest.hex() == task["dataset"]["digest"] and tensor.hex() == say["data"]["entry"]["digest"]
        if not of_field or not of_data or not first <= place < first + len(numbers):
            stands("The challenger's evidence is not of that sample")
        right = numbers[place - first]
    else:
        right = Element(line, None, flat).input(task, step)
    verdict(game["numbers"][say["index"]], right, line["t"])


def claim_d(game, say):
    line, operands = game["line"], Operands(game, say["operands"])
    if line["k"] == "map":
        element = Element(line, operands, game["first"] + say["index"])
        verdict(game["numbers"][say["index"]], element.map(), line["t"])
    listing, k = game["running"], say["index"]
    element = Element(line, operands, game["element"], position=listing.place(k))
    before = listing.before(k)
    before = element.start(game["fold"].floats) if before is None else before
    print(f"  at position {listing.place(k)}, after {bits(before)}:")
    verdict(listing.entries[k], element.after(before))


def not_finite(say, state):
    """The numbers of the leaf opened that are not finite, with their elements; none if it is not of that state."""
    _, good = entry(say["entry"], state)
    digest, first, numbers = opened_leaf(say["tensor"])
    right = good and digest.hex() == say["entry"]["digest"] and say["tensor"]["t"] == "f32"
    return [(first + n, number) for n, number in enumerate(numbers) if not math.isfinite(number)] if right else []


def claim_f(game, say):
    found = not_finite(say, game["Z"])
    if not found:
        stands("The challenger has not shown a number of that state that is not finite")
    if game["Z"] == game.get("excused"):
        stands("The defender also says that it is not finite")
    falls(f"Element {found[0][0]} of {say['entry']['name']} is {bits(found[0][1])}, which is not finite")


def follow(game, moves):
    if game["about"] in ("initial", "final"):
        right = game["task"]["initial"]["digest"] if game["about"] == "initial" else game["proof"]["final"]
        state = game["A"] if game["about"] == "initial" else game["Z"]
        own = game["proof"]["initial"] if game["about"] == "initial" else right
        (stands if state.hex() == right == own else falls)(f"The state is {state.hex()}, and has to be {right}")
    turns, answered = {game["id"]: 0}, set()
    for move in moves:
        says = move["predicate"]
        turn, previous, say = says["turn"], says["previous"], says["say"]
        side = "defender" if turn % 2 else "challenger"
        print(f"\nTurn {turn}, the {side}: {' '.join(str(say.get(key, '')) for key in ('kind', 'claim'))}")
        sure(says["game"] == game["id"] and previous in turns, f"it is of this game, and answers {previous}")
        sure(move["keyid"] in (game["defender"], game["challenger"]), f"it is by {move['keyid']}, one of the two")
        game["turn"] = turn if game["defender"] == game["challenger"] else 1 if move["keyid"] == game["defender"] else 2
        if turn != turns[previous] + 1 or move["keyid"] != game[side]:
            lost(game, "It is not their turn")
        if previous in answered:
            lost(game, "Its signer has already said something else")
        turns[move["id"]] = turn
        answered.add(previous)
        take(game, say)
    raise End(2, "the game is not over: there is nothing to judge yet")


FORMS = {"fault": ["digest entry step tensor"], "interior": ["digest"], "states": ["digests"], "values": ["nodes root"], "nodes": ["nodes"], "tensor": ["bytes", "nodes root"], "leaf": ["bytes"],
         "numbers": ["numbers"], "entries": ["count nodes root"], "entry": ["digest line name"], "name": ["index", "index line"], "accept": [""],
         "claim a": ["entry index line"], "claim b": ["digest path", "before", "before line", "line"], "claim c": ["index", "data index"],
         "claim d": ["index operands"], "claim f": ["entry tensor"]}


def brought(value, key=""):
    """Bytes of a claim's evidence."""
    if isinstance(value, list):
        return sum(brought(each) for each in value if "table" in each)
    if isinstance(value, dict):
        return sum(brought(each, name) for name, each in value.items() if name != "shape")
    if key in ("bytes", "path", "table"):
        return len(base64.b64decode(value))
    return 32 if key in ("digest", "root", "scales") else len(value.encode()) if key in ("name", "text") else 0


def is_within_limits(claim):
    operands = claim.get("operands", [])
    leaves = all(each["t"] in ("f32", "i64", "u8") and len(base64.b64decode(each.get("bytes", ""))) <= 1024 for each in operands)
    return leaves and len(operands) <= 96 and brought(claim) <= 16384


def take(game, say):
    """One move, if it is what the rules allow here; what the audit cannot read it does not judge."""
    kind = say.get("kind") if say.get("kind") != "claim" else f"claim {say.get('claim')}"
    fields = " ".join(sorted(set(say) - {"kind"} - ({"claim"} if kind.startswith("claim ") else set())))
    named_value = kind == "name" and game.get("tree") == "values" and game.get("bottom") and "line" not in game
    if kind not in game["due"] or fields not in FORMS[kind] or kind == "name" and ("line" in say) != named_value:
        lost(game, f"The move must be {' or '.join(game['due'])}, with the fields that the page gives it")
    if "index" in say and not (isinstance(say["index"], int) and 0 <= say["index"] < len(game["list"])):
        lost(game, "There is no such index in what was shown")
    if kind.startswith("claim ") and not is_within_limits(say):
        lost(game, "A claim brings at most 16 KiB and 96 operands, each at most a leaf")
    function = globals()[("" if kind.startswith("claim ") else "on_") + kind.replace(" ", "_")]
    try:
        function(game, say)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, struct.error) as error:
        raise End(2, f"something in this move cannot be read ({type(error).__name__}: {error}): if it is malformed, its signer has lost") from error


def compare(ruling, code, statements):
    says = ruling["predicate"]
    if ruling["predicateType"] != "urn:x-dgx:ruling:v2" or says["game"] not in [made["id"] for made in statements]:
        raise End(2, "that is not a ruling on this dispute")
    print(f"\nThe ruling, signed by key id {ruling['keyid']}, says: {'falls' if says['falls'] else 'stands'}. {says['words']}")
    if says["falls"] != (code == 1):
        raise End(2, "the ruling is not what follows from the transcript")
    for key, found in zip(("claimed", "result"), COMPARED):
        if says.get("scalar", {}).get(key, "none") not in found:
            raise End(2, f"the ruling has other bits: {key} {says.get('scalar', {}).get(key)}, not {found}")
    print("It says what follows from the transcript.")


def load(work, count):
    statements = []
    for path in sorted(pathlib.Path(work).glob("*.payload")):
        made = json.loads(path.read_bytes())
        statements.append({**made, "id": path.with_suffix(".id").read_text(), "keyid": path.with_suffix(".keyid").read_text()})
    ruling = statements.pop() if count == 2 else None
    return [made for made in statements if made["predicateType"] != "urn:x-dgx:receipt:v2"], ruling


def main(work, count):
    statements, ruling = load(work, count)
    moves = [made for made in statements if made["predicateType"] == "urn:x-dgx:move:v2"]
    try:
        try:
            print("\n2. What is disputed")
            game = begin(statements)
            print("\n3. The moves")
            follow(game, moves)
        except End as end:
            if ruling and end.code != 2:
                compare(ruling, end.code, statements)
            raise
    except End as end:
        print(f"\n{end}.")
        print({0: "The statement stands.", 1: "The statement falls.", 2: "Not audited."}[end.code])
        sys.exit(FALLS if end.code == 1 else end.code)
    except Exception as error:  # no mistake of ours, and nothing that a statement says, may look like a verdict
        print(f"\nThis transcript cannot be judged: {type(error).__name__} {error}.\nNot audited.")
        sys.exit(2)


main(sys.argv[1], int(sys.argv[2]))
