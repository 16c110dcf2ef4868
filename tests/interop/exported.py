#!/usr/bin/python3
"""Archives of torch.export through the programs: exported.py --bin FOLDER --models FOLDER …

Writes archives without torch (support/exported.py) and compares with the same models as TorchScript files: the programs are equal line by line, but
for the places where their lines come from, and so are the final states. Then every kind of argument, weight and graph that a file may have, and
every refusal with its words. Exits 77 without NumPy.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import needs  # noqa: E402

needs.modules("numpy")
import numpy  # noqa: E402
from exported import Export, Graph, Raw, T, uniform, write  # noqa: E402

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


def linear(net, title, x, inputs, outputs):
    weight = net.parameter(f"{title}.weight", uniform((outputs, inputs), outputs))
    bias = net.parameter(f"{title}.bias", uniform((outputs,), 1))
    return net.call("linear", input=x, weight=weight, bias=bias)


def relu_net(batch="s0"):
    """The model relu.pt of the tests of capture: Linear 784-64, ReLU, Linear 64-10."""
    net = Export()
    x = net.input("x", [batch, 1, 28, 28])
    flat = net.call("flatten.using_ints", self=x, start_dim=1)
    hidden = net.call("relu", self=linear(net, "fc1", flat, 784, 64))
    return net, linear(net, "fc2", hidden, 64, 10)


def cnn(training):
    """cnn.pt: convolution, batch norm, pooling, a linear head."""
    net = Export()
    x = net.input("x", ["s0", 1, 28, 28])
    conv = net.parameter("conv", uniform((8, 1, 3, 3), 3))
    gamma, beta = net.parameter("gamma", uniform((8,), 4)), net.parameter("beta", uniform((8,), 5))
    mean, var = net.buffer("mean", numpy.zeros(8, "f4")), net.buffer("var", numpy.ones(8, "f4"))
    count = net.buffer("count", numpy.zeros((), "i8"))
    h = net.call("conv2d", input=x, weight=conv, bias=None, stride=[1, 1], padding=[1, 1])
    if training:
        net.call("add_.Tensor", self=count, other=1)
    h = net.call("batch_norm", input=h, weight=gamma, bias=beta, running_mean=mean, running_var=var, training=training, momentum=0.1, eps=1e-5,
                 cudnn_enabled=False)
    h = net.call("max_pool2d", self=net.call("relu", self=h), kernel_size=[2, 2])
    flat = net.call("flatten.using_ints", self=h, start_dim=1)
    return net, linear(net, "head", flat, 8 * 14 * 14, 10)


def language(training):
    """language.pt: a tied table, layer norm, causal attention, dropout, a parameter that nothing uses."""
    net = Export()
    x = net.input("x", ["s0", 6], "int64")
    array = uniform((32, 16), 6)
    table = net.parameter("table", array)
    head = net.parameter("head", array, file=net.lists["weights"]["table"]["path_name"])
    qkv = net.parameter("qkv", uniform((48, 16), 7))
    net.parameter("unused", uniform((3,), 8))
    h = net.call("embedding", weight=table, indices=x)
    h = net.call("layer_norm", input=h, normalized_shape=[16])
    q, k, v = net.call("chunk", results=3, self=net.call("linear", input=h, weight=qkv), chunks=3, dim=2)
    net.nodes[-1]["outputs"] = [{"as_tensors": [{"name": each} for each in (q, k, v)]}]
    a = net.call("scaled_dot_product_attention", query=q, key=k, value=v, is_causal=True)
    h = net.call("add.Tensor", self=h, other=net.call("dropout", input=a, p=0.1, train=training))
    return net, net.call("linear", input=h, weight=head)


def assigned():
    """assigned.pt: a buffer that is replaced, not changed in place."""
    net = Export()
    x = net.input("x", ["s0", 1, 28, 28])
    total = net.buffer("total", numpy.zeros(10, "f4"))
    y = linear(net, "fc", net.call("flatten.using_ints", self=x, start_dim=1), 784, 10)
    net.becomes("total", net.call("add.Tensor", self=total, other=net.call("sum.dim_IntList", self=net.call("detach", self=y), dim=[0])))
    return net, y


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
    plain = buyer_state = None
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


def refused(buyer):
    """Every refusal: what is done to an honest archive, and the words."""
    def changed(**parts):
        net, y = relu_net()
        for name, value in parts.items():
            setattr(net, name, value) if name != "program" else net.program.update(value)
        return net, (y,)

    def with_call(op, **arguments):
        net, y = relu_net()
        return net, (net.call(op, line=42, self=y, **arguments),)

    def edited(edit):
        net, y = relu_net()
        members = net.members(y)
        edit(members)
        return members

    def list_edit(**change):
        def edit(members):
            name = "data/weights/model_weights_config.json"
            listed = json.loads(members[name])
            entry = listed["config"]["fc1.weight"]
            for key, value in change.items():
                (entry if key in entry else entry["tensor_meta"])[key] = value
            members[name] = json.dumps(listed).encode()
        return edit

    def graph_edit(edit_graph):
        def edit(members):
            program = json.loads(members["models/model.json"])
            edit_graph(program["graph_module"])
            members["models/model.json"] = json.dumps(program).encode()
        return edit

    def remove(name):
        return lambda members: members.pop(name)

    def two_inputs():
        net, y = relu_net()
        net.input("mask", ["s0"])
        return net, (y,)

    def autocast_on():
        net, y = relu_net()
        return net, (net.wrap(AUTOCAST, ["cpu", Raw({"as_scalar_type": 13}), True, True], Graph(["inner"]), y, results=(T("inner"),)),)

    def size_of(n):
        return [{"as_int": each} for each in n]

    weight_file = next(name for name in relu_net()[0].files if name.startswith("data/weights/"))
    big = 1 << 62
    cases = [
        ("a newer schema", changed(program={"schema_version": {"major": 9, "minor": 1}}), 2, "schema 9.1, written by torch 2.11.0; schema 8 is read"),
        ("a dialect", changed(program={"verifiers": ["EDGE"]}), 2, "the dialect EDGE"),
        ("big-endian", changed(words={"archive_format": "pt2", "archive_version": "0", "byteorder": "big"}), 2, "byte order big"),
        ("another version", changed(words={"archive_format": "pt2", "archive_version": "1", "byteorder": "little"}), 2, "format pt2 1, not pt2 0"),
        ("torch 2.8", edited(remove("data/weights/model_weights_config.json")), 2, "whose weights are a pickle"),
        ("torch 2.5", {"serialized_exported_program.json": b"{}", "version": b"5.3"}, 2, "torch 2.5 or older"),
        ("a pickled weight", edited(list_edit(use_pickle=True)), 2, "fc1.weight is stored as a pickle, which is never opened"),
        ("no weight", edited(remove(weight_file)), 65, "fc1.weight: the archive has no data/weights/"),
        ("a short weight", edited(lambda m: m.update({weight_file: m[weight_file][:-1]})), 65, "too few for its sizes and strides"),
        ("an offset", edited(list_edit(storage_offset={"as_int": 1})), 65, "too few for its sizes and strides"),
        ("a negative offset", edited(list_edit(storage_offset={"as_int": -1})), 65, "no form of a tensor"),
        ("a negative stride", edited(list_edit(strides=size_of([-784, 1]))), 65, "no form of a tensor"),
        ("a huge stride", edited(list_edit(strides=size_of([big, 1]))), 65, "overflow"),
        ("a huge size", edited(list_edit(sizes=size_of([big, big]))), 65, "overflow"),
        ("a symbolic weight", edited(list_edit(sizes=[{"as_expr": {"expr_str": "s0"}}, {"as_int": 784}])), 65, "no form of a tensor"),
        ("float8", edited(list_edit(dtype=29)), 2, "element type 29"),
        ("a sparse weight", edited(list_edit(layout=1)), 2, "is a sparse tensor"),
        ("no list", edited(lambda m: m.update({"data/weights/model_weights_config.json": b"[]"})), 65, "expected an object, found array"),
        ("broken JSON", edited(lambda m: m.update({"models/model.json": m["models/model.json"][:-9]})), 65, "json: "),
        ("deep JSON", edited(lambda m: m.update({"models/model.json": b"[" * 100000})), 65, "deeper than 64"),
        ("two programs", edited(lambda m: m.update({"models/other.json": b"{}"})), 2, "the archive has 2 programs"),
        ("no program", edited(remove("models/model.json")), 65, "the archive has no program"),
        ("two inputs", two_inputs(), 2, "forward() takes mask, for which there is no field"),
        ("two results", (relu_net()[0], (T("relu_2"), T("relu_2"))), 2, "forward() returns 2 tensors: 0 and 1"),
        ("a file", with_call("from_file", filename="VICTIM", shared=True, size=10), 2, "no exact lowering for aten.from_file.default (net.py:42)"),
        ("a custom operator", with_call("torch.ops.mylib.foo.default"), 2, "no exact lowering for mylib.foo.default (net.py:42)"),
        ("no operator", with_call("no_such_thing"), 2, "no exact lowering for aten.no_such_thing.default (net.py:42)"),
        ("control flow", with_call("torch.ops.higher_order.cond"), 2, "no exact lowering for cond (net.py:42)"),
        ("the process", with_call("torch.os.system", command="true"), 2, "no exact lowering for torch.os.system (net.py:42)"),
        ("no lowering", with_call("_fft_r2c", dim=[1], normalization=0, onesided=True), 2, "no exact lowering for aten._fft_r2c.default (net.py:42)"),
        ("a newer argument", with_call("relu", colour=3), 2, "libtorch here knows no argument colour of it"),
        ("a missing argument", with_call("mul.Tensor"), 65, "aten.mul.Tensor (net.py:42): has no argument other"),
        ("another type", with_call("sum.dim_IntList", dim="all"), 65, "aten.sum.dim_IntList (net.py:42): dim is str, not"),
        ("a name without a value", with_call("add.Tensor", other=T("later")), 65, "later is used before it is defined"),
        ("a kind of argument", with_call("relu", other=Raw({"as_custom_obj": {"name": "a", "class_fqn": "b"}})), 2, "an argument of the kind as_custom_obj"),
        ("autocast", autocast_on(), 2, "computes in a narrower type"),
        ("binary64", with_call("to.dtype", dtype=Raw({"as_scalar_type": 8})), 2, "forward() returns a tensor of float64, not float32"),
        ("another batch", (lambda pair: (pair[0], (pair[1],)))(relu_net(batch=4)), 2, "was exported for a batch of 4, not 8"),
        ("a changed parameter", edited(graph_edit(lambda m: m["signature"]["output_specs"].insert(
            0, {"parameter_mutation": {"arg": {"name": "relu_2"}, "parameter_name": "fc1.bias"}}))), 2, "forward() changes a parameter"),
        ("an unknown input", edited(graph_edit(lambda m: m["signature"]["input_specs"].append({"token": {"arg": {"name": "t"}}}))), 2,
         "an input of the kind token"),
        ("no names", edited(graph_edit(lambda m: m.pop("signature"))), 65, "graph_module: has no signature"),
    ]
    failures = []
    for name, made, code, words in cases:
        write("bad.pt2", made if isinstance(made, dict) else made[0].members(*made[1]))
        before = sorted(os.listdir("."))
        try:
            done = buyer.submit("bad.pt2", "bad", expect=code)
            if words not in done.stderr:
                failures.append(f"{name}: {done.stderr.strip()}")
        except AssertionError as error:
            failures.append(f"{name}: {error}")
        if sorted(os.listdir(".")) != before:
            failures.append(f"{name}: files were made")
    net, y = cnn(True)
    net.save("train.pt2", y)
    words = buyer.submit("train.pt2", "bad", expect=2).stderr
    if "aten.batch_norm.default (net.py:3): is for training alone" not in words or "--eval-model" not in words:
        failures.append(words)
    words = buyer.submit("train.pt2", "bad", "--eval-model", "relu.pt2", expect=2).stderr
    if "--eval-model relu.pt2: has fc1.bias of shape [64], train.pt2 has none" not in words:
        failures.append(words)
    assert not failures, "\n".join(failures)
    print(f"{len(cases) + 2} archives refused")


def main():
    parser = argparse.ArgumentParser()
    for name in ("bin", "plugins", "models"):
        parser.add_argument(f"--{name}")
    options = parser.parse_args()
    bin_folder, models = os.path.abspath(options.bin), os.path.abspath(options.models)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        buyer = Buyer(bin_folder, models)
        same_models(buyer)
        kinds(buyer)
        no_gradient(buyer)
        refused(buyer)
        os.chdir("/")


if __name__ == "__main__":
    main()
