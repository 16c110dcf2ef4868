"""Archives of torch.export (.pt2) written without torch, from dgx-submit(1) and the schema that PyTorch publishes (torch/_export/serde/schema.py).

    net = Export()
    x = net.input("x", ["batch", 28, 28])
    w = net.parameter("fc.weight", array)
    y = net.call("linear", input=x, weight=w)
    net.save("net.pt2", y)

Values are tensors' names (class T), Python numbers, booleans, None, lists and strings; `Raw` gives an argument as JSON.
"""

import json
import zipfile

import numpy

TYPES = {"uint8": 1, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bool": 12}
FILE = "model/net.py"


class T(str):
    """The name of a tensor of the program."""


class Raw:
    def __init__(self, value):
        self.value = value


class Symbol(str):
    """The name of an integer that a call computes."""


def argument(value):
    if isinstance(value, Raw):
        return value.value
    if value is None:
        return {"as_none": True}
    if isinstance(value, T):
        return {"as_tensor": {"name": value}}
    if isinstance(value, Symbol):
        return {"as_sym_int": {"as_name": value}}
    if isinstance(value, bool):
        return {"as_bool": value}
    if isinstance(value, int):
        return {"as_int": value}
    if isinstance(value, float):
        return {"as_float": value}
    if isinstance(value, str):
        return {"as_string": value}
    if value and all(isinstance(each, T) for each in value):
        return {"as_tensors": [{"name": each} for each in value]}
    if any(isinstance(each, Symbol) for each in value):
        return {"as_sym_ints": [{"as_name": each} if isinstance(each, Symbol) else {"as_int": each} for each in value]}
    if value and all(isinstance(each, float) for each in value):
        return {"as_floats": list(value)}
    return {"as_ints": list(value)}


def size(value):
    if isinstance(value, str):
        return {"as_expr": {"expr_str": f"Symbol('{value}', positive=True, integer=True)", "hint": {"as_int": 2}}}
    return {"as_int": value}


def form(dtype, sizes, strides=None, offset=0, trained=False):
    if strides is None:
        strides = []
        for each in reversed(sizes):
            strides.insert(0, strides[0] * below if strides else 1)
            below = each if isinstance(each, int) else 2
    return {"dtype": TYPES[dtype], "sizes": [size(n) for n in sizes], "requires_grad": trained, "device": {"type": "cpu", "index": None},
            "strides": [size(n) for n in strides], "storage_offset": size(offset), "layout": 7}


def tree_spec(tree):
    """A tree of results as PyTorch's treespec_dumps() writes it."""
    if isinstance(tree, dict):
        return {"type": "builtins.dict", "context": json.dumps(list(tree)), "children_spec": [tree_spec(each) for each in tree.values()]}
    if isinstance(tree, tuple):
        return {"type": "builtins.tuple", "context": "null", "children_spec": [tree_spec(each) for each in tree]}
    return {"type": None, "context": None, "children_spec": []}


class Graph:
    """The calls of a program, or of a graph inside one."""

    def __init__(self, inputs=()):
        self.inputs = [{"as_tensor": {"name": name}} for name in inputs]
        self.nodes = []
        self.forms = {}

    def call(self, op, /, *, results=1, line=None, like=None, **arguments):
        """Adds a call of aten::`op` ("add.Tensor", or with the default overload "relu"); returns the name of its result, or their names. A full
        target begins with "_operator." or "torch."; `like` gives its arguments in order, without names."""
        target = op if op.startswith(("_operator.", "torch.")) else f"torch.ops.aten.{op if '.' in op else op + '.default'}"
        n = len(self.nodes)
        names = [T(f"{op.replace('.', '_')}_{n}" + (f"_{i}" if results > 1 else "")) for i in range(results)]
        inputs = [{"name": "", "arg": argument(value), "kind": 1} for value in like or ()]
        inputs += [{"name": name, "arg": argument(value), "kind": 1} for name, value in arguments.items()]
        self.nodes.append({"target": target, "inputs": inputs, "outputs": [argument(name) for name in names],
                           "metadata": {"stack_trace": f"File \"{FILE}\", line {line or n + 1}, in forward\n    self.code()\n"
                                        "  File \"lib/torch/nn/modules/linear.py\", line 1, in forward\n    return F.linear()"}})
        return names[0] if results == 1 else names

    def integer(self, op, /, *arguments, **named):
        """Adds a call whose result is an integer; returns its name."""
        self.call(op, like=arguments, **named)
        name = Symbol(f"n{len(self.nodes)}")
        self.nodes[-1]["outputs"] = [argument(name)]
        return name

    def json(self, *results):
        return {"inputs": self.inputs, "outputs": [argument(each) for each in results], "nodes": self.nodes, "tensor_values": self.forms,
                "sym_int_values": {}, "sym_bool_values": {}, "is_single_tensor_return": False, "custom_obj_values": {}, "sym_float_values": {}}


class Export(Graph):
    def __init__(self):
        super().__init__()
        self.specs, self.files = [], {}
        self.lists = {"weights": {}, "constants": {}}
        self.ranges = {}
        self.changed = []
        self.tree = None
        self.program = {"opset_version": {"aten": 10}, "schema_version": {"major": 8, "minor": 17}, "verifiers": ["TRAINING"],
                        "torch_version": "2.11.0", "guards_code": []}
        self.words = {"archive_format": "pt2", "archive_version": "0", "byteorder": "little"}

    def input(self, name, sizes, dtype="float32"):
        self.specs.append({"user_input": {"arg": {"as_tensor": {"name": name}}}})
        self.forms[name] = form(dtype, sizes)
        for each in sizes:
            if isinstance(each, str):
                self.ranges[each] = {"min_val": 1, "max_val": 1024}
        return T(name)

    def store(self, kind, title, array, *, file=None, trained=False, **layout):
        """Stores an array under data/KIND; `file` names another's file, for tied ones; layout: sizes, strides, offset."""
        path = file or f"{kind[:-1]}_{len(self.files)}"
        if not file:
            self.files[f"data/{kind}/{path}"] = array.tobytes()
        sizes = layout.get("sizes", list(array.shape))
        self.lists[kind][title] = {"path_name": path, "is_param": kind == "weights", "use_pickle": False,
                                   "tensor_meta": form(str(array.dtype), sizes, layout.get("strides"), layout.get("offset", 0), trained)}
        return path

    def parameter(self, title, array, *, trained=True, file=None, **layout):
        self.store("weights", title, array, file=file, trained=trained, **layout)
        name = T("p_" + title.replace(".", "_"))
        self.specs.append({"parameter": {"arg": {"name": name}, "parameter_name": title}})
        return name

    def buffer(self, title, array):
        self.store("weights", title, array)
        name = T("b_" + title.replace(".", "_"))
        self.specs.append({"buffer": {"arg": {"name": name}, "buffer_name": title, "persistent": True}})
        return name

    def constant(self, title, array, *, file=None, **layout):
        self.store("constants", title, array, file=file, **layout)
        name = T("c_" + title)
        self.specs.append({"tensor_constant": {"arg": {"name": name}, "tensor_constant_name": title}})
        return name

    def becomes(self, buffer_title, value):
        """The buffer's new value, by an output of the program."""
        self.changed.append({"buffer_mutation": {"arg": {"name": value}, "buffer_name": buffer_title}})

    def wrap(self, target, words, graph, *arguments, results=()):
        """A call with a graph inside: `words` come before it."""
        inner = Raw({"as_graph": {"name": "submod", "graph": graph.json(*results)}})
        return self.call(target, results=len(results), like=[*words, inner, *arguments])

    def calls_of_modules(self):
        """The tree of forward()'s results, if `tree` gives it: dictionaries and tuples of anything."""
        if self.tree is None:
            return []
        return [{"fqn": "", "signature": {"inputs": [], "outputs": [], "in_spec": "", "out_spec": json.dumps([1, tree_spec(self.tree)]),
                                          "forward_arg_names": []}}]

    def text(self, *results):
        module = {"graph": self.json(*results), "module_call_graph": self.calls_of_modules(), "metadata": {}, "treespec_namedtuple_fields": {},
                  "signature": {"input_specs": self.specs,
                                "output_specs": [*self.changed, *({"user_output": {"arg": argument(each)}} for each in results)]}}
        return json.dumps({"graph_module": module, "range_constraints": self.ranges, **self.program})

    def members(self, *results):
        """The archive's files by name."""
        out = {f"models/model.json": self.text(*results).encode(), **self.files}
        for kind, entries in self.lists.items():
            out[f"data/{kind}/model_{kind}_config.json"] = json.dumps({"config": entries}).encode()
        out.update({name: word.encode() for name, word in self.words.items()})
        out[".data/version"] = b"3\n"
        return out

    def save(self, path, *results):
        write(path, self.members(*results))


def write(path, members, folder="net"):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{folder}/{name}", data)


def uniform(shape, seed):
    return (numpy.random.default_rng(seed).standard_normal(shape) * 0.1).astype("f4")
