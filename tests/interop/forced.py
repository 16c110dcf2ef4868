"""A market that forces errors, played through the built programs: forced.py --bin FOLDER

Every acceptance is forced and audited. Trainers, provers, verifiers, auditors and the operator are the programs; only a lazy auditor is not, who confirms unseen. The forced row
is recomputed from the ledger's files by Python's standard library, as dgx-protocol(7), FORCED ERRORS, describes it, and its witness compared with the true one. An error is
found, and its finders share the jackpot; a lazy auditor loses the bond by statements alone; a secret that was given away costs its owner the bond, a quarter of which the buyer has;
and a verifier who saves the replay of the forced row, and invents its witness, is found out by the auditor's program, challenged and slashed.
"""

import argparse
import base64
import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile

import audits
from audits import BONDS, check, lot, respond, sealed, statements

NAMES = ("found", "lazy", "sold", "saved")
# Challengers risk so much that the jackpot is not cut because denying unseen would pay.
audits.POLICY |= {"forced_error_ppm": 1000000, "jackpot": 3001, "jackpot_tax_ppm": 500000, "challenger_bond": 100000, "window_reveal_ms": 35000}
POLICY = audits.POLICY


def sha(*parts):
    return hashlib.sha256(b"".join(part if isinstance(part, bytes) else bytes.fromhex(part) for part in parts)).hexdigest()


def witnesses(path):
    stated = base64.b64decode(statements.read(path)[2]["witnesses"])
    return [stated[at:at + 32].hex() for at in range(0, len(stated), 32)]


def entries_of():
    """The ledger's entries, each with its time."""
    times = [json.loads(base64.b64decode(json.loads(line)["payload"]))["predicate"]["milliseconds"] for line in pathlib.Path("L.receipts.jsonl").read_text().splitlines()]
    return [(*statements.read_text(line), when) for line, when in zip(pathlib.Path("L.jsonl").read_text().splitlines(), times)]


