"""Disputes through the built programs about tensors of many leaves: program_disputes.py --bin FOLDER [--disputes N] [--seed N]

A cheat trains with one bit flipped at a drawn place, proves it, is challenged with dgx-bisect open, and both sides move with dgx-bisect move until the game is
over: dgx-referee must convict, at that step, value and element. Then the same files with the roles changed: who challenges the honest run there is told that
the challenge would be lost, and makes none. The networks have weights of hundreds of leaves, samples and activations of several. Exits 77 without NumPy.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

STEPS, EVERY = 6, 3
MODELS = {
    "mlp": ("vectors", ["--model", "mlp:784-300-10", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1,momentum=0.9", "--batch", "16"]),
    "resnet20": ("images", ["--model", "resnet20:classes=10", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1,momentum=0.9", "--batch", "4"]),
    "gpt": ("tokens", ["--model", "gpt:layers=2,width=64,heads=4,context=64,vocab=256", "--loss", "cross-entropy", "--optimizer", "adamw:lr=1e-3", "--batch", "4"]),
    "switch": ("tokens", ["--model", "switch:layers=1,width=32,heads=4,context=64,vocab=256,experts=3,capacity=0.8,every=1", "--loss", "cross-entropy", "--optimizer",
                          "sgd:lr=0.5", "--batch", "4"]),
}
BITS = {"f32": 32, "i64": 64, "u8": 8}
LOST, CONVICTED = 3, 1


class Bench:
    def __init__(self, programs):
        self.programs = programs

    def run(self, *words, codes=(0,)):
        done = subprocess.run([os.path.join(self.programs, words[0]), *map(str, words[1:])], capture_output=True, text=True, timeout=300)
        if done.returncode not in codes:
            sys.exit(f"FAILED: {' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def pack(self):
        chance = np.random.default_rng(5)
        tokens = chance.integers(0, 256, (20, 65)).astype("u1")
        for name, x, y in (("vectors", chance.normal(size=(40, 784)).astype("f4"), chance.integers(0, 10, 40)),
                           ("images", chance.integers(0, 256, (20, 28, 28)).astype("u1"), chance.integers(0, 10, 20).astype("u1")),
                           ("tokens", tokens[:, :64], tokens[:, 1:])):
            np.save("x.npy", x)
            np.save("y.npy", y)
            scale = ["--scale", "0.00392156862745098"] if name == "images" else []
            self.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", *scale, "-o", f"{name}.h5")

    def prepare(self, name):
        """The task, an honest run with its proof, and the lines of the step program."""
        data, options = MODELS[name]
        self.run("dgx-submit", "--data", f"{data}.h5", *options, "--steps", STEPS, "--checkpoint-every", EVERY, "--seed", 7, "--key", "submitter.pem", "-o",
                 f"{name}.json")
        self.run("dgx-train", f"{name}.json", "--data", f"{data}.h5", "-o", f"{name}.run")
        self.run("dgx-prove", f"{name}.json", f"{name}.run", "--key", "solver.pem", "-o", f"{name}.proof.json")
        with open(f"{name}.program.jsonl", encoding="ascii") as file:
            return [json.loads(line) for line in file]


def draw(chance, lines, bits=BITS):
    """A place and a bit of some value that has any."""
    line = chance.choice([line for line in lines if math.prod(line["s"]) > 0])
    return {"step": chance.randrange(STEPS), "op": line["v"], "element": chance.randrange(math.prod(line["s"])), "bit": chance.randrange(bits[line["t"]])}


def routing_lines(lines):
    """By name, lines in which a token of `switch` finds its way: its expert, its place there, the slots' tokens, and a product of an expert."""
    argmax = next(line for line in lines if line["k"] == "argmax")
    chain = next(line for line in lines[argmax["v"]:] if line["k"] == "chain")
    return {"expert": argmax, "place": next(line for line in lines[argmax["v"]:] if line["k"] == "sum"), "slot": chain,
            "product": next(line for line in lines[chain["v"]:] if line["k"] == "dot")}


def is_state(line):
    return line.get("src", "").startswith("state ")


def dispute(bench, drill, name, lines, number):
    """False if the drill changes nothing that is committed, or diverges."""
    fault = ",".join(f"{key}={value}" for key, value in drill.items())
    data, segment = f"{MODELS[name][0]}.h5", drill["step"] // EVERY
    cheat, game = f"cheat{number}", f"game{number}.jsonl"
    trained = bench.run("dgx-train", f"{name}.json", "--data", data, "-o", f"{cheat}.run", "--drill", fault, codes=(0, 1, 3))
    if trained.returncode:
        return False
    bench.run("dgx-prove", f"{name}.json", f"{cheat}.run", "--key", "cheat.pem", "-o", f"{cheat}.proof.json")
    opened = bench.run("dgx-bisect", "open", f"{name}.json", f"{cheat}.proof.json", "--segment", segment, "--from", f"{cheat}.run", "--data", data, "--key",
                       "challenger.pem", "-o", game, codes=(0, LOST))
    if opened.returncode == LOST:
        return False  # what is wrong is not in the state at the segment's end
    moves = 0
    while not json.loads(bench.run("dgx-bisect", "show", game, "--json").stdout)["over"]:
        key, options = (("cheat", ["--drill"]), ("challenger", []))[moves % 2]
        bench.run("dgx-bisect", "move", f"{name}.json", game, "--from", f"{cheat}.run", "--data", data, "--key", f"{key}.pem", "--notes", f"{game}.{key}",
                  *options, codes=(0, 1))
        moves += 1
    ruling = json.loads(bench.run("dgx-referee", game, "--key", "referee.pem", "-o", f"{game}.ruling.json", "--json", codes=(CONVICTED,)).stdout)
    at, where = ruling["at"], f"{name}, {fault}"
    if [at["step"], at["value"]] != [drill["step"], drill["op"]] or (not is_state(lines[drill["op"]]) and at["element"] != drill["element"]):
        sys.exit(f"FAILED: {where}: convicted at {at}")
    told = bench.run("dgx-bisect", "open", f"{name}.json", f"{name}.proof.json", "--segment", segment, "--from", f"{name}.run", "--data", data, "--key", "cheat.pem",
                     "-o", f"false{number}.jsonl", codes=(LOST,)).stderr
    if "the challenge would be lost" not in told:
        sys.exit(f"FAILED: {where}: {told}")
    print(f"{where}: {moves} moves, {os.path.getsize(game)} bytes: {ruling['words']}")
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=os.path.abspath)
    parser.add_argument("--disputes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="dgx-disputes-") as folder:
        os.chdir(folder)
        bench = Bench(options.bin)
        for who in ("submitter", "solver", "cheat", "challenger", "referee"):
            bench.run("dgx-key", "new", who)
        bench.pack()
        programs = {name: bench.prepare(name) for name in MODELS}
        done = tries = 0
        while done < options.disputes:
            name = list(MODELS)[done % len(MODELS)]
            done += dispute(bench, draw(chance, programs[name]), name, programs[name], tries)
            tries += 1
        for what, line in routing_lines(programs["switch"]).items():
            print(f"switch, the {what} of a token:")
            # Upper bits of integers lead nowhere, and the next token is elsewhere anyway.
            while not dispute(bench, draw(chance, [line], {**BITS, "i64": 3}), "switch", programs["switch"], tries):
                tries += 1
            tries, done = tries + 1, done + 1
    print(f"{done} disputes, each convicted where the fault was put")


main()
