"""The life of a task that is large in one way: large.py gpt2|streaming --bin FOLDER --folder FOLDER [--gib N] [--threads N]

gpt2: GPT-2 small (12 layers, width 768, 12 heads, 256 tokens, vocabulary 50,257) with batch 4, AdamW, on two segments of two steps.
streaming: a small network on N GiB of samples (default 10), written, packed and read without being in memory.

Prints what every program takes; fails on an exit code, if one takes more memory than it may, or if a replayed digest is not the
trained one.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

GIB = 1 << 30


class Life:
    def __init__(self, bin_folder, folder, threads, most_bytes):
        self.bin, self.folder = pathlib.Path(bin_folder).resolve(), pathlib.Path(folder)
        self.threads, self.most_bytes, self.failed = threads, most_bytes, False
        print("| program | seconds | processor seconds | MB at peak | MB written |\n| --- | --- | --- | --- | --- |", flush=True)

    def run(self, program, *words):
        begin = time.time()
        command = [self.bin / program, *map(str, words), "--json", "-q", "--threads", str(self.threads)]
        with tempfile.TemporaryFile() as out:
            child = subprocess.Popen(command, cwd=self.folder, stdout=out, env=dict(os.environ, TMPDIR=str(self.folder)))
            _, status, usage = os.wait4(child.pid, 0)
            out.seek(0)
            lines = out.read().decode().splitlines()
        peak = usage.ru_maxrss * 1024
        name = " ".join([program, *[str(w) for w in words[:1] if not str(w).startswith("-") and "." not in str(w)]])
        print(f"| {name} | {time.time() - begin:.1f} | {usage.ru_utime + usage.ru_stime:.1f} | {peak / 1e6:,.0f} | {usage.ru_oublock * 512 / 1e6:,.0f} |", flush=True)
        if status != 0:
            sys.exit(f"{' '.join(map(str, command))}: status {status}")
        if peak > self.most_bytes:
            print(f"{name} takes {peak / 1e6:,.0f} MB, may take {self.most_bytes / 1e6:,.0f}")
            self.failed = True
        return json.loads(lines[-1]) if lines else {}

    def task(self, *words, steps, every):
        """From keys and DATA.h5 to a verdict about the last segment."""
        for name in ("alice", "bob", "vera"):
            self.run("dgx-key", "new", name)
        self.run("dgx-submit", "--data", "data.h5", *words, "--steps", steps, "--checkpoint-every", every, "--key", "alice.pem", "-o", "task.json")
        trained = self.run("dgx-train", "task.json", "--data", "data.h5", "-o", "run")
        self.run("dgx-prove", "task.json", "run", "--key", "bob.pem", "-o", "proof.json")
        last = steps // every - 1
        verdict = self.run("dgx-verify", "task.json", "proof.json", "--from", "run", "--data", "data.h5", "--segments", last, "--key", "vera.pem", "-o", "verdict.json")
        replayed = verdict["segments"][0]["recomputed"]
        print(f"trained {trained['state']}\nreplayed {replayed}")
        self.failed |= replayed != trained["state"] or verdict["verdict"] != "accepted"


def write_rows(path, dtype, shape, fill):
    """An NPY file of `shape`, block by block."""
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape})
        rows = max(1, (32 << 20) // int(np.prod(shape[1:], dtype="i8")))
        for first in range(0, shape[0], rows):
            fill(min(rows, shape[0] - first)).astype(dtype).tofile(file)


def gpt2(options):
    life = Life(options.bin, options.folder, options.threads, 16 * GIB)
    rng = np.random.default_rng(1)
    tokens = (50257 * rng.random((16, 257)) ** 3).astype("<u2")  # small numbers are frequent, as in text
    tokens[0, 0] = 50256
    np.save(options.folder / "x.npy", tokens[:, :-1].copy())
    np.save(options.folder / "y.npy", tokens[:, 1:].copy())
    life.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "data.h5")
    life.task("--model", "gpt:layers=12,width=768,heads=12,context=256,vocab=50257,tied", "--loss", "cross-entropy", "--optimizer", "adamw:lr=3e-4",
              "--batch", 4, steps=4, every=2)
    return life.failed


def streaming(options):
    life = Life(options.bin, options.folder, options.threads, 3 * GIB // 4)
    samples, width, rng = options.gib * GIB // 3072, 3072, np.random.default_rng(1)
    base = rng.integers(0, 256, (64, width), "u1")  # so that there is something to compress, and to learn
    write_rows(options.folder / "x.npy", "u1", (samples, width), lambda n: base[rng.integers(0, 64, n)] ^ rng.integers(0, 4, (n, width), "u1"))
    write_rows(options.folder / "y.npy", "u1", (samples,), lambda n: rng.integers(0, 10, n))
    life.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "--scale", 1 / 255, "-o", "data.h5")
    (options.folder / "x.npy").unlink()
    life.task("--model", "mlp:3072-64-10", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.01", "--batch", 128, steps=1000, every=250)
    return life.failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("gpt2", "streaming"))
    parser.add_argument("--bin", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--gib", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        options.folder = pathlib.Path(folder)
        sys.exit(1 if {"gpt2": gpt2, "streaming": streaming}[options.what](options) else 0)


if __name__ == "__main__":
    main()
