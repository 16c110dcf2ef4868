"""What is disputed, from task, proof, perhaps verdict and beacon, and challenge: dgx-dispute(7), "What is disputed"."""

import json

from judging import End, due, falls, sure
from trees import climb, digests, leaf, sha, u64


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
    every, steps = task["checkpoint_every"], proof["steps"]
    count = -(-steps // every) if proof["diverged"] else max(1, steps // every + (steps % every >= 2))
    sure(steps < task["steps"] if proof["diverged"] else steps == task["steps"], f"the proof is of {steps} steps of {task['steps']}, {'and' if proof['diverged'] else 'none'} diverged")
    first, last = (segment * every, (segment + 1) * every) if segment + 1 < count else (segment * every, steps) if segment < count else (steps, steps + 1)
    sure(proof["states"]["count"] == count + 1 and segment < count + proof["diverged"], f"segment {segment} of {count + proof['diverged']} is steps {first} ... {last - 1}")
    return first, last, count


def begin(statements):
    """The game before its first move."""
    game, kinds = {"turn": 0}, [statement["predicateType"].split(":")[2] for statement in statements]
    before = [kind for kind in ("task", "proof", "verdict", "beacon", "challenge") if kind in kinds]
    sure(kinds == before + ["move"] * (len(kinds) - len(before)) and ("verdict" in kinds or "beacon" not in kinds), f"the statements are {', '.join(before)} and {len(kinds) - len(before)} moves, in this order")
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
        row(game, says, verdict_made["predicate"], bytes.fromhex(proof["id"]), by_kind.get("beacon"), diverging)
    elif diverging and says["about"] == "segment":
        due(game, "fault")
    return game


def row(game, says, verdict_made, proof, beacon, diverging):
    game["row"] = said = says["row"]["row"]
    text = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    found = climb(says["row"]["index"], verdict_made["rows"]["count"], leaf(text), digests(says["row"]["path"]), show=True)
    own = verdict_made.get("first_disagreement") == said
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
        value = bytes.fromhex(beacon["predicate"]["value"]) if beacon else bytes(32)
        drawn = sha(b"dgx-interior", value, proof, bytes.fromhex(game["defender"]), u64(says["segment"]))
        game["q"] = game["p"] + 1 + int.from_bytes(drawn[:8], "big") % (game["q"] - game["p"] - 1)
        print(f"  the witness is of the state after step {game['q']}: H(\"dgx-interior\" | ...) = {drawn.hex()}")
        due(game, "interior")
