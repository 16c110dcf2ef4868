"""The operator watched: watched.py --bin FOLDER

Notes, cosignatures and witnesses' notes of statements (dgx-ledger(5), NOTES), recomputed from their files with Python's standard library and an Ed25519 of
OpenSSL; requests and notes made here, which the programs take; and an operator who forks, drops an entry, dates a receipt back and refuses a statement: each
ends in exit 1 of dgx-settle check, with the evidence named.
"""

import argparse
import base64
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import needs  # noqa: E402,F401
from cryptography.exceptions import InvalidSignature  # noqa: E402
from cryptography.hazmat.primitives import serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey  # noqa: E402

DASH = "\u2014 "
TYPE = "application/vnd.in-toto+json"
failures = 0


def check(condition, what):
    global failures
    if not condition:
        failures += 1
        print("FAILED:", what)


def raw_public(key):
    public = key.public_key() if isinstance(key, Ed25519PrivateKey) else key
    return public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


# Notes, from the page.

def key_id(name, kind, public):
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + public).digest()[:4]


def verifier_key(name, kind, public):
    return f"{name}+{key_id(name, kind, public).hex()}+{base64.b64encode(bytes([kind]) + public).decode()}"


def line_of(name, kind, public, signature):
    return f"{DASH}{name} {base64.b64encode(key_id(name, kind, public) + signature).decode()}\n"


def signed(text, name, key):
    return text + "\n" + line_of(name, 1, raw_public(key), key.sign(text.encode()))


def cosignature(text, name, key, seconds):
    message = f"cosignature/v1\ntime {seconds}\n{text}"
    return line_of(name, 4, raw_public(key), struct.pack(">Q", seconds) + key.sign(message.encode()))


def parts(note):
    """The text of a note, and its lines as (name, id, signature)."""
    cut = note.rindex("\n\n")
    lines = []
    for line in note[cut + 2:].splitlines():
        assert line.startswith(DASH)
        name, text = line[len(DASH):].split(" ")
        data = base64.b64decode(text, validate=True)
        lines.append((name, data[:4], data[4:]))
    return note[:cut + 1], lines


def verifies(public, signature, message):
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def root_of(leaves):
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return node(root_of(leaves[:split]), root_of(leaves[split:]))


# Statements and ledgers, as an operator without our programs writes them.

def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def pae(payload):
    return b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE.encode(), len(payload), payload)


def key_name(public):
    return hashlib.sha256(canonical({"keytype": "ed25519", "keyval": {"public": public.hex()}, "scheme": "ed25519"})).hexdigest()


def seal(kind, predicate, subjects, key):
    public = raw_public(key)
    payload = canonical({"_type": "https://in-toto.io/Statement/v1", "predicate": predicate | {"signer": public.hex()},
                         "predicateType": f"urn:x-dgx:{kind}:v2", "subject": [{"digest": {"sha256": d}, "name": n} for n, d in subjects]})
    signature = base64.b64encode(key.sign(pae(payload))).decode()
    return canonical({"payload": base64.b64encode(payload).decode(), "payloadType": TYPE,
                      "signatures": [{"keyid": key_name(public), "sig": signature}]}).decode() + "\n"


def payload_of(line):
    return base64.b64decode(json.loads(line)["payload"])


def id_of(line):
    return hashlib.sha256(pae(payload_of(line))).digest()


def leaf_of(line, milliseconds):
    return hashlib.sha256(b"\0\6" + id_of(line) + struct.pack(">Q", milliseconds)).digest()


