#!/usr/bin/python3
"""The programs with --device cuda: the CPU's digests, and the stored ones.

usage: devices.py --bin FOLDER [--module FILE] [--steps N] [--few] [--behaviours] [--stored | --scripted] [--nvrtc]

Without --module, the real one beside the programs: exits 77 if it finds none. --module names the emulated
device's in a build with tests; --behaviours also lets that one run out of memory, be lost, and change the order of threads. --few: of networks
that take a CPU long, five steps. --stored: only tasks that are stored, where dgx is built without libtorch.
--nvrtc: the module compiles with NVRTC: exits 77 without it, and checks that it says so. --scripted: only models that PyTorch scripts; exits 77 without
Debian's python3-torch.
"""

import argparse
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "repro"), str(HERE.parent / "models"), str(HERE.parent / "support")]
import needs  # noqa: E402
import tasks  # noqa: E402

TEXT = pathlib.Path("/usr/share/common-licenses/GPL-3")
# Of tests/models: what it reads, and its optimizer.
SCRIPTED = {"llama": ("Llama", "text", "adamw:lr=1e-2,betas=0.9/0.95,weight-decay=0.1"),
            "vision_transformer": ("VisionTransformer", "images", "adam:lr=3e-3"),
            "depthwise": ("Depthwise", "images", "sgd:lr=0.1,momentum=0.9")}
FUNCTIONS = ("pairs", "binary64")
failures = 0


def check(holds, what):
    global failures
    if not holds:
        failures += 1
        print(f"FAILED: {what}")


