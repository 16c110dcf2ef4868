#!/usr/bin/python3
"""Signed statements of a tiny task, made without any code of ours: dgx-manifest(5) written a second time.

usage: statements.py KIND [--key K.pem] [OPTIONS] > S.json

The task has 100 steps in 10 segments and is for the ledger L.jsonl. Digests of things that are not there (program, data, states) are SHA-256 of a word. `keys`
writes four key pairs; `ledger` begins a ledger whose nonce, unlike that of dgx-settle init, follows from its name; `log` appends to the ledger L.jsonl; `id` prints a statement's id; `inclusion` and `consistency` verify what `dgx-settle prove --json` printed.
"""

import argparse
import base64
import contextlib
import hashlib
import json
import pathlib
import struct
import sys
import time

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

TYPE = "application/vnd.in-toto+json"
STEP_OPERATIONS, STEPS, EVERY, STATE_BYTES, PRICE = 1000, 100, 10, 4096, 1000000
SEGMENTS = STEPS // EVERY
POLICY = {"audit_ppm": 0, "beacon_slot_ms": 60000, "beacon_source": 0, "beacon_steps": 1 << 33, "challenger_bond": 10000,
          "challenger_bond_ppm": 0, "forced_error_ppm": 0, "jackpot": 0, "jackpot_tax_ppm": 20000, "margin_ppm": 100000,
          "miss_ppm": 0, "miss_share_ppm": 100000, "sample_ppm": 50000, "segment_operations": 4500000000000, "solver_bond": 10000, "solver_bond_ppm": 200000, "split_jackpot_ppm": 250000, "split_submitter_ppm": 500000,
          "split_verifier_ppm": 250000, "store_bytes": 1 << 36, "treasury_ppm": 0, "unsafe_bonds": 0, "verifier_bond": 10000,
          "verifier_bond_ppm": 100000, "verifier_fee": 100,
          "window_challenge_ms": 86400000, "window_delivery_ms": 86400000, "window_move_ms": 3600000,
          "window_proof_ms": 604800000, "window_reveal_ms": 86400000}


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def sha(*parts):
    return hashlib.sha256(b"".join(p if isinstance(p, bytes) else p.encode() for p in parts)).hexdigest()


def raw(text):
    return bytes.fromhex(text)


def pae(payload):
    return b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE.encode(), len(payload), payload)


def seal(kind, predicate, subjects, key):
    public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()
    key_id = sha(canonical({"keytype": "ed25519", "keyval": {"public": public}, "scheme": "ed25519"}))
    payload = canonical({"_type": "https://in-toto.io/Statement/v1", "predicate": predicate | {"signer": public},
                         "predicateType": f"urn:x-dgx:{kind}:v2",
                         "subject": [{"digest": {"sha256": d}, "name": n} for n, d in subjects]})
    signature = base64.b64encode(key.sign(pae(payload))).decode()
    print(canonical({"payload": base64.b64encode(payload).decode(), "payloadType": TYPE,
                     "signatures": [{"keyid": key_id, "sig": signature}]}).decode())


def read(path):
    return read_text(open(path, encoding="ascii").read())


def read_text(text):
    """Id, key id and predicate of a statement."""
    envelope = json.loads(text)
    payload = base64.b64decode(envelope["payload"])
    return sha(pae(payload)), envelope["signatures"][0]["keyid"], json.loads(payload)["predicate"]


def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def root_of(leaves):
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return node(root_of(leaves[:split]), root_of(leaves[split:]))


def states_of(word, bad_from):
    words = [word + str(i) + ("bad" if bad_from is not None and i > bad_from else "") for i in range(SEGMENTS + 1)]
    return [sha("initial"), *map(sha, words[1:-1]), ending(words[-1])[0]]


def loss_of(word, bad_from):
    return ending(word + str(SEGMENTS) + ("bad" if bad_from is not None and SEGMENTS > bad_from else ""))[1]


def ending(word):
    """A last state and its loss: an f32 [] of 1.25 beside an entry that is not there."""
    tensor = sha(b"\2\1\0", root_of([hashlib.sha256(b"\0" + struct.pack("<f", 1.25)).digest()]))
    leaves = [hashlib.sha256(b"\0\3" + struct.pack(">H", len(name)) + name + raw(digest)).digest()
              for name, digest in ((b"loss", tensor), (b"model/w", sha(word)))]
    entry = {"count": 2, "digest": tensor, "index": 0, "name": "loss", "path": base64.b64encode(leaves[1]).decode()}
    return sha(b"\3", struct.pack(">Q", 2), root_of(leaves)), {"entry": entry, "value": "0x1.4p0"}


