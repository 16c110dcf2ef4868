"""Options that would have no effect are refused: modes.py --bin FOLDER (refusals.py).

The command line alone decides, so no file that it names has to exist.
"""

import json
import sys

import refusals
from refusals import USAGE, call, check, tasks

TRAIN = ["dgx-train", "t", "--data", "d"]
VERIFY = ["dgx-verify", "t", "p", "--from", "r", "--data", "d", "--key", "k", "-o", "v"]
PLAN = ["dgx-verify", "t", "p", "--beacon", "b", "--plan"]
BATCH = ["dgx-verify", "batch", "l", "--key", "k"]
BEACON = ["dgx-verify", "beacon", "t", "--key", "k", "-o", "c"]
REVEAL = ["dgx-verify", "beacon", "c", "--reveal", "p", "--task", "t", "--key", "k"]
OPEN = ["dgx-prove", "open", "t", "p", "--beacon", "b", "--run", "r", "-o", "s"]
CHALLENGE = ["dgx-bisect", "open", "t", "p", "--key", "k", "-o", "d"]
MOVE = ["dgx-bisect", "move", "t", "d", "--from", "r", "--data", "d", "--key", "k"]
PACK = ["dgx-pack", "npy", "--x", "x", "--y", "y", "-o", "d"]
EVALUATE = [*TRAIN, "--evaluate", "r"]

