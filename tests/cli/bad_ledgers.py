"""What lies beside a ledger, or in a reader's own state folder, and is not the ledger's: bad_ledgers.py --bin FOLDER

A checked prefix and an index of another ledger, cut off, or with one bit changed are never believed: the answer is the same, and what was wrong is told and made again.
A forged ledger is refused, whatever lies beside it.
"""

import argparse
import hashlib
import os
import pathlib
import sys
import tempfile

import bad_rounds
import statements


def beside(programs, folder):
    """What lies beside a ledger or in the reader's own state folder, and is not the ledger's: never believed, and told."""
    market = bad_rounds.Market(programs, folder, {})
    accounts = [word for number in range(1100) for word in (hashlib.sha256(b"%d" % number).hexdigest(), str(number + 1))]
    market.settle("deposit", "L.jsonl", "--to", *accounts, "--key", "operator.pem")
    state = os.path.abspath(folder) + "-state"
    env = {"XDG_STATE_HOME": state}
    first = market.run("balances", "L.jsonl", env=env)
    bad_rounds.check(first.returncode == 0, first.stderr)
    ledger = market.entries()[0][0]
    place = pathlib.Path(state, "dgx", "ledgers", ledger)
    bad_rounds.check(place.exists() and place.stat().st_mode & 0o777 == 0o600, f"what was checked is remembered: {list(pathlib.Path(state).rglob('*'))}")
    good = place.read_bytes()
    lines = pathlib.Path(market.folder, "L.jsonl").read_bytes()

    def told(words, remembered, what):
        place.write_bytes(remembered)
        os.chmod(place, 0o600)
        done = market.run("balances", "L.jsonl", env=env)
        bad_rounds.check(done.returncode == 0 and done.stdout == first.stdout and words in done.stderr, f"{what}: exit {done.returncode}: {done.stderr}")
        bad_rounds.check(place.read_bytes() == good, f"{what}: made again")

    for cut in (0, 1, len(good) // 2, len(good) - 1):
        told("cannot be believed", good[:cut], f"a prefix cut to {cut}")
    for at in range(0, len(good), max(1, len(good) // 40)):
        told("cannot be believed", good[:at] + bytes([good[at] ^ 1]) + good[at + 1:], f"a prefix with one bit of byte {at} changed")
    other = bad_rounds.Market(programs, folder + "-other", {})
    other.settle("deposit", "L.jsonl", "--to", *accounts, "--key", "operator.pem")
    bad_rounds.check(other.run("balances", "L.jsonl", env=env).returncode == 0, "another ledger")
    theirs = pathlib.Path(state, "dgx", "ledgers", other.entries()[0][0]).read_bytes()
    told("cannot be believed", theirs, "another ledger's prefix")
    # A forged ledger with the true prefix; one with a planted prefix and index beside it.
    line = lines.splitlines(keepends=True)[500]
    at = line.index(b'"sig":"') + 7
    forged = lines.replace(line, line[:at] + (b"A" if line[at:at + 1] != b"A" else b"B") + line[at + 1:])
    pathlib.Path(market.folder, "L.jsonl").write_bytes(forged)
    for name in (ledger, "L.checked", "L.prefix"):
        pathlib.Path(market.folder, name).write_bytes(good)
    market.refused(bad_rounds.UNAUTHORISED, "line 501: envelope: bad signature", "balances", "L.jsonl", env=env)
    market.refused(bad_rounds.UNAUTHORISED, "line 501: envelope: bad signature", "balances", "L.jsonl", env={"XDG_STATE_HOME": os.path.abspath(folder) + "-nobody"})
    pathlib.Path(market.folder, "L.jsonl").write_bytes(lines)
    index(market, other, env)


def index(market, other, env):
    """LEDGER.index of another ledger, cut off, or with one bit changed: the entry is found, the index told and made again by the operator's next command."""
    path = pathlib.Path(market.folder, "L.index")
    good = path.read_bytes()
    entry = statements.read_text(pathlib.Path(market.folder, "L.jsonl").read_text().splitlines()[700])[0]
    wanted = market.run("extract", "L.jsonl", "--statement", entry).stdout
    kinds = {"another ledger's": pathlib.Path(other.folder, "L.index").read_bytes(), "nothing": b"", "a cut record": good[:40 * 700 + 20], "a cut index": good[:40 * 600],
             "one bit of the id": flip(good, 40 * 700 + 5), "one bit of the offset": flip(good, 40 * 700 + 39), "one bit of another": flip(good, 40 * 20 + 3), "too long": good + good[:40]}
    for number, (what, there) in enumerate(kinds.items()):
        path.write_bytes(there)
        done = market.run("extract", "L.jsonl", "--statement", entry)
        bad_rounds.check(done.returncode == 0 and done.stdout == wanted, f"a look-up beside {what}: {done.stderr}")
        done = market.run("deposit", "L.jsonl", "--to", "v11.pem", "5", "--reference", f"r{number}", "--key", "operator.pem", env=env)
        bad_rounds.check(done.returncode == 0 and "was not the ledger's, and is made again" in done.stderr, f"{what}: {done.stderr}")
        bad_rounds.check(path.read_bytes()[:len(good)] == good and len(path.read_bytes()) == len(good) + 40 * (number + 1), f"{what} is made again")
    bad_rounds.check(market.settle("check", "L.jsonl")["sound"], "the ledger is sound")


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dgx-bad-ledgers-") as folder:
        beside(options.bin, os.path.join(folder, "market"))
    sys.exit(1 if bad_rounds.failures or bad_rounds.rounds.failures else 0)


if __name__ == "__main__":
    main()
