#!/usr/bin/python3
"""Every write of a program is cut and failed at every call to the system: cuts.py --bin FOLDER --shim FILE [--seed N] [--points N] [--only NAME]

A program runs once with its calls written down (shim.cc). From the journal follows what its folder may hold after a crash at each call
(crashes.py): a process that was killed, or a machine that lost its power, of which anything unsynced may be gone. And it runs again for each
call, with that call failing, by ENOSPC and by EIO. After each:

    what was there and acknowledged before is there as it was;
    whatever readers take is whole;
    the same command again ends with what a run without a cut ends with.

--points draws so many points a command by --seed instead of taking all.
"""

import argparse
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import crashes
import market_stories
import stories

SHORT_EXIT = (0, 65, 66, 69, 70, 73, 74, 75, 76)


class Machine:
    """A folder in memory in which programs run."""

    def __init__(self, bin_folder, shim, folder):
        self.bin, self.shim, self.folder, self.journal = bin_folder, shim, os.path.join(folder, "w"), os.path.join(folder, "journal")
        self.env = {}  # of the story that is told

    def run(self, *command, env=None):
        return subprocess.run([os.path.join(self.bin, command[0]), *command[1:]], cwd=self.folder, capture_output=True, text=True, timeout=300,
                              env={**os.environ, "DGX_CUTS_FOLDER": self.folder, "LD_PRELOAD": self.shim, **self.env, **(env or {})})

    def journalled(self, command, env=None):
        """Its exit and its calls."""
        if os.path.exists(self.journal):
            os.remove(self.journal)
        done = self.run(*command, env={"DGX_CUTS_JOURNAL": self.journal, **(env or {})})
        with open(self.journal) as file:
            return done, file.read().splitlines()


def is_call(line):
    word, *rest = line.split(" ")
    return word not in ("close", "failed") and (word != "open" or int(rest[1]) & (os.O_CREAT | os.O_TRUNC) != 0)


def say(done):
    return f"exit {done.returncode}: {done.stdout.strip()[-300:]} {done.stderr.strip()[-600:]}"


class Tester:
    def __init__(self, machine, options):
        self.machine, self.options, self.failures, self.checked = machine, options, [], 0

    def chosen(self, points, name):
        points = list(points)
        if self.options.points is None or len(points) <= self.options.points:
            return points
        return sorted(random.Random(f"{self.options.seed} {name}").sample(points, self.options.points))

    def check(self, story, what, acknowledged):
        """The folder as it is now: readers, then the same command again, then the end."""
        self.checked += 1
        try:
            story.readers(self.machine)
            if acknowledged:
                story.ended(self.machine)
            story.again(self.machine)
            story.ended(self.machine)
        except (AssertionError, json.JSONDecodeError, OSError, subprocess.TimeoutExpired) as failure:
            self.failures.append(f"{story.name}, {what}: {failure}")

    def crashes(self, story, base, journal):
        calls = [0] + [number + 1 for number, line in enumerate(journal) if is_call(line)]
        points = [(at, outcome) for at in calls for outcome in crashes.OUTCOMES]
        disk, done = crashes.Disk(base, self.machine.folder), 0
        for at, outcome in self.chosen(points, story.name):
            for line in journal[done:at]:
                disk.step(line)
            done = at
            crashes.write_tree(disk.after(outcome, at), self.machine.folder)
            last = journal[at - 1].split(" ")[0:1] if at else ["nothing"]
            self.check(story, f"crash after call {calls.index(at)} ({last[0]}), {outcome}", at == calls[-1])
        return len(calls) - 1

    def faults(self, story, base, count):
        for name, number in (("ENOSPC", 28), ("EIO", 5)):
            for at in self.chosen(range(count), f"{story.name} {name}"):
                crashes.write_tree(base, self.machine.folder)
                done, journal = self.machine.journalled(story.command, {"DGX_CUTS_FAIL": f"{at}:{number}"})
                what = f"call {at} fails with {name}"
                if "failed" not in journal:
                    self.failures.append(f"{story.name}, {what}: did not come")
                if done.returncode not in (*SHORT_EXIT, *story.exits):
                    self.failures.append(f"{story.name}, {what}: {say(done)}")
                self.check(story, what, done.returncode in story.exits)

    def story(self, story):
        begin, before = time.monotonic(), self.checked
        self.machine.env = story.env
        crashes.write_tree(story.base, self.machine.folder)
        done, journal = self.machine.journalled(story.command)
        if done.returncode not in story.exits:
            self.failures.append(f"{story.name}: {say(done)}")
            return
        story.learn(self.machine)
        calls = self.crashes(story, story.base, journal)
        self.faults(story, story.base, calls)
        print(f"{story.name:16} {calls:5} calls {self.checked - before:6} checks {time.monotonic() - begin:7.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--shim", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", type=int)
    parser.add_argument("--only")
    options = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="dgx-cuts-", dir=memory) as folder:
        machine = Machine(os.path.abspath(options.bin), os.path.abspath(options.shim), folder)
        tester = Tester(machine, options)
        print(f"seed {options.seed}, {'all' if options.points is None else options.points} points")
        tree = stories.prepare(machine)
        for story in itertools.chain(stories.all_stories(machine, tree), market_stories.all_stories(machine, tree)):
            machine.env = {}
            if options.only is None or story.name.startswith(options.only):
                tester.story(story)
    for failure in tester.failures[:40]:
        print("FAILED:", failure)
    print(f"{tester.checked} checks, {len(tester.failures)} failures")
    return 1 if tester.failures else 0


if __name__ == "__main__":
    sys.exit(main())
