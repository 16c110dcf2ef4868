"""What dgx-settle refuses in markets with rounds: bad_rounds.py --bin FOLDER

Rounds, pulses, offers, openings, verdicts and audits that are wrong, too early, too late or said twice. Each is refused with its reason, or repaired and told,
and no file is another afterwards. Statements are made without any code of ours (dgx-settle/statements.py).
"""

import argparse
import base64
import contextlib
import fcntl
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
sys.path.insert(0, str(HERE.parent / "interop"))
sys.path.insert(0, str(HERE / "dgx-settle"))
import needs  # noqa: E402

needs.modules("cryptography")
import rounds  # noqa: E402
import statements  # noqa: E402

SLOT_MS = rounds.SLOT_MS
POLICY = rounds.POLICY | {"challenger_bond": 500}
MALFORMED, MISSING, NOT_ALLOWED, UNAUTHORISED, BUSY, TAKEN = 65, 66, 76, 77, 69, 73
failures = 0


def check(condition, what):
    global failures
    if not condition:
        failures += 1
        print("FAILED:", what, flush=True)


class Market(rounds.Market):
    """A market whose files are compared before and after each refusal."""

    def files(self):
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in pathlib.Path(self.folder).rglob("*") if path.is_file() and not path.name.endswith(".lock")}

    def run(self, *words, env=None):
        return subprocess.run([f"{self.bin}/dgx-settle", *words], cwd=self.folder, capture_output=True, text=True, env=os.environ | (env or {}))

    def refused(self, code, words, *command, env=None, makes=()):
        before = self.files()
        done = self.run(*command, env=env)
        check(done.returncode == code and words in done.stderr, f"{command}: exit {done.returncode}, expected {code}, {words!r} not in: {done.stdout}{done.stderr}")
        after = self.files()
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name) and name not in makes)
        check(not changed, f"{command}: changes {changed}")

    def bad(self, code, words, text, name="bad.json"):
        """A statement that is not logged."""
        self.write(name, text)
        self.refused(code, words, "append", "L.jsonl", name, "--key", "operator.pem", "--store", ".")

    def sealed(self, kind, body, subjects, who):
        key = statements.serialization.load_pem_private_key(pathlib.Path(self.folder, f"{who}.pem").read_bytes(), None)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            statements.seal(kind, {name: value for name, value in body.items() if name != "signer"}, subjects, key)
        return out.getvalue()

    def logged(self, text):
        """An entry by an operator who asks no rules."""
        self.write("loose.json", text)
        self.sign("log", "loose.json", "--key", "operator.pem")
        os.remove(f"{self.folder}/loose.json")
        self.pass_time()

    def pass_time(self):
        """An entry, with which the ledger's time passes and its index is whole again."""
        self.settle("deposit", "L.jsonl", "--to", "v15.pem", "1", "--key", "operator.pem")

    def entries_ms(self):
        """The times of the ledger's entries."""
        return [statements.read_text(line)[2]["milliseconds"] for line in pathlib.Path(self.folder, "L.receipts.jsonl").read_text().splitlines()]

    def id_of(self, name):
        return statements.read(f"{self.folder}/{name}")[0]

    def body(self, name):
        return statements.read(f"{self.folder}/{name}")[2]

    def round(self, of, who="operator", **changes):
        """The true round of slot `of`, but for what is changed."""
        slot = of
        count, root = self.head(slot)
        ledger = self.entries()[0][0]
        end = rounds.chain(ledger, slot, count, root, 65536)
        body = {"ledger": ledger, "slot": slot, "head": {"count": count, "root": root}, "source": "delay", "steps": 65536,
                "checkpoints": statements.base64_of(end), "value": hashlib.sha256(b"dgx-round" + end).hexdigest()} | changes
        body = {name: value for name, value in body.items() if value is not None}
        return self.sealed("round", body, [("head", body["head"]["root"]), ("value", body["value"])], who)

    def convicted(self, words, text):
        """A statement for whose files the operator would look first: one who logs it nevertheless is convicted by dgx-settle check."""
        copy = f"{self.folder}-convicted"
        shutil.copytree(self.folder, copy)
        pathlib.Path(copy, "loose.json").write_text(text)
        subprocess.run([sys.executable, rounds.SIGNER, "log", "loose.json", "--key", "operator.pem"], cwd=copy, check=True)
        done = subprocess.run([f"{self.bin}/dgx-settle", "check", "L.jsonl"], cwd=copy, capture_output=True, text=True)
        check(done.returncode == 1 and words in done.stdout, f"a ledger with what is refused: exit {done.returncode}, {words!r} not in {done.stdout}{done.stderr}")
        shutil.rmtree(copy)

    def state(self):
        return self.settle("status", "L.jsonl")["tasks"][0]["state"]


