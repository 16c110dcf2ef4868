"""Rounds and draws of a market, recomputed from its ledger's two files by Python's standard library, as dgx-protocol(7) describes them: rounds.py --bin FOLDER

A market in slots of a second is played by the built programs: head, delay, value, the three who are drawn, lot, ticket and stretch must be those that
this script derives. Then what an operator must not do: a round of another slot, too early, twice, with another head, with one bit of a checkpoint changed;
pulses of another number or network; and a computation that is killed goes on where it was.
"""

import argparse
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SIGNER = HERE.parent / "cli" / "dgx-settle" / "statements.py"
sys.path.insert(0, str(HERE.parent / "support"))
sys.path.insert(0, str(SIGNER.parent))
import needs  # noqa: E402

needs.modules("cryptography")
import statements  # noqa: E402
import watched  # noqa: E402

SLOT_MS = 1000
POLICY = {"beacon_source": 1, "beacon_slot_ms": SLOT_MS, "beacon_steps": 65536, "window_move_ms": 400, "verifier_bond": 900, "solver_bond": 100000}
failures = 0


def check(condition, what):
    global failures
    if not condition:
        failures += 1
        print("FAILED:", what)


class Market:
    def __init__(self, programs, folder, policy):
        self.bin, self.folder = os.path.abspath(programs), folder
        os.makedirs(folder)
        self.write("policy.json", json.dumps(policy))
        self.sign("keys")
        for number in range(10, 16):
            key = statements.Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
            pem = key.private_bytes(statements.serialization.Encoding.PEM, statements.serialization.PrivateFormat.PKCS8, statements.serialization.NoEncryption())
            self.write(f"v{number}.pem", pem.decode())
            os.chmod(f"{folder}/v{number}.pem", 0o600)
        self.settle("init", "L.jsonl", "--key", "operator.pem", "--policy", "policy.json")
        self.settle("deposit", "L.jsonl", "--to", "submitter.pub.pem", "solver.pub.pem", *(f"v{n}.pem" for n in range(10, 16)), "1000000", "--key", "operator.pem")

    def write(self, name, text):
        pathlib.Path(self.folder, name).write_text(text)

    def sign(self, *words, to=None):
        done = subprocess.run([sys.executable, SIGNER, *words], cwd=self.folder, capture_output=True, text=True, check=True)
        if to:
            self.write(to, done.stdout)
        return done.stdout

    def settle(self, *words, code=0):
        done = subprocess.run([f"{self.bin}/dgx-settle", *words, "--json"], cwd=self.folder, capture_output=True, text=True)
        check(done.returncode == code, f"{words}: exit {done.returncode}, expected {code}: {done.stderr}")
        return json.loads(done.stdout) if code == 0 and done.stdout else done.stderr

    def append(self, *names, code=0):
        return self.settle("append", "L.jsonl", *names, "--key", "operator.pem", code=code)

    def play(self, offers):
        """Up to the proof, which is in the ledger; its slot."""
        self.sign("task", "--key", "submitter.pem", "--policy", "policy.json", to="task.json")
        for number, bond in offers.items():
            self.sign("offer", "task.json", "--bond", str(bond), "--key", f"v{number}.pem", to=f"o{number}.json")
        self.append("task.json", *(f"o{number}.json" for number in offers))
        time.sleep(0.5)
        self.settle("make", "assign", "task.json", "--set", "segment_milliseconds=1", "--key", "solver.pem", "-o", "assign.json")
        self.sign("proof", "task.json", "--key", "solver.pem", to="proof.json")
        receipts = self.append("assign.json", "proof.json")
        return receipts["receipts"][1]["time"] // SLOT_MS

    def wait_for_end(self, slot):
        time.sleep(max(0, (slot + 1) * SLOT_MS / 1000 - time.time()) + 0.01)

    def entries(self):
        return [statements.read_text(line) for line in pathlib.Path(self.folder, "L.jsonl").read_text().splitlines()]

    def rounds(self):
        return [body for _, _, body in self.entries() if "checkpoints" in body]

    def head(self, slot):
        count, root = statements.slot_head(f"{self.folder}/L.jsonl", slot, SLOT_MS)
        return count, root.hex()

    def first_head(self):
        """The head of the ledger when it had its first entry alone."""
        return {"count": 1, "root": statements.root_of(statements.leaves_of(f"{self.folder}/L.jsonl")[:1]).hex()}