# A call, options of it that have no effect (with their values), and the modes without which, or with which, that is so.
WITHOUT = (
    ([*TRAIN, "-o", "r"], {"--step": "3", "--predictions": "p.npy"}, "--evaluate"),
    ([*TRAIN, "-o", "r"], {"--ema": None}, "--evaluate or --validate"),
    ([*TRAIN, "-o", "r"], {"--placement": "p", "--emulate": "m", "--experts": None}, "--mpi"),
    (["dgx-plan", "t", "--machines", "m", "-o", "p"], {"--parts": "2", "--pipelines": "2"}, "--stages"),
    (VERIFY, {"--work-key": "w"}, "--shard"),
    (VERIFY, {"--rate": "1"}, "--plan"),
    ([*BATCH, "-o", "v"], {"--rate": "1", "--profile": "p"}, "--plan"),
    ([*TRAIN, "-o", "r"], {"--rate": "1"}, "--plan"),
    (BEACON, {"--task": "t", "--receipt": "r", "--ledger": "l", "--unlogged": None}, "--reveal"),
    ([*REVEAL, "--ledger", "l"], {"--operator": "o"}, "--receipt"),
    (OPEN, {"--location": "l", "--key": "k"}, "--store"),
    ([*CHALLENGE, "--segment", "1"], {"--beacon": "b", "--secret": "s"}, "--against"),
    ([*CHALLENGE, "--segment", "1"], {"--part": "1"}, "--chunk"),
    (PACK, {"--seed": "1"}, "--shuffle or --split"),
    (["dgx-profile", "t", "--data", "d", "--against", "p"], {"--output": "o"}, "--key"),
    (["dgx-settle", "head", "l"], {"--output": "o", "--note": None, "--passphrase-file": "p"}, "--key"),
    (["dgx-referee", "d", "--check", "r"], {"--passphrase-file": "p"}, "--key"),
    ([*PLAN], {"--passphrase-file": "p"}, "--key"),
    (["dgx-verify", "t", "p", "--from", "r", "--data", "d", "--beacon", "b", "--shard", "0/1", "-o", "s"], {"--passphrase-file": "p"}, "--key"),
    ([*OPEN], {"--passphrase-file": "p"}, "--key"),
    (["dgx-profile", "t", "--data", "d", "--against", "p"], {"--passphrase-file": "p"}, "--key"),
    (["dgx-settle", "head", "l", "--key", "k"], {"--old": "1"}, "--note"),
    (["dgx-settle", "check", "l"], {"--saw": "s"}, "--cosigned"),
    (["dgx-settle", "check", "l"], {"--cosigned": "n", "--quorum": "1"}, "--witness"),
    (["dgx-settle", "check", "l"], {"--witness": "w"}, "--cosigned"),
    (["dgx-settle", "cosign", "--saw", "s", "--ledger", "l", "--key", "k"], {"--operator": "o", "--seen": "s", "--first": None, "--wait": None, "--expect": "refused"}, "NOTE"),
    (["dgx-settle", "cosign", "n", "--operator", "o", "--seen", "s", "--key", "k"], {"--ledger": "l"}, "--saw"),
)
WITH = (
    # --data, --commit, --isa and --work-key belong to the command that is planned: the files of some are looked at.
    (PLAN, {"--device": "cpu", "--parts": "2", "--output": "o"}, "--plan"),
    ([*VERIFY, "--audits", "a"], {"--commit": "c"}, "--audits"),
    ([*VERIFY, "--shard", "0/1"], {"--commit": "c"}, "--shard"),
    ([*BATCH, "--plan"], {"--device": "cpu", "--parts": "2", "--output": "o"}, "--plan"),
    (["dgx-train", "t", "--plan"], {"--data": "d", "--init": "i", "--device": "cpu", "--parts": "2", "--mpi": None, "--isa": "scalar", "--until": "1",
                                    "--max-time": "1h", "--keep": "last", "--save-every": "1m", "--wait": None, "--profile-ops": None,
                                    "--drill": "segment=1,lazy"}, "--plan"),
    ([*CHALLENGE, "--verdict", "v"], {"--data": "d", "--notes": "n", "--isa": "scalar"}, "--verdict"),
    ([*CHALLENGE, "--segment", "1", "--chunk", "loss"], {"--data": "d", "--notes": "n", "--isa": "scalar"}, "--chunk"),
    ([*CHALLENGE, "--initial"], {"--data": "d", "--notes": "n", "--isa": "scalar"}, "--initial"),
    ([*CHALLENGE, "--final"], {"--data": "d", "--notes": "n", "--isa": "scalar"}, "--final"),
    (EVALUATE, {"--validate": "t", "--every": "1", "--init": "i", "--device": "cpu", "--parts": "2", "--mpi": None, "--until": "1", "--max-time": "1h", "--keep": "last", "--save-every": "1m", "--wait": None,
                "--profile-ops": None, "--drill": "segment=1,lazy", "--plan": None}, "--evaluate"),
    ([*MOVE, "--concede"], {"--store": "s", "--location": "l", "--rows": "r"}, "--concede"),
    (["dgx-bisect", "show", "d", "--json"], {"--program": "p"}, "--json"),
    (["dgx-inspect", "plot", "r", "-o", "p.svg"], {"--columns": "40"}, "--output"),
    (["dgx-referee", "d", "--check", "r"], {"--output": "o"}, "--check"),
    ([*PACK, "--normalise"], {"--shift": "1"}, "--normalise"),
    ([*PACK, "--like", "l"], {"--shift": "1"}, "--like"),
    (["dgx-settle", "round", "l", "--key", "k", "--import", "p"], {"--until-logged": None}, "--import"),
    (["dgx-profile", "t", "--data", "d", "--key", "k", "--against", "p"], {"--steps": "1", "--segments": "1"}, "--against"),
    (["dgx-submit", "estimate", "t"], {"--data": "d", "--model": "m", "--steps": "4", "--seed": "1", "--price": "1"}, "TASK.json"),
)
# Those that depend on what a value says, and the message.
VALUES = (
    ([*VERIFY, "--beacon", "b", "--all"], "--beacon has no effect with --all"),
    ([*VERIFY, "--beacon", "b", "--segments", "1"], "--beacon has no effect with --segments"),
    ([*VERIFY, "--insecure"], "--insecure has no effect without a URL"),
    (["dgx-settle", "make", "deposit", "--key", "k", "--about", "s"], "--about is not for deposit"),
    (["dgx-settle", "make", "withdrawal", "--key", "k", "--about", "s"], "--about is not for withdrawal"),
    (["dgx-settle", "make", "assign", "t", "--key", "k", "--ledger", "l"], "--ledger is only for deposit and withdrawal"),
    (["dgx-settle", "make", "deposit", "--key", "k", "--profile", "p"], "--profile is only for assign"),
    (["dgx-settle", "make", "deposit", "--key", "k", "--model", "m"], "--model is only for delivery"),
)


def refuses(words, message):
    done = call(*words)
    said = json.loads(done.stderr)["error"] + "\n" if "--json" in words else done.stderr
    check(done.returncode == USAGE and f"{message}\n" in said, f"{' '.join(words)}: exit {done.returncode}: {done.stderr}")


count = 0
for table, word in ((WITHOUT, "without"), (WITH, "with")):
    for words, options, mode in table:
        for option, value in options.items():
            refuses([*words, option, *([] if value is None else [value])], f"{option} has no effect {word} {mode}")
            count += 1
for words, message in VALUES:
    refuses(words, message)
tasks.needs.counted(count + len(VALUES), 0)
sys.exit(1 if refusals.failures else 0)