class Ledger:
    def __init__(self, path):
        self.path = path
        self.entries = open(path, encoding="ascii").read().splitlines(keepends=True)
        receipts = open(path.replace(".jsonl", ".receipts.jsonl"), encoding="ascii")
        self.times = [json.loads(payload_of(line))["predicate"]["milliseconds"] for line in receipts]

    def id(self):
        return id_of(self.entries[0]).hex()

    def root(self, count=None):
        pairs = list(zip(self.entries, self.times))[:count]
        return root_of([leaf_of(*pair) for pair in pairs])

    def text(self, count=None):
        count = count or len(self.entries)
        return f"dgx-ledger/{self.id()}\n{count}\n{base64.b64encode(self.root(count)).decode()}\n"

    def append(self, line, milliseconds, key):
        """Logs an entry at whatever time the operator likes."""
        self.entries.append(line)
        self.times.append(milliseconds)
        index, statement, root = len(self.entries) - 1, id_of(line).hex(), self.root().hex()
        receipt = seal("receipt", {"ledger": self.id(), "statement": statement, "index": index, "milliseconds": milliseconds,
                                   "head": {"count": index + 1, "root": root}}, [("statement", statement), ("head", root)], key)
        with open(self.path, "a", encoding="ascii") as file:
            file.write(line)
        with open(self.path.replace(".jsonl", ".receipts.jsonl"), "a", encoding="ascii") as file:
            file.write(receipt)


# The programs.

class Machine:
    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *arguments):
        return subprocess.run([os.path.join(self.programs, arguments[0]), *arguments[1:]], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "XDG_STATE_HOME": self.path("state-home")}, check=False)

    def ok(self, *arguments):
        done = self.run(*arguments)
        if done.returncode != 0:
            raise SystemExit(f"{arguments}: exit {done.returncode}: {done.stderr}")
        return done.stdout

    def read(self, name):
        with open(self.path(name), encoding="utf-8", newline="") as file:
            return file.read()

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8", newline="") as file:
            file.write(text)
        return name

    def key(self, name):
        return serialization.load_pem_private_key(open(self.path(name + ".pem"), "rb").read(), None)

    def copy(self, source, target):
        for end in (".jsonl", ".receipts.jsonl"):
            shutil.copy(self.path(source + end), self.path(target + end))

    def refused(self, code, words, *arguments):
        done = self.run(*arguments)
        check(done.returncode == code and words in done.stdout + done.stderr, f"{arguments}: exit {done.returncode}, {words!r} not in {done.stdout}{done.stderr}")


def begin(machine):
    for role in ("operator", "witness", "second", "anna"):
        machine.ok("dgx-key", "new", role)
    machine.write("rules.json", "{}")
    machine.ok("dgx-settle", "init", "L.jsonl", "--key", "operator.pem", "--policy", "rules.json")
    deposit(machine, "L", 5, "a", "b")


def deposit(machine, ledger, amount, *references):
    for reference in references:
        machine.ok("dgx-settle", "deposit", ledger + ".jsonl", "--to", "anna.pub.pem", str(amount), "--reference", reference, "--key", "operator.pem")


def cosign(machine, note, *options, state="state", key="witness"):
    return ("dgx-settle", "cosign", note, "--operator", "operator.pub.pem", "--seen", state, "--key", key + ".pem", *options)