def audit(market, code, says, task="task.json", ledger="L.jsonl"):
    """examples/audit.sh about a task of the ledger."""
    name = statements.read(f"{market.folder}/{task}")[0]
    done = subprocess.run(["sh", HERE.parents[1] / "examples" / "audit.sh", ledger, name[:12]], cwd=market.folder, capture_output=True, text=True)
    check(done.returncode == code and says in done.stdout + done.stderr, f"audit.sh {ledger}: exit {done.returncode}, not {code}: {done.stdout[-600:]}{done.stderr}")


def damaged(market):
    """A ledger of which something is damaged is never an answer of audit.sh."""
    lines, receipts = (pathlib.Path(market.folder, f"L{end}.jsonl").read_bytes() for end in ("", ".receipts"))
    at = len(lines) - 400  # in the last line, the round
    for name, entries, signed in (("cut", lines[:at], receipts), ("flipped", lines[:at] + bytes([lines[at] ^ 1]) + lines[at + 1:], receipts),
                                  ("signature", lines, receipts[:-60] + bytes([receipts[-60] ^ 1]) + receipts[-59:]), ("short", lines, receipts[:-9]),
                                  ("order", lines, b"\n".join(receipts.split(b"\n")[1:2] + receipts.split(b"\n")[:1] + receipts.split(b"\n")[2:])), ("empty", b"", b"")):
        pathlib.Path(market.folder, f"{name}.jsonl").write_bytes(entries)
        pathlib.Path(market.folder, f"{name}.receipts.jsonl").write_bytes(signed)
        audit(market, 2, "", ledger=f"{name}.jsonl")


def chain(ledger, slot, count, root, steps):
    at = hashlib.sha256(b"dgx-delay" + bytes.fromhex(ledger) + slot.to_bytes(8, "big") + count.to_bytes(8, "big") + bytes.fromhex(root)).digest()
    for _ in range(steps):
        at = hashlib.sha256(at).digest()
    return at


def honest(programs, folder):
    market = Market(programs, folder, POLICY)
    offers = {10: 1000, 11: 2000, 12: 3000, 13: 1234}
    slot = market.play(offers)
    # The slot may have ended before this call: then it makes the round.
    early = market.settle("round", "L.jsonl", "--key", "operator.pem", "-o", "round.json")
    is_made = bool(market.rounds())
    check([one["slot"] for one in early["awaited"]] == ([] if is_made else [slot]), "the round that is awaited")
    market.wait_for_end(slot)
    done = market.settle("round", "L.jsonl", "--key", "operator.pem", *(() if is_made else ("-o", "round.json", "--force")))
    check(done["awaited"] == [] and done["behind_ms"] == 0, "nothing is awaited any more")
    (told,) = market.rounds()
    entries = market.entries()
    count, root = market.head(slot)
    check(told["slot"] == slot and told["head"] == {"count": count, "root": root}, "slot and head")
    end = chain(entries[0][0], slot, count, root, 65536)
    check(told["checkpoints"] == statements.base64_of(end), "the end of the chain")
    value = hashlib.sha256(b"dgx-round" + end).hexdigest()
    check(told["value"] == value, "the value")
    # The draw.
    proof = statements.read(f"{folder}/proof.json")[0]
    left = sorted((statements.read(f"{folder}/o{number}.json")[1], bond) for number, bond in offers.items())
    rows = market.settle("status", "L.jsonl")["drawn"]
    check(len(rows) == 3, "three are drawn")
    for k, row in enumerate(rows):
        lot = hashlib.sha256(b"dgx-verifier" + bytes.fromhex(value + proof) + k.to_bytes(8, "big")).hexdigest()
        total, begin = sum(bond for _, bond in left), 0
        ticket = int(lot[:32], 16) % total
        for key, bond in left:
            if ticket < begin + bond:
                break
            begin += bond
        left.remove((key, bond))
        check((row["verifier"], row["lot"], row["ticket"], row["from"], row["to"], row["sum"]) == (key, lot, ticket, begin, begin + bond, total), f"draw {k}: {row}")
    market.settle("extract", "L.jsonl", "--round", "task.json", "-o", "again.json")
    check(pathlib.Path(folder, "again.json").read_text() == pathlib.Path(folder, "round.json").read_text(), "the round that is taken out")
    sound = market.settle("check", "L.jsonl", "--rounds")
    check(sound["sound"] and sound["delays"] == 1 and sound["intervals"] == 1 and sound["steps"] == 65536, f"check --rounds: {sound}")
    anchors(market, slot, count)
    audit(market, 0, "Everything that chance decided follows")
    damaged(market)
    # An offer that comes too late, and rounds that are not the slot's.
    market.sign("offer", "task.json", "--bond", "5000", "--key", "v14.pem", to="late.json")
    check("is drawn" in market.append("late.json", code=76), "an offer after the assign")
    market.sign("round", "--ledger", "L.jsonl", "--segments", str(slot), "--key", "operator.pem", to="twice.json")
    check(pathlib.Path(folder, "twice.json").read_text() == pathlib.Path(folder, "round.json").read_text(), "the very statement, by this script")
    market.sign("round", "--ledger", "L.jsonl", "--segments", str(slot + 3600), "--key", "operator.pem", to="early.json")
    check("is not over" in market.append("early.json", code=76), "a round that is early")


