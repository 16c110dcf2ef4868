#!/usr/bin/python3
"""examples/economy.sh ends as it says, and leaves nothing behind: economy.py --bin FOLDER

The finder of the forced error has the jackpot, the lazy verifier and the one whose secret was sold have lost their bonds, the buyer has a quarter, and everybody else is as before
or paid. The ledger is sound, rounds included. Without its programs it fails and leaves nothing, either.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "examples/economy.sh"
MOST_SECONDS = 120  # on two slow cores; a sanitizer's programs may take longer
DEPOSIT, STAKED = 2 * 10**12, 9 * 10**11
WANTED = ("one of its three witnesses has to be false", "refused", "two histories of", "accepted", "unverified")
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)


def ask(folder, environment, *command):
    done = subprocess.run([*command, "--json"], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def check_money(folder, environment):
    accounts = ask(folder, environment, "dgx-settle", "balances", "ledger.jsonl")["accounts"]
    names = {ask(folder, environment, "dgx-key", "id", key)["key_id"]: key.stem.split(".")[0] for key in folder.glob("*.pub.pem")}
    has = {names.get(key, key): amount for key, amount in accounts.items()}
    tasks = {name: ask(folder, environment, "dgx-inspect", f"{name}.json")["predicate"]["estimate"] for name in ("found", "unseen", "sold")}
    # Audits are certain. She committed to that of "sold" after the secret was there, and has no fee for it.
    fee = {name: min(one["fee"], one["tax"]) for name, one in tasks.items()}
    quarter = STAKED // 2 // 2
    wanted = {"vera": DEPOSIT + tasks["found"]["fee"], "lara": DEPOSIT - STAKED, "sam": DEPOSIT - STAKED, "mal": 90000000 + quarter,
              "ada": 90000000 + fee["found"] + fee["unseen"] + 3001 + quarter}
    for name, amount in wanted.items():
        check(has[name] == amount, f"{name} has {has[name]}, not {amount}")
    check(has["bob"] > 90000000 > max(has["alice"], has["ivan"]) and has["bonds"] == has["escrow"] == 0, f"balances: {has}")
    check(ask(folder, environment, "dgx-settle", "check", "ledger.jsonl", "--rounds")["delays"] > 0, "rounds were checked")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=os.path.abspath)
    parser.add_argument("--slow", action="store_true", help="the programs are a sanitizer's")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dgx-economy-") as name:
        scratch, folder = pathlib.Path(name, "scratch"), pathlib.Path(name, "market")
        scratch.mkdir()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("DGX_")} | {"PATH": f"{options.bin}:/usr/bin:/bin", "TMPDIR": str(scratch)}
        without = subprocess.run(["sh", SCRIPT], env=environment | {"PATH": "/usr/bin:/bin", "HOME": name}, cwd=name, capture_output=True, text=True) \
            if not (SCRIPT.parents[1] / "build/release/bin").exists() else None
        check(without is None or without.returncode not in (0, 1, 3), f"without its programs it ends with {without and without.returncode}")
        begin = time.monotonic()
        done = subprocess.run(["sh", SCRIPT, folder, "60" if options.slow else "20"], env=environment, capture_output=True, text=True, timeout=900)
        seconds = time.monotonic() - begin
        log = folder / "log"
        check(done.returncode == 0, f"exit {done.returncode}: {done.stdout[-3000:]}{done.stderr[-3000:]}{log.read_text()[-3000:] if log.exists() else ''}")
        for text in WANTED:
            check(text in done.stdout, f"it does not say {text!r}: {done.stdout}")
        if done.returncode == 0:
            check_money(folder, environment)
        check(options.slow or seconds < MOST_SECONDS, f"it takes {seconds:.0f} s, at most {MOST_SECONDS}")
        check(not list(scratch.iterdir()), f"it leaves {[each.name for each in scratch.iterdir()]} behind")
    print("\n".join(failures) or f"examples/economy.sh: {seconds:.0f} s")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