class Bench:
    def __init__(self, options, folder):
        self.bin, self.folder = pathlib.Path(options.bin).resolve(), folder
        self.environment = dict(os.environ, NO_COLOR="1")
        if options.module:
            self.environment["DGX_CUDA_MODULE"] = str(pathlib.Path(options.module).resolve())
        tasks.run(self.bin, "dgx-key", "new", "key", cwd=folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def call(self, *words, behaviour=""):
        """Exit code and standard error."""
        environment = dict(self.environment, DGX_EMULATED_DEVICE=behaviour)
        done = subprocess.run([self.bin / words[0], *map(str, words[1:])], cwd=self.folder, env=environment, capture_output=True, text=True)
        return done.returncode, done.stderr

    def train(self, task, data, run, *words, device, behaviour="", functions=""):
        """`functions`: how the device computes elementary functions, if it is not to choose."""
        environment = dict(self.environment, DGX_EMULATED_DEVICE=behaviour or (functions and f"functions={functions}"), DGX_DEVICE_FUNCTIONS=functions)
        return tasks.train(self.bin, task, data, run, "--device", device, *map(str, words), cwd=self.folder, env=environment)[1]

    def submit(self, name, data, *words):
        tasks.run(self.bin, "dgx-submit", "--data", data, "--seed", "7", "--key", "key.pem", "-o", f"{name}.json", *map(str, words), cwd=self.folder)
        return f"{name}.json"


def stored_digests(bench, small):
    for behaviour in bench.behaviours:
        run = f"small-{behaviour}"
        got = bench.train(tasks.stored("small"), small, run, "--until", 20, device="cuda", behaviour=behaviour)["state"]
        check(got == tasks.expected()["small"]["states"]["20"], f"the stored state after 20 steps, {behaviour or 'as it is'}")
    if not bench.emulated:
        got = bench.train(tasks.stored("small"), small, "small-", device="cuda")["state"]
        check(got == tasks.expected()["small"]["states"]["300"], "the stored state after 300 steps")
    # From device to device in the middle of a segment.
    for device, until in (("cuda", 7), ("cpu", 13), ("cuda", 20)):
        got = bench.train(tasks.stored("small"), small, "in-turns", "--until", until, device=device)["state"]
    check(got == tasks.expected()["small"]["states"]["20"], "the stored state after 20 steps, on both devices in turns")


def logged(bench, run):
    """Of each row of the run's log what does not depend on the machine: step, epoch, loss, learning rate, norm of the gradients."""
    with open(bench.path(f"{run}/log.csv")) as file:
        return [line.split(",")[:5] for line in file]


def same_digest(bench, name, task, data, steps, ways=("",)):
    """Of the CPU and of a device that computes elementary functions in these ways."""
    states = [bench.train(task, data, f"{name}-cpu", "--until", steps, device="cpu")["state"]]
    for way in ways:
        states.append(bench.train(task, data, f"{name}-cuda-{way}", "--until", steps, device="cuda", functions=way)["state"])
        check(states[0] == states[-1], f"{name}: after {steps} steps the CPU has {states[0]}, the device {states[-1]} {way}")
        check(logged(bench, f"{name}-cpu") == logged(bench, f"{name}-cuda-{way}"), f"{name}: the device's log is not the CPU's {way}")
    print(f"{name}: {steps} steps, {states[0][:12]}")


def without_nvrtc(bench, small):
    """Refused, with a hint, and nothing is written."""
    bench.environment["DGX_NVRTC"] = "/nonexistent/libnvrtc.so"
    code, said = bench.call("dgx-train", tasks.stored("small"), "--data", small, "-o", "refused", "--until", 3, "--device", "cuda")
    del bench.environment["DGX_NVRTC"]
    error, hint = (said.splitlines() + ["", ""])[:2]
    check(code == 70 and error.startswith("dgx-train: error: --device cuda: it needs NVRTC") and hint.startswith("hint: ") and "DGX_NVRTC" in hint,
          f"without NVRTC: exit {code}: {said}")
    check(not os.path.exists(bench.path("refused")), "a run is there that could not begin")


def built_in(bench, small, steps):
    pack_images(bench)
    tasks.run(bench.bin, "dgx-pack", "idx", "--images", "i.idx", "--labels", "l.idx", "--scale", "0.00390625", "-o", "i.h5", cwd=bench.folder)
    images = ["--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1,momentum=0.9", "--batch", 2, "--steps", 50, "--checkpoint-every", 25]
    same_digest(bench, "mlp", bench.submit("mlp", small, "--model", "mlp:144-33-10,activation=gelu", "--clip-norm", "0.5", *images), small, steps, ("", *FUNCTIONS))
    same_digest(bench, "resnet", bench.submit("resnet", "i.h5", "--model", "resnet20", *images), "i.h5", min(steps, bench.few))
    text = bench.path("text.h5")
    tasks.run(bench.bin, "dgx-pack", "text", str(TEXT), "--context", "16", "--first", "64", "-o", text)
    same_digest(bench, "gpt", bench.submit("gpt", text, "--model", "gpt:layers=2,width=32,heads=2,context=16,dropout=0.1", "--loss", "cross-entropy",
                                           "--optimizer", "adamw:lr=1e-3", "--batch", 4, "--steps", 50, "--checkpoint-every", 25), text, min(steps, bench.few),
                FUNCTIONS)
    same_digest(bench, "switch", bench.submit("switch", text, "--model", "switch:layers=2,width=32,heads=2,context=16,experts=3,capacity=0.9", "--loss", "cross-entropy",
                                              "--optimizer", "adamw:lr=1e-3", "--batch", 4, "--steps", 50, "--checkpoint-every", 25), text, min(steps, bench.few))


def scripted(bench, steps):
    common = importlib.import_module("common")
    import torch
    pack_images(bench)
    for name, (model, reads, optimizer) in SCRIPTED.items():
        inner = common.Bench(bench.bin, bench.folder)
        inner.run("dgx-key", "new", "key", "--force")
        torch.manual_seed(1)
        torch.jit.script(getattr(importlib.import_module(name), model)()).save(bench.path("model.pt"))
        data = common.Data.TEXT if reads == "text" else common.Data.IMAGES
        inner.run(*(["dgx-pack", "text", TEXT, "--context", common.CONTEXT, "--first", 16, "-o", "data.h5", "--force"] if reads == "text" else
                    ["dgx-pack", "idx", "--images", "i.idx", "--labels", "l.idx", "--scale", "0.00390625", "-o", "data.h5", "--force"]))
        inner.submit(name, data, optimizer, 2, 50, 25, "--force")
        same_digest(bench, name, f"{name}.json", "data.h5", min(steps, bench.few))


def pack_images(bench):
    """i.idx, l.idx: 16 images of 28 × 28, and labels."""
    tasks.write_idx(bench.path("i.idx"), (16, 28, 28), tasks.noise(16 * 784, b"images"))
    tasks.write_idx(bench.path("l.idx"), (16,), bytes(byte % 10 for byte in tasks.noise(16, b"classes")))


def profile(bench, small):
    """Steps whose operations are timed one by one are the same steps."""
    result = bench.train(tasks.stored("small"), small, "profiled", "--until", 20, "--profile-ops", device="cuda")
    check(result["state"] == tasks.expected()["small"]["states"]["20"], "the stored state after 20 profiled steps")
    check(result["profiled_steps"] == 20, f"{result['profiled_steps']} steps were profiled")
    check(any(row["milliseconds"] > 0 for row in result["operations"]), "no operation took time")


def verification(bench, small):
    """A drilled run: the proof is made, and a verifier with the device finds the fault."""
    task = bench.submit("drilled", small, "--model", "mlp:144-16-10", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1", "--batch", 8, "--steps", 12,
                        "--checkpoint-every", 4)
    for name, words, verdict in (("honest", [], 0), ("faulty", ["--drill", "step=5,op=14,element=9,bit=20"], 1)):
        bench.train(task, small, name, *words, device="cuda")
        bench.call("dgx-prove", task, name, "--key", "key.pem", "-o", f"{name}-proof.json")
        code, said = bench.call("dgx-verify", task, f"{name}-proof.json", "--from", name, "--data", small, "--all", "--key", "key.pem", "-o",
                                f"{name}-verdict.json", "--device", "cuda")
        check(code == verdict, f"dgx-verify of the {name} run: exit {code}, expected {verdict}: {said}")


def misbehaviour(bench, small):
    """What only the emulated device does when it is asked to."""
    code, said = bench.call("dgx-train", tasks.stored("small"), "--data", small, "-o", "no", "--device", "cuda", behaviour="memory=5000")
    check(code == 70 and "bytes of device memory, emulated device has 5000 free" in said, f"no memory: exit {code}: {said}")
    check(not os.path.exists(bench.path("no")), "a run is there that could not begin")
    # Behind several checkpoints: that which is on its way from a device when it is lost is lost with it.
    code, said = bench.call("dgx-train", tasks.stored("small"), "--data", small, "-o", "lost", "--device", "cuda", behaviour="lost-after=2000")
    check(code == 70 and "the device is lost" in said, f"lost: exit {code}: {said}")
    kept = sorted(os.listdir(bench.path("lost")))
    check(len(kept) > 3, f"nothing was kept when the device was lost: {kept}")
    result = bench.train(tasks.stored("small"), small, "lost", device="cpu")
    check(result.get("resumed_from", 0) > 0, "the CPU began anew")
    check(result["state"] == tasks.expected()["small"]["states"]["300"], "the stored state after a device was lost")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--module")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--behaviours", action="store_true")
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("--scripted", action="store_true")
    parser.add_argument("--nvrtc", action="store_true")
    options = parser.parse_args()
    if options.scripted:
        needs.modules("numpy", "h5py", "torch")
    with tempfile.TemporaryDirectory(prefix="dgx-gpu-") as folder:
        bench = Bench(options, folder)
        bench.behaviours = ["", "order=reversed", "order=shuffled"] if options.behaviours else [""]
        bench.emulated = bool(options.module)
        bench.few = 5 if options.few else options.steps
        small = tasks.pack_small(bench.bin, folder)
        code, said = bench.call("dgx-train", tasks.stored("small"), "--data", small, "-o", "probe", "--until", 1, "--device", "cuda")
        if code == 70 and (not options.module or (options.nvrtc and "NVRTC" in said)):
            needs.skip(said.splitlines()[0])
        check(code == 0, f"the first step: exit {code}: {said}")
        if options.scripted:
            scripted(bench, options.steps)
            finish()
        stored_digests(bench, small)
        profile(bench, small)
        if not options.stored:
            built_in(bench, small, options.steps)
            verification(bench, small)
        if options.behaviours:
            misbehaviour(bench, small)
        if options.nvrtc:
            without_nvrtc(bench, small)
    finish()


def finish():
    print("all digests are the CPU's" if failures == 0 else f"{failures} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
