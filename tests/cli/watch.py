"""Training, watched from outside: signals, a time limit, a terminal, another program. watch.py --bin FOLDER

SIGHUP saves and goes on, so that a kill -9 afterwards loses nothing before it; under nohup it is ignored. SIGUSR2 prints the progress. --max-time ends the call with
75, and the same command resumes. There is a progress bar on a terminal and nowhere else. A run in progress cannot be pruned.
"""

import argparse
import csv
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "repro"))
import tasks  # noqa: E402


class Watch:
    def __init__(self, bin_folder, folder):
        self.bin, self.folder = os.path.abspath(bin_folder), folder
        self.data = tasks.pack_small(self.bin, folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def command(self, run, *words):
        # Validating after every step makes 300 steps long enough to be watched.
        return [os.path.join(self.bin, "dgx-train"), tasks.stored("small"), "--data", self.data, "-o", self.path(run), "--threads", "1", "--validate", self.data,
                "--every", "1", *words]

    def begun(self, run, steps, *words, before=(), **options):
        """A call that has logged some steps, and still runs."""
        process = subprocess.Popen([*before, *self.command(run, *words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)
        self.wait(process, lambda: self.steps(run) >= steps)
        return process

    def wait(self, process, condition):
        give_up = time.monotonic() + 100
        while not condition():
            assert process.poll() is None, f"it ended: {process.returncode}: {process.stderr.read()}"
            assert time.monotonic() < give_up, "it does not come to this"
            time.sleep(0.005)

    def steps(self, run):
        """Of the last complete row of the log."""
        if not os.path.exists(self.path(run, "log.csv")):
            return 0
        with open(self.path(run, "log.csv")) as file:
            lines = file.read().split("\n")[1:-1]
        return int(lines[-1].split(",")[0]) if lines else 0

    def checkpoints(self, run):
        """The steps of those that are there."""
        return sorted(int(name.split("-")[1]) for name in os.listdir(self.path(run)) if name.startswith("checkpoint-"))

    def finishes(self, run):
        """The same command to its end: the stored digest, and both logs with every step once."""
        done = subprocess.run([*self.command(run), "--json"], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{run}: exit {done.returncode}: {done.stderr}"
        assert tasks.expected()["small"]["states"]["300"] in done.stdout, f"{run}: another state: {done.stdout}"
        for name in ("log.csv", "validation.csv"):
            with open(self.path(run, name)) as file:
                found = [row["step"] for row in csv.DictReader(file)]
            assert found == [str(step) for step in range(1, 301)], f"{run}/{name}: not each step once"
        return done.stdout

    def test_hangup_saves(self):
        process = self.begun("hung", 23)
        process.send_signal(signal.SIGHUP)
        line = process.stderr.readline()
        process.kill()
        process.communicate(timeout=100)
        assert line.startswith("dgx-train: saved the state after step "), line
        saved = int(line.split()[-1])
        # It trained on until it was killed, and may have come to its next checkpoints.
        later = [step for step in self.checkpoints("hung") if step > saved]
        told = self.finishes("hung")
        assert any(f'"resumed_from":{step},' in told for step in (saved, *later)), f"it did not go on from step {saved}, or of {later}: {told}"

    def test_hangup_is_ignored_under_nohup(self):
        process = self.begun("nohup", 5, before=["nohup"], stdin=subprocess.DEVNULL)
        process.send_signal(signal.SIGHUP)
        step = self.steps("nohup")
        self.wait(process, lambda: self.steps("nohup") > step + 5)
        process.terminate()
        error = process.communicate(timeout=100)[1]
        assert process.returncode == 75 and "saved the state after" not in error, f"exit {process.returncode}: {error}"

    def test_where(self):
        process = self.begun("where", 20, "-q")
        process.send_signal(signal.SIGUSR2)
        line = process.stderr.readline()
        assert line.startswith("dgx-train: training: ") and " of 300 (" in line and ", loss " in line, line
        process.terminate()
        error = process.communicate(timeout=100)[1]
        assert process.returncode == 75 and "training" not in error, f"exit {process.returncode}: {error}"

    def test_where_without_standard_error(self):
        """The answer goes nowhere: not into a file of the run that was opened in its place."""
        process = self.begun("mute", 20, before=["sh", "-c", 'exec "$@" 2>&-', "sh"])
        process.send_signal(signal.SIGUSR2)
        step = self.steps("mute")
        self.wait(process, lambda: self.steps("mute") > step + 5)
        process.terminate()
        process.communicate(timeout=100)
        assert process.returncode == 75, f"exit {process.returncode}"
        for file in pathlib.Path(self.path("mute")).iterdir():
            assert b"training: " not in file.read_bytes(), f"{file.name} has the answer"
        self.finishes("mute")

    def test_prune_leaves_a_run_in_progress_alone(self):
        process = self.begun("pruned", 40)
        process.send_signal(signal.SIGSTOP)  # or a fast machine might be done
        before = sorted(name for name in os.listdir(self.path("pruned")) if name.startswith("checkpoint-"))
        done = subprocess.run([os.path.join(self.bin, "dgx-train"), "prune", self.path("pruned")], capture_output=True, text=True, timeout=100)
        assert done.returncode == 69, f"exit {done.returncode}: {done.stdout}{done.stderr}"
        assert set(before) <= set(os.listdir(self.path("pruned"))), "a checkpoint is gone"
        process.kill()
        process.communicate(timeout=100)
        self.finishes("pruned")

    def test_time_limit(self):
        command = self.command("timed", "--max-time", "1s")
        start = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert done.returncode in (0, 75), f"exit {done.returncode}: {done.stderr}"
        assert done.returncode == 0 or 0.9 < time.monotonic() - start, "it did not wait for its time"
        assert done.returncode == 0 or "run the same command again to continue" in done.stderr, done.stderr
        self.finishes("timed")

    def test_terminal(self):
        """A bar on a terminal, of which the last has been erased; nothing of it in a file."""
        ours, theirs = pty.openpty()
        done = subprocess.run(self.command("terminal", "--until", "60"), stdout=subprocess.DEVNULL, stderr=theirs, timeout=100)
        os.close(theirs)
        shown = b""
        while chunk := self.read(ours):
            shown += chunk
        assert done.returncode == 0 and b"training  [" in shown and shown.endswith(b"\r\x1b[K"), shown
        done = subprocess.run(self.command("file", "--until", "60"), capture_output=True, text=True, timeout=100)
        assert done.returncode == 0 and done.stderr == "", done.stderr

    @staticmethod
    def read(descriptor):
        try:
            return os.read(descriptor, 65536)
        except OSError:  # the other end is closed
            return b""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="dgx-watch-") as folder:
        watch = Watch(parser.parse_args().bin, folder)
        for name in (name for name in dir(watch) if name.startswith("test_")):
            try:
                getattr(watch, name)()
            except AssertionError as failure:
                failed += 1
                print(f"FAILED: {name}: {failure}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
