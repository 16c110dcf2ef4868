"""What is disputed, from task, proof, perhaps verdict and beacon (or round, offer and secret), and challenge: dgx-dispute(7), "What is disputed"."""

import json

from draws import ZERO, drawn_segments, forced_segment, segments
from judging import End, due, falls, sure
from trees import climb, digests, leaf, sha


def committed(game, opened, index, text):
    """A state digest with its path in the proof's tree."""
    print(f"  {text}: committed state {index} is {opened['digest']}; from its leaf H(00 | 04 | digest) up")
    tree, node = game["proof"]["states"], leaf(b"\4" + bytes.fromhex(opened["digest"]))
    found = climb(index, tree["count"], node, digests(opened["path"]), show=True)
    sure(found is not None and found.hex() == tree["root"], f"that is the root which the proof committed to: {tree['root']}")
    return bytes.fromhex(opened["digest"])


def begin_steps(game):
    due(game, "states" if game["q"] - game["p"] > 1 else "values")


def bounds(game, segment):
    """The steps before and after a segment, and how many segments have a state after them; the diverging step has none."""
    task, proof = game["task"], game["proof"]
    steps, spans = proof["steps"], segments(task, proof)
    count = len(spans)
    sure(steps < task["steps"] if proof["diverged"] else steps == task["steps"], f"the proof is of {steps} steps of {task['steps']}, {'and' if proof['diverged'] else 'none'} diverged")
    first, last = spans[segment] if segment < count else (steps, steps + 1)
    sure(proof["states"]["count"] == count + 1 and segment < count + proof["diverged"], f"segment {segment} of {count + proof['diverged']} is steps {first} ... {last - 1}")
    return first, last, count


def in_order(kinds):
    """The kinds of the statements before the moves, in the order in which a transcript has them."""
    first = [kind for kind in kinds if kind != "move"]
    secret = "round" in first and "beacon" in first
    order = ("task", "proof", "verdict", "round", "beacon-commitment", "beacon", "challenge") if secret else ("task", "proof", "verdict", "beacon", "round", "challenge")
    return [kind for kind in order if kind in first]


def source(game, by_kind, verdict_made):
    """The value by which the verdict's segments and steps are drawn, None if it is not asked for; and if errors are forced the segment whose witness has to be false."""
    task, proof, proof_id = game["task"], game["proof"], bytes.fromhex(by_kind["proof"]["id"])
    made = by_kind.get("round") or by_kind.get("beacon")
    sure((task["policy"]["beacon_source"] != 0) == ("round" in by_kind) or made is None, "the market draws as the statements say")
    if made is None:
        return None
    sure(made["id"] == verdict_made["predicate"].get("beacon"), f"the verdict names {'round' if 'round' in by_kind else 'beacon'} {made['id']}")
    if "round" not in by_kind:
        sure(made["predicate"]["task"] == by_kind["task"]["id"] and made["predicate"]["proof"] == by_kind["proof"]["id"], "it is of this task and proof")
        return bytes.fromhex(made["predicate"]["value"])
    sure(made["predicate"]["ledger"] == task.get("ledger"), f"the round is of the task's ledger, {task.get('ledger')}")
    round_value = bytes.fromhex(made["predicate"]["value"])
    value = sha(b"dgx-beacon", round_value, proof_id)
    print(f"  the round's value is {round_value.hex()}, so the beacon value H(\"dgx-beacon\" | . | proof) is {value.hex()}")
    says = verdict_made["predicate"]
    may_be_forced = task["policy"]["forced_error_ppm"] > 0 and says["draw"] == "policy" and says["outcome"] == "accepted"
    sure(may_be_forced == ("beacon" in by_kind) == ("beacon-commitment" in by_kind), f"errors are {'' if may_be_forced else 'not '}forced, so offer and secret are {'' if may_be_forced else 'not '}here")
    if may_be_forced:
        secret, offer = by_kind["beacon"]["predicate"], by_kind["beacon-commitment"]
        sure(offer["keyid"] == verdict_made["keyid"] and offer["predicate"]["task"] == by_kind["task"]["id"], "the offer is by whoever gave the verdict")
        sure((secret["task"], secret["proof"], secret["commitment"]) == (by_kind["task"]["id"], by_kind["proof"]["id"], offer["id"]), "the secret is of this task, proof and offer")
        sure(sha(b"dgx-beacon-commit", bytes.fromhex(secret["secret"])).hex() == offer["predicate"]["commitment"], "H(\"dgx-beacon-commit\" | secret) is what the offer committed to")
        drawn = drawn_segments(task, proof, value, proof_id, ZERO)
        game["forced"], found = forced_segment(task, proof, round_value, bytes.fromhex(secret["secret"]), proof_id, drawn)
        print(f"  H(\"dgx-forced\" | ...) = {found.hex()}: {'no witness is forced' if game['forced'] is None else 'the witness of segment %d has to be false' % game['forced']}")
    return value