def forced_row(name):
    """Number of the row that is forced, among those of the draw: from the ledger's round and the secret that was revealed."""
    proof = statements.read(f"{name}.proof.json")[0]
    entries = entries_of()
    slot = next(when for statement, _, _, when in entries if statement == proof) // POLICY["beacon_slot_ms"]
    value = next(body["value"] for _, _, body, _ in entries if "checkpoints" in body and body["slot"] == slot)
    secret = next(body["secret"] for _, _, body, _ in entries if body.get("proof") == proof and "secret" in body)
    found = lot("forced", value, secret, proof)
    check(int(found[:16], 16) < POLICY["forced_error_ppm"] * 2**64 // 10**6, f"{name}: an error is forced")
    return int(found[16:32], 16) % statements.read(f"{name}.verdict.json")[2]["replayed"]


def invent(market, who):
    """The verdict of somebody who knows from the secret which row is forced, and has not replayed that one alone."""
    market.do("dgx-verify", "saved.json", "saved.proof.json", "--from", "saved.opened", "--data", "data.h5", "--round", "saved.round.json", "--commit", f"saved.{who}.json",
              "--key", f"{who}.pem", "-o", "saved.form.json", "-q")
    body = statements.read("saved.form.json")[2]
    del body["signer"]
    secret, value = pathlib.Path(f"saved.{who}.secret").read_text().strip(), statements.read("saved.round.json")[2]["value"]
    row = int(lot("forced", value, secret, body["proof"])[16:32], 16) % body["replayed"]
    stated = witnesses("saved.form.json")
    stated[row] = sha(b"an invention")
    body["witnesses"] = base64.b64encode(bytes.fromhex("".join(stated))).decode()
    market.write("saved.verdict.json", sealed("verdict", body, [("proof", body["proof"]), ("rows", body["rows"]["root"])], f"{who}.pem"))
    shutil.copy("saved.form.rows.jsonl", "saved.verdict.rows.jsonl")


def verdicts(market):
    """The verdicts of the drawn verifiers, who are told that their secrets are not due yet."""
    drawn = {name: market.keys[market.status("drawn", f"{name}.json")["verifier"]] for name in NAMES}
    invent(market, drawn["saved"])
    for name, who in drawn.items():
        told = respond(market, name, who, f"{name}.verdict.json", code=3)
        check("the time to reveal the secret" in told["waits_for"], f"the verifier waits: {told}")
    return drawn


def by_hand(market):
    """Verdicts without dgx-verify respond: the offer is needed, and shards give the same witnesses."""
    who = market.drawn["found"]
    call = ("dgx-verify", "found.json", "found.proof.json", "--from", "found.opened", "--data", "data.h5", "--round", "found.round.json")
    check("--commit is required" in market.do(*call, "--key", f"{who}.pem", "-o", "none.json", code=2), "a verdict without the offer")
    other = next(name for name in BONDS if name != who)
    check("the verifier is key" in market.do(*call, "--commit", f"found.{other}.json", "--key", f"{who}.pem", "-o", "none.json", code=77), "with another's offer")
    check("no error can be forced" in market.do(*call[:-2], "--all", "--commit", f"found.{who}.json", "--key", f"{who}.pem", "-o", "none.json", code=2), "of a chosen draw")
    market.do(*call, "--shard", "0/1", "--key", f"{who}.pem", "-o", "shard.json", "-q")
    market.do("dgx-verify", "merge", "found.json", "found.proof.json", "shard.json", "--round", "found.round.json", "--commit", f"found.{who}.json", "--key", f"{who}.pem",
              "-o", "merged.json", "-q")
    check(witnesses("merged.json") == witnesses("found.verdict.json"), "a verdict of shards states the same witnesses")


def reveal(market, name, owner, key, output, code=0):
    return market.do("dgx-verify", "beacon", f"{name}.{owner}.json", "--reveal", f"{name}.proof.json", "--task", f"{name}.json", "--ledger", "L.jsonl", "--key", f"{key}.pem",
                     "-o", output, code=code)


def commit_to(market, name, who):
    market.do("dgx-settle", "make", "verdict-commitment", f"{name}.json", "--about", f"{name}.{who}.audit.json", "--key", f"{who}.pem", "-o", f"{name}.{who}.commit.json")
    market.append(f"{name}.{who}.commit.json")


def recheck(market):
    """Auditors and a volunteer commit. A lazy auditor commits to a confirmation, and "mal", who has bought a secret, reveals it."""
    market.until("the auditors are drawn", lambda: all((market.status("audits", f"{name}.json") or {}).get("auditor") for name in NAMES))
    auditors = {name: market.keys[market.status("audits", f"{name}.json")["auditor"]] for name in NAMES}
    for name in ("found", "sold", "saved"):
        respond(market, name, auditors[name], f"{name}.audit.json", code=3)
        check(len(statements.read(f"{name}.audit.json")[2]["denied"]) == 1, f"{name}: the auditor denies one witness")
    audits.audit_by_hand(market, "vic", "found", "found.vic.audit.json", code=1)
    commit_to(market, "found", "vic")
    lazy = auditors["lazy"]
    audits.audit_by_hand(market, lazy, "lazy", "form.json", code=1)
    body = statements.read("form.json")[2]
    del body["signer"]
    body["denied"], body["witnesses"] = [], base64.b64encode(hashlib.sha512(b"unseen").digest()[:32] * body["replayed"]).decode()
    market.write(f"lazy.{lazy}.audit.json", sealed("verdict", body, [("proof", body["proof"]), ("verdict", body["audits"]), ("rows", body["rows"]["root"])], f"{lazy}.pem"))
    commit_to(market, "lazy", lazy)
    owner = market.drawn["sold"]
    now = market.balances()
    check("not due yet" in reveal(market, "sold", owner, owner, "early.json", code=76), "its owner does not reveal it before it is due")
    shutil.rmtree("bought", ignore_errors=True)
    os.mkdir("bought")
    for end in (".json", ".secret"):
        shutil.copy(f"sold.{owner}{end}", f"bought/sold.{owner}{end}")
    offer, proof = statements.read(f"sold.{owner}.json")[0], statements.read("sold.proof.json")[0]
    task = statements.read("sold.json")[0]
    wrong = {"task": task, "commitment": offer, "proof": proof, "secret": "11" * 32, "value": sha(b"dgx-beacon", "11" * 32, proof)}
    market.write("wrong.json", sealed("beacon", wrong, [("proof", proof), ("commitment", offer)], "mal.pem"))
    check("not the one that was committed to" in market.append("wrong.json", code=65), "a wrong secret")
    check(market.balances() == now, "what is refused changes no balance")
    market.do("dgx-verify", "beacon", f"bought/sold.{owner}.json", "--reveal", "sold.proof.json", "--task", "sold.json", "--ledger", "L.jsonl", "--key", "mal.pem", "-o", "robbed.json")
    market.append("robbed.json")
    check(market.status("secrets", "sold.json")["secret"] == "given away", "the secret was given away")
    check("already revealed" in reveal(market, "sold", owner, "vic", "again.json", code=76), "a second time")
    return auditors


def show(market, auditors):
    """Secrets and audits are shown."""
    market.until("audits are shown", lambda: all(market.state(f"{name}.json") == "reveal" for name in NAMES))
    told = respond(market, "found", auditors["found"], "found.audit.json", code=3)
    check("the verifier's secret" in told["waits_for"], f"the auditor waits for the secret: {told}")
    for name in ("found", "lazy", "saved"):
        check("revealed the secret" in respond(market, name, market.drawn[name], f"{name}.verdict.json")["done"], f"{name}: the verifier reveals the secret")
    check(market.status("secrets", "found.json")["secret"] == "revealed", "the secret is revealed")
    respond(market, "sold", auditors["sold"], "sold.audit.json", code=1)
    market.append("found.vic.audit.json", f"lazy.{auditors['lazy']}.audit.json")
    check("already revealed" in reveal(market, "found", market.drawn["found"], market.drawn["found"], "twice.json", code=76), "the owner's, twice")
    told = respond(market, "found", auditors["found"], "found.audit.json", code=1)
    check("waits_for" not in told, f"the auditor owes no game: {told}")
    told = respond(market, "saved", auditors["saved"], "saved.audit.json", code=3)
    check("an invention" in told["waits_for"], f"the auditor is told of an invention: {told}")
    owner = market.drawn["saved"]
    market.do("dgx-settle", "extract", "L.jsonl", "--secret", "saved.json", "-o", "saved.secret.json")
    market.do("dgx-bisect", "open", "saved.json", "saved.proof.json", "--against", "saved.verdict.json", "--round", "saved.round.json", "--secret", "saved.secret.json",
              "--offer", f"saved.{owner}.json", "--from", "saved.opened", "--data", "data.h5", "--key", f"{auditors['saved']}.pem", "-o", "saved.dispute.jsonl", "-q")
    market.append("saved.dispute.jsonl")
    told = respond(market, "saved", auditors["saved"], "saved.audit.json", code=1)
    check("waits_for" not in told, f"the auditor has challenged it: {told}")


def recomputed(market):
    """Checks the forced row of each verdict against the ledger's files."""
    for name in NAMES:
        row, denied = forced_row(name), statements.read(f"{name}.audit.json" if name != "lazy" else "form.json")[2]["denied"]
        segment = json.loads(pathlib.Path(f"{name}.verdict.rows.jsonl").read_text().splitlines()[row])["index"]
        check(denied == [segment], f"{name}: segment {segment} is denied: {denied}")
        check(market.status("secrets", f"{name}.json")["forced"] == segment, f"{name}: status says so")
    true = [row["witness"] for row in json.loads(pathlib.Path("shard.json").read_text().splitlines()[0])["rows"]]
    stated, row = witnesses("found.verdict.json"), forced_row("found")
    check(stated[row] == sha(b"dgx-false-witness", true[row]) and stated[:row] + stated[row + 1:] == true[:row] + true[row + 1:], "one witness is the false one")
    market.do("dgx-settle", "extract", "L.jsonl", "--secret", "found.json", "-o", "found.secret.json")
    check(statements.read("found.secret.json")[2]["secret"] == pathlib.Path(f"found.{market.drawn['found']}.secret").read_text().strip(), "the secret is in the ledger")
    return json.loads(pathlib.Path("found.verdict.rows.jsonl").read_text().splitlines()[row])["index"], true


def transcript(names, lines, output):
    """A transcript of statements in files, and of lines."""
    texts = [pathlib.Path(name).read_text().splitlines()[0] for name in names]
    pathlib.Path(output).write_text("".join(text.strip() + "\n" for text in [*texts, *lines]))


def challenge(market, segment, true):
    """Games about the forced row, of transcripts alone: its signer wins by the rule, and one who stated the true witness would lose."""
    owner = market.drawn["found"]
    means = ("--from", "found.opened", "--data", "data.h5")
    call = ("dgx-bisect", "open", "found.json", "found.proof.json", "--round", "found.round.json", "--segment", str(segment), *means, "--key", "vic.pem", "-q")
    check("--secret is required" in market.do(*call, "--against", "found.verdict.json", "-o", "none.jsonl", code=2), "a challenge without the secret")
    secret = ("--secret", "found.secret.json", "--offer", f"found.{owner}.json")
    check("a replay confirms the verdict" in market.do(*call, *secret, "--against", "found.verdict.json", "-o", "none.jsonl", code=3), "the verdict is what it must be")
    body = statements.read("found.verdict.json")[2]
    del body["signer"]
    body["witnesses"] = base64.b64encode(bytes.fromhex("".join(true))).decode()
    body["rows"]["root"] = hashlib.sha256(b"rows that nobody has").hexdigest()
    market.write("true.json", sealed("verdict", body, [("proof", body["proof"]), ("rows", body["rows"]["root"])], f"{owner}.pem"))
    market.do(*call, *secret, "--against", "true.json", "-o", "true.jsonl")
    move = ("dgx-bisect", "move", "found.json", "true.jsonl", *means, "--key", f"{owner}.pem", "-q")
    check("witness" in market.do(*move, code=3), "its signer is warned that the true witness would lose")
    market.do(*move, "--force", quiet=True)
    market.do("dgx-referee", "true.jsonl", "--key", "operator.pem", "-o", "true.ruling.json", "-q", code=1)
    said = statements.read_text(pathlib.Path("true.jsonl").read_text().splitlines()[6])[2]
    del said["signer"]
    verdict, row = statements.read("found.verdict.json")[0], forced_row("found")
    said["verdict"], said["row"]["row"]["witness"] = verdict, witnesses("found.verdict.json")[row]
    files = ("found.json", "found.proof.json", "found.verdict.json", "found.round.json", f"found.{owner}.json", "found.secret.json")
    challenged = sealed("challenge", said, [("statement", verdict), ("start", said["start"]["digest"])], "vic.pem")
    transcript(files, [challenged], "honest.jsonl")
    market.do("dgx-bisect", "move", "found.json", "honest.jsonl", *means, "--key", f"{owner}.pem", "-q")
    market.do("dgx-referee", "honest.jsonl", "--key", "operator.pem", "-o", "honest.ruling.json", "-q", code=3)
    # Without the secret nobody can judge.
    transcript(files[:-2], [challenged], "bare.jsonl")
    check("the verifier's secret is missing" in market.do("dgx-referee", "bare.jsonl", "--key", "operator.pem", "-o", "bare.json", "-q", code=65), "a transcript without the secret")


def end(market, auditors):
    for name in NAMES:
        market.do("dgx-settle", "make", "delivery", f"{name}.json", "--about", f"{name}.proof.json", "--key", "submitter.pem", "-o", f"{name}.delivery.json")
        market.append(f"{name}.delivery.json")
    before = market.balances()
    market.until("all is settled", lambda: all(market.state(f"{name}.json") == "settled" for name in NAMES))
    reasons = {name: market.status("tasks", f"{name}.json")["reason"] for name in NAMES}
    check(reasons == {"found": "accepted", "lazy": "accepted", "sold": "unverified", "saved": "unverified"}, f"how they end: {reasons}")
    estimate = statements.read("found.json")[2]["estimate"]
    fee, audit_fee = estimate["fee"], min(estimate["fee"], estimate["tax"])
    check(estimate["tax"] - audit_fee >= POLICY["jackpot"], f"the tax pays for the jackpot: {estimate}")
    owed = dict.fromkeys(["vic", "mal", *BONDS], 0)
    owed[market.drawn["found"]] += fee
    owed[auditors["found"]] += audit_fee + POLICY["jackpot"] // 2
    owed["vic"] += POLICY["jackpot"] // 2
    owed[market.drawn["lazy"]] += fee
    owed[auditors["lazy"]] -= BONDS[auditors["lazy"]]
    owed[market.drawn["sold"]] -= BONDS[market.drawn["sold"]]
    owed["mal"] += BONDS[market.drawn["sold"]] // 2 // 2
    owed[auditors["sold"]] += audit_fee
    owed[market.drawn["saved"]] -= BONDS[market.drawn["saved"]]
    owed[auditors["saved"]] += audit_fee + BONDS[market.drawn["saved"]] // 2 // 2
    after = market.balances()
    for name, amount in owed.items():
        check(after[name] == 9000000 + amount, f"{name} has {after[name]}, not {9000000 + amount}")
    check(sum(after.values()) == sum(before.values()) and after["escrow"] == after["bonds"] == 0, "nothing is lost or stays locked")
    check(market.do("dgx-settle", "check", "L.jsonl", "--rounds", "--json")["sound"], "the ledger is sound")
    said = {"found": "so it claims the forced error", "lazy": "it confirms the witness that had to be false", "sold": "given away: its owner is key", "saved": "so it claims the forced error"}
    for name in NAMES:
        audited = market.shell("sh", audits.HERE.parents[1] / "examples" / "audit.sh", "L.jsonl", statements.read(f"{name}.json")[0])
        check(said[name] in audited and f"the auditor is key {next(key for key, who in market.keys.items() if who == auditors[name])}" in audited, f"audit.sh {name}: {audited}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--plugins")
    parser.add_argument("--models")
    options = parser.parse_args()
    programs = os.path.abspath(options.bin)
    with tempfile.TemporaryDirectory(prefix="dgx-forced-") as folder:
        os.chdir(folder)
        market = audits.Market(programs)
        audits.begin(market, NAMES)
        market.drawn = verdicts(market)
        auditors = recheck(market)
        show(market, auditors)
        by_hand(market)
        challenge(market, *recomputed(market))
        end(market, auditors)
        os.chdir("/")
    sys.exit(1 if audits.failures else 0)


if __name__ == "__main__":
    main()