def recomputed(machine):
    """What the programs write is what the page says."""
    ledger = Ledger(machine.path("L.jsonl"))
    operator, witness = machine.key("operator"), machine.key("witness")
    note = machine.ok("dgx-settle", "head", "L.jsonl", "--note", "--key", "operator.pem")
    check(note == signed(ledger.text(), f"dgx-ledger/{ledger.id()}", operator), "the operator's note is another")
    machine.write("note", note)
    name = "dgx-witness/" + key_name(raw_public(witness))
    before = int(time.time())
    told = json.loads(machine.ok(*cosign(machine, "note", "--first", "-o", "line", "--json")))
    vkey = verifier_key(name, 4, raw_public(witness))
    check(told["witness"] == vkey, "the verifier key is another")
    [(signer, number, signature)] = parts("x\n\n" + machine.read("line"))[1]
    seconds = struct.unpack(">Q", signature[:8])[0]
    check((signer, number) == (name, key_id(name, 4, raw_public(witness))) and before <= seconds <= time.time(), "the witness's line names another")
    check(verifies(raw_public(witness), signature[8:], f"cosignature/v1\ntime {seconds}\n{ledger.text()}".encode()), "the cosignature is wrong")
    check(machine.read("state") == note + machine.read("line"), "the state is not the note with both lines")
    check(machine.read("line") == cosignature(ledger.text(), name, witness, seconds), "the line made here is another")
    # A request, and its proof: the tree of 3 is a beginning of that of 5.
    deposit(machine, "L", 5, "c", "d")
    request = machine.ok("dgx-settle", "head", "L.jsonl", "--note", "--old", "3", "--key", "operator.pem")
    grown = Ledger(machine.path("L.jsonl"))
    leaves = [leaf_of(*pair) for pair in zip(grown.entries, grown.times)]
    proof = [leaves[2], leaves[3], node(leaves[0], leaves[1]), leaves[4]]
    made = "old 3\n" + "".join(base64.b64encode(x).decode() + "\n" for x in proof) + "\n" + signed(grown.text(), f"dgx-ledger/{grown.id()}", operator)
    check(request == made, "the request is another")
    machine.write("request", made)
    machine.ok(*cosign(machine, "request", "-o", "line", "--force"))
    saw = machine.ok("dgx-settle", "cosign", "--saw", machine.write("s.json", grown.entries[1]), "--ledger", "L.jsonl", "--key", "witness.pem")
    text, [(signer, number, signature)] = parts(saw)
    lines = text.splitlines()
    check(lines[:3] == ["dgx-saw/v1", grown.id(), id_of(grown.entries[1]).hex()] and abs(int(lines[3]) / 1000 - time.time()) < 60, "the sighting is another")
    check(verifies(raw_public(witness), signature, text.encode()) and number == key_id(name, 1, raw_public(witness)), "its signature is wrong")
    return vkey


