#!/usr/bin/python3
"""The README's section for those who know only PyTorch works as written: readme_model.py --bin FOLDER [--python FOLDER]

Its commands, in one shell, on drawn images of three classes that only their patterns tell apart. Validation accuracy rises; the weights that the
README loads in Python are the exported ones, and give the same outputs in PyTorch. Debian's PyTorch has no torch.export: there no_export/ stands in
for it. --python names the folder of a Python whose PyTorch has it, which must be the one that runs this. Exits 77 without PyTorch.
"""

import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "dgx-pack"))
import needs  # noqa: E402

needs.modules("h5py", "numpy", "torch")
import h5py  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from make_images import png  # noqa: E402
from readme import commands_of  # noqa: E402

SIZE, EACH = 32, 60  # the tenth for validation has less than 65,536 bytes, which h5py reads as they are
SECTION = "Train your own model on a folder of images"
LEAST_ACCURACY = 0.9


def draw(random, kind):
    """An image of stripes across, stripes down or a chequerboard, of any two colours, moved and noisy."""
    row, column = np.mgrid[:SIZE, :SIZE]
    moved = random.integers(4)
    across, down = (row + moved) // 2 % 2, (column + moved) // 2 % 2
    pattern = {"across": across, "down": down, "squares": across ^ down}[kind]
    colours = random.uniform(60, 195, 3) + np.array([[-45], [45]]) * random.choice([-1, 1], 3)
    return np.clip(colours[pattern] + random.normal(0, 12, (SIZE, SIZE, 3)), 0, 255).astype(np.uint8)


def make_photos(folder):
    random = np.random.default_rng(1)
    for kind in ("across", "down", "squares"):
        (folder / kind).mkdir(parents=True)
        for number in range(EACH):
            rows = [line.tobytes() for line in draw(random, kind)]
            (folder / kind / f"{number}.png").write_bytes(png(rows, SIZE, colour=2))


def problems_of_training(folder):
    with open(folder / "run/validation.csv") as file:
        accuracies = [float(row["accuracy"]) for row in csv.DictReader(file)]
    if len(accuracies) < 5 or accuracies[-1] < LEAST_ACCURACY or accuracies[-1] <= accuracies[0]:
        yield f"validation accuracy does not rise above {LEAST_ACCURACY}: {accuracies}"
    if "<svg" not in (folder / "run.svg").read_text():
        yield "run.svg is not a picture"


def problems_of_weights(folder, run):
    """use.py, as the README has it, is imported where it lies, without dgx's HDF5 filter."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    import use  # noqa: E402

    run("dgx-inspect export run -o state.h5")
    with h5py.File("state.h5") as file:
        for name, tensor in use.net.state_dict().items():
            if file["state/model"][name][()].tobytes() != tensor.numpy().tobytes():
                yield f"{name} is not what was exported"
    with h5py.File("valid.h5") as file:
        x, y = file["x"][()], file["y"][()]
    run("dgx-train task.json --data valid.h5 --evaluate run --predictions predictions.npz --json > measures.json")
    images = torch.from_numpy(x)
    with torch.no_grad():
        outputs = use.net(images.float() * (1 / 255)).numpy()
    theirs = np.load("predictions.npz")["outputs"]
    if not np.allclose(outputs, theirs, rtol=1e-4, atol=1e-4):
        yield f"PyTorch's outputs differ by {np.abs(outputs - theirs).max()}"
    accuracy = float(json.loads(pathlib.Path("measures.json").read_text())["accuracy"])
    ours = float((use.classes_of(images).numpy() == y).mean())
    if abs(ours - accuracy) > 1e-6:
        yield f"PyTorch's accuracy is {ours}, dgx-train's {accuracy}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=os.path.abspath)
    parser.add_argument("--python", default="/usr/bin", type=os.path.abspath)
    arguments = parser.parse_args()
    environment = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"}
    environment["PATH"] = f"{arguments.bin}:{arguments.python}:/usr/bin:/bin"
    if not hasattr(torch, "export"):
        environment["PYTHONPATH"] = str(pathlib.Path(__file__).resolve().parent / "no_export")

    with tempfile.TemporaryDirectory(prefix="dgx-readme-") as name:
        folder = pathlib.Path(name)

        def run(script):
            return subprocess.run(["/bin/sh", "-ec", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)

        make_photos(folder / "photos")
        done = run("\n".join(commands_of(SECTION)) + "\ndgx-prove task.json run --key me.pem -o proof.json\ndgx-inspect check-model cnn.npz proof.json\n")
        problems = [f"exit {done.returncode}: {done.stderr}"] if done.returncode or "error" in done.stderr else []
        if not problems:
            problems = [*problems_of_training(folder), *problems_of_weights(folder, run)]
        os.chdir("/")
    print("\n".join(problems) or "the README's model is trained, and PyTorch has it")
    if problems:
        print(done.stdout)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
