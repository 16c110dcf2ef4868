"""Attacks on a market's money that found nothing: second_look.py --bin FOLDER

Small markets through the built programs, of statements signed without their code (statements.py). Each case is somebody who wants money, or
somebody else's loss, and asserts exit codes, the game or the state that follows, and what everybody has. second-look.md has all that was tried.
Exits 77 without cryptography.
"""

import argparse
import base64
import contextlib
import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("cli/dgx-settle", "support")]
import needs  # noqa: E402

needs.modules("cryptography")
import statements as st  # noqa: E402  signs without the programs' code
from cryptography.hazmat.primitives import serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: E402

NOT_NOW, REFUSED, BUSY, WRONG_KEY = 76, 65, 69, 77
PEOPLE = ("operator", "submitter", "solver", "verifier", "mallory", "stranger")
PURSE, BOND = 1_000_000, 10_000
checks = 0


def check(what, holds, told=""):
    global checks
    checks += 1
    if not holds:
        sys.exit(f"FAILED: {what}: {told}")


def key_of(who):
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(who.encode()).digest())


def key_id(who):
    public = key_of(who).public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()
    return st.sha(st.canonical({"keytype": "ed25519", "keyval": {"public": public}, "scheme": "ed25519"}))


def seal(kind, predicate, subjects, who):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        st.seal(kind, predicate, subjects, key_of(who))
    return text.getvalue()


def sid(statement):
    return st.read_text(statement)[0]


def body(statement):
    return st.read_text(statement)[2]


def digests(count):
    return st.base64_of(*(st.raw(st.sha(str(i))) for i in range(count)))