def bad_rounds(market):
    market.wait_for_end(market.entries_ms()[0] // SLOT_MS)  # the proof is in a later slot than the first entry
    slot = market.play({10: 1000, 11: 2000})
    market.wait_for_end(slot)
    count, root = market.head(slot)
    end = rounds.chain(market.entries()[0][0], slot, count, root, 65536)
    flipped = bytes([end[0] ^ 1]) + end[1:]
    wrong = "0" * 64
    first = market.first_head()
    market.bad(NOT_ALLOWED, "nothing was logged in slot", market.round(slot, slot=slot - 3600))
    market.bad(NOT_ALLOWED, "is not over", market.round(slot, slot=slot + 3600))
    market.bad(MALFORMED, "head: is not that of the", market.round(slot, head={"count": count - 1, "root": root}))
    market.bad(MALFORMED, "head: is not that of the", market.round(slot, head={"count": count, "root": wrong}))
    market.bad(MALFORMED, "head: is not that of the", market.round(slot, head=first))
    market.bad(MALFORMED, "does not follow from the round's source", market.round(slot, checkpoints=statements.base64_of(flipped)))
    market.bad(MALFORMED, "does not follow from the round's source", market.round(slot, value=wrong))
    market.bad(MALFORMED, "checkpoints: are 2", market.round(slot, checkpoints=statements.base64_of(end, end)))
    market.bad(MALFORMED, "steps: are 65537, the policy asks for 65536", market.round(slot, steps=65537))
    market.bad(MALFORMED, "steps: is 65535", market.round(slot, steps=65535))
    market.bad(MALFORMED, "ledger: names", market.round(slot, ledger=wrong))
    market.bad(UNAUTHORISED, "not by the ledger's operator", market.round(slot, who="solver"))
    signature = b"\x91" * 48
    market.bad(MALFORMED, "source: is drand", market.round(slot, source="drand", steps=None, checkpoints=None, number=1, value=hashlib.sha256(signature).hexdigest(),
                                                           signature=base64.b64encode(signature).decode()))
    market.bad(MALFORMED, "unknown field", market.round(slot, number=1))
    # The program that makes rounds.
    make = ("round", "L.jsonl", "--key", "operator.pem")
    market.refused(UNAUTHORISED, "is not the operator's", "round", "L.jsonl", "--key", "solver.pem")
    market.refused(MISSING, "no such ledger", "round", "nowhere.jsonl", "--key", "operator.pem")
    market.write("taken", "")
    market.refused(TAKEN, "already exists", *make, "-o", "taken")
    market.write("pulse.json", "{}")
    market.refused(2, "are computed, not imported", *make, "--import", "pulse.json")
    os.mkdir(f"{market.folder}/L.rounds")
    market.write("L.rounds/lock", "")
    with open(f"{market.folder}/L.rounds/lock", "r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        market.refused(BUSY, "another process", *make)
    with open(f"{market.folder}/L.jsonl", "r+b") as held:  # found when the round is to be logged: what was computed is kept
        fcntl.flock(held, fcntl.LOCK_EX)
        market.refused(BUSY, "another process is writing here", *make, makes=(f"L.rounds/{slot}.part",))
    shutil.rmtree(f"{market.folder}/L.rounds")
    market.write("L.rounds", "")
    market.refused(TAKEN, "L.rounds", *make)
    os.remove(f"{market.folder}/L.rounds")
    # A foreign file in the folder of kept computations is passed over: the true round is computed anew.
    os.mkdir(f"{market.folder}/L.rounds")
    start = hashlib.sha256(b"dgx-delay" + bytes.fromhex(market.entries()[0][0]) + slot.to_bytes(8, "big") + count.to_bytes(8, "big") + bytes.fromhex(root)).digest()
    name = start + (65536).to_bytes(8, "big")
    kept = {"nothing": b"", "zeros": bytes(104), "a sum that is not its own": bytes(32) + name + end, "another delay's": whole(bytes(40) + end), "half a digest": whole(name + end[:16]),
            "too many": whole(name + end + end)}
    for what, bytes_there in kept.items():
        copy = market.folder + "-" + what.replace(" ", "-")
        shutil.copytree(market.folder, copy)
        pathlib.Path(copy, "L.rounds", f"{slot}.part").write_bytes(bytes_there)
        done = subprocess.run([f"{market.bin}/dgx-settle", *make, "--json"], cwd=copy, capture_output=True, text=True)
        sound = subprocess.run([f"{market.bin}/dgx-settle", "check", "L.jsonl", "--rounds"], cwd=copy, capture_output=True, text=True)
        check(done.returncode == 0 and "damaged: begun anew" in done.stderr and sound.returncode == 0, f"kept: {what}: {done.stderr}{sound.stdout}")
    # Two at once log one round.
    both = [subprocess.Popen([f"{market.bin}/dgx-settle", *make, *wait], cwd=market.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for wait in ((), ("--wait",))]
    told = [(run.communicate(), run.returncode) for run in both]
    check(sorted(code for _, code in told) in ([0, 0], [0, BUSY]) and len(market.rounds()) == 1, f"two at once: {told}")
    check(market.state() == "drawn", "the round draws")
    # Twice.
    market.write("again.json", market.round(slot))
    before = market.files()
    done = market.run("append", "L.jsonl", "again.json", "--key", "operator.pem")
    check(done.returncode == 0 and "skipped: 1" in done.stderr and market.files() == before, f"the same round once more: {done.stderr}")
    market.bad(NOT_ALLOWED, "has its round already", market.round(slot, checkpoints=statements.base64_of(flipped), value=hashlib.sha256(b"dgx-round" + flipped).hexdigest()))
    # One of a slot for which nothing waits is taken, and draws nothing.
    early = market.entries_ms()[0] // SLOT_MS
    drawn = market.settle("status", "L.jsonl")["drawn"]
    market.write("other.json", market.round(early))
    market.append("other.json")
    check(market.settle("status", "L.jsonl")["drawn"] == drawn, "another slot's round draws nothing")
    return slot, early


def whole(rest):
    return hashlib.sha256(rest).digest() + rest


def bad_openings(market, early):
    """In the state "drawn"."""
    task, proof = market.id_of("task.json"), market.id_of("proof.json")
    by_round = {body["slot"]: statement for statement, _, body in market.entries() if "checkpoints" in body}
    own, other = by_round[max(by_round)], by_round[early]

    def opening(after, who="solver", location="opening", **changes):
        return market.sealed("opening", {"task": task, "proof": proof, "after": after, "location": location} | changes, [("proof", changes.get("proof", proof)), ("after", after)], who)

    market.bad(MALFORMED, "after: is", opening(proof))
    market.bad(MALFORMED, "after: is", opening(other))
    market.bad(UNAUTHORISED, "is not signed by the task's solver", opening(own, "v10"))
    market.bad(NOT_ALLOWED, "the proof is not in the ledger", opening(own, proof="1" * 64))
    market.bad(NOT_ALLOWED, "is not in the ledger", opening(own, task="1" * 64))
    market.bad(MALFORMED, "location", opening(own, location="../opening"))
    market.bad(MISSING, "opening", opening(own))
    market.logged(opening(own))
    check(market.state() == "opened", "the proof is opened")
    market.bad(NOT_ALLOWED, "is already opened", opening(own, location="again"))
    market.bad(NOT_ALLOWED, "is already opened", opening(proof, location="again"))


def drawn_segments(market, value):
    """DRAW, with 32 zero bytes in place of a key; the task's policy draws so many."""
    proof, count, found, j = market.id_of("proof.json"), -(-statements.SEGMENTS * market.body("task.json")["policy"]["sample_ppm"] // 10**6), set(), 0
    beacon = hashlib.sha256(b"dgx-beacon" + bytes.fromhex(value + proof)).digest()
    while len(found) < count:
        found.add(int(hashlib.sha256(b"dgx-draw" + beacon + bytes.fromhex(proof) + bytes(32) + j.to_bytes(8, "big")).hexdigest()[:16], 16) % statements.SEGMENTS)
        j += 1
    return sorted(found)


def verdict(market, **changes):
    """An acceptance of what the round of the proof drew; its witnesses are anybody's guess, which the ledger cannot tell."""
    told = next((statement, body) for statement, _, body in market.entries() if "checkpoints" in body and body["slot"] == market.slot)
    replayed = len(drawn_segments(market, told[1]["value"]))
    missed = f"{(statements.SEGMENTS - replayed) / statements.SEGMENTS:g}"
    body = {"task": market.id_of("task.json"), "proof": market.id_of("proof.json"), "draw": "policy", "outcome": "accepted", "segments": statements.SEGMENTS, "replayed": replayed,
            "rows": {"count": replayed, "root": statements.sha("rows")}, "work": replayed * statements.EVERY * statements.STEP_OPERATIONS,
            "miss_probability": {"one_segment": missed, "one_percent": missed, "ten_percent": missed}, "nonce": statements.sha("nonce"), "beacon": told[0],
            "witnesses": base64.b64encode(hashlib.sha512(b"a guess").digest()[:32] * replayed).decode()} | changes
    return {name: value for name, value in body.items() if value is not None}


def sealed_verdict(market, body, who):
    subjects = [("proof", body["proof"])] + ([("verdict", body["audits"])] if "audits" in body else []) + [("rows", body["rows"]["root"])]
    return market.sealed("verdict", body, subjects, who)


def drawn_keys(market):
    """Names of those who were drawn, in their order."""
    names = {key_of(market, f"v{number}"): f"v{number}" for number in range(10, 16)}
    return [names[row["verifier"]] for row in market.settle("status", "L.jsonl")["drawn"]]


def key_of(market, name):
    key = statements.serialization.load_pem_private_key(pathlib.Path(market.folder, f"{name}.pem").read_bytes(), None)
    public = key.public_key().public_bytes(statements.serialization.Encoding.Raw, statements.serialization.PublicFormat.Raw).hex()
    return statements.sha(statements.canonical({"keytype": "ed25519", "keyval": {"public": public}, "scheme": "ed25519"}))


def bad_verdicts(market, audited):
    """In the state "opened": the first who was drawn."""
    first, second = drawn_keys(market)[:2]
    right = verdict(market) if audited else verdict(market, witnesses=None)
    market.bad(MALFORMED, "outcome", sealed_verdict(market, right | {"outcome": "inconclusive"}, first))
    market.bad(UNAUTHORISED, "not by the task's verifier", sealed_verdict(market, right, second))
    market.bad(UNAUTHORISED, "not by the task's verifier", sealed_verdict(market, right, "solver"))
    market.bad(MALFORMED, "beacon: is not the task's", sealed_verdict(market, right | {"beacon": "1" * 64}, first))
    market.bad(MALFORMED, "segments: is 11", sealed_verdict(market, right | {"segments": statements.SEGMENTS + 1}, first))
    market.bad(MALFORMED, "miss_probability", sealed_verdict(market, right | {"miss_probability": {name: "0.5" for name in right["miss_probability"]}}, first))
    market.bad(MALFORMED, "work", sealed_verdict(market, right | {"work": right["work"] + 1}, first))
    if audited:
        market.bad(MALFORMED, "witnesses: are missing", sealed_verdict(market, verdict(market, witnesses=None), first))
    else:
        market.bad(MALFORMED, "this market audits no verdicts", sealed_verdict(market, verdict(market), first))
    return first, sealed_verdict(market, right, first)


def sleep_until(milliseconds):
    """Till a deadline has passed."""
    time.sleep(max(0, milliseconds / 1000 - time.time()) + 0.05)


def rounds_and_openings(programs, folder):
    market = Market(programs, folder, POLICY | {"window_reveal_ms": 600000})
    market.slot, early = bad_rounds(market)
    bad_openings(market, early)
    first, right = bad_verdicts(market, audited=False)
    market.write("verdict.json", right)
    market.append("verdict.json")
    market.bad(NOT_ALLOWED, "already has its verdict", sealed_verdict(market, verdict(market, witnesses=None, nonce="2" * 64), first))


def late(programs, folder):
    """An opening too early and too late; a round that does not come in time, and bonds that unlock then."""
    reveal_ms = 4000  # in which two calls have to be made
    market = Market(programs, folder, POLICY | {"window_reveal_ms": reveal_ms})
    market.play({10: 1000, 11: 2000})
    no_round_ms = market.entries_ms()[-1] + reveal_ms + SLOT_MS
    task, proof = market.id_of("task.json"), market.id_of("proof.json")
    opening = market.sealed("opening", {"task": task, "proof": proof, "after": proof, "location": "x"}, [("proof", proof), ("after", proof)], "solver")
    market.convicted("the round of the proof's slot may still come", opening)
    bond = 1000000 - market.settle("balances", "L.jsonl")["accounts"][key_of(market, "solver")]
    check(market.settle("balances", "L.jsonl")["accounts"]["bonds"] == bond + 3000, "all bonds are locked")
    sleep_until(no_round_ms)
    market.settle("run", "L.jsonl", "--key", "operator.pem")
    balances = market.settle("balances", "L.jsonl")["accounts"]
    check(balances["bonds"] == bond and balances[key_of(market, "v10")] == balances[key_of(market, "v11")] == 1000000, f"no round came: offers unlock: {balances}")
    market.bad(MISSING, "x", opening)
    sleep_until(no_round_ms + reveal_ms)
    market.pass_time()
    market.convicted("the deadline to open the proof has passed", opening)
    market.settle("run", "L.jsonl", "--key", "operator.pem")
    check(market.settle("status", "L.jsonl")["tasks"][0]["reason"] == "no-proof", "it is settled")
    market.bad(NOT_ALLOWED, "is settled", opening)


def offers(programs, folder):
    """Offers and assigns; bonds whose sum is near 2^53."""
    market = Market(programs, folder, POLICY | {"window_reveal_ms": 600000})
    market.sign("task", "--key", "submitter.pem", "--policy", "policy.json", to="task.json")

    def offer(who, bond):
        return market.sign("offer", "task.json", *(("--bond", str(bond)) if bond is not None else ()), "--key", f"{who}.pem")

    market.bad(NOT_ALLOWED, "is not in the ledger", offer("v10", 1000))
    market.append("task.json")
    market.bad(NOT_ALLOWED, "bond: is 945, must be at least 946", offer("v10", 945))
    market.bad(MALFORMED, "bond: is missing", offer("v10", None))
    market.bad(NOT_ALLOWED, "the verifier's bond needs", offer("v10", 1000001))
    market.bad(NOT_ALLOWED, "cannot verify their own task", offer("submitter", 1000))
    market.settle("make", "assign", "task.json", "--set", "segment_milliseconds=1", "--key", "solver.pem", "-o", "assign.json")
    market.write("o.json", offer("solver", 1000))
    market.append("o.json")
    market.bad(NOT_ALLOWED, "stands already", market.sign("offer", "task.json", "--bond", "2000", "--milliseconds", "2", "--key", "solver.pem"))
    early = market.run("append", "L.jsonl", "assign.json", "--key", "operator.pem")
    check(early.returncode == NOT_ALLOWED and ("may offer themselves" in early.stderr or "no verifier has offered" in early.stderr), f"an assign at once: {early.stderr}")
    time.sleep(0.5)
    market.refused(NOT_ALLOWED, "no verifier has offered", "append", "L.jsonl", "assign.json", "--key", "operator.pem")
    # The largest bonds that a ledger can have.
    left = 2**53 - 8 * 1000000
    half = left // 2
    market.settle("deposit", "L.jsonl", "--to", "v10.pem", str(half), "v11.pem", str(left - half), "--key", "operator.pem")
    bonds = {"v10": half + 1000000, "v11": left - half + 999999}
    for who, bond in bonds.items():
        market.write("o.json", offer(who, bond))
        market.append("o.json")
    named = dict(market.body("assign.json"), commitment=market.id_of("o.json"))
    market.bad(MALFORMED, "this market draws the verifier", market.sealed("assign", named, [("task", named["task"]), ("commitment", named["commitment"])], "solver"))
    market.sign("proof", "task.json", "--key", "solver.pem", to="proof.json")
    market.append("assign.json")
    check(market.settle("balances", "L.jsonl")["accounts"]["bonds"] == sum(bonds.values()) + 100000 + 464 // 5, "the solver's own offer is dropped, and its bond goes back")
    market.bad(NOT_ALLOWED, "is assigned", offer("v12", 5000))
    market.bad(NOT_ALLOWED, "is assigned", market.sealed("offer-end", {"task": named["task"], "commitment": market.id_of("o.json")}, [("task", named["task"]), ("commitment", market.id_of("o.json"))], "v11"))
    receipt = market.append("proof.json")["receipts"][0]
    slot = receipt["time"] // SLOT_MS
    market.wait_for_end(slot)
    market.settle("round", "L.jsonl", "--key", "operator.pem")
    row = market.settle("status", "L.jsonl")["drawn"][0]
    left, total = sorted((key_of(market, who), bond) for who, bond in bonds.items()), sum(bonds.values())
    ticket = int(row["lot"][:32], 16) % total
    at = 0 if ticket < left[0][1] else left[0][1]
    check((row["ticket"], row["sum"], row["from"], row["verifier"]) == (ticket, total, at, left[0 if at == 0 else 1][0]), f"a draw among {total}: {row}")
    sound = market.settle("check", "L.jsonl", "--rounds")
    check(sound["sound"] and sound["total"] == 2**53, f"the sum: {sound}")


def pulses(programs, folder):
    """A market of drand's rounds: what an operator could say without the program."""
    policy = {name: value for name, value in POLICY.items() if name != "beacon_steps"} | {"beacon_source": 2}
    market = Market(programs, folder, policy)
    slot = market.play({10: 1000})
    market.wait_for_end(slot)
    number = 1 + max(0, -(-((slot + 2) * SLOT_MS - 1692803367000) // 3000))
    signature = b"\x91" * 48

    def pulse(**changes):
        own = {"source": "drand", "steps": None, "checkpoints": None, "number": number, "value": hashlib.sha256(signature).hexdigest(),
               "signature": base64.b64encode(signature).decode()}
        return market.round(slot, **(own | changes))

    for wrong in (number - 1, number + 1):
        market.bad(MALFORMED, f"number: is {wrong}, slot {slot} has pulse {number}", pulse(number=wrong))
    market.bad(MALFORMED, "value: does not follow", pulse(value="0" * 64))
    market.bad(MALFORMED, "signature", pulse(signature=base64.b64encode(signature[1:]).decode()))
    market.bad(MALFORMED, "compressed point", pulse(signature=base64.b64encode(b"\x11" + signature[1:]).decode()))
    market.bad(MALFORMED, "source: is delay", market.round(slot))
    market.refused(MISSING, "nowhere.json", "round", "L.jsonl", "--key", "operator.pem", "--import", "nowhere.json")
    for text in ("", "[]", '{"round":1', '{"round":0,"signature":"91"}'):
        market.write("pulse.json", text)
        market.refused(MALFORMED, "pulse.json", "round", "L.jsonl", "--key", "operator.pem", "--import", "pulse.json")
    market.write("pulse.json", json.dumps({"round": number, "signature": signature.hex()}))
    market.settle("round", "L.jsonl", "--key", "operator.pem", "--import", "pulse.json")
    market.refused(MALFORMED, "waits for pulse", "round", "L.jsonl", "--key", "operator.pem", "--import", "pulse.json")
    market.bad(NOT_ALLOWED, "has its round already", pulse(signature=base64.b64encode(b"\x92" + signature[1:]).decode(), value=hashlib.sha256(b"\x92" + signature[1:]).hexdigest()))
    plain = Market(programs, folder + "-plain", {})
    plain.write("d.json", plain.round(plain.entries_ms()[0] // SLOT_MS))
    plain.refused(NOT_ALLOWED, "this market has no rounds", "append", "L.jsonl", "d.json", "--key", "operator.pem")
    plain.refused(2, "this market has no rounds", "round", "L.jsonl", "--key", "operator.pem")


def audits(programs, folder):
    """Audits of other segments, before their commitment, late, with denials that are out of order or of nothing; the jackpot is empty."""
    market = Market(programs, folder, POLICY | {"audit_ppm": 1000000, "sample_ppm": 300000, "window_challenge_ms": 5000, "window_reveal_ms": 6000})
    market.slot = market.play({10: 1000, 11: 2000, 12: 3000})
    market.wait_for_end(market.slot)
    market.settle("round", "L.jsonl", "--key", "operator.pem")
    task, proof = market.id_of("task.json"), market.id_of("proof.json")
    own = next(statement for statement, _, body in market.entries() if "checkpoints" in body)
    market.logged(market.sealed("opening", {"task": task, "proof": proof, "after": own, "location": "x"}, [("proof", proof), ("after", own)], "solver"))

    def commitment(audit, who, audits):
        body = {"task": task, "proof": proof, "audits": audits, "commitment": hashlib.sha256(b"dgx-verdict-commit" + bytes.fromhex(statements.read_text(audit)[0]) + bytes.fromhex(statements.sha("nonce"))).hexdigest()}
        return market.sealed("verdict-commitment", body, [("proof", proof), ("verdict", audits), ("commitment", body["commitment"])], who)

    _, right = bad_verdicts(market, audited=True)
    accepted = statements.read_text(right)[0]
    market.bad(NOT_ALLOWED, "has no verdict yet", commitment(right, "v13", accepted))
    market.write("verdict.json", right)
    receipt = market.append("verdict.json")["receipts"][0]
    drawn = drawn_segments(market, next(body["value"] for _, _, body in market.entries() if "checkpoints" in body))
    foreign = next(index for index in range(statements.SEGMENTS) if index not in drawn)
    market.wait_for_end(receipt["time"] // SLOT_MS)
    check(market.settle("balances", "L.jsonl")["accounts"]["jackpot"] == 0, "the jackpot is empty")
    market.settle("round", "L.jsonl", "--key", "operator.pem")
    row = market.settle("status", "L.jsonl")["audits"][0]
    check(row.get("auditor") is not None, f"an empty jackpot switches no audit off: {row}")

    def audit(who, **changes):
        return sealed_verdict(market, verdict(market, draw="audit", audits=accepted, denied=[], witnesses=base64.b64encode(bytes(32 * len(drawn))).decode()) | changes, who)

    disagrees = {"index": foreign, "expected": "3" * 64, "recomputed": "4" * 64, "agrees": False, "reason": "digest", "witness": "5" * 64}
    wrong = {"v13": ({"denied": [foreign]}, f"denied: segment {foreign} is not drawn"), "v14": ({"beacon": "6" * 64}, "beacon: is not the task's"),
             "v15": ({"segments": statements.SEGMENTS + 1}, "segments: is 11"),
             "submitter": ({"outcome": "refuted", "first_disagreement": disagrees, "witnesses": None}, f"segment {foreign} is not drawn")}
    shown = {}
    for who, (changes, _) in wrong.items():
        shown[who] = sealed_verdict(market, {name: value for name, value in statements.read_text(audit(who, **changes))[2].items() if value is not None}, who)
        market.write("c.json", commitment(shown[who], who, accepted))
        market.append("c.json")
    shown["solver"] = audit("solver")
    market.write("c.json", commitment(shown["solver"], "solver", accepted))
    market.append("c.json")
    market.bad(MALFORMED, "audits: is", commitment(shown["solver"], "operator", "7" * 64))
    market.bad(NOT_ALLOWED, "has committed to an audit", commitment(audit("v13"), "v13", accepted))
    market.bad(UNAUTHORISED, "cannot re-check their own", commitment(right, drawn_keys(market)[0], accepted))
    market.bad(NOT_ALLOWED, "is recheck", shown["v13"])
    market.bad(MALFORMED, "is not an ascending segment number", audit("v13", denied=[drawn[1], drawn[0]]))
    market.bad(MALFORMED, "is not an ascending segment number", audit("v13", denied=[drawn[0], drawn[0]]))
    market.bad(MALFORMED, "denied: has segment", audit("v13", denied=[statements.SEGMENTS]))
    market.bad(MALFORMED, "audits: must be present", sealed_verdict(market, verdict(market, draw="audit"), "v13"))
    market.bad(MALFORMED, "witnesses: are", audit("v13", replayed=len(drawn) + 1, rows={"count": len(drawn) + 1, "root": statements.sha("rows")}))
    sleep_until(row_deadline(market))
    market.settle("run", "L.jsonl", "--key", "operator.pem")
    check(market.state() == "reveal", market.state())
    for who, (_, words) in wrong.items():
        market.bad(MALFORMED, words, shown[who])
    market.bad(MALFORMED, "is not the", audit("v13", nonce="8" * 64))
    market.bad(NOT_ALLOWED, "not committed", audit("operator"))
    sleep_until(row_deadline(market))
    market.settle("run", "L.jsonl", "--key", "operator.pem")
    market.bad(NOT_ALLOWED, "is challenge-window", shown["solver"])
    total = market.settle("balances", "L.jsonl")
    check(sum(total["accounts"].values()) == total["total"], f"the sum: {total}")


def row_deadline(market):
    """End of the task's present state, as a receipt would say it."""
    return market.settle("status", "L.jsonl")["tasks"][0]["until"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dgx-bad-rounds-") as folder:
        for part in (rounds_and_openings, late, offers, pulses, audits):
            if options.only in (None, part.__name__):
                part(options.bin, os.path.join(folder, part.__name__))
    sys.exit(1 if failures or rounds.failures else 0)


if __name__ == "__main__":
    main()
