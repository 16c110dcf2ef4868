"""Accuracy and error of messages with a cut: aqsgd.py --bin FOLDER --folder FOLDER [--epochs N] [--seeds N]

The perceptron 784-256-128-10 on Fashion-MNIST, batches of 128, whole and with a cut behind its second layer, of 2 bits forward and 8 backward.
Exits 1 unless, at the default lengths, the mean accuracy over the seeds on the test set is within 0.3 points of the whole one's, and in the last epoch the
relative error of an activation behind the cut is at most a quarter of what 2 bits without memory would leave.
"""

import argparse
import json
import pathlib
import statistics
import sys

import h5py
import numpy as np
from fashion import Folder

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
from spec import inputs  # noqa: E402

EPOCHS, SEEDS, BATCH, SAMPLES, BITS, LOOKS = 12, 3, 128, 60000, 2, 8
KINDS = {"whole": [], "cut": ["--cut", f"2:forward={BITS},backward=8"]}


def decoded(d):
    """Rows as `BITS` bits give them."""
    half = np.float32(2 ** (BITS - 1))
    a = np.abs(d).max(axis=1, keepdims=True)
    level = np.clip(np.rint(d / np.where(a == 0, 1, a) * half), -half, half - 1)
    return np.where(a == 0, 0, level * (a / half))


class Trainings(Folder):
    def __init__(self, options):
        super().__init__(options.bin, options.folder)
        self.epochs = options.epochs

    def prepare(self):
        self.make_key()
        self.pack_fashion("train.h5", "test.h5")
        with h5py.File(self.folder / "train.h5") as file:
            self.images = file["x"][()].reshape(SAMPLES, -1)

    def train(self, kind, seed):
        """The task's name; with a cut, the errors of some steps of the last epoch, with the entry and without."""
        name, errors = f"{kind}-{self.epochs}-{seed}", []
        if not (self.folder / f"{name}.json").exists():
            self.run("dgx-submit", "--data", "train.h5", "--model", "mlp:784-256-128-10", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.05,momentum=0.9", *KINDS[kind],
                     "--schedule", "cosine:min=0", "--batch", BATCH, "--epochs", self.epochs, "--seed", seed, "--checkpoint-every", 600, "--key", "key.pem", "-o", f"{name}.json")
        epoch, steps = SAMPLES // BATCH, SAMPLES * self.epochs // BATCH
        for look in range(LOOKS if kind == "cut" else 0):
            step = steps - epoch + look * epoch // LOOKS
            self.run("dgx-train", f"{name}.json", "--data", "train.h5", "-o", f"{name}.run", "--until", step, "-q")
            if not (self.folder / f"{name}.run/resume.h5").exists():
                break  # it has ended before
            errors.append(self.errors(name, seed, step))
        self.run("dgx-train", f"{name}.json", "--data", "train.h5", "-o", f"{name}.run", "-q")
        return name, errors

    def errors(self, name, seed, step):
        with h5py.File(self.folder / f"{name}.run/resume.h5") as file:
            assert int(file["state/step"][()]) == step
            entry = lambda name: file[f"state/{name}"][()]
            rows = inputs.batch_indices(seed, SAMPLES, BATCH, step)
            y = self.images[rows] * np.float32(1 / 255)
            for layer in (0, 2):
                y = np.maximum(y @ entry(f"model/{layer}.weight").T + entry(f"model/{layer}.bias"), 0)
            old = entry("optimizer/message/2")[rows]
        size = np.linalg.norm(y)
        return np.linalg.norm(old + decoded(y - old) - y) / size, np.linalg.norm(decoded(y) - y) / size

    def accuracy(self, name):
        """In percent, of the test set."""
        return 100 * json.loads(self.run("dgx-train", f"{name}.json", "--data", "test.h5", "--evaluate", f"{name}.run", "--json"))["accuracy"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args()
    trainings = Trainings(options)
    trainings.prepare()
    means, known = {}, trainings.folder / "errors.json"
    errors = json.loads(known.read_text()) if known.exists() else {}
    for kind in KINDS:
        found = []
        for seed in range(1, options.seeds + 1):
            name, some = trainings.train(kind, seed)
            if some:
                errors[name] = [[float(number) for number in row] for row in some]
                known.write_text(json.dumps(errors))
            found.append(trainings.accuracy(name))
        means[kind] = statistics.mean(found)
        print(f"{kind}: {' '.join(f'{accuracy:.2f}' for accuracy in found)}, mean {means[kind]:.2f} %", flush=True)
    kept, direct = (statistics.mean(row[n] for name, rows in errors.items() for row in rows if name.startswith(f"cut-{options.epochs}-")) for n in (0, 1))
    apart = means["cut"] - means["whole"]
    print(f"after {options.epochs} epochs the cut is {apart:+.2f} points from the whole")
    print(f"in the last epoch {BITS} bits leave a relative error of {kept:.3f}, without memory {direct:.3f}")
    return 1 if options.epochs == EPOCHS and options.seeds == SEEDS and (apart < -0.3 or kept > direct / 4) else 0


if __name__ == "__main__":
    sys.exit(main())
