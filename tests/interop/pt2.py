#!/usr/bin/python3
"""Archives of torch.export through the programs: pt2.py --bin FOLDER --models FOLDER … [--accept] [--part files]

Writes archives without torch (support/exported.py) and compares with the same models as TorchScript files: the programs are equal line by line, but
for the places where their lines come from, and so are the final states. Then every kind of argument, weight and graph that a file may have, and
every refusal with its words, which are in pt2_refusals.txt (--accept writes that anew). Exits 77 without NumPy.
With --part files: under strace, which files a submission opens and makes.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import needs  # noqa: E402

needs.modules("numpy")
import numpy  # noqa: E402
from exported import Export, Graph, Raw, T, form, uniform, write  # noqa: E402
from pt2_models import assigned, cnn, language, relu_net  # noqa: E402
from pt2_refused import refused  # noqa: E402

GRAD_MODE = "torch.ops.higher_order.wrap_with_set_grad_enabled"
AUTOCAST = "torch.ops.higher_order.wrap_with_autocast"


class Buyer:
    def __init__(self, bin_folder, models):
        self.bin, self.models = bin_folder, models
        x = (numpy.arange(48 * 784).reshape(48, 28, 28) * 37 % 251).astype("u1")
        y = (numpy.arange(48) % 10).astype("u1")
        self.pack("images", x[:, None], y)
        tokens = numpy.random.default_rng(2).integers(0, 32, (24, 7))
        self.pack("tokens", tokens[:, :6], tokens[:, 1:])
        self.run("dgx-key", "new", "alice")

    def run(self, program, *arguments, expect=0):
        done = subprocess.run([os.path.join(self.bin, program), *arguments], capture_output=True, text=True, timeout=300)
        assert done.returncode == expect, f"{program} {' '.join(arguments)}: exit {done.returncode}: {done.stderr}"
        return done

    def pack(self, name, x, y):
        numpy.save("x.npy", x)
        numpy.save("y.npy", y)
        self.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", f"{name}.h5")

    def submit(self, model, task, *more, data="images", expect=0, batch=8):
        return self.run("dgx-submit", "--data", f"{data}.h5", "--model", model, "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1,momentum=0.9",
                        "--batch", str(batch), "--steps", "6", "--checkpoint-every", "3", "--key", "alice.pem", "-o", f"{task}.json", *more, expect=expect)

    def program(self, task, kind="program"):
        """The lines of a program, without the places that they come from."""
        with open(f"{task}.{kind}.jsonl", encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return [{key: value for key, value in line.items() if key != "g"} for line in lines]

    def final_state(self, task, data="images"):
        self.run("dgx-train", f"{task}.json", "--data", f"{data}.h5", "-o", f"{task}.run")
        return json.loads(self.run("dgx-inspect", f"{task}.run", "--json").stdout)["state"]


def check_same(buyer, name, archive, *more, data="images"):
    """The archive and the TorchScript file of the same name give one program and, from one initial state, one final state."""
    script = f"{name}-script"
    buyer.submit(os.path.join(buyer.models, f"{name}.pt"), script, data=data)
    buyer.submit(archive, name, "--init", f"{script}.init.h5", *more, data=data)
    for kind in ("program", "eval"):
        ours, theirs = buyer.program(name, kind), buyer.program(script, kind)
        assert ours == theirs, f"{name}.{kind}: " + next(f"{a}\n{b}" for a, b in zip(ours, theirs) if a != b)
    assert buyer.final_state(name, data) == buyer.final_state(script, data), name


def same_models(buyer):
    net, y = relu_net()
    net.save("relu.pt2", y)
    check_same(buyer, "relu", "relu.pt2")
    net, y = relu_net(batch=8)
    net.save("fixed.pt2", y)
    buyer.submit("fixed.pt2", "fixed")
    assert buyer.program("fixed") == buyer.program("relu"), "a fixed batch gives another program"
    for name, make, data in (("cnn", cnn, "images"), ("language", language, "tokens")):
        for training, path in ((True, f"{name}.pt2"), (False, f"{name}_eval.pt2")):
            net, y = make(training)
            net.save(path, y)
        check_same(buyer, name, f"{name}.pt2", "--eval-model", f"{name}_eval.pt2", data=data)
    net, y = assigned()
    net.save("assigned.pt2", y)
    check_same(buyer, "assigned", "assigned.pt2")
    with open("relu.program.jsonl", encoding="utf-8") as file:
        assert "net.py" not in file.read(), "a program names the user's files"


def kinds(buyer):
    """One program with every kind of argument and weight, trained; its numbers are those of the plain form."""
    net, y = relu_net()
    plain = None
    for form in ("plain", "odd"):
        net = Export()
        x = net.input("x", ["s0", 1, 28, 28])
        weight = uniform((10, 784), 11)
        if form == "plain":
            w = net.parameter("w", weight)
            flat = net.call("reshape", self=x, shape=[-1, 784])
            y = net.call("linear", input=flat, weight=w)
            y = net.call("mul.Scalar", self=y, other=2)
        else:
            # Transposed in the file, behind three numbers that nobody uses.
            stored = numpy.concatenate([numpy.zeros(3, "f4"), weight.T.ravel(), numpy.zeros(2, "f4")])
            w = net.parameter("w", stored, sizes=[10, 784], strides=[1, 10], offset=3)
            rows = net.integer("sym_size.int", self=x, dim=0)
            side = net.integer("_operator.mul", 28, 28)
            net.call("torch.ops.aten._assert_scalar.default", self=rows, assert_msg="rows")
            net.nodes[-1]["outputs"] = []
            flat = net.call("reshape", self=x, shape=[rows, side])
            inner = Graph(["inner"])
            doubled = inner.call("mul.Tensor", self=T("inner"), other=Raw({"as_int": 2}))
            y = net.call("linear", input=flat, weight=w, bias=Raw({"as_none": True}))
            y = net.wrap(GRAD_MODE, [True], inner, y, results=(doubled,))
            y = net.call("to.dtype", self=y, dtype=Raw({"as_scalar_type": 7}), memory_format=Raw({"as_memory_format": 4}))
            inner = Graph(["inner"])
            y = net.wrap(AUTOCAST, ["cpu", Raw({"as_scalar_type": 13}), False, True], inner, y, results=(T("inner"),))
        net.save(f"{form}.pt2", y)
        buyer.submit(f"{form}.pt2", form)
        state = buyer.final_state(form)
        assert plain in (None, state), "transposed weights, symbolic sizes and graphs inside change the numbers"
        plain = state


def write_safetensors(path, arrays):
    head, numbers = {}, b""
    for title, array in arrays.items():
        head[title] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(numbers), len(numbers) + array.nbytes]}
        numbers += array.tobytes()
    text = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + numbers)


def tied_weights(buyer):
    """Weights to start from may have either name of a tied tensor, or both if their numbers are the same."""
    net, y = language(True)
    net.save("language.pt2", y)
    net, y = language(False)
    net.save("language_eval.pt2", y)
    weights = {"qkv": uniform((48, 16), 17), "unused": uniform((3,), 18)}
    table, other = uniform((32, 16), 16), uniform((32, 16), 19)
    files = {"table": {"table": table}, "head": {"head": table}, "both": {"head": table, "table": table}, "neither": {}, "differ": {"head": table, "table": other},
             "prefixed": {"head": table}}
    for name, tied in files.items():
        arrays = {("net." if name == "prefixed" else "") + title: array for title, array in {**weights, **tied}.items()}
        write_safetensors(f"{name}.safetensors", arrays)

    def submit(model, name, expect=0):
        words = [model, "tied", "--init", f"{name}.safetensors", "--force", "--json"]
        return buyer.submit(*words, *(["--eval-model", "language_eval.pt2"] if model.endswith("2") else []), data="tokens", expect=expect)

    for model in ("language.pt2", os.path.join(buyer.models, "language.pt")):
        states = {json.loads(submit(model, name).stdout)["initial_state"] for name in ("table", "head", "both", "prefixed")}
        assert len(states) == 1, (model, states)
        for name, words in (("differ", "entries head and table differ, and are one tensor of the model"), ("neither", "entry table is missing")):
            error = json.loads(submit(model, name, expect=65).stderr)["error"]
            assert error == f"{name}.safetensors: {words}", error


def no_gradient(buyer):
    """What a graph inside computes without gradients has none."""
    net = Export()
    x = net.input("x", ["s0", 1, 28, 28])
    flat = net.call("flatten.using_ints", self=x, start_dim=1)
    kept = net.parameter("kept", uniform((10, 784), 1))
    frozen = net.parameter("frozen", uniform((10, 784), 2), trained=False)
    hidden = net.parameter("hidden", uniform((10, 784), 3))
    inner = Graph(["a", "b"])
    product = inner.call("linear", input=T("a"), weight=T("b"))
    no_grad = net.wrap(GRAD_MODE, [False], inner, flat, hidden, results=(product,))
    y = net.call("add.Tensor", self=net.call("linear", input=flat, weight=kept), other=net.call("linear", input=flat, weight=frozen))
    net.save("still.pt2", net.call("add.Tensor", self=y, other=no_grad))
    buyer.submit("still.pt2", "still")
    buyer.final_state("still")
    buyer.run("dgx-inspect", "export", "still.run", "-o", "still.npz")
    after = numpy.load("still.npz")
    moved = {name: bool((after[name] != uniform((10, 784), seed)).any()) for name, seed in (("kept", 1), ("frozen", 2), ("hidden", 3))}
    assert moved == {"kept": True, "frozen": False, "hidden": False}, moved


def several_programs(buyer):
    """Of an archive with several programs, the one that the option names."""
    (net, y), (other, z) = relu_net(), assigned()
    members = net.members(y)
    for name, data in other.members(z).items():
        name = name.replace("models/model", "models/other").replace("/model_", "/other_").replace("/weight_", "/other_weight_")
        members[name] = data.replace(b'"weight_', b'"other_weight_') if name.endswith("_config.json") else data
    write("two.pt2", members)
    other.save("other.pt2", z)
    made = [json.loads(buyer.submit(model, task, "--json").stdout) for model, task in (("two.pt2:other", "two"), ("other.pt2", "one"))]
    assert made[0]["initial_state"] == made[1]["initial_state"] and buyer.program("two") == buyer.program("one")
    assert "two.pt2:other" in buyer.run("dgx-inspect", "two.json", "--json").stdout
    buyer.submit("two.pt2:model", "both", "--eval-model", "two.pt2:model")
    assert json.loads(buyer.run("dgx-inspect", "two.pt2:other", "--json").stdout)["program"] == "other"
    shutil.copy("other.pt2", "odd:model")
    buyer.submit("odd:model", "colon")
    script = os.path.join(buyer.models, "relu.pt")
    for model, words in (("two.pt2", "the archive has 2 programs, model and other among them\nhint: say which: NET.pt2:model"),
                         ("two.pt2:othre", "the archive has no program othre\nhint: did you mean other?"), ("two.pt2:", "the archive has 2 programs"),
                         (f"{script}:other", "is a TorchScript file, whose one program has no name")):
        done = buyer.submit(model, "none", expect=2)
        assert words in done.stderr, done.stderr
    words = buyer.run("dgx-inspect", "two.pt2", expect=2).stderr
    assert "say which" in words, words
    before = open("two.pt2", "rb").read()
    done = buyer.run("dgx-submit", "estimate", "--data", "images.h5", "--model", "none.pt2:other", "--loss", "mse", "--optimizer", "sgd", "--batch", "8", "--steps", "6",
                     expect=66)
    assert "none.pt2:other: is neither a built-in model nor a file" in done.stderr, done.stderr
    buyer.run("dgx-submit", "--data", "images.h5", "--model", "two.pt2:other", "--loss", "cross-entropy", "--optimizer", "sgd", "--batch", "8", "--steps", "6",
              "--key", "alice.pem", "-o", "two.pt2", "--force", expect=2)
    assert open("two.pt2", "rb").read() == before, "the archive is replaced"


def literals(buyer):
    """Literals of more than 64 numbers are entries of the state, by numbers that training and evaluation count apart."""
    first, second = uniform((8, 10), 31), uniform((8, 10), 32)
    for name, constants in (("train", (("a", first), ("b", second))), ("eval", (("b", second),)), ("strange", (("c", uniform((8, 10), 33)),))):
        net, y = relu_net(batch=8)
        for title, numbers in constants:
            y = net.call("add.Tensor", self=y, other=net.constant(title, numbers))
        net.save(f"literals_{name}.pt2", y)
    buyer.submit("literals_train.pt2", "literals", "--eval-model", "literals_eval.pt2")
    buyer.final_state("literals")
    found = {line["src"] for line in buyer.program("literals", "eval") if line.get("src", "").startswith("state model/constant")}
    assert found == {"state model/constant.1"}, found
    words = buyer.submit("literals_train.pt2", "strange", "--eval-model", "literals_strange.pt2", expect=2).stderr
    assert "literals_strange.pt2: evaluation needs a constant of shape [8,10] that training does not have" in words, words
    net, y = relu_net(batch=8)
    y = net.call("add.Tensor", self=net.call("add.Tensor", self=y, other=net.parameter("constant.0", first)), other=net.constant("a", second))
    net.save("named.pt2", y)
    buyer.submit("named.pt2", "named")
    names = {line["src"] for line in buyer.program("named") if "constant." in line.get("src", "") and line["src"].startswith("state model/")}
    assert names == {"state model/constant.0", "state model/constant.1"}, names


def described(buyer):
    """What dgx-inspect says of an archive, and its exit code."""
    def told(path, expect=0):
        return json.loads(buyer.run("dgx-inspect", path, "--json", expect=expect).stdout)

    for name, make in (("cnn.pt2", cnn), ("language.pt2", language)):
        net, y = make(True)
        net.forms[y] = form("float32", ["s0", 10])
        net.save(name, y)
    net, y = cnn(False)
    net.save("cnn_eval.pt2", y)
    found = told("cnn.pt2")
    assert (found["kind"], found["program"], found["torch_version"], found["schema_version"]) == ("exported model", "model", "2.11.0", "8.17"), found
    assert found["mode"] == "training" and found["missing"] == 0 and told("cnn_eval.pt2")["mode"] == "evaluation"
    assert found["inputs"] == [{"name": "x", "dtype": "float32", "shape": "[s0, 1, 28, 28]"}], found["inputs"]
    assert found["sizes"] == [{"name": "s0", "least": 1, "most": 1024}], found["sizes"]
    assert [each["shape"] for each in found["outputs"]] == ["[s0, 10]"], found["outputs"]
    assert [each["name"] for each in found["buffers"]] == ["mean", "var", "count"], found["buffers"]
    assert found["parameters"][0] == {"name": "conv", "dtype": "float32", "shape": "[8, 1, 3, 3]", "trained": True, "tied_to": None}
    treatments = {each["name"]: (each["count"], each["treatment"]) for each in found["operations"]}
    assert treatments["aten.relu.default"] == (1, "lowered") and treatments["aten.batch_norm.default"] == (1, "decomposed"), treatments
    tied = {each["name"]: each["tied_to"] for each in told("language.pt2")["parameters"]}
    assert tied == {"table": None, "head": "table", "qkv": None, "unused": None}, tied
    net, y = relu_net()
    size = net.integer("sym_size.int", self=T("x"), dim=0)
    net.call("_assert_scalar", self=size, assert_msg="size")
    net.nodes[-1]["outputs"] = []
    y = net.call("torch.ops.mylib.foo.default", line=42, self=y)
    y = net.call("cdist", self=y, other=y)
    net.save("missing.pt2", net.call("torch.ops.mylib.foo.default", line=43, self=y))
    found = told("missing.pt2", expect=1)
    operations = {each["name"]: each for each in found["operations"]}
    assert operations["mylib.foo.default"] == {"name": "mylib.foo.default", "count": 2, "treatment": "missing", "first": "net.py:42"}, operations
    assert operations["aten.sym_size.int"]["treatment"] == operations["aten._assert_scalar.default"]["treatment"] == "folded"
    assert operations["aten.cdist.default"]["treatment"] == "decomposed" and found["missing"] == 1
    module = dict(os.environ, DGX_TORCH_MODULE=os.path.abspath("none.so"))
    done = subprocess.run([os.path.join(buyer.bin, "dgx-inspect"), "cnn.pt2"], capture_output=True, text=True, env=module)
    assert done.returncode == 70 and "cannot open the torch module" in done.stderr, done
    buyer.run("dgx-inspect", os.path.join(buyer.models, "relu.pt"), expect=65)
    warning = buyer.submit("cnn_eval.pt2", "evaluated").stderr
    assert "cnn_eval.pt2: aten.batch_norm.default (net.py:2) computes as in evaluation" in warning, warning
    assert not buyer.submit("cnn.pt2", "trained", "--eval-model", "cnn_eval.pt2").stderr


def other_weights(script, path):
    """Writes the same TorchScript program with other weights: the highest byte of each tensor's last number is another."""
    with zipfile.ZipFile(script) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            content = bytearray(old.read(entry))
            if "/data/" in entry.filename:
                content[-1] ^= 0x80
            new.writestr(entry.filename, bytes(content))