def begin(statements):
    """The game before its first move."""
    game, kinds = {"turn": 0}, [statement["predicateType"].split(":")[2] for statement in statements]
    before = in_order(kinds)
    sure(kinds == before + ["move"] * (len(kinds) - len(before)) and ("verdict" in kinds or not {"beacon", "round"} & set(kinds)), f"the statements are {', '.join(before)} and {len(kinds) - len(before)} moves, in this order")
    by_kind = {kind: statements[kinds.index(kind)] for kind in kinds if kind != "move"}
    task, proof, challenge = (by_kind[kind] for kind in ("task", "proof", "challenge"))
    verdict_made = by_kind.get("verdict")
    game.update(task=task["predicate"], proof=proof["predicate"])
    says, who = challenge["predicate"], verdict_made or proof
    sure(proof["predicate"]["task"] == says["task"] == task["id"], f"proof and challenge are of task {task['id']}")
    sure(says["proof"] == proof["id"] and says.get("verdict") == (verdict_made or {}).get("id"), f"the challenge is of the {'verdict' if verdict_made else 'proof'} {who['id']}")
    print(f"  so the defender is {who['keyid']}, the challenger {challenge['keyid']}, about {says['about']!r}")
    game.update(defender=who["keyid"], challenger=challenge["keyid"], id=challenge["id"], about=says["about"])
    if says["about"] in ("row", "chunk"):
        raise End(2, "a demanded row or chunk needs another look")
    segment = says["segment"]
    game["p"], game["q"], count = bounds(game, segment)
    game["A"] = committed(game, says["start"], segment, "the start")
    diverging = segment == count
    sure(("end" in says) != diverging, "the end is opened" if not diverging else f"step {game['p']} is said to diverge: there is no state after it")
    game["Z"] = sha(b"dgx-diverged") if diverging else committed(game, says["end"], segment + 1, "the end")
    begin_steps(game)
    if "row" in says:
        row(game, says, verdict_made["predicate"], bytes.fromhex(proof["id"]), source(game, by_kind, verdict_made), diverging)
    elif diverging and says["about"] == "segment":
        due(game, "fault")
    return game


def stated(game, says, verdict_made, value, proof):
    """Whether the verdict states the row's witness: its witnesses are those of the segments drawn, in their order."""
    if value is None:
        return False
    place, said, witnesses = says["row"]["index"], says["row"]["row"], digests(verdict_made.get("witnesses", ""))
    drawn = drawn_segments(game["task"], game["proof"], value, proof, bytes.fromhex(game["defender"]) if game["task"]["policy"]["beacon_source"] == 0 else ZERO)
    fits = place < min(len(witnesses), len(drawn)) and not says["row"]["path"] and says["segment"] == drawn[place]
    return fits and said["agrees"] and said["expected"] == game["Z"].hex() and said["witness"] == witnesses[place].hex()


def row(game, says, verdict_made, proof, value, diverging):
    game["row"] = said = says["row"]["row"]
    text = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    found = climb(says["row"]["index"], verdict_made["rows"]["count"], leaf(text), digests(says["row"]["path"]), show=True)
    own = verdict_made.get("first_disagreement") == said or stated(game, says, verdict_made, value, proof)
    sure(own or (found is not None and found.hex() == verdict_made["rows"]["root"]), f"the verdict's row is {text.decode()}")
    if said["expected"] != game["Z"].hex():
        falls("The row expects another state than the proof committed to")
    if diverging and said["reason"] == "non-finite":
        falls("The row objects that the step diverges, which is what the proof says")
    game["Z"] = bytes.fromhex(said["recomputed"])
    if said["reason"] in ("step", "state"):
        raise End(2, f"a row of the reason {said['reason']!r} needs another look")
    if said["reason"] == "non-finite" or (diverging and said["agrees"]):
        due(game, "fault")
    if says["about"] == "witness":
        game["q"] -= 1
        print(f"  the witness is of the state after step {game['q']}, the last but one")
        due(game, "interior")
