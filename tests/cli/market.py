#!/usr/bin/python3
"""examples/market.sh works twice in one folder, and after a kill: market.py --bin FOLDER

It ends with all tasks settled, the cheat convicted and slashed and everybody else paid. A second run changes nothing but the ledger's time. One that is
killed somewhere and run again ends likewise. And it is what it promises to be: short, without a line that takes an error for an answer.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "examples/market.sh"
MOST_LINES = 40
PAID = {"bob", "vera", "vito"}


def start(folder, environment):
    return subprocess.Popen(["sh", SCRIPT, folder], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def ask(folder, environment, *command):
    done = subprocess.run([*command, "--json"], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def end_of(folder, environment):
    """Balances by name, and what each task ended in."""
    accounts = ask(folder, environment, "dgx-settle", "balances", "ledger.jsonl")["accounts"]
    names = {ask(folder, environment, "dgx-key", "id", key)["key_id"]: key.stem.split(".")[0] for key in folder.glob("*.pub.pem")}
    tasks = ask(folder, environment, "dgx-settle", "status", "ledger.jsonl")["tasks"]
    ask(folder, environment, "dgx-settle", "check", "ledger.jsonl")
    return {names.get(key, key): amount for key, amount in accounts.items()}, sorted((task["state"], task["reason"]) for task in tasks)


def problems_of(process, folder, environment):
    out, errors = process.communicate(timeout=300)
    if process.returncode != 0:
        return [f"exit {process.returncode}: {out}{errors}{(folder / 'log').read_text()[-2000:]}"], None
    balances, tasks = end_of(folder, environment)
    problems = []
    if tasks != [("settled", "accepted"), ("settled", "accepted"), ("settled", "convicted")]:
        problems.append(f"the tasks ended in {tasks}")
    gained = {name for name in ("alice", "bob", "carl", "vera", "vito") if balances[name] > 90000000}
    if gained - {"alice"} != PAID:
        problems.append(f"paid were {gained}: {balances}")
    if not re.search(r"carl", out):
        problems.append(f"the balances are not told: {out}")
    return problems, (balances, tasks)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=os.path.abspath)
    arguments = parser.parse_args()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DGX_")} | {"PATH": f"{arguments.bin}:/usr/bin:/bin"}
    text = SCRIPT.read_text()
    problems = [f"{SCRIPT.name} has {text.count(chr(10))} lines, at most {MOST_LINES}"] if text.count("\n") > MOST_LINES else []
    if re.search(r"\|\| *\[ *\$\?", text):
        problems.append(f"{SCRIPT.name} looks at exit codes")
    with tempfile.TemporaryDirectory(prefix="dgx-market-") as name:
        whole, killed = pathlib.Path(name) / "whole", pathlib.Path(name) / "killed"
        found, first = problems_of(start(whole, environment), whole, environment)
        problems += found
        found, second = problems_of(start(whole, environment), whole, environment)
        problems += found
        if first != second:
            problems.append(f"the second run changed {first} to {second}")
        # In the middle of the second purchase, whatever the machine's speed: in the third one the window to challenge runs, 5 seconds.
        made = sorted(whole.glob("second.*"), key=lambda path: path.stat().st_mtime_ns)
        process = start(killed, environment)
        while not (killed / made[len(made) // 2].name).exists() and process.poll() is None:
            time.sleep(0.001)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        found, third = problems_of(start(killed, environment), killed, environment)
        problems += [f"after a kill: {problem}" for problem in found]
        if first and third and first[1] != third[1]:
            problems.append(f"after a kill the tasks end in {third[1]}")
    print("\n".join(problems) or "the market works twice, and after a kill")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
