"""The archives that dgx-submit refuses, for pt2.py; pt2_refusals.txt has the words."""

import difflib
import io
import json
import os
import struct
import warnings
import zipfile

import numpy
from exported import Graph, Raw, T, write
from pt2_models import cnn, relu_net

REFUSALS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pt2_refusals.txt")
AUTOCAST = "torch.ops.higher_order.wrap_with_autocast"


def check_texts(text, accept):
    if accept:
        with open(REFUSALS, "w", encoding="utf-8") as file:
            file.write(text)
    with open(REFUSALS, encoding="utf-8") as file:
        stored = file.read()
    if text != stored:
        lines = difflib.unified_diff(stored.splitlines(), text.splitlines(), "pt2_refusals.txt", "now", lineterm="", n=1)
        raise AssertionError("\n".join(lines))


def refused(buyer, accept):
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

    def zipped(members, method=zipfile.ZIP_STORED, folder="net/"):
        out = io.BytesIO()
        with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as archive:
            warnings.simplefilter("ignore")  # of names that come twice
            for name, data in members:
                archive.writestr(folder + name, data)
        return out.getvalue()

    def honest():
        net, y = relu_net()
        return list(net.members(y).items())

    def overlapping():
        """Two members of one length, of which the second's entry in the directory leads to the first."""
        data = bytearray(zipped([("data/weights/a", b"x" * 64), ("data/weights/b", b"y" * 64), *honest()]))
        second = data.index(b"PK\1\2", data.index(b"PK\1\2") + 1)
        data[second + 42:second + 46] = bytes(4)
        return bytes(data)

    def inside_others():
        """Members that each hold the next one, whole with its header."""
        data, members = b"", []
        for n in reversed(range(8)):
            inside = zipped([(f"data/x{n}", data + b"z" * 1000)])
            data = inside[:inside.index(b"PK\1\2")]
            members.append(inside[inside.index(b"PK\1\2"):inside.index(b"PK\5\6")])
        directory = b""
        for n, entry in enumerate(reversed(members)):
            directory += entry[:42] + struct.pack("<I", n * (len("net/data/x0") + 30)) + entry[46:]
        return data + directory + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 8, 8, len(directory), len(data), 0)

    def of_type(dtype, numbers="f4"):
        net, y = relu_net()
        weight = net.parameter("w", numpy.ones(10, "f4"))
        net.lists["weights"]["w"]["tensor_meta"]["dtype"] = dtype
        net.files["data/weights/" + net.lists["weights"]["w"]["path_name"]] = numpy.ones(10, numbers).tobytes()
        return net, (net.call("add.Tensor", line=42, self=y, other=weight),)

    def of_numbers(numbers):
        net, y = relu_net()
        return net, (net.call("add.Tensor", line=42, self=y, other=net.parameter("w", numbers)),)

    def unused(numbers):
        net, y = relu_net()
        net.parameter("w", numbers)
        return net, (y,)

    def damaged(name):
        """An honest archive with one bit of a member changed, in the middle."""
        members = honest()
        data = bytearray(zipped(members))
        content = dict(members)[name]
        data[data.index(content) + len(content) // 2] ^= 1
        return bytes(data)

    def encrypted():
        data = bytearray(zipped(honest()))
        for begin, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
            data[data.index(begin) + at] |= 1
        return bytes(data)

    def converted(dtype):
        """A call that gives another type, and one that goes back."""
        net, y = relu_net()
        y = net.call("to.dtype", line=42, self=y, dtype=Raw({"as_scalar_type": dtype}))
        y = net.call("mul.Tensor", line=43, self=y, other=y)
        return net, (net.call("to.dtype", line=44, self=y, dtype=Raw({"as_scalar_type": 7})),)

    def complex_inside():
        net, y = relu_net()
        return net, (net.call("real", line=43, self=net.call("complex", line=42, real=y, imag=y)),)

    def shared(**layout):
        net, y = relu_net()
        a = net.parameter("a", numpy.ones(20, "f4"), sizes=[10])
        b = net.parameter("b", numpy.ones(20, "f4"), file=net.lists["weights"]["a"]["path_name"], sizes=[10], **layout)
        return net, (net.call("add.Tensor", self=net.call("add.Tensor", self=y, other=a), other=b),)

    def repeats():
        """Sixteen weights that each repeat one number to 16 MiB."""
        net, y = relu_net()
        for n in range(16):
            weight = net.parameter(f"r{n}", numpy.ones(1, "f4"), trained=False, sizes=[2048, 2048], strides=[0, 0])
            y = net.call("add.Tensor", self=y, other=net.call("sum.default", self=weight))
        return net, (y,)

    def named(*titles):
        net, y = relu_net()
        for title in titles:
            y = net.call("add.Tensor", self=y, other=net.parameter(title, numpy.ones(10, "f4")))
        return net, (y,)

    def constants(count, size):
        """Numbers that no file has, made by the program and used."""
        net, y = relu_net()
        for _ in range(count):
            made = net.call("full", line=42, size=[size], fill_value=1.0)
            y = net.call("add.Tensor", line=43, self=y, other=net.call("slice.Tensor", self=made, dim=0, start=0, end=10))
        return net, (y,)

    def crowded():
        """4097 weights in one member."""
        net, y = relu_net()
        net.parameter("w0", numpy.ones(5000, "f4"), sizes=[1])
        for n in range(1, 4097):
            net.parameter(f"w{n}", numpy.ones(1, "f4"), file=net.lists["weights"]["w0"]["path_name"], sizes=[1], strides=[1], offset=n)
        return net, (y,)

    def overlapping_constants():
        """4096 constants that lie on the same MiB, each one number further: 4 GiB, were all made."""
        net, y = relu_net()
        size = 1 << 18
        net.constant("c0", numpy.ones(size + 4095, "f4"), sizes=[size])
        file = net.lists["constants"]["c0"]["path_name"]
        for n in range(1, 4096):
            net.constant(f"c{n}", numpy.ones(1, "f4"), file=file, sizes=[size], strides=[1], offset=n)
        return net, (y,)

    def changed_constant():
        net, y = relu_net()
        constant = net.constant("steps", numpy.ones(10, "f4"))
        net.call("add_.Tensor", line=42, self=constant, other=1)
        return net, (net.call("mul.Tensor", self=y, other=constant),)

    def unknown_buffer():
        net, y = relu_net()
        net.becomes("ghost", y)
        return net, (y,)

    def asserted():
        net, y = relu_net()
        rows = net.integer("sym_size.int", self=T("x"), dim=0)
        is_odd = net.integer("_operator.eq", net.integer("_operator.mod", rows, 2), 1)
        net.call("_assert_scalar", line=42, self=is_odd, assert_msg="an odd batch")
        net.nodes[-1]["outputs"] = []
        return net, (y,)

    def of_batch(batch, low=1, high=1024):
        net, y = relu_net(batch)
        net.ranges = {name: {"min_val": low, "max_val": high} for name in net.ranges}
        return net, (y,)

    weight_file = next(name for name in relu_net()[0].files if name.startswith("data/weights/"))
    big = 1 << 62
    cases = [
        ("a newer schema", changed(program={"schema_version": {"major": 9, "minor": 1}}), 2, "schema 9.1, written by torch 2.11.0; schema 8 is read"),
        ("a dialect", changed(program={"verifiers": ["EDGE"]}), 2, "the dialect EDGE"),
        ("big-endian", changed(words={"archive_format": "pt2", "archive_version": "0", "byteorder": "big"}), 2, "byte order big"),
        ("another version", changed(words={"archive_format": "pt2", "archive_version": "1", "byteorder": "little"}), 2, "format pt2 1, not pt2 0"),
        ("torch 2.8", edited(remove("data/weights/model_weights_config.json")), 2, "whose weights are a pickle"),
        ("torch 2.5", zipped([("serialized_exported_program.json", b"{}"), ("version", b"5.3")], folder=""), 2, "torch 2.5 or older"),
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
        ("a weight of no name", named(""), 2, "has an empty, "),
        ("a weight of an odd name", named("a//b"), 2, "state entry 'model/a//b' has an empty"),
        ("a weight of a name with a space", named("a b"), 2, "state entry 'model/a b' has a space"),
        ("a weight of a long name", named("n" * 238), 2, "has 257 bytes, at most 256 are allowed"),
        ("a weight that is another's folder", named("a", "a/b"), 2, "state entry 'model/a' is a prefix of 'model/a/b'"),
        ("a weight of no numbers", unused(numpy.ones((0, 10), "f4")), 2, "w has no elements"),
        ("a weight that is no number", of_numbers(numpy.full(10, numpy.nan, "f4")), 2, "w holds a NaN"),
        ("many repeats", repeats(), 65, "beside the bytes of their members tensors take"),
        ("a long word", edited(lambda m: m.update({"archive_version": b"0" * 65})), 65, "archive_version has 65 bytes, at most 64 are read"),
        ("a damaged weight", damaged(weight_file), 65, "data/weights/weight_0: is damaged: its bytes do not have its CRC-32"),
        ("a damaged program", damaged("models/model.json"), 65, "models/model.json: is damaged"),
        ("an encrypted member", encrypted(), 65, "is encrypted"),
        ("a member outside", zipped([("net/" + name, data) for name, data in honest()] + [("data/x", b"x")], folder=""), 65, "lies outside of the folder net/"),
        ("a bomb", zipped([("version", b"1" * (300 << 20)), *honest()], zipfile.ZIP_DEFLATED), 65, "unpack to more than 268435456 bytes"),
        ("no list", edited(lambda m: m.update({"data/weights/model_weights_config.json": b"[]"})), 65, "expected an object, found array"),
        ("broken JSON", edited(lambda m: m.update({"models/model.json": m["models/model.json"][:-9]})), 65, "json: "),
        ("deep JSON", edited(lambda m: m.update({"models/model.json": b"[" * 100000})), 65, "deeper than 64"),
        ("many values", edited(lambda m: m.update({"models/model.json": b"[" + b"0," * (5 << 20) + b"0]"})), 65, "at most 4194304 are read"),
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
        ("an element type by number", with_call("to.dtype", dtype=255), 65, "aten.to.dtype (net.py:42): a number stands for an element type"),
        ("a memory format by number", with_call("clone", memory_format=-1), 65, "aten.clone.default (net.py:42): a number stands for"),
        ("an internal operator", with_call("_remove_batch_dim", level=1, batch_size=4, out_dim=0), 2, "no exact lowering for aten._remove_batch_dim.default (net.py:42)"),
        ("another training", with_call("requires_grad_", requires_grad=False), 2, "no exact lowering for aten.requires_grad_.default (net.py:42)"),
        ("many dimensions", edited(list_edit(sizes=size_of([1] * 9), strides=size_of([1] * 9))), 2, "fc1.weight: rank 9 is above 8"),
        ("a name without a value", with_call("add.Tensor", other=T("later")), 65, "later is used before it is defined"),
        ("a kind of argument", with_call("relu", other=Raw({"as_custom_obj": {"name": "a", "class_fqn": "b"}})), 2, "an argument of the kind as_custom_obj"),
        ("autocast", autocast_on(), 2, "computes in a narrower type"),
        ("binary64", with_call("to.dtype", dtype=Raw({"as_scalar_type": 8})), 2, "forward() returns a tensor of float64, not float32"),
        ("an asserted batch", asserted(), 65, "(net.py:42): the batch is not of the sizes for which it was exported: an odd batch"),
        ("another batch", (lambda pair: (pair[0], (pair[1],)))(relu_net(batch=4)), 2, "was exported for a batch of 4, not 8"),
        ("a changed parameter", edited(graph_edit(lambda m: m["signature"]["output_specs"].insert(
            0, {"parameter_mutation": {"arg": {"name": "relu_2"}, "parameter_name": "fc1.bias"}}))), 2, "forward() changes a parameter"),
        ("an unknown input", edited(graph_edit(lambda m: m["signature"]["input_specs"].append({"token": {"arg": {"name": "t"}}}))), 2,
         "an input of the kind token"),
        ("a custom object", edited(graph_edit(lambda m: m["signature"]["input_specs"].append({"custom_obj": {"arg": {"name": "o", "class_fqn": "c"}, "custom_obj_name": "o"}}))),
         2, "an input of the kind custom_obj"),
        ("an AOTInductor package", {"archive_format": b"pt2", "archive_version": b"0", "byteorder": b"little", "version": b"3", "data/aotinductor/net/net.so": b"x"}, 2,
         "is a package of AOTInductor"),
        ("torch.save", {"data.pkl": b"x", "version": b"3"}, 65, "is a file of torch.save, which holds no program"),
        ("an older torch.save", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", 65, "is a pickle"),
        ("ONNX", b"\x08\x08\x12\x07pytorch\x1a\x052.11.0", 65, "is an ONNX model"),
        ("safetensors", b"\x02\0\0\0\0\0\0\0{}", 65, "is a safetensors file, which holds weights and no program"),
        ("HDF5", b"\x89HDF\r\n\x1a\n" + bytes(64), 65, "is an HDF5 bundle, not a model"),
        ("text", b"import torch\n", 65, "is no archive of torch.export or TorchScript"),
        ("a truncated file", zipped(honest())[:-100], 65, "is no zip file, or was cut off"),
        ("a member twice", zipped([*honest(), ("models/model.json", b"{}")]), 65, "two members have one name"),
        ("compressed members", zipped(honest(), zipfile.ZIP_DEFLATED), 65, "is compressed"),
        ("members that overlap", overlapping(), 65, "the zip's directory is damaged"),
        ("members inside others", inside_others(), 65, "members overlap"),
        ("a repeated weight", edited(list_edit(sizes=size_of([1 << 40, 784]), strides=size_of([0, 1]))), 65, "it repeats 784 numbers"),
        ("weights that share a part", shared(offset=5), 2, "a and b share numbers in the file, in different forms"),
        ("a weight trained under one name", shared(trained=False), 2, "a and b share numbers in the file, and only one of them is trained"),
        ("many weights in a member", crowded(), 2, "data/weights/weight_4 holds more than 4096 tensors"),
        ("many constants of the same bytes", overlapping_constants(), 65, "c65: 66 tensors of data/constants/constant_4"),
        ("an integer with a gradient", of_type(4), 65, "is a tensor of int32, which has no gradient"),
        ("bfloat16", of_type(13), 2, "w is a tensor of bfloat16, which cannot be captured"),
        ("float16", of_type(6), 2, ""),
        ("complex", of_type(10, "c8"), 2, "w is a tensor of complex64, which cannot be captured"),
        ("bfloat16 returned", with_call("to.dtype", dtype=Raw({"as_scalar_type": 13})), 2, "forward() returns a tensor of bfloat16"),
        ("bfloat16 inside", converted(13), 2, "(net.py:42)"),
        ("binary64 inside", converted(8), 2, "(net.py:42)"),
        ("complex inside", complex_inside(), 2, "(net.py:42)"),
        ("a large constant", constants(1, 1 << 27), 2, "(net.py:42): aten::full makes a tensor of 536870912 bytes that is the same in every step"),
        ("many constants", constants(5, 1 << 26), 2, "with this tensor, those that are the same in every step have more than 1073741824 bytes"),
        ("a constant that changes", changed_constant(), 65, "steps is changed, and is no buffer"),
        ("a buffer that is none", unknown_buffer(), 2, "ghost: the program changes it"),
        ("a loop", with_call("torch.ops.higher_order.while_loop"), 2, "no exact lowering for while_loop (net.py:42)"),
        ("a shape that depends on numbers", with_call("nonzero"), 2, "aten::nonzero"),
        ("another batch", of_batch(4), 2, "was exported for a batch of 4, not 8"),
        ("a batch outside its range", of_batch("s0", 9, 64), 2, "size 8 of dimension 0 is outside the exported range, 9 to 64"),
        ("no names", edited(graph_edit(lambda m: m.pop("signature"))), 65, "graph_module: has no signature"),
    ]
    failures, texts = [], []
    for name, made, code, words in cases:
        if isinstance(made, bytes):
            with open("bad.pt2", "wb") as file:
                file.write(made)
        else:
            write("bad.pt2", made if isinstance(made, dict) else made[0].members(*made[1]))
        before = sorted(os.listdir("."))
        try:
            done = buyer.submit("bad.pt2", "bad", expect=code)
            texts.append(f"{name}, exit {code}\n{done.stderr}")
            if words not in done.stderr:
                failures.append(f"{name}: {done.stderr.strip()}")
        except AssertionError as error:
            failures.append(f"{name}: {error}")
        for made in set(os.listdir(".")) - set(before):
            failures.append(f"{name}: {made} was made")
            os.remove(made)

    assert not failures, "\n".join(failures)
    net, y = cnn(True)
    net.save("train.pt2", y)
    words = buyer.submit("train.pt2", "bad", expect=2).stderr
    if "aten.batch_norm.default (net.py:3): is for training alone" not in words or "--eval-model" not in words:
        failures.append(words)
    words = buyer.submit("train.pt2", "bad", "--eval-model", "relu.pt2", expect=2).stderr
    if "--eval-model relu.pt2: has fc1.bias of shape [64], train.pt2 has none" not in words:
        failures.append(words)
    assert not failures, "\n".join(failures)
    check_texts("\n".join(texts), accept)
    print(f"{len(cases) + 2} archives refused")
