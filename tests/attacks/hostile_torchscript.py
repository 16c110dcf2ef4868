#!/usr/bin/python3
"""TorchScript files that would write files, handed to dgx-submit: hostile_torchscript.py --bin FOLDER --models FOLDER

dgx-threats(7), row 8. Each archive is made by hand from an honest one, by replacing text of its code or its pickles, so that libtorch would write
in forward(), in what forward() calls, or already while it loads the file. dgx-submit and dgx-submit estimate must refuse it by name, and no
file may have been made or changed. Exits 77 without NumPy.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import needs  # noqa: E402

needs.modules("numpy")
import numpy  # noqa: E402

CALL = 'torch.from_file("VICTIM", True, 1000)'
OWN = "__torch__.torch.classes."
LINEAR_FORWARD = "    x: Tensor) -> Tensor:\n    weight = self.weight"
RELU = "    x1 = torch.relu(x0)\n"
NOT_IN_TABLE = "it is not in the table"
LOADING = "it would run while the file is loaded"
HIDDEN = "the code that it runs cannot be inspected"


def instead_of_relu(*lines):
    return {RELU: "".join(f"    {line}\n" for line in lines)}


def with_class(body, *lines):
    """A class of the file's own, and forward() uses it."""
    return {"class Linear(Module):": f"class Evil:\n{body}class Linear(Module):", **instead_of_relu(*lines)}


# Name, what is replaced in the code, words of the refusal.
FORWARD = [
    ("forward", instead_of_relu(f"x1 = torch.add(x0, {CALL})"), "no exact lowering for aten::from_file (forward (__torch__.py:"),
    ("by its full name", instead_of_relu('x1 = ops.aten.from_file("VICTIM", True, 1000)'), "aten::from_file"),
    ("submodule", {LINEAR_FORWARD: f"    x: Tensor) -> Tensor:\n    weight = torch.add(self.weight, {CALL})"}, "aten::from_file"),
    ("branch", instead_of_relu("if True:", f"  x1 = {CALL}", "else:", "  x1 = x0"), "aten::from_file"),
    ("branch that is not taken", instead_of_relu("if torch.eq(torch.len(x0), 3):", f"  x1 = {CALL}", "else:", "  x1 = x0"), "aten::from_file"),
    ("loop", instead_of_relu("x1 = x0", "for i in range(3):", f"  x1 = torch.add(x1, {CALL})"), "aten::from_file"),
    ("save", instead_of_relu('torch.save(x0, "VICTIM")', "x1 = x0"), "aten::save"),
    ("save as a method", instead_of_relu('ops.aten.save(x0, "VICTIM")', "x1 = x0"), "aten::save"),
    ("another's memory", instead_of_relu("x1 = torch.set_(x0, x0)"), "aten::set_"),
    ("a seed for the whole process", instead_of_relu("torch.manual_seed(3)", "x1 = x0"), "aten::manual_seed"),
    ("constructor", with_class(f"  a : Tensor\n  def __init__(self: __torch__.Evil) -> NoneType:\n    self.a = {CALL}\n    return None\n",
                               "e = __torch__.Evil.__new__(__torch__.Evil)", "_0 = (e).__init__()", "x1 = x0"), "aten::from_file"),
    ("with", with_class("  a : Tensor\n  def __init__(self: __torch__.Evil, x: Tensor) -> NoneType:\n    self.a = x\n    return None\n"
                        f"  def __enter__(self: __torch__.Evil) -> NoneType:\n    self.a = {CALL}\n    return None\n"
                        "  def __exit__(self: __torch__.Evil, t: Any, v: Any, b: Any) -> NoneType:\n    return None\n",
                        "e = __torch__.Evil.__new__(__torch__.Evil)", "_0 = (e).__init__(x0, )", "with e:", "  pass", "x1 = torch.add(x0, e.a)"), "aten::from_file"),
    ("order of objects", with_class("  a : int\n  def __init__(self: __torch__.Evil) -> NoneType:\n    self.a = 1\n    return None\n"
                                    f"  def __lt__(self: __torch__.Evil, other: __torch__.Evil) -> bool:\n    return torch.Bool(torch.sum({CALL}))\n",
                                    "e = __torch__.Evil.__new__(__torch__.Evil)", "_0 = (e).__init__()", "l = [e, e]",
                                    "torch.sort(l)", "x1 = torch.add(x0, (l[0]).a)"), "sorting objects"),
]
LOAD = [
    ("default value", {"    x: Tensor) -> Tensor:\n    weight": f"    x: Tensor, y: Tensor={CALL}) -> Tensor:\n    weight"}, CALL.split("(")[0]),
    ("default value in a list", {"    x: Tensor) -> Tensor:\n    weight": f"    x: Tensor, y: List[Tensor]=[{CALL}]) -> Tensor:\n    weight"}, "torch.from_file"),
    ("default value of what nobody calls", {"  def forward(self: __torch__.Linear,": f"  def idle(self: __torch__.Linear, y: Tensor={CALL}) -> int:\n    return 1\n"
                                            "  def forward(self: __torch__.Linear,"}, "torch.from_file"),
    ("default value of a function inside a function", instead_of_relu(f"def idle(y: Tensor={CALL}) -> int:", "  return 1", "x1 = x0"), "torch.from_file"),
    ("default value inside annotate", {"    x: Tensor) -> Tensor:\n    weight": f"    x: Tensor, y: Tensor=annotate(Tensor, {CALL})) -> Tensor:\n    weight"}, "torch.from_file"),
    ("constant of a class", {"  bias : Tensor\n": f"  bias : Tensor\n  K : Final[Tensor] = {CALL}\n"}, "torch.from_file"),
    ("state", {"  def forward(self: __torch__.Linear,": f"  def __getstate__(self: __torch__.Linear) -> int:\n    return 1\n"
               f"  def __setstate__(self: __torch__.Linear, state: int) -> NoneType:\n    y = {CALL}\n    return None\n"
               "  def forward(self: __torch__.Linear,"}, "__setstate__"),
    ("libtorch's own class in the code", {"  bias : Tensor\n": f"  bias : Tensor\n  q : {OWN}quantized.LinearPackedParamsBase\n"}, "torch.classes"),
]


