"""Models scripted by PyTorch, trained two steps by the second implementation: numpy_models.py --bin FOLDER --plugins FOLDER

Those of tests/models, and some random networks of theirs, from a fresh seed that is printed; --seed N repeats it. tasks.py says what is
compared. Exits 77 without NumPy, h5py, cryptography, Debian's python3-torch and Fashion-MNIST.
"""

import importlib
import os
import random
import sys
import time

try:
    import cryptography  # noqa: F401
    import h5py  # noqa: F401
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import support
from tasks import Case, check_training

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "models"))
import common
import random_networks
from common import Data

# By module: the class, what it learns from, and how.
MODELS = {
    "vision_transformer": ("VisionTransformer", Data.IMAGES, "adam:lr=3e-3"),
    "depthwise": ("Depthwise", Data.IMAGES, "sgd:lr=0.1,momentum=0.9"),
    "autoencoder": ("Autoencoder", Data.IMAGES_TO_THEMSELVES, "adam:lr=5e-3"),
    "recurrence": ("Recurrence", Data.IMAGES, "adam:lr=1e-2"),
    "mixer": ("Mixer", Data.IMAGES, "adamw:lr=3e-3"),
    "codebook": ("Quantised", Data.IMAGES_TO_THEMSELVES, "adam:lr=1e-2"),
    "alibi": ("Alibi", Data.TEXT, "adamw:lr=1e-2"),
    "spatial_transformer": ("SpatialTransformer", Data.IMAGES, "adam:lr=1e-2"),
    "llama": ("Llama", Data.TEXT, "adamw:lr=1e-2,betas=0.9/0.95,weight-decay=0.1"),
}


def check_model(options, name, model, data, optimizer):
    """Ends the test if anything differs."""
    with support.Bench(options.bin) as bench:
        torch.jit.script(model).save(bench.path("model.pt"))
        common.Bench(options.bin, bench.folder).pack(data, 8)
        bench.run("dgx-key", "new", "submitter")
        loss = "mse" if data is Data.IMAGES_TO_THEMSELVES else "cross-entropy"
        tokens = ["--input", "i64"] if data is Data.TEXT else []
        start = time.time()
        check_training(bench, name, "data.h5", Case("model.pt", loss, optimizer, tokens, 2, batch=2, steps=4))
        print(f"{name}: 2 steps, {time.time() - start:.1f} s", flush=True)


def main():
    parser = support.parser()
    parser.add_argument("--only", choices=MODELS, action="append")
    parser.add_argument("--random", type=int, default=4, help="how many random networks")
    parser.add_argument("--seed", type=int, help="of the first of them")
    options = support.parsed(parser)
    support.needs.fashion_mnist("train-images")
    torch.set_num_threads(1)
    for name in options.only or MODELS:
        torch.manual_seed(1)
        model, data, optimizer = MODELS[name]
        check_model(options, name, getattr(importlib.import_module(name), model)(), data, optimizer)
    first = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    for seed in range(first, first + options.random):
        generator = random_networks.Generator(seed)
        torch.manual_seed(seed)
        check_model(options, f"seed {seed}", generator.network(), Data.IMAGES, generator.optimizer())


if __name__ == "__main__":
    main()
