"""Models of transformers as users bring them (hf_models.py): hf.py --bin FOLDER --folder FOLDER [--accept] [NAME …]

Each is exported by examples/hf/export.py in training and evaluation mode, with a batch of any size, and must be taken by dgx-submit. The first step's
loss is torch's within 1e-5, and its gradients within 1e-4 of each tensor's largest, of the same model (in evaluation mode, if it draws random
numbers in training). Then 200 steps are trained on all inputs that the model takes, proved and verified. GPT-2 ends in one state with the loss
inside and outside. --accept writes the table of tests/models/README.md. Runs in an environment with torch, transformers, h5py and numpy (hf.sh makes it).
"""

import argparse
import json
import math
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "examples/hf"), str(HERE)]
import export  # noqa: E402
import h5py  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from hf_models import MODELS, VOCABULARY  # noqa: E402

BATCH, STEPS, INTERVAL = 8, 200, 20
LEAST = 19
LOSS_WITHIN, GRADIENT_WITHIN = 1e-5, 1e-4
DRAWING = ("dropout", "bernoulli", "rand")
HEAD = "| model | class | parameters | operations | compared | loss | gradients | first loss | last loss |\n|" + " --- |" * 9


class Failure(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


class Bench:
    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder

    def run(self, *words):
        done = subprocess.run([self.programs / words[0], *map(str, words[1:])], cwd=self.folder, capture_output=True, text=True)
        check(done.returncode == 0, f"{words[0]}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def json(self, *words):
        return json.loads(self.run(*words, "--json", "-q").splitlines()[-1])


def draw(name, samples):
    """Inputs by name, and targets."""
    *_, inputs, shape, classes = MODELS[name]
    random = np.random.default_rng(len(name))
    drawn = {}
    for key, form in inputs.items():
        dims = [samples, *export.parse_form(form)[1]]
        if key == "attention_mask":  # every sample has another length
            drawn[key] = (np.arange(dims[1]) < random.integers(dims[1] // 2, dims[1] + 1, [samples, 1])).astype("i8")
        else:
            drawn[key] = random.standard_normal(dims).astype("f4") if form.startswith("f32") else random.integers(3, VOCABULARY, dims)
    return drawn, random.integers(0, classes, [samples, *shape])


def pack(bench, name, inputs, targets):
    (first, x), *fields = inputs.items()
    np.save(bench.folder / "x.npy", x)
    np.save(bench.folder / "y.npy", targets)
    words = ["dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy"]
    for key, array in fields:
        np.save(bench.folder / f"{key}.npy", array)
        words += ["--field", f"{key}={key}.npy"]
    bench.run(*words, "-o", f"{name}.h5", "--force", "-q")


def submit(bench, name, task, model, *words):
    *_, inputs, _, _ = MODELS[name]
    several = ["--model-output", "logits"] if name in ("t5", "whisper") else []
    return bench.json("dgx-submit", "--data", f"{name}.h5", "--model", model, *several, "--loss", "cross-entropy", "--batch", BATCH, "--key", "key.pem",
                      "-o", f"{task}.json", "--force", *words)


def draws(path):
    return any(part in str(node.target) and node.args[1:2] != (0.0,) for node in torch.export.load(path).graph.nodes for part in DRAWING)


def compare(bench, name, model, compared, inputs, targets):
    """Relative errors of the first loss and of the worst gradient; one batch is the whole dataset, and a tiny rate leaves the weights as they are."""
    pack(bench, name, inputs, targets)
    archive = f"{name}_eval.pt2" if compared == "evaluation" else f"{name}.pt2"
    submit(bench, name, "gradient", archive, "--eval-model", f"{name}_eval.pt2", "--optimizer", "sgd:lr=1e-30,momentum=1e-9", "--steps", 2,
           "--checkpoint-every", 2)
    bench.run("dgx-train", "gradient.json", "--data", f"{name}.h5", "-o", f"{name}.gradient", "--force", "-q")
    bench.run("dgx-inspect", "export", f"{name}.gradient", "-o", "gradient.h5", "--force", "-q")
    model.train(compared == "training").zero_grad()
    output = model(**{key: torch.from_numpy(array) for key, array in inputs.items()}).logits
    loss = torch.nn.functional.cross_entropy(output.flatten(0, -2), torch.from_numpy(targets).flatten())
    loss.backward()
    theirs = {key: parameter.grad.numpy() for key, parameter in model.named_parameters() if parameter.grad is not None}
    with h5py.File(bench.folder / "gradient.h5") as file:
        mine = {key: file[f"state/optimizer/momentum/{key}"][()] for key in theirs}
    largest = max(np.abs(gradient).max() for gradient in theirs.values())
    worst = max((float(np.abs(mine[key] - theirs[key]).max() / max(np.abs(theirs[key]).max(), 1e-4 * largest)), key) for key in theirs)
    first = losses_of(bench, f"{name}.gradient")[0]
    return abs(first - loss.item()) / abs(loss.item()), worst


def losses_of(bench, run):
    with h5py.File(bench.folder / run / "index.h5") as file:
        return [float(loss) for loss in file["losses"][()]]


def life(bench, name):
    """The model's row of the table."""
    kind, of_class, settings, forms, _, _ = MODELS[name]
    model = export.make_model(kind, of_class, settings, seed=0)
    export.export(model, {key: export.example(form) for key, form in forms.items()}, bench.folder, name)
    compared = "evaluation" if draws(bench.folder / f"{name}.pt2") else "training"
    loss_error, (worst, where) = compare(bench, name, model, compared, *draw(name, BATCH))
    check(loss_error <= LOSS_WITHIN, f"the first loss is {loss_error:.1g} from torch's")
    check(worst <= GRADIENT_WITHIN, f"the gradient of {where} is {worst:.1g} from torch's")

    pack(bench, name, *draw(name, 2 * BATCH))
    told = submit(bench, name, name, f"{name}.pt2", "--eval-model", f"{name}_eval.pt2", "--optimizer", "adamw:lr=1e-3", "--steps", STEPS,
                  "--checkpoint-every", INTERVAL)
    bench.run("dgx-train", f"{name}.json", "--data", f"{name}.h5", "-o", f"{name}.run", "--force", "-q")
    bench.run("dgx-prove", f"{name}.json", f"{name}.run", "--key", "key.pem", "-o", f"{name}.proof.json", "--force", "-q")
    verdict = bench.json("dgx-verify", f"{name}.json", f"{name}.proof.json", "--from", f"{name}.run", "--data", f"{name}.h5", "--all", "--key", "key.pem",
                         "-o", f"{name}.verdict.json", "--force")
    check(verdict["verdict"] == "accepted", "the proof is not accepted")
    bench.run("dgx-train", f"{name}.json", "--data", f"{name}.h5", "--evaluate", f"{name}.run", "-q")
    losses = losses_of(bench, f"{name}.run")
    first, last = sum(losses[:10]) / 10, sum(losses[-10:]) / 10
    check(math.isfinite(last) and last < first, f"the loss does not fall: {first} to {last}")
    with open(bench.folder / f"{name}.program.jsonl") as file:
        operations = sum(1 for _ in file) - 1
    return f"| {name} | {of_class} | {int(told['parameters']):,} | {operations:,} | {compared} | {loss_error:.0e} | {worst:.0e} | {first:.2f} | {last:.2f} |"


def loss_inside(bench):
    """Trains GPT-2 with the loss that it computes itself of the labels, and with ours on labels that are moved by one: both end in one state."""
    kind, of_class, settings, forms, _, _ = MODELS["gpt2"]
    examples = {key: export.example(form) for key, form in forms.items()}
    for name, inputs in (("inside", {**examples, "labels": examples["input_ids"].clone()}), ("outside", examples)):
        export.export(export.make_model(kind, of_class, settings, seed=0), inputs, bench.folder, name)
    inputs, _ = draw("gpt2", 2 * BATCH)
    ids = inputs["input_ids"]
    pack(bench, "inside", inputs, ids)
    pack(bench, "outside", inputs, np.concatenate([ids[:, 1:], np.full((len(ids), 1), -100)], 1))
    states = []
    for name, loss in (("inside", "output=loss"), ("outside", "cross-entropy:ignore=-100")):
        bench.run("dgx-submit", "--data", f"{name}.h5", "--model", f"{name}.pt2", "--eval-model", f"{name}_eval.pt2", "--loss", loss, "--optimizer",
                  "adamw:lr=1e-3", "--batch", BATCH, "--steps", STEPS, "--checkpoint-every", INTERVAL, "--key", "key.pem", "-o", f"{name}.json", "-q")
        states.append(bench.json("dgx-train", f"{name}.json", "--data", f"{name}.h5", "-o", f"{name}.run")["state"])
    check(states[0] == states[1], f"GPT-2 with its loss inside ends in {states[0]}, outside in {states[1]}")
    print(f"gpt2 with its loss inside and outside ends in one state, {states[0]}")


def accept(rows, failures):
    path = HERE.parent / "models/README.md"
    before, after = path.read_text().split("<!-- hf.py -->\n")[0], path.read_text().split("<!-- end -->\n")[1]
    table = "\n".join([HEAD, *rows, *(f"| {name} | not lowered: {why} |" + " |" * 7 for name, why in failures.items())])
    path.write_text(f"{before}<!-- hf.py -->\n{table}\n<!-- end -->\n{after}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--accept", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    torch.set_num_threads(1)
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    bench, rows, failures = Bench(options.bin.resolve(), options.folder.resolve()), [], {}
    bench.run("dgx-key", "new", "key", "--force", "-q")
    loss_inside(bench)
    print(HEAD, flush=True)
    for name in options.names or MODELS:
        try:
            rows.append(life(bench, name))
            print(rows[-1], flush=True)
        except Failure as failure:
            failures[name] = str(failure)
            print(f"{name}: {failure}", flush=True)
    if options.accept:
        accept(rows, failures)
    print(f"{len(rows)} of {len(rows) + len(failures)} architectures are exported, compared, trained, proved and verified")
    sys.exit(0 if len(rows) >= min(LEAST, len(options.names or MODELS)) else 1)


if __name__ == "__main__":
    main()
