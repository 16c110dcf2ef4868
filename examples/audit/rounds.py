"""Audits what chance decided about a task, by the files of its ledger: dgx-protocol(7), ROUNDS to FORCED ERRORS. Python's standard library only.

rounds.py pick FOLDER LEDGER.jsonl TASK    takes apart what is needed, for openssl to verify: FOLDER/NNNN.*, and FOLDER/picked
rounds.py follow FOLDER                    recomputes it, and prints every step; exit 10 if something does not follow"""

import hashlib
import json
import pathlib
import random
import sys

from draws import ZERO, by_bond, drawn_segments, forced_segment, hits, interval, lot, segments
from envelopes import statement_id, take_apart
from judging import End, sure
from trees import digests, leaf, root, sha, u64

MOST_STEPS = 1 << 22  # of all delays together; of more, some parts are computed
SAMPLED = 4
FALSE = 10
MOST_OFFERS = 64


def kind_of(made):
    return made["predicateType"].split(":")[2]


def receipts_of(ledger):
    return ledger.with_name(ledger.name.removesuffix(".jsonl") + ".receipts.jsonl")


def pick(work, ledger, task):
    """Everything about the task, with its index and time; the policy, all rounds, and the last receipt, which binds all of the ledger."""
    (*lines, rest), (*receipts, end) = (path.read_bytes().split(b"\n") for path in (ledger, receipts_of(ledger)))
    if rest or end or not lines or len(lines) != len(receipts):
        raise ValueError(f"has {len(lines)} whole lines, and {len(receipts)} whole receipts: a write was cut off, or is under way")
    entries, wanted = [], []
    payloads = [take_apart(line, None) for line in lines]
    times = [json.loads(take_apart(line, None))["predicate"]["milliseconds"] for line in receipts]
    found = [statement_id(payload) for payload in payloads]
    named = [one for one, payload in zip(found, payloads) if one.startswith(task) and kind_of(json.loads(payload)) == "task"]
    if len(task) < 8 or len(named) != 1:
        raise ValueError(f"{len(named)} tasks have an id that begins with {task!r}, of which eight digits are needed")
    task = named[0]
    for index, payload in enumerate(payloads):
        made = json.loads(payload)
        entries.append((found[index], times[index]))
        if kind_of(made) in ("policy", "round") or found[index] == task or made["predicate"].get("task") == task:
            take_apart(lines[index], work / f"{len(wanted):04}")
            wanted.append({"index": index, "ms": times[index]})
    take_apart(receipts[-1], work / f"{len(wanted):04}")
    (work / "picked").write_text(json.dumps({"task": task, "entries": entries, "wanted": wanted}))


class Ledger:
    """What was picked, verified by openssl, and bound by the last receipt."""

    def __init__(self, work):
        told = json.loads((work / "picked").read_text())
        self.entries, self.task_id, self.statements = told["entries"], told["task"], []
        paths = sorted(work.glob("*.payload"))
        for path, place in zip(paths, told["wanted"]):
            made = json.loads(path.read_bytes())
            self.statements.append({**made, **place, "id": path.with_suffix(".id").read_text(), "keyid": path.with_suffix(".keyid").read_text(), "kind": kind_of(made)})
        last = {"keyid": paths[-1].with_suffix(".keyid").read_text(), **json.loads(paths[-1].read_bytes())["predicate"]}
        self.policy = self.statements[0]
        self.leaves = [leaf(b"\6" + bytes.fromhex(entry) + u64(when)) for entry, when in self.entries]
        sure(self.policy["kind"] == "policy" and last["keyid"] == self.policy["keyid"] and last["ledger"] == self.policy["id"], f"the ledger is {self.policy['id']}, its operator key {last['keyid']}")
        sure(all(self.entries[one["index"]][0] == one["id"] for one in self.statements), "the ids are those of what openssl has verified")
        sure([when for _, when in self.entries] == sorted(when for _, when in self.entries), "times do not decrease")
        sure(self.head(len(self.leaves)) == last["head"], f"the last receipt binds all {len(self.leaves)} entries and their times: root {last['head']['root']}")

    def head(self, count):
        return {"count": count, "root": root(self.leaves[:count]).hex()}

    def of(self, kind, **fields):
        return [one for one in self.statements if one["kind"] == kind and all(one["predicate"].get(key) == value for key, value in fields.items())]

    def one(self, kind, what, **fields):
        found = self.of(kind, **fields)
        if not found:
            raise End(0, f"So far there is no {what}: nothing more was drawn")
        return found[0]