def damaged_evaluation(buyer):
    """Of --eval-model the numbers of parameters are not used: large ones are not read, so that damage to them is of no consequence; all others are checked."""
    net = Export()
    flat = net.call("flatten.using_ints", self=net.input("x", ["s0", 1, 28, 28]), start_dim=1)
    hidden = net.call("relu", self=net.call("linear", input=flat, weight=net.parameter("wide", uniform((100, 784), 21))))
    net.save("wide.pt2", net.call("linear", input=hidden, weight=net.parameter("head", uniform((10, 100), 22))))
    buyer.submit("wide.pt2", "wide", "--eval-model", "wide.pt2")
    with open("wide.pt2", "rb") as file:
        content = file.read()
    for name, expect in (("wide", 0), ("head", 65)):
        numbers = net.files[f"data/weights/{net.lists['weights'][name]['path_name']}"]
        damaged = bytearray(content)
        damaged[content.index(numbers) + len(numbers) // 2] ^= 1
        with open("damaged.pt2", "wb") as file:
            file.write(damaged)
        words = "is damaged: its bytes do not have its CRC-32"
        assert words in buyer.submit("damaged.pt2", f"of-{name}", "--eval-model", "wide.pt2", expect=65).stderr
        done = buyer.submit("wide.pt2", f"with-{name}", "--eval-model", "damaged.pt2", expect=expect)
        assert expect == 0 or words in done.stderr, done
    assert buyer.program("with-wide", "eval") == buyer.program("wide", "eval")


def skip_existing(buyer):
    """A task of a model file is handed back if the file in that place still gives it, and only then."""
    net, y = relu_net()
    net.save("first.pt2", y)
    net.files[f"data/weights/{net.lists['weights']['fc2.bias']['path_name']}"] = uniform((10,), 2).tobytes()
    net.save("weights.pt2", y)
    shutil.copy(os.path.join(buyer.models, "relu.pt"), "first.pt")
    other_weights("first.pt", "weights.pt")
    net, y = relu_net()
    net.save("network.pt2", net.call("relu", self=y))
    shutil.copy(os.path.join(buyer.models, "gelu.pt"), "network.pt")
    for form in ("pt2", "pt"):
        model, task = f"net.{form}", f"skipped-{form}"
        files = [f"{task}{ending}" for ending in (".json", ".program.jsonl", ".eval.jsonl", ".init.h5")]

        def submit(*more, expect=0, model=model, task=task):
            return buyer.submit(model, task, "--skip-existing", *more, expect=expect)

        def content(files=files):
            return [pathlib.Path(file).read_bytes() for file in files]

        def refuses(words, **other):
            done = submit(expect=73, **other)
            assert f"{words}\n" in done.stderr and not done.stdout, done
            assert content() == written, f"{words}: files have changed"

        shutil.copy(f"first.{form}", model)
        made, written = submit().stdout, content()
        done = submit()
        assert done.stdout == made and "stays as it is" in done.stderr and content() == written, done
        for name, words in (("weights", "another --model or --init"), ("network", "another --model, --inputs or --input")):
            shutil.copy(f"{name}.{form}", model)
            refuses(words)
        shutil.copy(f"first.{form}", model)
        shutil.copy(model, f"renamed.{form}")
        refuses("another --model", model=f"renamed.{form}")
        # What a crash leaves has no task yet; weights of another call are not taken over.
        os.rename(files[0], "away.json")
        before = os.stat(files[3]).st_ino
        assert submit().stdout == made and content() == written and os.stat(files[3]).st_ino == before
        os.remove(files[3])
        done = submit(expect=73)
        assert f"is there already, but not {files[3]}" in done.stderr, done
        buyer.submit(f"weights.{form}", "others", "--force")
        shutil.copy("others.init.h5", files[3])
        done = submit(expect=73)
        assert f"{files[3]} is another" in done.stderr, done
        os.remove(files[0])
        done = submit(expect=73)
        assert f"{files[3]}: already exists" in done.stderr and not os.path.exists(files[0]), done
    net, y = cnn(True)
    net.save("skipped_cnn.pt2", y)
    net, y = cnn(False)
    net.save("skipped_eval.pt2", y)
    buyer.submit("skipped_cnn.pt2", "skipped-cnn", "--eval-model", "skipped_eval.pt2")
    assert "stays" in buyer.submit("skipped_cnn.pt2", "skipped-cnn", "--eval-model", "skipped_eval.pt2", "--skip-existing").stderr


# Of what a submission opens besides the files that it is told: libraries, what the loader and libtorch ask about the machine, the time zone, by which
# libzip reads the dates in a zip, and libcrypto's settings. None of it is written.
SYSTEM = re.compile(r"/(etc/ld\.so\.cache|etc/ssl/openssl\.cnf|etc/localtime|usr/share/zoneinfo/.*|proc/.*|sys/.*|dev/.*|.*\.so(\.[0-9]+)*)")


def traced(strace, buyer, *words, expect=0):
    """The paths that a program opens, those that it may write, and its other calls that reach out: new folders, programs, sockets."""
    calls = "open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,symlink,symlinkat,link,linkat,rename,renameat,renameat2,execve,execveat,socket"
    done = subprocess.run([strace, "-f", "-y", "-e", f"trace={calls}", "-o", "trace", os.path.join(buyer.bin, "dgx-submit"), *words],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == expect, done.stderr
    opened, written, others = set(), set(), []
    with open("trace", encoding="utf-8", errors="replace") as file:
        for line in file:
            if " = -1 " in line or not (call := re.match(r"\d+ +(\w+)\(", line)):
                continue
            if path := re.search(r"= \d+<([^>]*)>$", line.rstrip()):
                opened.add(path[1].removesuffix("(deleted)"))
                if re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TMPFILE", line):
                    written.add(path[1].removesuffix("(deleted)"))
            else:
                others.append(line)
    assert opened, "strace shows no file"
    return opened, written, others


def check_opened(buyer):
    """A submission opens its inputs, its outputs and libraries, and makes nothing but its outputs, also of a call that makes files where it may run."""
    strace = needs.program("strace")
    os.mkdir("alone")
    net, y = relu_net()
    net.call("from_file", filename="alone/made", shared=True, size=10)
    net.save("alone/net.pt2", y)
    net, y = relu_net()
    net.save("alone/good.pt2", y)
    shutil.copy("alone/good.pt2", "alone/eval.pt2")
    here = os.getcwd()
    task = ["--data", "images.h5", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1", "--batch", "8", "--steps", "6"]
    made = ["--key", "alice.pem", "-o", "made.json"]
    models = (("alone/net.pt2", [], 2), ("alone/good.pt2", ["--eval-model", "alone/eval.pt2"], 0))
    for path, more, code in models:
        for mode, outputs in ((["estimate"], []), ([], made)):
            opened, written, others = traced(strace, buyer, *mode, *task, *outputs, "--model", path, *more, expect=code)
            inputs = {"images.h5", path, *more[1:]} | ({"alice.pem"} if outputs else set())
            names = {name.removeprefix(here + "/") for name in opened if not SYSTEM.fullmatch(name)}
            read, claimed = names & inputs, names - inputs
            assert read == inputs - (set(more[1:]) if code else set()), (path, mode, names)
            # Outputs are claimed under names of their own, made.…, in their folder.
            assert all(re.fullmatch(r"\.?made\.[\w.-]*", name) or name == here for name in claimed) and (outputs or not claimed), claimed
            assert {name for name in written if not name.startswith("/dev/")} <= {f"{here}/{name}" for name in claimed} | {here}, written
            others = [line for line in others if not re.search(r"execve\(.*dgx-submit|rename|link", line)]
            assert not others, others
    assert sorted(os.listdir("alone")) == ["eval.pt2", "good.pt2", "net.pt2"]


def main():
    parser = argparse.ArgumentParser()
    for name in ("bin", "plugins", "models"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--accept", action="store_true")
    parser.add_argument("--part", choices=["models", "files"], default="models")
    options = parser.parse_args()
    bin_folder, models = os.path.abspath(options.bin), os.path.abspath(options.models)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        buyer = Buyer(bin_folder, models)
        if options.part == "files":
            check_opened(buyer)
            os.chdir("/")
            return
        same_models(buyer)
        kinds(buyer)
        tied_weights(buyer)
        no_gradient(buyer)
        several_programs(buyer)
        literals(buyer)
        refused(buyer, options.accept)
        described(buyer)
        damaged_evaluation(buyer)
        skip_existing(buyer)
        os.chdir("/")


if __name__ == "__main__":
    main()