def patched(honest, path, changes, pickles=()):
    """`honest` with texts of its code replaced; each must have been there."""
    done = set()
    with zipfile.ZipFile(honest) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("/code/__torch__.py"):
                text = data.decode()
                for old, new in changes.items():
                    assert old in text, f"{path}: the honest file has no {old!r}"
                    text = text.replace(old, new, 1)
                    done.add(old)
                data = text.encode()
            if name.endswith("/data.pkl"):
                for old, new in pickles:
                    assert old in data, f"{path}: the honest pickle has no {old!r}"
                    data = data.replace(old, new, 1)
            if not name.endswith(".debug_pkl"):  # of lines that have moved
                target.writestr(name, data)
    assert done == set(changes)


class Buyer:
    def __init__(self, bin_folder):
        self.bin = bin_folder
        numpy.save("x.npy", numpy.zeros((8, 28, 28), "u1"))
        numpy.save("y.npy", (numpy.arange(8) % 10).astype("u1"))
        self.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "data.h5")
        self.run("dgx-key", "new", "alice")

    def run(self, program, *arguments):
        return subprocess.run([os.path.join(self.bin, program), *arguments], capture_output=True, text=True, timeout=300)

    def submit(self, model, *command):
        signed = () if command else ("--key", "alice.pem", "-o", f"{model}.json")
        return self.run("dgx-submit", *command, "--data", "data.h5", "--model", model, "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1",
                        "--batch", "4", "--steps", "4", *signed)


def attack(buyer, name, path, words, why):
    """Victim absent, then there: neither call may make it or change it."""
    failures = []
    for content in (None, b"precious"):
        if content is not None:
            with open("victim", "wb") as file:
                file.write(content)
        for command in ((), ("estimate",)):
            before = sorted(os.listdir("."))
            done = buyer.submit(path, *command)
            what = f"{name}, {' '.join(command) or 'submit'}: exit {done.returncode}: {done.stderr.strip()}"
            if done.returncode != 2 or words not in done.stderr or why not in done.stderr:
                failures.append(what)
            if sorted(os.listdir(".")) != before or (content and open("victim", "rb").read() != content):
                failures.append(f"{what}: files were made or changed")
    if os.path.exists("victim"):
        os.remove("victim")
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--models", required=True)
    options = parser.parse_args()
    honest = os.path.join(os.path.abspath(options.models), "relu.pt")
    bin_folder = os.path.abspath(options.bin)
    failures = []
    with tempfile.TemporaryDirectory(prefix="dgx-torchscript-") as folder:
        os.chdir(folder)
        buyer = Buyer(bin_folder)
        victim = os.path.join(folder, "victim")
        patched(honest, "honest.pt", {})
        done = buyer.submit("honest.pt")
        if done.returncode != 0:
            failures.append(f"honest: exit {done.returncode}: {done.stderr}")
        for cases, why in ((FORWARD, ""), (LOAD, LOADING)):
            for name, changes, words in cases:
                patched(honest, "evil.pt", {old: new.replace("VICTIM", victim) for old, new in changes.items()})
                failures += attack(buyer, name, "evil.pt", words, why)
        for split in (b"\nclasses.quantized.", b".classes\nquantized."):
            module = b"__torch__.torch" + split
            patched(honest, "evil.pt", {}, [(b"__torch__\nLinear\n", module + b"LinearPackedParamsBase\n")])
            failures += attack(buyer, "libtorch's own class in a pickle", "evil.pt", "torch.classes", LOADING)
    print("\n".join(failures) or f"{len(FORWARD) + len(LOAD) + 2} hostile files refused, nothing written")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