def anchors(market, slot, count):
    """A slot is anchored by a note of all its entries that was cosigned before its round could be known."""
    operator, witness = (watched.serialization.load_pem_private_key(pathlib.Path(market.folder, name + ".pem").read_bytes(), None) for name in ("operator", "v15"))
    ledger = watched.Ledger(f"{market.folder}/L.jsonl")
    end = (slot + 1) * SLOT_MS // 1000
    vkey = watched.verifier_key("w", 4, watched.raw_public(witness))

    def listed(*notes):
        """The slots that are not anchored by notes of (entries, second)."""
        names = []
        for k, (entries, second) in enumerate(notes):
            text = ledger.text(entries)
            market.write(f"note{k}", watched.signed(text, f"dgx-ledger/{ledger.id()}", operator) + watched.cosignature(text, "w", witness, second))
            names.append(f"note{k}")
        told = market.settle("check", "L.jsonl", "--cosigned", *names, "--witness", vkey)
        check(told["sound"], f"a note {notes}: {told['faults']}")
        return told["not_anchored"]

    late = [{"slot": slot, "entries": count, "known": (slot + 1) * SLOT_MS + 65536 // 12700}]
    check(listed((count, end)) == [] and listed((count + 1, end)) == [], "a note at the slot's end")
    check(listed((count, end + 1)) == late, "a note one second later")
    check(listed((count - 1, end)) == late, "a note that lacks the slot's last entry")
    check(listed((count - 1, end), (count, end + 1)) == late and listed((count, end + 1), (count, end)) == [], "two notes")
    check("not_anchored" not in market.settle("check", "L.jsonl"), "no notes, nothing to say")


def false_rounds(programs, folder):
    """A delay of two parts, of which the first checkpoint is wrong: every reader takes it, and who computes it again finds it."""
    steps = (1 << 20) + 7
    market = Market(programs, folder, POLICY | {"beacon_steps": steps})
    slot = market.play({10: 1000})
    market.wait_for_end(slot)
    market.sign("round", "--ledger", "L.jsonl", "--segments", str(slot), "--steps", str(steps), "--wrong", "0", "--key", "operator.pem", to="wrong.json")
    market.sign("round", "--ledger", "L.jsonl", "--segments", str(slot), "--steps", str(steps), "--key", "operator.pem", to="right.json")
    market.append("wrong.json")
    check("slot" in market.append("right.json", code=76), "a second round of the slot")
    check(market.settle("check", "L.jsonl")["sound"], "the rules do not compute delays")
    faults = subprocess.run([f"{market.bin}/dgx-settle", "check", "L.jsonl", "--rounds", "--json"], cwd=folder, capture_output=True, text=True)
    check(faults.returncode == 1 and "steps 0 to 1048576 do not lead" in faults.stdout and "steps 1048576 to 1048583 do not lead" in faults.stdout,
          f"a false round: {faults.stdout}{faults.stderr}")
    sampled = subprocess.run([f"{market.bin}/dgx-settle", "check", "L.jsonl", "--rounds=1", "--json"], cwd=folder, capture_output=True, text=True)
    audit(market, 1, "part 0 leads from one checkpoint to the next: NOT SO")
    check(sampled.returncode == 1 and json.loads(sampled.stdout)["intervals"] == 1, f"a false round, sampled: {sampled.stdout}")


def killed(programs, folder):
    """Killed again and again, and once with a damaged file: the same round comes of it."""
    steps = 60 << 20
    market = Market(programs, folder, POLICY | {"beacon_steps": steps})
    slot = market.play({10: 1000})
    market.wait_for_end(slot)
    command = [f"{market.bin}/dgx-settle", "round", "L.jsonl", "--wait", "--key", "operator.pem", "--json"]
    part = pathlib.Path(folder, "L.rounds", f"{slot}.part")
    # The operator's clock: on a slow machine the delay takes minutes, in which the ledger may not fall silent.
    clock = subprocess.Popen([f"{market.bin}/dgx-settle", "run", "L.jsonl", "--until-settled", "--wait", "--key", "operator.pem", "-q"], cwd=folder, stderr=subprocess.DEVNULL)
    try:
        for how in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
            code, error = stopped(command, folder, how, part)
            check(code in (0, 75 if how == signal.SIGTERM else -9), f"a computation that was stopped: {code} {error}")
            if code == 0:
                break
            check(not market.rounds(), "nothing is logged before the end")
            check(how == signal.SIGKILL or kept(part), "what was computed is kept")
        damaged_part(market, command, part)
    finally:
        clock.terminate()
        clock.wait()
    check(not part.exists(), "what was kept is removed")
    sound = market.settle("check", "L.jsonl", "--rounds")
    check(sound["sound"] and sound["steps"] == steps, "the round is right")


def kept(part):
    """Whether the file has a part of the chain; before the first digest it has 72 bytes."""
    return part.exists() and part.stat().st_size > 72


def stopped(command, folder, how, part):
    """Exit code and error of a computation that got the signal at work: after so long that a part of the chain, which is all that can be kept, was done."""
    for seconds in (1, 2, 4, 8, 16, 32):
        run = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(seconds)
        run.send_signal(how)
        error = run.communicate()[1]
        if run.returncode == 0 or how == signal.SIGKILL or kept(part):
            break
    return run.returncode, error


def damaged_part(market, command, part):
    """The computation, if it is not done, goes on from a file of which one bit is another."""
    if not market.rounds():
        bytes_now = bytearray(part.read_bytes())
        bytes_now[-1] ^= 1
        part.write_bytes(bytes_now)
        done = subprocess.run(command, cwd=market.folder, capture_output=True, text=True)
        check(done.returncode == 0 and "damaged" in done.stderr, f"a damaged file: {done.stderr}")


def pulses(programs, folder):
    """No true pulse is at hand: what the program refuses, and that it says what it does not verify."""
    market = Market(programs, folder, {key: value for key, value in POLICY.items() if key != "beacon_steps"} | {"beacon_source": 2})
    slot = market.play({10: 1000})
    market.wait_for_end(slot)
    awaited = market.settle("round", "L.jsonl", "--key", "operator.pem")["awaited"]
    number = 1 + max(0, -(-((slot + 2) * SLOT_MS - 1692803367000) // 3000))
    check(awaited == [{"slot": slot, "ends": (slot + 1) * SLOT_MS, "pulse": number}], f"the pulse that is awaited: {awaited}")
    signature = "91" * 48
    good = {"round": number, "signature": signature, "randomness": hashlib.sha256(bytes.fromhex(signature)).hexdigest()}

    def imported(pulse, code=65):
        market.write("pulse.json", json.dumps(pulse))
        return market.settle("round", "L.jsonl", "--key", "operator.pem", "--import", "pulse.json", code=code)

    check("waits for pulse" in imported(good | {"round": number + 1}), "a pulse of another number")
    check("another network" in imported(good | {"previous_signature": "00"}), "a chained pulse")
    check("not that of quicknet" in imported(good | {"chain_hash": "8990e7a9aaed2ffed73dbd7092123d6f289930540d7651336225dc172e51b2ce"}), "another chain")
    check("48 bytes" in imported(good | {"signature": "91" * 96}), "a longer signature")
    check("SHA-256" in imported(good | {"randomness": "00" * 32}), "another randomness")
    check("is no pulse" in imported({"signature": signature}), "no number")
    done = subprocess.run([f"{market.bin}/dgx-settle", "round", "L.jsonl", "--key", "operator.pem", "--import", "pulse.json"], cwd=folder, capture_output=True, text=True)
    check(done.returncode == 65, "no pulse")
    market.write("pulse.json", json.dumps(good))
    done = subprocess.run([f"{market.bin}/dgx-settle", "round", "L.jsonl", "--key", "operator.pem", "--import", "pulse.json"], cwd=folder, capture_output=True, text=True)
    check(done.returncode == 0 and "not verified" in done.stderr, f"a pulse: {done.stderr}")
    for words in (("check", "L.jsonl", "--rounds"), ("status", "L.jsonl"), ("extract", "L.jsonl", "--round", "task.json", "-o", "r.json")):
        done = subprocess.run([f"{market.bin}/dgx-settle", *words], cwd=folder, capture_output=True, text=True)
        check(done.returncode == 0 and "not verified" in done.stderr, f"{words}: {done.stderr}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dgx-rounds-") as folder:
        for part in (honest, false_rounds, killed, pulses):
            part(options.bin, os.path.join(folder, part.__name__))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
