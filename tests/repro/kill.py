"""Killed at any moment, the same call ends with the same digests: kill.py --bin FOLDER

Twenty times kill -9 at random moments of dgx-train (seeded, drawn over the time that a whole run takes), then one call that is left alone. The
same with SIGTERM, which must exit 75 or 0. Afterwards nothing but the run lies in the folder, and its log has every step once.
"""

import argparse
import csv
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import tasks

KILLS = 20
RUN_FILES = re.compile(r"index\.h5|checkpoint-\d{10}-[0-9a-f]{12}\.h5|\.lock|log\.csv")


def logged(run):
    """Of each row of the run's log what does not depend on the machine: step, epoch, loss, learning rate; and whether its other cells are as they may be."""
    with open(os.path.join(run, "log.csv")) as file:
        rows = list(csv.DictReader(file))
    known = ("step", "epoch", "loss", "learning_rate")
    assert all(not row["gradient_norm"] and (float(row["seconds"] or 0) >= 0) for row in rows), f"{run}/log.csv: a cell is not as it may be"
    times = [float(row["seconds"]) for row in rows if row["seconds"]]
    assert times == sorted(times), f"{run}/log.csv: time goes back"
    return [[row[name] for name in known] for row in rows]


class Killer:
    def __init__(self, bin_folder, data, folder):
        self.bin, self.data, self.folder = bin_folder, data, folder
        self.random, self.runs = random.Random(5), 0
        self.wanted = tasks.expected()["small"]["states"]["300"]
        self.log = None  # of a run that nobody interrupted

    def new_run(self):
        self.runs += 1
        return os.path.join(self.folder, f"run{self.runs}")

    def whole_run_seconds(self):
        start = time.monotonic()
        self.finish(self.new_run())
        return time.monotonic() - start

    def finish(self, run):
        """One call that is left alone: the stored digest, and no other file."""
        done = tasks.train(self.bin, tasks.stored("small"), self.data, run, "--threads", "1")[1]
        assert done["state"] == self.wanted, f"{run}: {done['state']}, expected {self.wanted}"
        strays = [name for name in os.listdir(run) if not RUN_FILES.fullmatch(name)]
        assert not strays, f"{run}: left behind: {strays}"
        assert len(os.listdir(run)) == 34, f"{run}: {len(os.listdir(run))} files"
        log = logged(run)
        self.log = self.log or log
        assert [row[0] for row in log] == [str(step) for step in range(1, 301)], f"{run}/log.csv: not each step once"
        assert log == self.log, f"{run}/log.csv: is not that of a run that was left alone"

    def interrupt(self, run, number, seconds):
        """Starts the call and sends the signal after so long; its exit code, or minus the signal."""
        command = [os.path.join(self.bin, "dgx-train"), tasks.stored("small"), "--data", self.data, "-o", run, "--threads", "1", "-q"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(self.random.uniform(0, seconds))
        process.send_signal(number)
        error = process.communicate(timeout=120)[1]
        return process.returncode, error

    def many(self, number, codes, times, seconds):
        """So many signals that found the program at work; a run that ends in between is checked, and a new one begun."""
        run, done, tries = self.new_run(), 0, 0
        while done < times:
            tries += 1
            assert tries < 10 * times, "the program is never at work when the signal comes"
            code, error = self.interrupt(run, number, seconds)
            idle = code == 70 and "without having finished one" in error  # a restart that was stopped before its first step
            assert idle or code in (0, *codes), f"signal {number}: exit {code}: {error}"
            done += code != 0
            if code == 0:
                seconds = max(seconds * 0.8, 0.02)  # the machine has become faster since a whole run was timed
                self.finish(run)
                run = self.new_run()
        self.finish(run)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    bin_folder = parser.parse_args().bin
    with tempfile.TemporaryDirectory(prefix="dgx-kill-") as folder:
        killer = Killer(bin_folder, tasks.pack_small(bin_folder, folder), folder)
        seconds = killer.whole_run_seconds()
        try:
            killer.many(signal.SIGKILL, (-signal.SIGKILL,), KILLS, seconds)
            # Before the program has its handlers, the signal still ends it at once; it has written nothing then.
            killer.many(signal.SIGTERM, (75, -signal.SIGTERM), 4, seconds)
            killer.many(signal.SIGINT, (75, -signal.SIGINT), 4, seconds)
        except AssertionError as failure:
            print("FAILED:", failure)
            sys.exit(1)


main()