def bad_input(machine, vkey):
    """What a witness is given that is none of its ledger's notes, and states that are not its own."""
    operator = machine.key("operator")
    ledger = Ledger(machine.path("L.jsonl"))
    origin = f"dgx-ledger/{ledger.id()}"
    state = machine.read("state")
    root = base64.b64encode(ledger.root()).decode()
    good = machine.read("request")

    def note(text, name=origin):
        return machine.write("bad", signed(text, name, operator))

    machine.refused(1, "has 3 entries, 5 were cosigned before", *cosign(machine, note(ledger.text(3))))
    machine.refused(1, "another history of the 5 entries", *cosign(machine, note(f"{origin}\n5\n{base64.b64encode(bytes(32)).decode()}\n")))
    machine.refused(65, "is not the origin of a ledger", *cosign(machine, note("example.com/log\n5\n" + root + "\n")))
    machine.refused(65, "is of ledger", *cosign(machine, note(f"dgx-ledger/{'0' * 64}\n5\n{root}\n", f"dgx-ledger/{'0' * 64}")))
    machine.refused(77, "is not signed by the ledger's operator", *cosign(machine, note(ledger.text(), "other")))
    machine.refused(65, "is not a number in decimal", *cosign(machine, note(f"{origin}\n05\n{root}\n")))
    machine.refused(65, "this has 4", *cosign(machine, note(ledger.text() + "extension\n")))
    machine.refused(65, "control character", *cosign(machine, machine.write("bad", state.replace("\n", "\r\n", 1))))
    head, lines = state.split("\n\n")
    machine.refused(65, "this has 4", *cosign(machine, machine.write("bad", head + "\n\n\n" + lines)))
    many = head + "\n\n" + lines.splitlines(keepends=True)[0] * 17
    machine.refused(65, "beyond the 16 signatures", *cosign(machine, machine.write("bad", many)))
    machine.write("bad", head + "\n\n" + lines.splitlines(keepends=True)[0] * 16)
    machine.ok(*cosign(machine, "bad"))
    machine.refused(65, "no empty line", *cosign(machine, machine.write("bad", head + "\n" + lines)))
    machine.refused(77, "is not its signature", *cosign(machine, machine.write("bad", machine.read("state").replace("\n5\n", "\n6\n"))))
    # Requests.
    deposit(machine, "L", 5, "e")
    request = machine.ok("dgx-settle", "head", "L.jsonl", "--note", "--old", "5", "--key", "operator.pem")
    machine.refused(1, "does not lead from the 5 entries", *cosign(machine, machine.write("bad", request.replace("\n", "\n" + root + "\n", 1))))
    machine.refused(76, "proves how it continues 3 entries", *cosign(machine, machine.write("bad", request.replace("old 5", "old 3"))))
    machine.refused(2, "has no proof", *cosign(machine, machine.write("bad", request[request.index("\n\n") + 2:])))
    # States: lost, of another ledger, of another witness, cut off, with one bit changed.
    machine.write("request", request)
    os.remove(machine.path("state"))
    machine.refused(66, "nothing says what was cosigned last", *cosign(machine, "request"))
    machine.write("state", signed(f"dgx-ledger/{'1' * 64}\n5\n{root}\n", f"dgx-ledger/{'1' * 64}", operator))
    machine.refused(65, "is of ledger", *cosign(machine, "request"))
    machine.write("state", state)
    machine.refused(77, "is not signed by this witness", *cosign(machine, "request", key="second"))
    machine.refused(73, "already exists", *cosign(machine, "request", "--first"))
    for cut in (10, len(head), len(state) - 2):
        machine.write("state", state[:cut])
        done = machine.run(*cosign(machine, "request"))
        check(done.returncode in (65, 77) and not done.stdout, f"a state cut to {cut}: exit {done.returncode}")
    machine.write("state", state.replace("\n5\n", "\n4\n"))
    machine.refused(77, "is not its signature", *cosign(machine, "request"))
    machine.write("state", state)
    machine.ok(*cosign(machine, "request"))
    check("\n6\n" in machine.read("state"), "the state is not the last note")
    machine.refused(77, "is not its signature", "dgx-settle", "check", "L.jsonl", "--cosigned",
                    machine.write("bad", machine.read("state").replace("\n6\n", "\n5\n")), "--witness", vkey)
    machine.refused(2, "type is 0x04", "dgx-settle", "check", "L.jsonl", "--cosigned", "state", "--witness", verifier_key("w", 1, raw_public(operator)))
    machine.refused(2, "key of the ledger's operator", "dgx-settle", "check", "L.jsonl", "--cosigned", "state", "--witness",
                    verifier_key("w", 4, raw_public(operator)))
    machine.refused(1, "is cosigned by 1 of 2 witnesses", "dgx-settle", "check", "L.jsonl", "--cosigned", "state", "--witness", vkey,
                    verifier_key("w", 4, raw_public(machine.key("second"))))
    machine.ok("dgx-settle", "check", "L.jsonl", "--cosigned", "state", "--quorum", "1", "--witness", vkey,
               verifier_key("w", 4, raw_public(machine.key("second"))))
    check(good != request, "the requests are one")


