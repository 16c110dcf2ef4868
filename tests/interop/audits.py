"""A market that audits verdicts, played through the built programs: audits.py --bin FOLDER

Trainers, provers, verifiers, an auditor, a volunteer and the operator are the programs; only a lazy verifier is not, who states witnesses that are invented. The lots are
recomputed from the ledger's files by Python's standard library, as dgx-protocol(7), AUDITS, describes them. An honest verdict is confirmed, and its challenge lost; a lazy one is
denied by the auditor whom the round draws, falls in a game, and the auditor is paid. What an auditor must not say is refused, with the reason, and changes nothing.
"""

import argparse
import base64
import contextlib
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
sys.path.insert(0, str(HERE.parent / "cli" / "dgx-settle"))
import needs  # noqa: E402

needs.modules("cryptography", "numpy")
import statements  # noqa: E402

WINDOW, MOVE = 10000, 8000
POLICY = {"beacon_source": 1, "beacon_slot_ms": 1000, "beacon_steps": 65536, "audit_ppm": 1000000, "sample_ppm": 300000, "solver_bond": 1000000, "verifier_bond": 200000, "verifier_bond_ppm": 0,
          "verifier_fee": 20000, "challenger_bond": 10000, "window_proof_ms": 12000, "window_reveal_ms": 2 * WINDOW, "window_challenge_ms": WINDOW, "window_move_ms": MOVE,
          "window_delivery_ms": 600000}
BONDS = {"v1": 200000, "v2": 250001, "v3": 300007, "v4": 350003}
failures = 0


def check(condition, what):
    global failures
    if not condition:
        failures += 1
        print("FAILED:", what, flush=True)


def key_of(pem):
    return statements.serialization.load_pem_private_key(pathlib.Path(pem).read_bytes(), None)


def sealed(kind, predicate, subjects, pem):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        statements.seal(kind, predicate, subjects, key_of(pem))
    return out.getvalue()


def lot(tag, value, *ids):
    return hashlib.sha256(f"dgx-{tag}".encode() + bytes.fromhex(value + "".join(ids))).hexdigest()