def task(a):
    policy = POLICY | (json.load(open(a.policy)) if a.policy else {})
    train = STEPS * STEP_OPERATIONS
    prove = (SEGMENTS + 1) * STATE_BYTES * 8
    drawn = max(1, -(-SEGMENTS * policy["sample_ppm"] // 10**6))
    verify = drawn * EVERY * STEP_OPERATIONS
    reward = (train + prove) * PRICE // 10**9
    fee = verify * PRICE // 10**9 + policy["verifier_fee"]
    tax = reward * policy["jackpot_tax_ppm"] // 10**6
    treasury = reward * policy["treasury_ppm"] // 10**6
    margin = (reward + fee) * policy["margin_ppm"] // 10**6
    estimate = {"step_operations": STEP_OPERATIONS, "train": train, "prove": prove, "verify": verify, "reward": reward + a.extra_reward,
                "fee": fee, "tax": tax, "treasury": treasury, "margin": margin,
                "escrow": reward + a.extra_reward + fee + tax + treasury + margin}
    body = {"program": {"lines": 40, "root": sha("program")}, "evaluation": {"lines": 12, "root": sha("evaluation")},
            "initial": {"digest": sha("initial"), "source": "seed"},
            "dataset": {"digest": sha("dataset"), "samples": 1000, "x": {"dtype": "u8", "shape": [28, 28]}, "y": {"dtype": "i64", "shape": []}},
            "model": a.name, "loss": "cross-entropy", "schedule": {"kind": "constant", "warmup": 0},
            "optimizer": {"kind": "sgd", "lr": "0x1p-3", "momentum": "0x1p-1", "nesterov": False, "weight_decay": "0x0p0"},
            "batch": 128, "steps": STEPS, "seed": "18364758544493064720", "checkpoint_every": EVERY, "numerics": "exact-1",
            "policy": policy, "price": PRICE, "estimate": estimate,
            "caps": {"bytes": STATE_BYTES, "milliseconds": 60000, "steps": STEPS}}
    if a.unknown_field:
        body["colour"] = "blue"
    if a.ledger:
        body["ledger"] = first_of(a.ledger)
    seal("task", body, [("program", sha("program")), ("evaluation", sha("evaluation")), ("initial", sha("initial")),
                        ("dataset", sha("dataset"))], a.key)


def offer(a):
    task_id, _, _ = read(a.task)
    commitment = sha("dgx-beacon-commit", raw(sha("secret", task_id)))
    bond = {"bond": a.bond} if getattr(a, "bond", None) else {}
    seal("beacon-commitment", {"task": task_id, "commitment": commitment, "dataset": sha("dataset"), "initial": sha("initial"),
                               "segment_milliseconds": a.milliseconds} | bond,
         [("task", task_id), ("commitment", commitment)], a.key)


def proof(a):
    task_id, _, _ = read(a.task)
    states = states_of(task_id, a.bad_from)
    root = root_of([hashlib.sha256(b"\0\4" + raw(s)).digest() for s in states]).hex()
    seal("proof", {"task": task_id, "states": {"count": len(states), "root": root}, "initial": states[0], "final": states[-1],
                   "steps": STEPS, "diverged": False, "loss": loss_of(task_id, a.bad_from)},
         [("states", root), ("initial", states[0]), ("final", states[-1])], a.key)


def beacon(a):
    task_id, _, _ = read(a.task)
    proof_id, _, _ = read(a.proof)
    offer_id, _, _ = read(a.offer)
    secret = sha("secret" + a.secret_suffix, task_id)
    seal("beacon", {"task": task_id, "commitment": offer_id, "proof": proof_id, "secret": secret,
                    "value": sha("dgx-beacon", raw(secret), raw(proof_id))}, [("proof", proof_id), ("commitment", offer_id)], a.key)


def opening(a):
    """After --beacon, or, without, after the proof. Its files are nowhere: only `log` takes it."""
    task_id, _, _ = read(a.task)
    proof_id, _, _ = read(a.proof)
    after, _, _ = read(a.beacon or a.proof)
    seal("opening", {"task": task_id, "proof": proof_id, "after": after, "location": "opening"}, [("proof", proof_id), ("after", after)], a.key)


def verdict(a):
    """--segments given: a chosen draw. A segment agrees if the proof's end digest is the honest one."""
    task_id, _, body = read(a.task)
    proof_id, _, _ = read(a.proof)
    public = a.key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()
    key_id = sha(canonical({"keytype": "ed25519", "keyval": {"public": public}, "scheme": "ed25519"}))
    claimed, honest = states_of(task_id, a.bad_from), states_of(task_id, None)
    if a.segments:
        segments, value = [int(s) for s in a.segments.split(",")], bytes(32)
    else:
        beacon_id, _, revealed = read(a.beacon)
        value = raw(revealed["value"])
        count, drawn, j = max(1, -(-SEGMENTS * body["policy"]["sample_ppm"] // 10**6)), set(), 0
        while len(drawn) < count:
            drawn.add(int(sha("dgx-draw", value, raw(proof_id), raw(key_id), j.to_bytes(8, "big"))[:16], 16) % SEGMENTS)
            j += 1
        segments = sorted(drawn)
    rows = [{"index": s, "expected": claimed[s + 1], "recomputed": honest[s + 1], "agrees": claimed[s + 1] == honest[s + 1],
             "reason": "equal" if claimed[s + 1] == honest[s + 1] else "digest",
             "witness": sha("dgx-witness", raw(key_id), raw(sha("interior", str(s))))} for s in segments]
    root = root_of([hashlib.sha256(b"\0" + canonical(row)).digest() for row in rows]).hex()
    bad = [row for row in rows if not row["agrees"]]
    missed = f"{(SEGMENTS - len(rows)) / SEGMENTS:g}"  # one bad segment; 1 % and 10 % of ten are as many
    predicate = {"task": task_id, "proof": proof_id, "draw": "chosen" if a.segments else "policy",
                 "outcome": "refuted" if bad else "accepted", "segments": SEGMENTS, "replayed": len(rows),
                 "rows": {"count": len(rows), "root": root}, "work": len(rows) * EVERY * STEP_OPERATIONS,
                 "miss_probability": {"one_segment": missed, "one_percent": missed, "ten_percent": missed}, "nonce": sha("nonce")}
    if not a.segments:
        predicate["beacon"] = beacon_id
    if bad:
        predicate["first_disagreement"] = bad[0]
    seal("verdict", predicate, [("proof", proof_id), ("rows", root)], a.key)


def path_of(leaves, index):
    """An audit path, from the leaf up."""
    if len(leaves) == 1:
        return []
    split = 1 << (len(leaves) - 1).bit_length() - 1
    if index < split:
        return path_of(leaves[:split], index) + [root_of(leaves[split:])]
    return path_of(leaves[split:], index - split) + [root_of(leaves[:split])]


def base64_of(*parts):
    return base64.b64encode(b"".join(parts)).decode()


def challenge(a):
    """Of the proof: that segment --segments does not lead from its start to its end; or of the --verdict that refutes it, by the row it gives."""
    task_id, _, _ = read(a.task)
    proof_id, _, _ = read(a.proof)
    states, segment = states_of(task_id, a.bad_from), int(a.segments)
    leaves = [hashlib.sha256(b"\0\4" + raw(s)).digest() for s in states]
    start, end = ({"digest": states[i], "path": base64_of(*path_of(leaves, i))} for i in (segment, segment + 1))
    predicate = {"task": task_id, "proof": proof_id, "about": "segment", "segment": segment, "start": start, "end": end}
    statement = proof_id
    if a.verdict:
        statement, _, body = read(a.verdict)
        predicate |= {"verdict": statement, "row": {"index": 0, "path": "", "row": body["first_disagreement"]}}
    seal("challenge", predicate, [("statement", statement), ("start", states[segment])], a.key)


def move(a):
    """The first of a game: --name is its kind. It shows 255 digests; the letter of a claim is "d"."""
    task_id, _, _ = read(a.task)
    game, _, _ = read(a.game)
    say = {"kind": a.name, "claim": "d"} if a.name == "claim" else {"kind": a.name, "digests": base64_of(*(raw(sha(str(i))) for i in range(255)))}
    seal("move", {"task": task_id, "game": game, "turn": 1, "previous": game, "say": say}, [("game", game), ("previous", game)], a.key)


def ruling(a):
    task_id, _, _ = read(a.task)
    proof_id, defender, _ = read(a.proof)
    game, challenger, _ = read(a.game)
    scalar = {"claimed": "0x40400001", "index": 0, "operation": "add", "place": "sum lane 4", "result": "0x40400000",
              "operands": [{"bits": "0x3f800000", "from": "accumulator"}, {"bits": "0x40000000", "from": "step 2"}]}
    seal("ruling", {"task": task_id, "game": game, "statement": proof_id, "defender": defender, "challenger": challenger, "moves": 17,
                    "last": sha("last"), "falls": True, "reason": "claim", "claim": "d",
                    "at": {"segment": 3, "step": 31, "value": 12, "element": 0, "position": 4}, "scalar": scalar,
                    "words": "element 0 of value 12 is not what its line gives: the proof falls"},
         [("statement", proof_id), ("game", game)], a.key)


def first_of(ledger):
    """Id of a ledger."""
    return read_text(open(ledger, encoding="ascii").readline())[0]


def ledger(a):
    """NAME.jsonl and NAME.receipts.jsonl with their first entry."""
    name = pathlib.Path(a.task)
    policy = POLICY | (json.load(open(a.policy)) if a.policy else {})
    key = serialization.load_pem_private_key(pathlib.Path("operator.pem").read_bytes(), None)
    with open(name, "w", encoding="ascii") as file, contextlib.redirect_stdout(file):
        seal("policy", {"nonce": sha("nonce", name.name), "policy": policy}, [("policy", sha(canonical(policy)))], key)
    with open(name.with_suffix(".receipts.jsonl"), "w", encoding="ascii") as file, contextlib.redirect_stdout(file):
        receipt([], first_of(name), int(time.time() * 1000), first_of(name), key)


def receipt(before, statement, now, ledger_id, key):
    leaves = [hashlib.sha256(b"\0\6" + raw(r["statement"]) + r["milliseconds"].to_bytes(8, "big")).digest()
              for r in before + [{"statement": statement, "milliseconds": now}]]
    root = root_of(leaves).hex()
    seal("receipt", {"ledger": ledger_id, "statement": statement, "index": len(before), "milliseconds": now,
                     "head": {"count": len(leaves), "root": root}}, [("statement", statement), ("head", root)], key)


def keys(_):
    """Four people, always the same."""
    for seed, name in enumerate(("operator", "submitter", "solver", "verifier"), 1):
        key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
        pathlib.Path(name + ".pem").touch(0o600)
        pathlib.Path(name + ".pem").write_bytes(key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        pathlib.Path(name + ".pem").chmod(0o600)
        pathlib.Path(name + ".pub.pem").write_bytes(key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))


def log(a):
    """Appends a statement and its receipt to a ledger as an operator would who asks no rules."""
    receipts_path = a.ledger.replace(".jsonl", ".receipts.jsonl")
    receipts = [read_text(line)[2] for line in open(receipts_path, encoding="ascii")]
    with open(a.ledger, "a", encoding="ascii") as ledger:
        ledger.write(open(a.task, encoding="ascii").read())
    with open(receipts_path, "a", encoding="ascii") as file, contextlib.redirect_stdout(file):
        receipt(receipts, read(a.task)[0], receipts[-1]["milliseconds"] + 1, receipts[0]["ledger"], a.key)


def leaves_of(ledger, inside=lambda milliseconds: True):
    """The Merkle leaves of a ledger's entries, or of those whose time is inside, from the receipts."""
    receipts = [read_text(line)[2] for line in open(ledger.replace(".jsonl", ".receipts.jsonl"), encoding="ascii")]
    return [hashlib.sha256(b"\0\6" + raw(r["statement"]) + r["milliseconds"].to_bytes(8, "big")).digest() for r in receipts if inside(r["milliseconds"])]


def slot_head(ledger, slot, slot_ms):
    """Entries and root up to the end of a slot that is not before the first entry's."""
    leaves = leaves_of(ledger, lambda milliseconds: milliseconds // slot_ms <= slot)
    return len(leaves), root_of(leaves)


def round_of(a):
    """The round of slot --segments of --ledger, by a delay of --steps: dgx-protocol(7), ROUNDS."""
    policy = read_text(open(a.ledger, encoding="ascii").readline())[2]["policy"]
    slot, interval = int(a.segments), max(2**20, -(-a.steps // 1024))
    count, root = slot_head(a.ledger, slot, policy["beacon_slot_ms"])
    at = hashlib.sha256(b"dgx-delay" + raw(first_of(a.ledger)) + slot.to_bytes(8, "big") + count.to_bytes(8, "big") + root).digest()
    checkpoints = []
    for step in range(1, a.steps + 1):
        at = hashlib.sha256(at).digest()
        if step % interval == 0 or step == a.steps:
            checkpoints.append(at)
    if a.wrong is not None:
        checkpoints[a.wrong] = bytes([checkpoints[a.wrong][0] ^ 1]) + checkpoints[a.wrong][1:]
    value = sha("dgx-round", checkpoints[-1])
    seal("round", {"ledger": first_of(a.ledger), "slot": slot, "head": {"count": count, "root": root.hex()}, "source": "delay", "steps": a.steps,
                   "checkpoints": base64_of(*checkpoints), "value": value}, [("head", root.hex()), ("value", value)], a.key)


def statement_id(a):
    print(read(a.task)[0])


def inclusion(_):
    """RFC 9162, section 2.1.3.2."""
    p = json.load(sys.stdin)
    leaf = hashlib.sha256(b"\0\6" + raw(p["statement"]) + p["time"].to_bytes(8, "big")).digest()
    index, last = p["index"], p["size"] - 1
    for sibling in map(raw, p["path"]):
        assert last > 0
        if index & 1 or index == last:
            leaf = node(sibling, leaf)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            leaf = node(leaf, sibling)
        index, last = index >> 1, last >> 1
    assert last == 0 and leaf.hex() == p["root"]
    print("included")


def consistency(_):
    """RFC 9162, section 2.1.4.2."""
    p = json.load(sys.stdin)
    path = [raw(d) for d in p["path"]]
    if p["from"] & (p["from"] - 1) == 0:
        path.insert(0, raw(p["from_root"]))
    first, second = p["from"] - 1, p["size"] - 1
    while first & 1:
        first, second = first >> 1, second >> 1
    old = new = path[0]
    for sibling in path[1:]:
        assert second > 0
        if first & 1 or first == second:
            old, new = node(sibling, old), node(sibling, new)
            while not first & 1 and first:
                first, second = first >> 1, second >> 1
        else:
            new = node(new, sibling)
        first, second = first >> 1, second >> 1
    assert second == 0 and old.hex() == p["from_root"] and new.hex() == p["root"]
    print("consistent")


def main():
    kinds = {"task": task, "offer": offer, "proof": proof, "beacon": beacon, "opening": opening, "verdict": verdict, "id": statement_id, "keys": keys, "ledger": ledger, "log": log,
             "challenge": challenge, "move": move, "ruling": ruling, "round": round_of,
             "inclusion": inclusion, "consistency": consistency}
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("task", nargs="?")
    parser.add_argument("--key", type=lambda path: serialization.load_pem_private_key(open(path, "rb").read(), None))
    for name in ("--policy", "--proof", "--offer", "--beacon", "--segments", "--game", "--verdict"):
        parser.add_argument(name)
    parser.add_argument("--ledger", default="L.jsonl" if pathlib.Path("L.jsonl").exists() else None)
    parser.add_argument("--name", default="tiny")
    parser.add_argument("--secret-suffix", default="")
    parser.add_argument("--bad-from", type=int, help="the proof's states are wrong after this one")
    parser.add_argument("--extra-reward", type=int, default=0)
    parser.add_argument("--milliseconds", type=int, default=1, help="that the longest segment takes whoever offers")
    parser.add_argument("--bond", type=int, help="that an offer stakes")
    parser.add_argument("--steps", type=int, default=1 << 16, help="of a round's delay")
    parser.add_argument("--wrong", type=int, help="the number of a round's checkpoint of which one bit is wrong")
    parser.add_argument("--unknown-field", action="store_true")
    arguments = parser.parse_args()
    kinds[arguments.kind](arguments)


if __name__ == "__main__":
    main()