class Market:
    """A ledger in a folder of its own, and one task of 10 segments in it."""

    def __init__(self, programs, name, **policy):
        self.programs, self.policy, self.files, self.references = programs, st.POLICY | policy, 0, 0
        self.folder = pathlib.Path(name)
        self.folder.mkdir()
        for who in PEOPLE:
            self.path(f"{who}.pem").touch(0o600)
            self.path(f"{who}.pem").write_bytes(key_of(who).private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        self.path("policy.json").write_text(json.dumps(policy))
        self.path("store").mkdir()
        self.run("dgx-settle", "init", "L.jsonl", "--key", "operator.pem", "--policy", "policy.json")
        self.ledger = sid(self.lines()[0])
        self.append(*(self.deposit(who, PURSE) for who in ("submitter", "solver", "verifier")))

    def path(self, name):
        return self.folder / name

    def lines(self, name="L.jsonl"):
        return self.path(name).read_text().splitlines(True)

    def start(self, *words):
        return subprocess.Popen([os.path.join(self.programs, words[0]), *words[1:]], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *words, exit_code=0):
        process = self.start(*words)
        out, error = process.communicate(timeout=120)
        check(" ".join(words), process.returncode == exit_code, f"exit {process.returncode}, not {exit_code}: {out}{error}")
        return out + error

    def put(self, *texts):
        self.files += 1
        self.path(f"{self.files}.json").write_text("".join(texts))
        return f"{self.files}.json"

    def append(self, *texts, exit_code=0):
        return self.run("dgx-settle", "append", "L.jsonl", self.put(*texts), "--store", "store", "--key", "operator.pem", exit_code=exit_code)

    def refused(self, *texts, exit_code):
        """Nothing of it is logged, and nobody's money moves."""
        before = self.lines(), self.balances()
        told = self.append(*texts, exit_code=exit_code)
        check("a refused append changes nothing", (self.lines(), self.balances()) == before, told)
        return told

    def log(self, text):
        """As an operator who fetches nothing."""
        receipts = [body(line) for line in self.lines("L.receipts.jsonl")]
        now = max(int(time.time() * 1000), receipts[-1]["milliseconds"])
        with open(self.path("L.jsonl"), "a", encoding="ascii") as file:
            file.write(text)
        with open(self.path("L.receipts.jsonl"), "a", encoding="ascii") as file, contextlib.redirect_stdout(file):
            st.receipt(receipts, sid(text), now, self.ledger, key_of("operator"))

    def balances(self):
        return json.loads(self.run("dgx-settle", "balances", "L.jsonl", "--json"))["accounts"]

    def has(self, who):
        return self.balances().get(key_id(who), 0)

    def status(self):
        return json.loads(self.run("dgx-settle", "status", "L.jsonl", "--json"))

    def state(self):
        return self.status()["tasks"][0]["state"]

    def last_game(self):
        return self.status()["games"][-1]

    def sound(self):
        self.run("dgx-settle", "check", "L.jsonl")

    # Statements.

    def deposit(self, who, amount, signer="operator"):
        self.references += 1
        return seal("deposit", {"account": key_id(who), "amount": amount, "ledger": self.ledger, "reference": str(self.references)},
                    [("account", key_id(who))], signer)

    def withdrawal(self, who, amount, account=None):
        self.references += 1
        account = account or key_id(who)
        return seal("withdrawal", {"account": account, "amount": amount, "ledger": self.ledger, "reference": str(self.references)},
                    [("account", account)], who)

    def make(self, make, who, **options):
        """One of the statements of statements.py."""
        known = {"task": None, "offer": None, "proof": None, "beacon": None, "ledger": None, "policy": None, "segments": None, "bad_from": None,
                 "secret_suffix": "", "name": "tiny", "extra_reward": 0, "milliseconds": 1, "unknown_field": False, "key": key_of(who)}
        files = {k: str(self.path(self.put(v))) if k in ("task", "offer", "proof", "beacon") else v for k, v in options.items()}
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            make(argparse.Namespace(**(known | {"ledger": str(self.path("L.jsonl")), "policy": str(self.path("policy.json"))} | files)))
        return text.getvalue()

    def begin(self, bad_from=None, upto="opened"):
        self.bad_from = bad_from
        self.task = self.make(st.task, "submitter")
        self.offer = self.make(st.offer, "verifier", task=self.task)
        self.append(self.task, self.offer)
        if upto == "offered":
            return
        self.append(self.assign("solver"))
        self.proof = self.make(st.proof, "solver", task=self.task, bad_from=bad_from)
        self.append(self.proof)
        if upto == "proved":
            return
        self.beacon = self.make(st.beacon, "verifier", task=self.task, offer=self.offer, proof=self.proof)
        self.append(self.beacon)
        self.log(self.opening(self.beacon))

    def assign(self, who):
        return seal("assign", {"task": sid(self.task), "commitment": sid(self.offer), "dataset": st.sha("dataset"), "initial": st.sha("initial"), "segment_milliseconds": 1},
                    [("task", sid(self.task)), ("commitment", sid(self.offer))], who)

    def opening(self, after, location="opening"):
        return seal("opening", {"task": sid(self.task), "proof": sid(self.proof), "after": sid(after), "location": location},
                    [("proof", sid(self.proof)), ("after", sid(after))], "solver")

    def row(self, segment, **changes):
        states = st.states_of(sid(self.task), self.bad_from)
        return {"agrees": False, "expected": states[segment + 1], "index": segment, "reason": "digest", "recomputed": st.sha("lie"), "witness": st.sha("w")} | changes

    def refutation(self, row, **changes):
        """Of a chosen draw of one row."""
        root = st.root_of([hashlib.sha256(b"\0" + st.canonical(row)).digest()]).hex()
        predicate = {"task": sid(self.task), "proof": sid(self.proof), "draw": "chosen", "outcome": "refuted", "segments": st.SEGMENTS, "replayed": 1,
                     "rows": {"count": 1, "root": root}, "work": st.EVERY * st.STEP_OPERATIONS, "first_disagreement": row, "nonce": st.sha("nonce"),
                     "miss_probability": {"one_segment": "0.9", "one_percent": "0.9", "ten_percent": "0.9"}} | changes
        return seal("verdict", predicate, [("proof", sid(self.proof)), ("rows", root)], "verifier")

    def acceptance(self, nonce="nonce"):
        honest = body(self.make(st.verdict, "verifier", task=self.task, proof=self.proof, beacon=self.beacon))
        return seal("verdict", {k: v for k, v in honest.items() if k != "signer"} | {"nonce": st.sha(nonce)},
                    [("proof", sid(self.proof)), ("rows", honest["rows"]["root"])], "verifier")

    def challenge(self, who, segment, verdict=None):
        states = st.states_of(sid(self.task), self.bad_from)
        leaves = [hashlib.sha256(b"\0\4" + st.raw(state)).digest() for state in states]
        start, end = ({"digest": states[i], "path": st.base64_of(*st.path_of(leaves, i))} for i in (segment, segment + 1))
        predicate = {"task": sid(self.task), "proof": sid(self.proof), "about": "segment", "segment": segment, "start": start, "end": end}
        if verdict:
            predicate |= {"verdict": sid(verdict), "row": {"index": 0, "path": "", "row": body(verdict)["first_disagreement"]}}
        return seal("challenge", predicate, [("statement", sid(verdict or self.proof)), ("start", states[segment])], who)

    def delivery(self):
        final = body(self.proof)["final"]
        return seal("delivery", {"task": sid(self.task), "proof": sid(self.proof), "final": final}, [("proof", sid(self.proof)), ("final", final)],
                    "submitter")

    def move(self, game, turn, previous, say, who):
        return seal("move", {"task": sid(self.task), "game": sid(game), "turn": turn, "previous": sid(previous), "say": say},
                    [("game", sid(game)), ("previous", sid(previous))], who)

    def settle(self, seconds):
        time.sleep(seconds)
        self.run("dgx-settle", "run", "L.jsonl", "--key", "operator.pem")
        return self.status()["tasks"][0]["reason"]


def purses(programs):
    """Money that is not there, twice the same, or somebody else's."""
    market = Market(programs, "purses")
    market.begin()
    market.append(market.acceptance(), market.deposit("mallory", BOND - 1), market.deposit("stranger", 2 * BOND))
    market.refused(market.challenge("mallory", 1), exit_code=NOT_NOW)
    market.append(market.deposit("mallory", 1))
    market.append(market.challenge("mallory", 1))
    check("the purse is the bond", market.has("mallory") == 0)
    all_of_it, game = market.withdrawal("stranger", 2 * BOND), market.challenge("stranger", 2)
    market.refused(all_of_it, game, exit_code=NOT_NOW)
    market.refused(game, all_of_it, exit_code=NOT_NOW)
    market.append(game)
    check("the second open game costs two bonds", market.has("stranger") == 0)
    market.append(market.deposit("stranger", 4 * BOND - 1))
    market.refused(market.challenge("stranger", 3), exit_code=NOT_NOW)
    market.refused(market.challenge("solver", 3), exit_code=REFUSED)
    for account, exit_code in (("bonds", REFUSED), ("escrow", REFUSED), ("jackpot", REFUSED), (key_id("solver"), WRONG_KEY)):
        market.refused(market.withdrawal("operator", 1, account), exit_code=exit_code)
    market.refused(market.deposit("mallory", 5, "mallory"), exit_code=WRONG_KEY)
    market.refused(market.deposit("mallory", 1 << 53), exit_code=NOT_NOW)
    check("no money is made", sum(market.balances().values()) == 3 * PURSE + BOND + 2 * BOND + 4 * BOND - 1)
    market.sound()


def two_at_once(programs):
    """Two of what may be there once, in one append."""
    market = Market(programs, "two")
    market.begin(upto="offered")
    market.append(market.deposit("mallory", PURSE))
    told = market.refused(market.assign("solver"), market.assign("mallory"), exit_code=NOT_NOW)
    check("the second solver is refused", "line 2" in told, told)
    end = [seal("offer-end", {"task": sid(market.task), "commitment": sid(market.offer)}, [("task", sid(market.task)), ("commitment", sid(market.offer))], who)
           for who in ("verifier", "mallory")]
    market.refused(end[0], exit_code=NOT_NOW)
    market.refused(end[1], exit_code=WRONG_KEY)
    market.append(market.assign("solver"))
    market.refused(end[0], exit_code=NOT_NOW)

    market = Market(programs, "two-verdicts")
    market.begin()
    one, other = market.acceptance(), market.acceptance("other")
    check("the second verdict is refused", "line 2" in market.refused(one, other, exit_code=NOT_NOW))
    bound = st.sha("dgx-verdict-commit", st.raw(sid(one)), st.raw(body(one)["nonce"]))
    market.append(seal("verdict-commitment", {"task": sid(market.task), "proof": sid(market.proof), "commitment": bound},
                       [("proof", sid(market.proof)), ("commitment", bound)], "verifier"))
    market.refused(other, exit_code=REFUSED)
    market.refused(market.refutation(market.row(3)), exit_code=REFUSED)
    market.append(one)
    market.sound()


def lying_refutations(programs):
    """A verifier says that nothing could be recomputed, or expects another state; the solver challenges; nothing made up saves the verdict."""
    entry = {"count": 2, "digest": st.sha("e"), "index": 0, "name": "step", "path": st.base64_of(bytes(32))}
    tensor = {"bytes": base64.b64encode(b"\1" * 8).decode(), "leaf": 0, "path": "", "shape": [], "t": "i64"}
    faults = ({}, {"entry": entry}, {"entry": entry, "tensor": tensor}, {"before": entry | {"name": "b"}, "after": entry | {"name": "a", "index": 1}},
              {"digest": "0" * 64, "step": 31, "entry": entry, "tensor": tensor | {"t": "f32"}}, {"entry": entry | {"name": "nobody"}})
    nothing = {"recomputed": "0" * 64, "witness": "0" * 64}
    for reason in ("step", "state", "non-finite"):
        market = Market(programs, f"lie-{reason}")
        market.begin(upto="proved")
        verdict = market.refutation(market.row(3, reason=reason, **nothing))
        game = market.challenge("solver", 3, verdict)
        market.append(verdict, game)
        kept = {name: market.path(name).read_text() for name in ("L.jsonl", "L.receipts.jsonl")}
        for fault in faults:
            market.append(market.move(game, 1, game, {"kind": "fault"} | fault, "verifier"))
            check(f"{reason} {sorted(fault)}", market.last_game()["end"] == "falls", market.last_game())
            for name, text in kept.items():
                market.path(name).write_text(text)
    market = Market(programs, "lie-expected")
    market.begin(upto="proved")
    verdict = market.refutation(market.row(3, expected=st.sha("another")))
    market.append(verdict, market.challenge("solver", 3, verdict))
    check("a false expected falls with the challenge", market.last_game()["end"] == "falls")
    market.sound()


def overturned(programs):
    """A false refutation before the beacon, which its verifier does not defend: the solver is paid, and the bond is theirs and the jackpot's."""
    market = Market(programs, "overturned", window_reveal_ms=60000, window_challenge_ms=800, window_move_ms=400)
    market.begin(upto="proved")
    verdict = market.refutation(market.row(3))
    market.append(verdict, market.delivery(), market.challenge("solver", 3, verdict))
    market.log(market.opening(market.proof))
    reason = market.settle(2.5)
    reward, bond = body(market.task)["estimate"]["reward"], BOND + body(market.task)["estimate"]["reward"] // 10
    check("it ends in overturned", reason == "overturned", reason)
    check("the solver has the reward and the first share", market.has("solver") == PURSE + reward + bond // 2 // 2, market.balances())
    check("the verifier has lost the bond", market.has("verifier") == PURSE - bond)
    check("no money is made", sum(market.balances().values()) == 3 * PURSE)
    market.sound()


def inflated_work(programs):
    """A true refutation of one segment that states work of 2^53 is refused; with the segment's own it has its price."""
    market = Market(programs, "inflated", window_reveal_ms=60000, window_challenge_ms=800)
    market.begin(bad_from=4, upto="proved")
    honest = st.states_of(sid(market.task), None)[5]
    market.refused(market.refutation(market.row(4, recomputed=honest), work=1 << 53), exit_code=REFUSED)
    work = st.EVERY * st.STEP_OPERATIONS
    market.append(market.refutation(market.row(4, recomputed=honest), work=work))
    market.log(market.opening(market.proof))
    reason = market.settle(1.5)
    estimate = body(market.task)["estimate"]
    fee = min(estimate["fee"], market.policy["verifier_fee"] + st.PRICE * work // 10**9)
    left = BOND + estimate["reward"] // 5 - estimate["tax"] - fee
    check("it ends in refuted", reason == "refuted", reason)
    check("the fee is that of the segment", market.has("verifier") == PURSE + fee + left // 4 // 2, (market.balances(), estimate))
    check("the cheat has lost the bond", market.has("solver") == PURSE - BOND - estimate["reward"] // 5)
    check("no money is made", sum(market.balances().values()) == 3 * PURSE)


def two_stories(programs):
    """A challenger who signs two moves for a turn convicts themselves; what the defender answered to the other one is no evidence."""
    market = Market(programs, "stories")
    market.begin()
    game = market.challenge("mallory", 1)
    market.append(market.acceptance(), market.deposit("mallory", BOND), game)
    shown = market.move(game, 1, game, {"kind": "states", "digests": digests(9)}, "solver")
    named = [market.move(game, 2, shown, {"kind": "name", "index": i}, "mallory") for i in (0, 1)]
    market.append(shown, named[1])
    market.refused(market.move(game, 3, named[0], {"kind": "values", "root": "0" * 64, "nodes": digests(40)}, "solver"), exit_code=REFUSED)
    market.refused(market.move(game, 3, named[1], {"kind": "concede"}, "stranger"), exit_code=WRONG_KEY)
    market.append(named[0])
    check("the proof stands", market.last_game()["end"] == "stands", market.last_game())
    market.refused(market.move(game, 3, named[1], {"kind": "concede"}, "solver"), exit_code=NOT_NOW)
    market.sound()


def other_markets(programs):
    """What one market has is worth nothing in another with the same operator and rules; nor is what its operator says before it follows."""
    one, other = Market(programs, "one"), Market(programs, "other")
    one.begin()
    for line in one.lines():
        kind = json.loads(base64.b64decode(json.loads(line)["payload"]))["predicateType"].split(":")[2]
        other.refused(line, exit_code=REFUSED if kind in ("task", "deposit", "withdrawal", "tree-head") else NOT_NOW)
    all_of_it = [{"account": key_id("submitter"), "amount": body(one.task)["estimate"]["escrow"]}]
    one.refused(seal("settlement", {"task": sid(one.task), "reason": "no-proof", "payouts": all_of_it}, [("task", sid(one.task))], "operator"), exit_code=NOT_NOW)
    one.refused(one.lines("L.receipts.jsonl")[-1], exit_code=REFUSED)


def hostile_locations(programs):
    """Nothing outside the solver's folder is read, and no copy is left."""
    market = Market(programs, "places")
    market.begin(upto="proved")
    beacon = market.make(st.beacon, "verifier", task=market.task, offer=market.offer, proof=market.proof)
    market.append(beacon)
    market.path("elsewhere/opening").mkdir(parents=True)
    own = market.path("store") / key_id("solver")
    for place in ("../x", "a/../../x", "/etc", "a//b", ".", "a/.", "a\\b", "a b", "a/", ""):
        market.refused(market.opening(beacon, place), exit_code=REFUSED)
    for place in ("-rf", "--store", "..."):
        market.refused(market.opening(beacon, place), exit_code=66)
    os.symlink(os.path.abspath(market.path("elsewhere")), own)
    market.path("elsewhere/opening/states").write_bytes(bytes(352))
    market.refused(market.opening(beacon), exit_code=REFUSED)
    check("no copy is left", not [p for p in market.path("L.openings").rglob("*") if p.is_file()])


def forks(programs):
    """A ledger that was cut, turned round or swapped, beside a head that somebody kept."""
    market = Market(programs, "forks")
    market.begin(upto="proved")
    market.run("dgx-settle", "head", "L.jsonl", "--key", "operator.pem", "-o", "head.json")
    entries, receipts = market.lines(), market.lines("L.receipts.jsonl")
    kept = {k: v for k, v in body(market.path("head.json").read_text()).items() if k != "signer"}
    forged = seal("tree-head", kept | {"head": kept["head"] | {"root": "0" * 64}}, [("head", "0" * 64)], "mallory")
    market.path("forged.json").write_text(forged)

    def against(what, entries_now, receipts_now, exit_code, head="head.json"):
        market.path("L.jsonl").write_text("".join(entries_now))
        market.path("L.receipts.jsonl").write_text("".join(receipts_now))
        check(what, market.run("dgx-settle", "check", "L.jsonl", "--against", head, exit_code=exit_code))

    against("whole", entries, receipts, 0)
    against("a stranger's head", entries, receipts, WRONG_KEY, "forged.json")
    against("cut off", entries[:-1], receipts[:-1], 1)
    against("receipts cut off", entries, receipts[:3], 1)
    against("turned round", entries[:-2] + entries[:-3:-1], receipts, REFUSED)
    against("turned round with receipts", entries[:-2] + entries[:-3:-1], receipts[:-2] + receipts[:-3:-1], REFUSED)
    against("the last one twice", entries + entries[-1:], receipts + receipts[-1:], REFUSED)
    against("a receipt too many", entries, receipts + receipts[-1:], REFUSED)


def all_at_once(programs):
    """Six appends and three runs at the same time: one writer, and a ledger that is sound."""
    market = Market(programs, "crowd")
    market.begin(upto="offered")
    files = [market.put(market.deposit("mallory", 1 << i)) for i in range(6)]
    appends = [market.start("dgx-settle", "append", "L.jsonl", file, "--key", "operator.pem") for file in files]
    runs = [market.start("dgx-settle", "run", "L.jsonl", "--key", "operator.pem") for _ in range(3)]
    for process in appends + runs:
        process.communicate(timeout=60)
        check("a writer", process.returncode in (0, BUSY), process.returncode)
    check("exactly those that said so are logged", market.has("mallory") == sum(1 << i for i, p in enumerate(appends) if p.returncode == 0))
    market.sound()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=os.path.abspath)
    programs = parser.parse_args().bin
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for case in (purses, two_at_once, lying_refutations, overturned, inflated_work, two_stories, other_markets, hostile_locations, forks, all_at_once):
            case(programs)
    print(f"{checks} checks")


if __name__ == "__main__":
    main()