def attacks(machine, vkey):
    """An operator who does what they must not: exit 1, with the evidence."""
    operator, witness = machine.key("operator"), machine.key("witness")
    name = "dgx-witness/" + key_name(raw_public(witness))

    def checked(ledger, *options):
        return ("dgx-settle", "check", ledger + ".jsonl", "--witness", vkey, *options)

    machine.ok(*checked("L", "--cosigned", "state"))
    # A fork: after six entries two histories, each cosigned by somebody.
    for side in ("fork", "other"):
        machine.copy("L", side)
        deposit(machine, side, 7, side)
    for side in ("fork", "other"):
        machine.write(side, machine.ok("dgx-settle", "head", side + ".jsonl", "--note", "--key", "operator.pem"))
        text = parts(machine.read(side))[0]
        machine.write(side, machine.read(side) + cosignature(text, name, witness, int(time.time())))
    machine.refused(1, "other: records a different history of the first 7 entries", *checked("fork", "--cosigned", "other"))
    machine.refused(1, "fork and other: two histories of 7 entries, both signed by the operator: a fork", *checked("fork", "--cosigned", "fork", "other"))
    # A dropped entry: the ledger is shorter than what was cosigned.
    machine.copy("L", "short")
    deposit(machine, "L", 5, "f")
    machine.write("request", machine.ok("dgx-settle", "head", "L.jsonl", "--note", "--old", "6", "--key", "operator.pem"))
    machine.ok(*cosign(machine, "request"))
    machine.refused(1, "state: was signed over 7 entries, the ledger has 6", *checked("short", "--cosigned", "state"))
    # A receipt dated back: the note was cosigned at a time at which the entry is said to have been there.
    ledger = Ledger(machine.path("L.jsonl"))
    noted = int(time.time()) + 3600
    text = ledger.text()
    machine.write("later", signed(text, f"dgx-ledger/{ledger.id()}", operator) + cosignature(text, name, witness, noted))
    machine.ok(*checked("L", "--cosigned", "later"))
    machine.copy("L", "back")
    back = Ledger(machine.path("back.jsonl"))
    late = seal("deposit", {"account": key_name(raw_public(machine.key("anna"))), "amount": 9, "ledger": back.id(), "reference": "late"},
                [("account", key_name(raw_public(machine.key("anna"))))], operator)
    back.append(late, back.times[-1] + 1000, operator)
    machine.refused(1, "dated back", *checked("back", "--cosigned", "later"))
    machine.refused(1, "later, cosigned at", *checked("back", "--cosigned", "later"))
    forward = Ledger(machine.path("L.jsonl"))
    text = forward.text()
    machine.write("earlier", signed(text, f"dgx-ledger/{ledger.id()}", operator) + cosignature(text, name, witness, 1_000_000_000))
    machine.refused(1, "dated forward", *checked("L", "--cosigned", "earlier"))
    # A refused statement: Anna's withdrawal, which witnesses saw two days before a note that lacks it.
    anna = key_name(raw_public(machine.key("anna")))
    wish = seal("withdrawal", {"account": anna, "amount": 30, "ledger": ledger.id(), "reference": "mine"}, [("account", anna)], machine.key("anna"))
    machine.write("wish.json", wish)
    now = int(time.time() * 1000)
    saw = f"dgx-saw/v1\n{ledger.id()}\n{id_of(wish).hex()}\n{now}\n"
    machine.write("saw", signed(saw, name, witness))
    text = ledger.text()
    machine.write("after", signed(text, f"dgx-ledger/{ledger.id()}", operator) + cosignature(text, name, witness, now // 1000 + 40 * 86400))
    machine.refused(1, "was seen by 1 witnesses at", *checked("L", "--cosigned", "after", "--saw", "wish.json", "saw"))
    machine.refused(1, "does not have it: refused", *checked("L", "--cosigned", "after", "--saw", "wish.json", "saw"))
    machine.refused(2, "no note was cosigned later", *checked("L", "--cosigned", "state", "--saw", "wish.json", "saw"))
    machine.refused(2, "is not given itself", *checked("L", "--cosigned", "after", "--saw", "saw"))
    machine.refused(2, "none of the witnesses has seen", *checked("L", "--cosigned", "after", "--saw", "wish.json"))
    machine.refused(77, "is not its signature", *checked("L", "--cosigned", "after", "--saw", "wish.json",
                                                        machine.write("forged", machine.read("saw").replace(str(now), str(now - 1)))))
    # What the rules did not allow was rightly refused: more than she has.
    greedy = seal("withdrawal", {"account": anna, "amount": 500000, "ledger": ledger.id(), "reference": "all"}, [("account", anna)], machine.key("anna"))
    machine.write("wish.json", greedy)
    machine.write("saw", signed(saw.replace(id_of(wish).hex(), id_of(greedy).hex()), name, witness))
    machine.ok(*checked("L", "--cosigned", "after", "--saw", "wish.json", "saw"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, help="folder of the built programs")
    options = parser.parse_args()
    # The example of c2sp.org/signed-note, and the one of the Go package that it is modelled on.
    name, text, key = "example.com/foo", "This is an example message.\n", base64.b64decode("AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k")[1:]
    [(_, number, signature)] = parts(f"{text}\n{DASH}{name} Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n")[1]
    check(number == key_id(name, 1, key) and verifies(key, signature, text.encode()), "the page's example does not verify")
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(os.path.abspath(options.bin), folder)
        begin(machine)
        vkey = recomputed(machine)
        bad_input(machine, vkey)
        attacks(machine, vkey)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
