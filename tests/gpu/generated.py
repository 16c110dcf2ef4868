#!/usr/bin/python3
"""The kernels that are generated for a step, through the real NVRTC: it takes them, and what it makes of them leaves a GPU no freedom (ptx/rules.py).

usage: generated.py --bin FOLDER --text PROGRAM [--stored] [--keep FOLDER]

Exits 77 where NVRTC is not found. --stored: only the stored task, where dgx is built without libtorch. --keep: texts and PTX stay there.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "repro"), str(HERE.parent / "support"), str(HERE / "ptx")]
import needs  # noqa: E402
import rules  # noqa: E402
import tasks  # noqa: E402

TEXT = pathlib.Path("/usr/share/common-licenses/GPL-3")


def submit(options, folder, name, data, *words):
    tasks.run(options.bin, "dgx-submit", "--data", data, "--seed", "7", "--key", "key.pem", "--loss", "cross-entropy", "-o", f"{name}.json", *words, cwd=folder)
    return pathlib.Path(folder, f"{name}.program.jsonl")


def programs_of(options, folder):
    """Names and step programs."""
    if options.stored:
        yield "small", pathlib.Path(tasks.stored("small")).with_suffix(".program.jsonl")
        return
    tasks.run(options.bin, "dgx-key", "new", "key", cwd=folder)
    for name, size in (("i.idx", (256, 28, 28)), ("l.idx", (256,))):
        count = 256 * 784 if len(size) == 3 else 256
        noise = tasks.noise(count, name.encode())
        tasks.write_idx(str(pathlib.Path(folder, name)), size, noise if len(size) == 3 else bytes(byte % 10 for byte in noise))
    tasks.run(options.bin, "dgx-pack", "idx", "--images", "i.idx", "--labels", "l.idx", "--scale", "0.00390625", "-o", "i.h5", cwd=folder)
    tasks.run(options.bin, "dgx-pack", "text", str(TEXT), "--context", "256", "-o", "text.h5", cwd=folder)
    steps = ["--steps", "50", "--checkpoint-every", "25"]
    yield "mlp", submit(options, folder, "mlp", "i.h5", "--model", "mlp:784-128-10", "--optimizer", "sgd:lr=0.1,momentum=0.9", "--batch", "64", *steps)
    yield "resnet", submit(options, folder, "resnet", "i.h5", "--model", "resnet20", "--optimizer", "sgd:lr=0.1,momentum=0.9", "--batch", "128", *steps)
    yield "gpt", submit(options, folder, "gpt", "text.h5", "--model", "gpt:layers=2,width=384,heads=6,context=256,dropout=0.1", "--optimizer", "adamw:lr=1e-3",
                        "--clip-norm", "1", "--batch", "32", *steps)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("--keep")
    options = parser.parse_args()
    options.bin = pathlib.Path(options.bin).resolve()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="dgx-nvrtc-") as folder:
        for name, program in programs_of(options, folder):
            out = pathlib.Path(options.keep or folder, name)
            done = subprocess.run([options.text, program, out, *(["90"] if options.keep else [])], capture_output=True, text=True)
            if done.returncode == needs.SKIPPED:
                needs.skip(done.stdout.splitlines()[-1].removeprefix("skipped: "))
            print(f"{name}: {' '.join(done.stdout.split(chr(10)))}{done.stderr}")
            if options.keep:
                shutil.copy(program, f"{out}.program.jsonl")
            if done.returncode != 0:
                sys.exit(done.returncode)
            problems, instructions = rules.problems_of(pathlib.Path(f"{out}.ptx").read_text())
            for instruction, why in sorted(problems.items()):
                print(f"{name}: {instruction} {why}")
            print(f"{name}: {instructions} instructions, {len(problems)} forms that may not be")
            wrong += len(problems) + (instructions < 100)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