class Market:
    def __init__(self, programs):
        self.env = os.environ | {"PATH": os.path.abspath(programs) + os.pathsep + os.environ["PATH"]}
        self.keys = {}
        self.do("sh", "-c", f"sh {HERE.parent}/cli/tiny_task.sh 300000 && rm -rf run task.*")
        for name in ("operator", "idler", "vic", "mal", *BONDS):
            self.do("dgx-key", "new", name)
        for name in ("operator", "submitter", "solver", "idler", "vic", "mal", *BONDS):
            self.keys[self.do("dgx-key", "id", f"{name}.pub.pem", "--json")["key_id"]] = name
        self.write("policy.json", json.dumps(POLICY))
        os.mkdir("store")
        self.do("dgx-settle", "init", "L.jsonl", "--key", "operator.pem", "--policy", "policy.json")
        self.do("dgx-settle", "deposit", "L.jsonl", "--to", *(f"{name}.pub.pem" for name in self.keys.values() if name != "operator"), "9000000", "--key", "operator.pem")

    def write(self, name, text):
        pathlib.Path(name).write_text(text)

    def do(self, *words, code=0, quiet=False):
        done = subprocess.run(words, capture_output=True, text=True, env=self.env)
        if not quiet:
            check(done.returncode == code, f"{words}: exit {done.returncode}, expected {code}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout) if "--json" in words and done.stdout else done.stderr

    def shell(self, *words):
        """What a command prints that must succeed."""
        done = subprocess.run(words, capture_output=True, text=True, env=self.env)
        check(done.returncode == 0, f"{words}: exit {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def append(self, *names, code=0):
        return self.do("dgx-settle", "append", "L.jsonl", *names, "--key", "operator.pem", "--store", "store", "--wait", code=code)

    def run(self):
        return self.do("dgx-settle", "run", "L.jsonl", "--key", "operator.pem", "--wait", quiet=True)

    def rounds(self):
        self.do("dgx-settle", "round", "L.jsonl", "--key", "operator.pem", "--wait", "-q")

    def status(self, table, task):
        rows = self.do("dgx-settle", "status", "L.jsonl", "--json")[table]
        task = statements.read(task)[0]
        return next((row for row in rows if row["task"] == task), None)

    def state(self, task):
        return self.status("tasks", task)["state"]

    def until(self, what, holds, seconds=60):
        """Keeps the operator's clock and rounds going until something holds."""
        end = time.time() + seconds
        while not holds():
            if time.time() > end:
                sys.exit(f"FAILED: waited in vain until {what}")
            self.run()
            self.rounds()
            time.sleep(0.3)

    def balances(self):
        out = self.do("dgx-settle", "balances", "L.jsonl", "--json")["accounts"]
        return {self.keys.get(account, account): amount for account, amount in out.items()}

    def submit(self, name, seed):
        self.do("dgx-submit", "--data", "data.h5", "--model", "mlp:4-8-3", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1,momentum=0.9", "--batch", "8", "--steps", "40",
                "--checkpoint-every", "4", "--seed", str(seed), "--price", "1000000000", "--ledger", "L.jsonl", "--key", "submitter.pem", "-o", f"{name}.json")
        return f"{name}.json"

    def offer(self, task, name):
        self.do("dgx-verify", "beacon", task, "--segment-milliseconds", "1", "--bond", str(BONDS[name]), "--key", f"{name}.pem", "-o", f"{task[:-5]}.{name}.json")
        return f"{task[:-5]}.{name}.json"

    def assign(self, task, who):
        self.do("dgx-settle", "make", "assign", task, "--set", "segment_milliseconds=1", "--key", f"{who}.pem", "-o", f"{task[:-5]}.assign.json")
        return f"{task[:-5]}.assign.json"


def begin(market, names=("honest", "lazy")):
    """Tasks up to their openings; another that leaves a bond to the jackpot, from which auditors are paid."""
    tasks, idle = [market.submit(name, 7 + number) for number, name in enumerate(names)], market.submit("idle", 99)
    market.append(*tasks, idle, market.offer(idle, "v1"), *(market.offer(task, name) for task in tasks for name in BONDS))
    posted = time.time()
    for task in tasks:
        market.do("dgx-train", task, "--data", "data.h5", "-o", f"{task[:-5]}.run", "-q")
        market.do("dgx-prove", task, f"{task[:-5]}.run", "--key", "solver.pem", "-o", f"{task[:-5]}.proof.json", "-q")
    time.sleep(max(0, posted + MOVE / 1000 + 0.3 - time.time()))
    market.append(*(market.assign(task, "solver") for task in tasks), market.assign(idle, "idler"))
    market.append(*(f"{name}.proof.json" for name in names))
    market.until("the draw", lambda: all(market.state(task) == "drawn" for task in tasks))
    for name in names:
        market.do("dgx-settle", "extract", "L.jsonl", "--round", f"{name}.json", "-o", f"{name}.round.json")
        market.do("dgx-prove", "open", f"{name}.json", f"{name}.proof.json", "--round", f"{name}.round.json", "--run", f"{name}.run", "--store", "store", "--key", "solver.pem",
                  "-o", f"{name}.opening.json")
        market.append(f"{name}.opening.json")
        market.do("dgx-settle", "fetch", "L.jsonl", f"{name}.json", "-o", f"{name}.opened")
    market.until("the idler's bond is the jackpot's", lambda: market.state(idle) == "settled")
    check(market.balances()["jackpot"] > 0, "the jackpot has the idler's bond")


def respond(market, name, who, output, code=0):
    return market.do("dgx-verify", "respond", "L.jsonl", f"{name}.json", "--commit", f"{name}.{who}.json", "--data", "data.h5", "--key", f"{who}.pem", "-o", output,
                     "--post", "dgx-settle append L.jsonl --key operator.pem --wait", "--json", code=code)


def lazy_verdict(market, who):
    """What a verifier signs who has replayed nothing: the form is right, the witnesses are not."""
    market.do("dgx-verify", "lazy.json", "lazy.proof.json", "--from", "lazy.opened", "--data", "data.h5", "--round", "lazy.round.json", "--key", f"{who}.pem", "-o", "form.json", "-q")
    body = statements.read("form.json")[2]
    count = body["replayed"]
    del body["signer"]
    body["witnesses"] = base64.b64encode(hashlib.sha512(b"a guess").digest()[:32] * count).decode()
    body["rows"]["root"] = hashlib.sha256(b"rows that nobody has").hexdigest()
    market.write("lazy.verdict.json", sealed("verdict", body, [("proof", body["proof"]), ("rows", body["rows"]["root"])], f"{who}.pem"))


def verdicts(market):
    """The honest verifier's verdict by dgx-verify respond, and the lazy one's."""
    drawn = {name: market.keys[market.status("drawn", f"{name}.json")["verifier"]] for name in ("honest", "lazy")}
    task = statements.read("honest.json")[0]
    asked = {market.keys[row["verifier"]] for row in market.do("dgx-settle", "status", "L.jsonl", "--json")["drawn"] if row["task"] == task}
    told = respond(market, "honest", (BONDS.keys() - asked).pop(), "nobody.json", code=3)
    check("bonds stay locked" in told["waits_for"], f"whoever was not drawn is told what the bond waits for: {told}")
    respond(market, "honest", drawn["honest"], "honest.verdict.json")
    lazy_verdict(market, drawn["lazy"])
    market.append("lazy.verdict.json")
    check(market.state("honest.json") == market.state("lazy.json") == "recheck", "both verdicts are re-checked")
    return drawn


def recomputed(market, name):
    """Checks lot, ticket and stretch of the audit's draw; the auditor."""
    row = market.status("audits", f"{name}.json")
    entries = [statements.read_text(line) for line in pathlib.Path("L.jsonl").read_text().splitlines()]
    times = [json.loads(base64.b64decode(json.loads(line)["payload"]))["predicate"]["milliseconds"] for line in pathlib.Path("L.receipts.jsonl").read_text().splitlines()]
    verdict = statements.read(f"{name}.verdict.json")[0]
    slot = next(when for (statement, _, _), when in zip(entries, times) if statement == verdict) // 1000
    value = next(body["value"] for _, _, body in entries if "checkpoints" in body and body["slot"] == slot)
    check(row["lot"] == lot("audit", value, verdict), "the lot")
    others = sorted((statements.read(f"{name}.{who}.json")[1], bond) for who, bond in BONDS.items() if who != market.drawn[name])
    total, begin = sum(bond for _, bond in others), 0
    ticket = int(lot("auditor", value, verdict)[:32], 16) % total
    for key, bond in others:
        if ticket < begin + bond:
            break
        begin += bond
    check((row["auditor"], row["ticket"], row["from"], row["to"], row["sum"]) == (key, ticket, begin, begin + bond, total), f"the auditor's draw: {row}")
    return market.keys[row["auditor"]]


def audit_by_hand(market, who, name, output, code=0):
    market.do("dgx-verify", f"{name}.json", f"{name}.proof.json", "--audits", f"{name}.verdict.json", "--from", f"{name}.opened", "--data", "data.h5", "--round", f"{name}.round.json",
              "--key", f"{who}.pem", "-o", output, "-q", code=code)


def recheck(market):
    """Auditors by dgx-verify respond, a volunteer by hand, and what must not be said."""
    market.until("the auditors are drawn", lambda: all((market.status("audits", f"{name}.json") or {}).get("auditor") for name in ("honest", "lazy")))
    auditors = {name: recomputed(market, name) for name in ("honest", "lazy")}
    told = respond(market, "honest", auditors["honest"], "honest.audit.json", code=3)
    check("commitments" in told["waits_for"], f"the auditor waits: {told}")
    shutil.copy("honest.audit.commit.json", "lazy.audit.commit.json")
    refused = respond(market, "lazy", auditors["lazy"], "lazy.audit.json", code=65)
    check("does not commit to" in str(refused), f"a commitment to another audit: {refused}")
    os.remove("lazy.audit.commit.json")
    respond(market, "lazy", auditors["lazy"], "lazy.audit.json", code=3)
    check(statements.read("honest.audit.json")[2]["denied"] == [], "the honest verdict is confirmed")
    lazy = statements.read("lazy.audit.json")[2]
    check(len(lazy["denied"]) == lazy["replayed"] == 3 and lazy["outcome"] == "accepted", f"the lazy verdict is denied: {lazy}")
    # A volunteer confirms by hand, another denies what is right.
    audit_by_hand(market, "vic", "honest", "vic.json")
    false = statements.read("vic.json")[2]
    del false["signer"]
    false["denied"] = [json.loads(pathlib.Path("vic.rows.jsonl").read_text().splitlines()[0])["index"]]
    subjects = [("proof", false["proof"]), ("verdict", false["audits"]), ("rows", false["rows"]["root"])]
    market.write("mal.json", sealed("verdict", false, subjects, "mal.pem"))
    for who in ("vic", "mal"):
        market.do("dgx-settle", "make", "verdict-commitment", "honest.json", "--about", f"{who}.json", "--key", f"{who}.pem", "-o", f"{who}.commit.json")
        market.append(f"{who}.commit.json")
    # Statements that are refused change nothing.
    now = market.balances()
    check("has committed to an audit" in market.append(again(market, "vic"), code=76), "a second commitment")
    check("is recheck" in market.append("vic.json", code=76), "an audit before audits are shown")
    check("not committed" in market.append(by_stranger(market, false), code=76), "an audit without a commitment")
    verifier = market.drawn["honest"]
    market.write("own.json", sealed("verdict-commitment", {"task": false["task"], "proof": false["proof"], "commitment": "00" * 32, "audits": false["audits"]},
                                    [("proof", false["proof"]), ("verdict", false["audits"]), ("commitment", "00" * 32)], f"{verifier}.pem"))
    check("cannot re-check their own" in market.append("own.json", code=77), "the verifier's own re-check")
    market.do("dgx-verify", "honest.json", "honest.proof.json", "--audits", "honest.verdict.json", "--from", "honest.opened", "--data", "data.h5", "--round", "honest.round.json",
              "--key", f"{verifier}.pem", "-o", "self.json", code=77)
    check(market.balances() == now, "what is refused changes no balance")
    return auditors


def again(market, who):
    body = statements.read(f"{who}.commit.json")[2]
    del body["signer"]
    body["commitment"] = "11" * 32
    market.write("again.json", sealed("verdict-commitment", body, [("proof", body["proof"]), ("verdict", body["audits"]), ("commitment", body["commitment"])], f"{who}.pem"))
    return "again.json"


def by_stranger(market, body):
    market.write("stranger.json", sealed("verdict", body, [("proof", body["proof"]), ("verdict", body["audits"]), ("rows", body["rows"]["root"])], "idler.pem"))
    return "stranger.json"


def challenge(market, auditors):
    """The auditor challenges the lazy witnesses, which nobody can defend; somebody the honest ones, which their verifier defends."""
    market.until("audits are shown", lambda: market.state("honest.json") == market.state("lazy.json") == "reveal")
    check("is not the audit" in market.append(other_denial(market), code=65), "another audit than the one committed to")
    respond(market, "honest", auditors["honest"], "honest.audit.json")
    told = respond(market, "lazy", auditors["lazy"], "lazy.audit.json", code=3)
    check(told["denied"] == 3 and "you to challenge the verdict about segment" in told["waits_for"], f"the auditor is told to challenge: {told}")
    market.append("vic.json", "mal.json")
    told = respond(market, "lazy", auditors["lazy"], "lazy.audit.json", code=3)
    check(", by " in told["waits_for"], f"until when: {told}")
    check(market.state("honest.json") == market.state("lazy.json") == "challenge-window", "the challenge windows begin when all are shown")
    who = auditors["lazy"]
    market.do("dgx-bisect", "open", "lazy.json", "lazy.proof.json", "--against", "lazy.verdict.json", "--beacon", "lazy.round.json", "--from", "lazy.opened",
              "--data", "data.h5", "--key", f"{who}.pem", "-o", "lazy.dispute.jsonl", "-q")
    market.append("lazy.dispute.jsonl")
    # The lazy verifier has replayed nothing, has no state to show, and concedes.
    market.do("dgx-bisect", "move", "lazy.json", "lazy.dispute.jsonl", "--from", "lazy.opened", "--data", "data.h5", "--key", f"{market.drawn['lazy']}.pem", "--concede", "-q", quiet=True)
    market.append("lazy.dispute.jsonl")
    # "mal" insists: the challenge is unfounded, and has to be forced. The verifier answers, and "mal" has no more to say.
    shutil.copy("honest.verdict.json", "bare.json")
    market.do("dgx-bisect", "open", "honest.json", "honest.proof.json", "--against", "bare.json", "--beacon", "honest.round.json", "--from", "honest.opened", "--data", "data.h5",
              "--key", "mal.pem", "-o", "mal.dispute.jsonl", "-q", "--force")
    market.append("mal.dispute.jsonl")
    market.do("dgx-bisect", "move", "honest.json", "mal.dispute.jsonl", "--from", "honest.opened", "--data", "data.h5", "--key", f"{market.drawn['honest']}.pem", "-q", quiet=True)
    market.append("mal.dispute.jsonl")


def other_denial(market):
    body = statements.read("vic.json")[2]
    del body["signer"]
    body["nonce"] = "22" * 32
    market.write("other.json", sealed("verdict", body, [("proof", body["proof"]), ("verdict", body["audits"]), ("rows", body["rows"]["root"])], "vic.pem"))
    return "other.json"


def by_shards(market, who, name, whole):
    """An audit of shards says what that of one process says, but for its nonce."""
    call = (f"{name}.json", f"{name}.proof.json")
    audits = ("--audits", f"{name}.verdict.json", "--round", f"{name}.round.json")
    shards = [f"{name}.shard{index}.json" for index in range(2)]
    for index, shard in enumerate(shards):
        market.do("dgx-verify", *call, *audits, "--from", f"{name}.opened", "--data", "data.h5", "--shard", f"{index}/2", "--key", f"{who}.pem", "-o", shard, "-q")
    merge = ("dgx-verify", "merge", *call, *shards)
    denied = statements.read(whole)[2]["denied"]
    told = market.do(*merge, *audits, "--key", f"{who}.pem", "-o", f"{name}.merged.json", "--expect", "denied" if denied else "accepted", "--json")
    check(told["denied"] == denied, f"the shards deny {told['denied']}, not {denied}")
    rows = [pathlib.Path(path.replace(".json", ".rows.jsonl")).read_bytes() for path in (f"{name}.merged.json", whole)]
    check(rows[0] == rows[1], f"{name}: the rows of shards are those of one process")
    bodies = [{key: value for key, value in statements.read(path)[2].items() if key != "nonce"} for path in (f"{name}.merged.json", whole)]
    check(bodies[0] == bodies[1], f"an audit of shards says what that of one process says: {bodies}")
    # Without the verdict, with another, and as a verdict.
    check("belong to an audit" in market.do(*merge, "--round", f"{name}.round.json", "--key", f"{who}.pem", "-o", "none.json", code=2), "shards of an audit without --audits")
    other = {"honest": "lazy", "lazy": "honest"}[name]
    check("another proof" in market.do(*merge, "--audits", f"{other}.verdict.json", "--round", f"{name}.round.json", "--key", f"{who}.pem", "-o", "none.json", code=65), "another verdict")
    check("of 2 shards, missing: 1" in market.do("dgx-verify", "merge", *call, shards[0], *audits, "--key", f"{who}.pem", "-o", "none.json", code=3), "a shard is missing")


def end(market, auditors):
    for name in ("honest", "lazy"):
        by_shards(market, auditors[name], name, f"{name}.audit.json")
    for name in ("honest", "lazy"):
        market.do("dgx-settle", "make", "delivery", f"{name}.json", "--about", f"{name}.proof.json", "--key", "submitter.pem", "-o", f"{name}.delivery.json")
        market.append(f"{name}.delivery.json")
    market.until("all is settled", lambda: market.state("honest.json") == market.state("lazy.json") == "settled")
    reasons = {name: market.status("tasks", f"{name}.json")["reason"] for name in ("honest", "lazy")}
    check(reasons == {"honest": "accepted", "lazy": "unverified"}, f"how they end: {reasons}")
    game = market.status("games", "lazy.json")
    check(game["end"] == "falls", f"the lazy verdict falls: {game}")
    market.do("dgx-settle", "extract", "L.jsonl", "--game", game["game"], "-o", "game.jsonl")
    market.do("dgx-referee", "game.jsonl", "--operator", "operator.pub.pem", "--key", "operator.pem", "-o", "ruling.json", "-q", code=1)
    check(market.status("games", "honest.json")["end"] == "stands", "the honest verdict stands")
    after = market.balances()
    estimate = json.loads(base64.b64decode(json.loads(pathlib.Path("honest.json").read_text())["payload"]))["predicate"]["estimate"]
    fee, audit_fee = estimate["fee"], min(estimate["fee"], estimate["tax"] * 1000000 // POLICY["audit_ppm"])
    check(audit_fee > 0, f"auditors are paid: {estimate}")
    owed = dict.fromkeys(["vic", "mal", *BONDS], 0)
    lazy = market.drawn["lazy"]
    owed[market.drawn["honest"]] += fee + 5000  # and half of the bond of "mal"
    owed[auditors["honest"]] += audit_fee
    owed[auditors["lazy"]] += audit_fee + BONDS[lazy] // 2 // 2
    owed[lazy] -= BONDS[lazy]
    owed["mal"] -= 20000  # as a volunteer, and as a challenger
    had = dict.fromkeys(["vic", "mal", *BONDS], 9000000)
    for name, amount in owed.items():
        check(after[name] == had[name] + amount, f"{name} has {after[name]}, not {had[name] + amount}")
    check(sum(after.values()) == market.do("dgx-settle", "balances", "L.jsonl", "--json")["total"] and after["escrow"] == after["bonds"] == 0, "nothing stays locked")
    check(market.do("dgx-settle", "check", "L.jsonl", "--rounds", "--json")["sound"], "the ledger is sound")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--plugins")
    parser.add_argument("--models")
    options = parser.parse_args()
    programs = os.path.abspath(options.bin)
    with tempfile.TemporaryDirectory(prefix="dgx-audits-") as folder:
        os.chdir(folder)
        market = Market(programs)
        begin(market)
        market.drawn = verdicts(market)
        auditors = recheck(market)
        challenge(market, auditors)
        end(market, auditors)
        os.chdir("/")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
