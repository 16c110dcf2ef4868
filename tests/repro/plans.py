"""What --plan says holds: plans.py --bin FOLDER [--captured]

With --captured of larger tasks, whose models libtorch captures.

Memory: the peak of what the planned call really takes is not above the plan's, and not below a third of it. Seconds: those of a profile made here are
those of many small steps, within a factor of eight, since other processes share the machine. What is divided into shards adds up.
"""

import argparse
import base64
import csv
import json
import os
import subprocess
import sys
import tempfile

import tasks

LEAST_SHARE = 1 / 3
FACTOR = 8


def measured(bin_folder, *words):
    """The last object that a program prints, and the most memory that it had, in bytes."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen([os.path.join(bin_folder, words[0]), *map(str, words[1:]), "--json"], stdout=out, stderr=err)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        assert process.returncode == 0, f"{words}: exit {process.returncode}: {err.read()[-600:]}"
        lines = out.read().splitlines()
        return json.loads(lines[-1]) if lines else {}, used.ru_maxrss * 1024


class Planned:
    def __init__(self, bin_folder, folder):
        self.bin, self.folder = bin_folder, folder

    def at(self, name):
        return os.path.join(self.folder, name)

    def told(self, *words):
        return tasks.run(self.bin, words[0], *map(str, words[1:]))[1]

    def holds(self, what, planned, peak):
        share = peak / planned["memory_bytes"]
        print(f"{what:28} plan {planned['memory_bytes'] / 1e6:7.1f} MB, peak {peak / 1e6:7.1f} MB ({share:.2f})", flush=True)
        assert share <= 1, f"{what}: takes {peak} bytes, the plan says {planned['memory_bytes']}"
        assert share >= LEAST_SHARE, f"{what}: takes {peak} bytes only, the plan says {planned['memory_bytes']}"

    def task(self, name, task, data, threads, segments):
        """Trains, proves and replays segments of it: all, or those named."""
        run, threads = self.at(f"{name}.run"), ["--threads", threads]
        what = f"{name}, {threads[1]} threads"
        planned = self.told("dgx-train", task, "--plan", *threads)
        done, peak = measured(self.bin, "dgx-train", task, "--data", data, "-o", run, *threads, "-q", "--save-every", "1s")
        self.holds(f"{what}: train", planned, peak)
        again = self.told("dgx-train", task, "-o", run, "--plan", "--rate", "1e9", *threads)
        assert again["done_steps"] + again["steps"] == planned["steps"] and again["done_steps"] <= done["steps"], again
        assert abs(again["seconds"] - again["work"] / 1e9) < 0.01, again
        self.validated(what, name, task, data, threads)
        proof, profile = self.at(f"{name}.proof.json"), self.at(f"{name}.profile.json")
        self.told("dgx-prove", task, run, "--key", self.at("key.pem"), "-o", proof)
        self.profiled(task, data, profile, threads)
        verify = ["dgx-verify", task, proof, "--from", run, *(["--segments", segments] if segments else ["--all"]), "--key", self.at("key.pem"), *threads]
        planned = self.told(*verify, "--plan", "--profile", profile)
        done, peak = measured(self.bin, *verify, "--data", data, "-o", self.at(f"{name}.verdict.json"))
        self.holds(f"{what}: verify", planned, peak)
        assert planned["work"] == done["work"]
        if not segments:
            self.seconds_hold(what, name, task, data, threads, verify)
        parts = [self.told(*verify, "--plan", "--rate", "1e6", "--shard", f"{n}/3") for n in range(3)]
        assert sum(part["work"] for part in parts) == planned["work"]
        assert {part["longest_seconds"] for part in parts} == {max(part["seconds"] for part in parts)}
        listed = self.at(f"{name}.tsv")
        with open(listed, "w") as file:
            file.write(f"{task}\t{proof}\t{run}\t{data}\n")
        batch = ["dgx-verify", "batch", listed, "--all", "--key", self.at("key.pem"), *threads]
        planned = self.told(*batch, "--plan")
        _, peak = measured(self.bin, *batch, "-o", self.at(f"{name}.verdicts"))
        self.holds(f"{what}: batch", planned, peak)

    def profiled(self, task, data, profile, threads):
        self.told("dgx-profile", task, "--data", data, "--quick", "--steps", 40, "--key", self.at("key.pem"), "-o", profile, "--force", *threads)

    def seconds_hold(self, what, name, task, data, threads, verify):
        """The plan's seconds are those of all steps, which a training's log counts without what is read, hashed and written between them.

        The least of up to eight readings of each: what runs beside them on a shared machine adds to a reading and never takes from it.
        """
        planned = taken = float("inf")
        for reading in range(8):
            run, profile = self.at(f"{name}.timed{reading}"), self.at(f"{name}.timed{reading}.json")
            self.told("dgx-train", task, "--data", data, "-o", run, *threads, "-q")
            with open(os.path.join(run, "log.csv")) as file:
                taken = min(taken, float(list(csv.DictReader(file))[-1]["seconds"]))
            self.profiled(task, data, profile, threads)
            planned = min(planned, self.told(*verify, "--plan", "--profile", profile)["seconds"])
            if taken / FACTOR <= planned <= taken * FACTOR:
                break
        print(f"{what:28} plan {planned:.3f} s, steps {taken:.3f} s", flush=True)
        assert taken / FACTOR <= planned <= taken * FACTOR, (planned, taken)

    def validated(self, what, name, task, data, threads):
        """Trains with evaluations: those that were planned."""
        run, plan = self.at(f"{name}.validated"), ["dgx-train", task, "--plan", "--validate", data, "--rate", "1e6", *threads]
        planned, without = self.told(*plan), self.told("dgx-train", task, "--plan", *threads)
        _, peak = measured(self.bin, "dgx-train", task, "--data", data, "--validate", data, "-o", run, *threads, "-q")
        self.holds(f"{what}: validate", planned, peak)
        with open(os.path.join(run, "validation.csv")) as file:
            rows = len(file.readlines()) - 1
        assert planned["validations"] == rows, (planned, rows)
        evaluated = self.told("dgx-inspect", task.removesuffix(".json") + ".eval.jsonl")["operations"]
        with open(task.removesuffix(".json") + ".json") as file:
            batch = json.loads(base64.b64decode(json.load(file)["payload"]))["predicate"]["batch"]
        batches = -(-2000 // batch)  # of the samples of pack_small()
        assert planned["work"] == without["work"] + rows * batches * evaluated, (planned, without)
        assert abs(planned["seconds"] - planned["work"] / 1e6) < 0.01, planned
        # The row of the run's end may be missing.
        assert self.told(*plan, "-o", run)["validations"] == 1

    def submitted(self, name, *words):
        task = self.at(f"{name}.json")
        self.told("dgx-submit", *words, "--key", self.at("key.pem"), "-o", task)
        return task


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--captured", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dgx-plans-") as folder:
        os.environ["DGX_CACHE"] = os.path.join(folder, "cache")
        planned = Planned(options.bin, folder)
        planned.told("dgx-key", "new", planned.at("key"))
        small = tasks.pack_small(options.bin, folder)
        if not options.captured:
            for threads in (1, 4):
                planned.task(f"small{threads}", tasks.stored("small"), small, threads, None)
            return 0
        # Wide: a state of 100 MB. Deep: many values beside a small state.
        wide = planned.submitted("wide", "--data", small, "--model", "mlp:144-4000-1000-10", "--loss", "cross-entropy", "--optimizer", "adam:lr=0.001",
                                 "--batch", "32", "--steps", "8", "--checkpoint-every", "2")
        planned.task("wide", wide, small, 2, "0,2")
        deep = planned.submitted("deep", "--data", small, "--model", "mlp:144-512-512-512-512-10", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.01",
                                 "--batch", "2000", "--steps", "6", "--checkpoint-every", "2")
        planned.task("deep", deep, small, 2, "0,2")
    return 0


if __name__ == "__main__":
    sys.exit(main())
