"""The writes of those who make rounds, begin to watch a ledger, or read a long one: more stories for cuts.py."""

import hashlib
import os
import shutil
import sys

import crashes
from stories import Cosign, Settle, Story, has, ok, part, path, slurp, told

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "interop"))
MAKE_ROUND = ("dgx-settle", "round", "L.jsonl", "--key", "operator.pem", "--after-pause", "--threads", "1")
COSIGN = ("dgx-settle", "cosign", "request", "--operator", "operator.pub.pem", "--seen", "state", "--key", "verifier.pem", "-o", "line", "--first")


class CosignFirst(Cosign):
    """The first note, before which there is no state. A witness who was killed is told that it is begun, and goes on without --first."""

    def readers(self, machine):
        if has(machine, "state"):
            note = slurp(machine, "state")
            assert note.split(b"\n\n")[0] == self.base["request"].split(b"\n\n")[1] and note.count(b"\n") == 6, "the state is torn"
        if has(machine, "line"):
            assert slurp(machine, "line") in slurp(machine, "state"), "the answer is not in the state"

    def again(self, machine):
        done = machine.run(*self.command, "--force")
        if done.returncode == 73 and has(machine, "state"):
            done = machine.run(*(word for word in self.command if word != "--first"), "--force")
        ok(done)


class Round(Settle):
    """A round that is logged, and what was kept of its delay, which is removed."""

    def again(self, machine):
        ok(machine.run(*self.command))

    def end(self, machine):
        state = told(machine, "dgx-settle", "status", "L.jsonl")
        assert state["tasks"][0]["state"] == "drawn" and len(state["drawn"]) == 2, f"nobody is drawn: {state}"
        sound = told(machine, "dgx-settle", "check", "L.jsonl", "--rounds")
        assert sound["delays"] == 1, f"not one round: {sound}"
        return {"entries": sound["entries"], "balances": told(machine, "dgx-settle", "balances", "L.jsonl")}


class Reader(Story):
    """A reader who remembers what they checked: the answer is the same, whatever is left of that."""

    def __init__(self, name, base, command, state):
        super().__init__(name, base, command)
        self.env = {"XDG_STATE_HOME": state}

    def readers(self, machine):
        self.ended(machine)

    def again(self, machine):
        ok(machine.run(*self.command))

    def end(self, machine):
        return told(machine, *self.command)


def with_round(machine):
    """A market in which a slot with a proof is over, and the first of two parts of its delay is computed: the files."""
    import rounds

    shutil.rmtree(machine.folder)
    steps = (1 << 20) + (1 << 16)
    market = rounds.Market(machine.bin, machine.folder, rounds.POLICY | {"beacon_steps": steps, "window_reveal_ms": 86400000})
    slot = market.play({10: 1000, 11: 2000})
    market.wait_for_end(slot)
    count, root = market.head(slot)
    ledger = market.entries()[0][0]
    start = hashlib.sha256(b"dgx-delay" + bytes.fromhex(ledger) + slot.to_bytes(8, "big") + count.to_bytes(8, "big") + bytes.fromhex(root)).digest()
    kept = start + steps.to_bytes(8, "big") + rounds.chain(ledger, slot, count, root, 1 << 20)
    tree = part(crashes.read_tree(machine.folder), "L.jsonl", "L.receipts.jsonl", "L.index", "operator.pem")
    return {**tree, "L.rounds": None, f"L.rounds/{slot}.part": hashlib.sha256(kept).digest() + kept}


def with_many_entries(machine, tree):
    """A ledger so long that its readers remember what they checked: the files."""
    crashes.write_tree(part(tree, "L.jsonl", "L.receipts.jsonl", "operator.pem"), machine.folder)
    accounts = [word for number in range(1, 1101) for word in (hashlib.sha256(b"%d" % number).hexdigest(), str(number))]
    ok(machine.run("dgx-settle", "deposit", "L.jsonl", "--to", *accounts, "--key", "operator.pem"))
    return part(crashes.read_tree(machine.folder), "L.jsonl", "L.receipts.jsonl")


def all_stories(machine, tree):
    """The stories of what stories.prepare() has left."""
    crashes.write_tree(tree, machine.folder)
    ok(machine.run("dgx-settle", "head", "L.jsonl", "--note", "--old", "0", "--key", "operator.pem", "-o", "request"))
    yield CosignFirst("settle, cosign first", part(crashes.read_tree(machine.folder), "request", "operator.pub.pem", "verifier.pem"), COSIGN)
    yield Round("settle, round", with_round(machine), MAKE_ROUND)
    yield Reader("settle, balances", with_many_entries(machine, tree), ("dgx-settle", "balances", "L.jsonl"), path(machine, "state"))
