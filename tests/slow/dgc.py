"""Accuracy of the optimiser dgc beside SGD's: dgc.py --bin FOLDER --folder FOLDER [--epochs N] [--seeds N] [--schedule NAME]

The perceptron 784-256-128-10 on Fashion-MNIST, four workers, batches of 128, once dense with momentum and once with density 0.001 after a warm-up of an epoch;
with a rate that falls to 0, and with a constant one. Exits 1 unless with each the mean accuracy over the seeds on the test set is within 0.3 points of SGD's, at
the default lengths.
"""

import argparse
import json
import statistics
import sys

from fashion import Folder

EPOCHS, SEEDS, BATCH, SAMPLES = 12, 3, 128, 60000
SCHEDULES = {"falling": "cosine:min=0", "constant": "constant"}
OPTIMIZERS = {"dense": "sgd:lr=0.05,momentum=0.9", "dgc": "dgc:lr=0.05,momentum=0.9,density=0.001,warmup={epoch}"}


class Trainings(Folder):
    def __init__(self, options):
        super().__init__(options.bin, options.folder)
        self.epochs = options.epochs

    def prepare(self):
        self.make_key()
        self.pack_fashion("train.h5", "test.h5")

    def accuracy(self, kind, schedule, seed):
        """In percent, of the test set."""
        name = f"{kind}-{schedule}-{self.epochs}-{seed}"
        if not (self.folder / f"{name}.json").exists():
            optimizer = OPTIMIZERS[kind].format(epoch=SAMPLES // BATCH)
            self.run("dgx-submit", "--data", "train.h5", "--model", "mlp:784-256-128-10", "--loss", "cross-entropy", "--optimizer", optimizer, "--workers", 4,
                     "--schedule", SCHEDULES[schedule], "--batch", BATCH, "--epochs", self.epochs, "--seed", seed, "--key", "key.pem", "-o", f"{name}.json")
        self.run("dgx-train", f"{name}.json", "--data", "train.h5", "-o", f"{name}.run", "-q")
        return 100 * json.loads(self.run("dgx-train", f"{name}.json", "--data", "test.h5", "--evaluate", f"{name}.run", "--json"))["accuracy"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--schedule", choices=SCHEDULES, action="append")
    options = parser.parse_args()
    trainings = Trainings(options)
    trainings.prepare()
    missed = False
    for schedule in options.schedule or SCHEDULES:
        means = {}
        for kind in OPTIMIZERS:
            found = [trainings.accuracy(kind, schedule, seed) for seed in range(1, options.seeds + 1)]
            means[kind] = statistics.mean(found)
            print(f"{schedule} rate, {kind}: {' '.join(f'{accuracy:.2f}' for accuracy in found)}, mean {means[kind]:.2f} %", flush=True)
        apart = means["dgc"] - means["dense"]
        print(f"{schedule} rate, after {options.epochs} epochs: dgc is {apart:+.2f} points from dense", flush=True)
        missed = missed or apart < -0.3
    return 1 if options.epochs == EPOCHS and options.seeds == SEEDS and missed else 0


if __name__ == "__main__":
    sys.exit(main())