class Audit:
    """What follows for one task; `false` has what does not."""

    def __init__(self, ledger):
        self.ledger, self.false = ledger, []
        self.task = ledger.one("task", "task")["predicate"]
        self.rules = self.task["policy"]

    def must(self, holds, text):
        print(f"  {text}{'' if holds else ': NOT SO'}")
        if not holds:
            self.false.append(text)

    def round_of(self, when):
        """The round of the slot of a time; None if there is none."""
        found = self.ledger.of("round", slot=when // self.rules["beacon_slot_ms"])
        return found[0] if found else None

    def rounds(self):
        """Every round of the ledger, whoever needed it."""
        operator, slot_ms = self.ledger.policy["keyid"], self.rules["beacon_slot_ms"]
        made = self.ledger.of("round")
        whole = sum(one["predicate"].get("steps", 0) for one in made) <= MOST_STEPS
        for one in made:
            says = one["predicate"]
            count = sum(when < (says["slot"] + 1) * slot_ms for _, when in self.ledger.entries)
            print(f"  slot {says['slot']}, value {says['value']}")
            self.must(one["keyid"] == operator and says["ledger"] == self.ledger.policy["id"] and one["ms"] // slot_ms > says["slot"], "  it is the operator's, of this ledger, and later than its slot")
            self.must(says["head"] == self.ledger.head(count), f"  its head is that of the {count} entries up to the slot's end")
            self.origin(says, whole)

    def origin(self, says, whole):
        if "signature" in says:
            wanted = 1 + max(0, -(-((says["slot"] + 2) * self.rules["beacon_slot_ms"] - 1692803367000) // 3000))
            self.must(says["number"] == wanted, f"  the slot has pulse {wanted}")
            print("  the value is the hash of its signature, which is kept and not verified: that takes BLS12-381")
            return
        start = sha(b"dgx-delay", bytes.fromhex(says["ledger"]), u64(says["slot"]), u64(says["head"]["count"]), bytes.fromhex(says["head"]["root"]))
        ends, each, steps = digests(says["checkpoints"]), interval(says["steps"]), says["steps"]
        self.must(steps == self.rules["beacon_steps"] and len(ends) == -(-steps // each), f"  a delay of {steps} steps, in {len(ends)} parts")
        self.must(sha(b"dgx-round", ends[-1]).hex() == says["value"], "  the value is H(\"dgx-round\" | its end)")
        parts = range(len(ends)) if whole else sorted(random.sample(range(len(ends)), min(SAMPLED, len(ends))))
        for part in parts:
            at = ends[part - 1] if part else start
            for _ in range(min(each, steps - part * each)):
                at = hashlib.sha256(at).digest()
            self.must(at == ends[part], f"  part {part} leads from one checkpoint to the next")
        if not whole:
            print(f"  {len(ends) - len(parts)} parts were not computed: dgx-settle check --rounds computes them all")

    def offers(self, assign):
        """Those among whom verifiers are drawn: their (key id, bond) by id."""
        out, ended = {}, {one["predicate"]["commitment"]: one["index"] for one in self.ledger.of("offer-end")}
        for offer in self.ledger.of("beacon-commitment"):
            if offer["index"] > assign["index"]:
                continue
            for gone in [each for each in out if ended.get(each, offer["index"]) < offer["index"]]:
                del out[gone]
            if len(out) == MOST_OFFERS:
                del out[min(out, key=lambda each: (out[each][1], -int(out[each][0], 16)))]
            out[offer["id"]] = (offer["keyid"], offer["predicate"]["bond"])
        return {each: one for each, one in out.items() if ended.get(each, assign["index"]) >= assign["index"] and one[0] != assign["keyid"]}

    def verifiers(self, made, proof, offers):
        """Up to three, one after another."""
        left, out = set(offers.values()), []
        while left and len(out) < 3:
            key, text = by_bond(lot("verifier", bytes.fromhex(made["predicate"]["value"]), bytes.fromhex(proof["id"]), u64(len(out))), left)
            print(f"  verifier {len(out)} is key {key}\n    {text}")
            out.append(key)
            left = {one for one in left if one[0] != key}
        return out

    def auditor(self, verdict, others):
        print("\n5. Who audits")
        made = self.round_of(verdict["ms"])
        if made is None:
            return print("  the slot of the verdict has no round: nobody")
        value, verdict_id = bytes.fromhex(made["predicate"]["value"]), bytes.fromhex(verdict["id"])
        found = lot("audit", value, verdict_id)
        if not hits(found, self.rules["audit_ppm"]):
            return print(f"  lot {found.hex()}: not below {self.rules['audit_ppm']} in a million, so nobody is drawn")
        print(f"  lot {found.hex()}: below {self.rules['audit_ppm']} in a million")
        if not others:
            return print("  nobody else had offered: nobody is drawn")
        key, text = by_bond(lot("auditor", value, verdict_id), others)
        return print(f"  the auditor is key {key}\n    {text}\n    (if jackpot and margin had the fee, which dgx-settle status shows)")

    def secret(self, verdict, proof, made, drawn, offers):
        """The forced error, once the secret is there; the segment that has to be denied."""
        print("\n6. What was forced to be false")
        offer = next(one for one in self.ledger.of("beacon-commitment") if one["id"] in offers and one["keyid"] == verdict["keyid"])
        shown = self.ledger.one("beacon", "secret of the verifier", proof=proof["id"])
        secret = bytes.fromhex(shown["predicate"]["secret"])
        self.must(shown["predicate"]["commitment"] == offer["id"] and sha(b"dgx-beacon-commit", secret).hex() == offer["predicate"]["commitment"], f"the secret, shown by key {shown['keyid']}, is the one to which offer {offer['id']} committed")
        print(f"  it was {'given away: its owner is key ' + verdict['keyid'] if shown['keyid'] != verdict['keyid'] else 'shown by its owner'}")
        segment, found = forced_segment(self.task, proof["predicate"], bytes.fromhex(made["predicate"]["value"]), secret, bytes.fromhex(proof["id"]), drawn)
        print(f"  lot {found.hex()}: {'nothing is forced' if segment is None else f'the witness of segment {segment} has to be false'}")
        return segment

    def audits(self, verdict, drawn, forced):
        print("\n7. What audits say")
        commitments = {one["keyid"]: one for one in self.ledger.of("verdict-commitment", audits=verdict["id"])}
        for audit in self.ledger.of("verdict", audits=verdict["id"]):
            says = audit["predicate"]
            print(f"  key {audit['keyid']}: {says['outcome']}, denies {says['denied'] or 'nothing'}")
            hidden = sha(b"dgx-verdict-commit", bytes.fromhex(audit["id"]), bytes.fromhex(says["nonce"])).hex()
            self.must(hidden == commitments[audit["keyid"]]["predicate"]["commitment"], "  it is the one that its signer had committed to")
            self.must(set(says["denied"]) <= set(drawn), "  what it denies was drawn")
            if forced is not None and says["outcome"] == "accepted":
                claims = says["denied"] == [forced]
                print("    so it claims the forced error" if claims else "    it denies more than was forced, and owes a game" if forced in says["denied"] else "    it confirms the witness that had to be false: its signer has not looked, or the verifier disobeyed")
            del commitments[audit["keyid"]]
        for key in commitments:
            print(f"  key {key} has committed to an audit, and not shown it")

    def follow(self):
        print("\n2. The ledger's rounds")
        self.rounds()
        print("\n3. Who verifies")
        assign, proof = self.ledger.one("assign", "solver"), self.ledger.one("proof", "proof")
        made = self.round_of(proof["ms"])
        if made is None:
            raise End(0, "The slot of the proof has no round: nobody was drawn")
        sure(made["ms"] - proof["ms"] <= self.rules["window_reveal_ms"] + self.rules["beacon_slot_ms"], "the round came in time (where the operator paused, that needs another look)")
        offers = self.offers(assign)
        verifiers = self.verifiers(made, proof, offers)
        print("\n4. What is replayed")
        value = sha(b"dgx-beacon", bytes.fromhex(made["predicate"]["value"]), bytes.fromhex(proof["id"]))
        drawn = drawn_segments(self.task, proof["predicate"], value, bytes.fromhex(proof["id"]), ZERO)
        print(f"  segments {', '.join(map(str, drawn))} of {len(segments(self.task, proof['predicate'])) + proof['predicate']['diverged']}")
        verdict = self.ledger.one("verdict", "verdict", audits=None)
        self.must(verdict["keyid"] in verifiers, f"the verdict, {verdict['predicate']['outcome']}, is by key {verdict['keyid']}, who was drawn")
        if verdict["predicate"]["outcome"] == "accepted":
            self.must(verdict["predicate"]["replayed"] == len(drawn) and verdict["predicate"]["beacon"] == made["id"], f"it says that it replayed these {len(drawn)}")
            asked = set(verifiers[:verifiers.index(verdict["keyid"]) + 1]) if verdict["keyid"] in verifiers else set()
            self.auditor(verdict, {one for one in offers.values() if one[0] not in asked})
            forced = self.secret(verdict, proof, made, drawn, offers) if self.rules["forced_error_ppm"] else None
            self.audits(verdict, drawn, forced)


def main(mode, work, *words):
    if mode == "pick":
        try:
            return pick(pathlib.Path(work), pathlib.Path(words[0]), words[1])
        except Exception as error:  # whatever is wrong with it, it is no ledger
            sys.exit(f"{words[0]}: {error.strerror if isinstance(error, OSError) else error if isinstance(error, ValueError) else f'{type(error).__name__}: {error}'}")
    audit = None
    try:
        try:
            audit = Audit(Ledger(pathlib.Path(work)))
            sure(audit.rules["beacon_source"] != 0, "the market has rounds")
            audit.follow()
        except End as end:
            print(f"\n{end}.")
            if end.code != 0:
                print("Not audited.")
                return sys.exit(2)
    except Exception as error:  # no mistake of ours, and nothing that a statement says, may look like an answer
        print(f"\nThis ledger cannot be audited: {type(error).__name__} {error}.\nNot audited.")
        return sys.exit(2)
    print("\n" + ("\n".join(f"Not so: {text.strip()}" for text in audit.false) or "Everything that chance decided follows from the ledger."))
    return sys.exit(FALSE if audit.false else 0)


main(*sys.argv[1:])
