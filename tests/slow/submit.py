"""What dgx-submit takes for large model files: submit.py --bin FOLDER --build FOLDER --folder FOLDER [--python PYTHON]

GPT-2, by transformers and torch.export in PYTHON (examples/hf/export.py), or of the same form without torch (support/decoder.py), batch 4 of 1,024
tokens, AdamW: seconds and peak of a submission. Then an archive of 1 GiB: what a capture takes for training, which reads the weights, less what it
takes for evaluation, which does not, compared with a reader of the same bytes. A zip states the CRC-32 of a member, so reading it is reading its bytes
into memory and computing that: Python does it with the system's zlib, as libzip does. Bytes are in the page cache, and memory is new, in both cases.
"""

import argparse
import mmap
import pathlib
import resource
import subprocess
import sys
import tempfile
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
sys.path.insert(0, str(HERE.parent / "interop"))
import numpy as np  # noqa: E402
from decoder import decoder  # noqa: E402
from measured import measured  # noqa: E402

PARAMETERS, CONTEXT, BATCH, VOCABULARY = 124_439_808, 1024, 4, 50257
MOST_SECONDS, MOST_WEIGHTS, MOST_READING = 60, 4, 1.2


def run(folder, *words):
    subprocess.run(list(map(str, words)), cwd=folder, check=True, stdout=subprocess.DEVNULL)


def write_gpt2(python, folder):
    if python:
        run(HERE, python, "-W", "ignore", HERE.parents[1] / "examples/hf/export.py", "gpt2", "--class", "GPT2LMHeadModel", "--input", f"input_ids=i64[{CONTEXT}]",
            "-o", folder)
        return "transformers"
    for ending, training in (("", True), ("_eval", False)):
        net, y = decoder(12, 768, 12, CONTEXT, VOCABULARY, training=training)
        net.save(folder / f"net{ending}.pt2", y)
    return "decoder.py"


def gpt2(options, folder):
    maker = write_gpt2(options.python, folder)
    tokens = np.random.default_rng(1).integers(0, VOCABULARY, (16, CONTEXT + 1))
    np.save(folder / "x.npy", tokens[:, :-1])
    np.save(folder / "y.npy", tokens[:, 1:])
    run(folder, options.bin / "dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "data.h5")
    run(folder, options.bin / "dgx-key", "new", "alice")
    inputs = ["--inputs", "input_ids=x", "--model-output", "logits"] if options.python else []
    took = measured([options.bin / "dgx-submit", "--data", "data.h5", "--model", "net.pt2", "--eval-model", "net_eval.pt2", *inputs, "--loss", "cross-entropy",
                     "--optimizer", "adamw:lr=3e-4", "--batch", BATCH, "--steps", 1000, "--key", "alice.pem", "-o", "task.json", "-q"], cwd=folder)
    times = took["bytes"] / (4 * PARAMETERS)
    print(f"GPT-2 by {maker}: {took['seconds']:.1f} s, {took['bytes'] / 1e6:,.0f} MB at the peak, {times:.2f} times its weights")
    return took["seconds"] <= MOST_SECONDS and times <= MOST_WEIGHTS


def write_gib(path):
    """The network relu.pt with eight parameters of 128 MiB that nothing uses."""
    from pt2_models import relu_net

    net, y = relu_net()
    for n in range(8):
        net.parameter(f"unused{n}", np.random.default_rng(n).standard_normal((1 << 25,), "f4"))
    net.save(path, y)


def processor_seconds():
    """Of this process and those that it has waited for: other work on the machine counts less than in seconds of a clock."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def least_seconds(works, times=7):
    """By work, the least of several times, each work in its turn."""
    taken = [[] for _ in works]
    for _ in range(times):
        for work, list_of_it in zip(works, taken):
            begin = processor_seconds()
            work()
            list_of_it.append(processor_seconds() - begin)
    return [min(each) for each in taken]


def read_bytes(path, crc):
    """Reads a file in pieces into new memory of its size, of huge pages as dgx's tensors."""
    pages, total, done = mmap.mmap(-1, path.stat().st_size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), 0, 0
    pages.madvise(mmap.MADV_HUGEPAGE)
    kept = memoryview(pages)
    with open(path, "rb", buffering=0) as file:
        while got := file.readinto(kept[done:done + (256 << 10)]):
            total = zlib.crc32(kept[done:done + got], total) if crc else 0
            done += got


def reading(options, folder):
    path = folder / "gib.pt2"
    write_gib(path)
    capture = [options.build / "tests/unit/torch/dump_capture", options.build / "lib/dgx/libdgx_torch.so", path, "8,1,28,28", "f32"]
    train, evaluation, plain, checked = least_seconds([lambda: run(folder, *capture, "train"), lambda: run(folder, *capture, "eval"),
                                                       lambda: read_bytes(path, False), lambda: read_bytes(path, True)])
    ours = train - evaluation
    print(f"archive of {path.stat().st_size / (1 << 30):.2f} GiB: read in {ours:.2f} processor seconds (a capture takes {train:.2f} s with its weights, {evaluation:.2f} s without); "
          f"its bytes with their CRC-32 in {checked:.2f} s, without in {plain:.2f} s: {ours / checked:.2f} times")
    return ours <= MOST_READING * checked


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bin", "build", "folder"):
        parser.add_argument(f"--{name}", required=True, type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--python", help="of an environment with torch and transformers", type=lambda path: pathlib.Path(path).absolute())
    options = parser.parse_args()
    good = []
    for part in (gpt2, reading):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            good.append(part(options, pathlib.Path(folder)))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
