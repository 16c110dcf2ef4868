#!/usr/bin/python3
"""Models with several inputs and outputs, and with a loss of their own: inputs.py --bin FOLDER --plugins FOLDER --models FOLDER

A classifier with a mask of its attention is trained, proved, verified and disputed, from an archive and as a TorchScript file; a decoder is trained
with its loss inside and outside, to the same state; every refusal of a name has its words. Exits 77 without NumPy.
"""

import json
import os
import subprocess

import support
from support import needs

needs.modules("numpy")
import numpy  # noqa: E402
from exported import Export, T, uniform  # noqa: E402  (of tests/support)

WIDTH, WORDS, LENGTH, CLASSES = 8, 32, 6, 4


class Buyer(support.Bench):
    def pack(self, name, **fields):
        words = []
        for field, array in fields.items():
            numpy.save(self.path(f"{name}.{field}.npy"), array)
            path = f"{name}.{field}.npy"
            words += [f"--{field}", path] if field in "xy" else ["--field", f"{field}={path}"]
        self.run("dgx-pack", "npy", *words, "-o", f"{name}.h5")

    def save(self, net, path, *results, tree=None):
        net.tree = tree
        net.save(self.path(path), *results)

    def command(self, data, model, task, *more, loss="cross-entropy", batch=8, steps=20):
        return ["dgx-submit", "--data", f"{data}.h5", "--model", model, "--loss", loss, "--optimizer", "adam:lr=0.01", "--batch", str(batch),
                "--steps", str(steps), "--checkpoint-every", "5", "--seed", "3", "--key", "alice.pem", "-o", f"{task}.json", *more]

    def submit(self, *words, **named):
        return self.run(*self.command(*words, **named))

    def lines(self, task, kind="program"):
        with open(self.path(f"{task}.{kind}.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return [{key: value for key, value in line.items() if key != "g"} for line in lines]

    def final_state(self, task, data):
        return self.run("dgx-train", f"{task}.json", "--data", f"{data}.h5", "-o", f"{task}.run")["state"]

    def disputed(self, task, data, drill):
        """What the referee says of a run of this task with that fault, after all moves; the honest run is TASK.run. Needs the keys cheat, verifier and referee."""
        places = [(f"{data}.h5", "data.h5"), (f"{task}.run", "run")] + [(f"{task}.{part}", f"task.{part}") for part in ("json", "program.jsonl", "init.h5")]
        places = [(self.path(before), self.path(after)) for before, after in places if before != after and os.path.exists(self.path(before))]
        for before, after in places:
            os.rename(before, after)
        script = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli", "dispute.sh")
        done = subprocess.run(["sh", script, drill], cwd=self.folder, capture_output=True, text=True, timeout=300,
                              env={**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"})
        for before, after in places:
            os.rename(after, before)
        self.check(done.stdout.startswith("referee 1\n"), f"the dispute about {task}: {done.stdout}{done.stderr}")
        return done.stdout

    def refused(self, words, *command, **named):
        done = subprocess.run([os.path.join(self.bin, each) if n == 0 else each for n, each in enumerate(self.command(*command, **named))],
                              cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.check(done.returncode == 2 and done.stderr == words, f"exit {done.returncode}, expected:\n{words}found:\n{done.stderr}")


def linear(net, title, x, inputs, outputs):
    weight = net.parameter(f"{title}.weight", uniform((outputs, inputs), len(title)))
    bias = net.parameter(f"{title}.bias", uniform((outputs,), 1))
    return net.call("linear", input=x, weight=weight, bias=bias)


def embedded(net, ids, trained=True):
    """Embeddings of the tokens and of their positions, which are a buffer as in BERT."""
    table = net.parameter("table", uniform((WORDS, WIDTH), 1), trained=trained)
    places = net.parameter("places", uniform((LENGTH, WIDTH), 2), trained=trained)
    positions = net.buffer("position_ids", numpy.arange(LENGTH)[None])
    return net.call("add.Tensor", self=net.call("embedding", weight=table, indices=ids),
                    other=net.call("embedding", weight=places, indices=positions))


def encoder(mask_type="int64", batch="s0"):
    """One layer of attention that sees the tokens of the mask: the program, what the layer is given, and what it makes of it."""
    net = Export()
    ids = net.input("input_ids", [batch, LENGTH], "int64")
    mask = net.input("attention_mask", [batch, LENGTH], mask_type)
    h = net.call("layer_norm", input=embedded(net, ids), normalized_shape=[WIDTH])
    seen = mask if mask_type == "bool" else net.call("ne.Scalar", self=mask, other=0)
    seen = net.call("unsqueeze", self=seen, dim=1)
    q, k, v = (linear(net, name, h, WIDTH, WIDTH) for name in ("query", "key", "value"))
    a = net.call("scaled_dot_product_attention", query=q, key=k, value=v, attn_mask=net.call("expand", self=seen, size=[-1, LENGTH, -1]))
    return net, h, net.call("add.Tensor", self=h, other=a)


def classifier(mask_type="int64", batch="s0"):
    """The class of the encoder's first token."""
    net, h, encoded = encoder(mask_type, batch)
    first = net.call("select.int", self=encoded, dim=1, index=0)
    return net, linear(net, "classes", first, WIDTH, CLASSES), first, h


def decoder(inside):
    """Causal attention over tokens. Inside: forward shifts the labels itself and returns its loss, as GPT-2 of transformers does."""
    net = Export()
    ids = net.input("input_ids", ["s0", LENGTH], "int64")
    labels = net.input("labels", ["s0", LENGTH], "int64") if inside else None
    h = net.call("layer_norm", input=embedded(net, ids), normalized_shape=[WIDTH])
    q, k, v = (linear(net, name, h, WIDTH, WIDTH) for name in ("query", "key", "value"))
    a = net.call("scaled_dot_product_attention", query=q, key=k, value=v, is_causal=True)
    logits = linear(net, "head", net.call("add.Tensor", self=h, other=a), WIDTH, WORDS)
    if not inside:
        return net, logits
    padded = net.call("pad", self=labels, pad=[0, 1], mode="constant", value=-100.0)
    after = net.call("contiguous", self=net.call("slice.Tensor", self=padded, dim=1, start=1, end=LENGTH + 1))
    loss = net.call("cross_entropy_loss", self=net.call("view", self=logits, size=[-1, WORDS]), target=net.call("view", self=after, size=[-1]),
                    ignore_index=-100)
    return net, loss, logits


def make_data(buyer):
    draw = numpy.random.default_rng(5)
    ids = draw.integers(0, WORDS, (43, LENGTH))
    mask = (numpy.arange(LENGTH) < draw.integers(1, LENGTH + 1, (43, 1))).astype("u1")
    y = (ids[:, 0] % CLASSES).astype("u1")
    buyer.pack("text", x=ids, y=y, attention_mask=mask)
    buyer.pack("longs", x=ids, y=y, attention_mask=mask.astype("i8"))
    buyer.pack("plain", x=ids, y=y)
    buyer.pack("bare", x=ids)
    buyer.pack("tokens", x=ids, y=ids)
    shifted = numpy.concatenate([ids[:, 1:], numpy.full((43, 1), -100)], 1)
    buyer.pack("shifted", x=ids, y=shifted)
    for name in ("alice", "solver", "cheat", "verifier", "referee"):
        buyer.run("dgx-key", "new", name)


def check_classifier(buyer):
    net, logits, first, h = classifier()
    buyer.save(net, "one.pt2", logits)
    buyer.save(net, "all.pt2", None, logits, first, h, tree={"loss": 0, "logits": 0, "more": (0, {"hidden": 0})})
    buyer.submit("text", "one.pt2", "task")
    for n, name in enumerate(("logits", "1")):
        buyer.submit("text", "all.pt2", f"all{n}", "--model-output", name)
        for kind in ("program", "eval"):
            buyer.check(buyer.lines(f"all{n}", kind) == buyer.lines("task", kind), f"an output that nobody wants changes the {kind} ({name})")
    state = buyer.final_state("task", "text")
    # The mask is 0 and 1 whichever type it is stored in, and whichever the model compares.
    buyer.submit("longs", "one.pt2", "longs", "--inputs", "attention_mask=attention_mask,input_ids=x")
    buyer.check(buyer.final_state("longs", "longs") == state, "a mask stored as i64 gives another state")
    net, logits, first, h = classifier("bool")
    buyer.save(net, "bool.pt2", logits)
    buyer.submit("text", "bool.pt2", "bools")
    buyer.check(buyer.final_state("bools", "text") == state, "a mask that the model takes as bool gives another state")
    buyer.run("dgx-prove", "task.json", "task.run", "--key", "solver.pem", "-o", "proof.json")
    buyer.run("dgx-verify", "task.json", "proof.json", "--from", "task.run", "--data", "text.h5", "--all", "--key", "verifier.pem", "-o", "honest.json")
    # A line that reads the mask is where the cheat's fault lies.
    lines = buyer.lines("task")
    field = next(n for n, line in enumerate(lines) if line.get("src") == "batch attention_mask")
    line = next(n for n, each in enumerate(lines) if any(access.split("[")[0] == str(field) for access in each.get("x", [])))
    said = buyer.disputed("task", "text", f"step=7,op={line},element=3,bit=0")
    buyer.check("\nscalar as diff has it\n" in said, f"the dispute: {said}")


def check_decoder(buyer):
    net, loss, logits = decoder(inside=True)
    buyer.save(net, "inside.pt2", loss, logits, tree={"loss": 0, "logits": 0})
    net, logits = decoder(inside=False)
    buyer.save(net, "outside.pt2", logits)
    buyer.submit("tokens", "inside.pt2", "inside", loss="output=loss")
    buyer.submit("shifted", "outside.pt2", "outside", loss="cross-entropy:ignore=-100")
    buyer.check(buyer.final_state("inside", "tokens") == buyer.final_state("outside", "shifted"), "a loss inside gives another state than one outside")
    # Labels are what they are: the field of the tokens, too.
    buyer.submit("bare", "inside.pt2", "again", "--inputs", "input_ids=x,labels=x", loss="output=loss")
    buyer.check(buyer.final_state("again", "bare") == buyer.run("dgx-inspect", "inside.run")["state"], "labels=x gives another state than labels=y")
    report = buyer.run("dgx-train", "inside.json", "--data", "tokens.h5", "--evaluate", "inside.run")
    buyer.check(report["samples"] == 40 and 0 < report["loss"] < 4, f"the evaluation of a loss inside: {report}")
    # A loss that is not torch's cross entropy is lowered as it is.
    net, loss, logits = decoder(inside=True)
    buyer.save(net, "scaled.pt2", net.call("mul.Scalar", self=loss, other=1.0), tree=0)
    buyer.submit("tokens", "scaled.pt2", "scaled", loss="output", steps=5)
    buyer.final_state("scaled", "tokens")


def check_script(buyer, models):
    path = os.path.join(models, "masked_tokens.pt")
    given = ("--inputs", "mask=attention_mask", "--model-output", "logits")
    buyer.submit("text", path, "script", *given)
    state = buyer.final_state("script", "text")
    buyer.submit("longs", path, "typed", *given, "--input", "attention_mask=bool")
    buyer.check(buyer.final_state("typed", "longs") == state, "a mask given as bool gives another state")
    buyer.refused("dgx-submit: error: " + path + ": forward() returns 2 tensors: pooled and logits\n"
                  "hint: say which by --model-output NAME, or by --loss output=NAME if it is the loss\n", "text", path, "no", *given[:2])
    buyer.refused("dgx-submit: error: --input: the data has no field 'mask'\nhint: use one of attention_mask, x, y\n", "text", path, "no", *given,
                  "--input", "mask=bool")
    buyer.refused("dgx-submit: error: --input: 'boolean' is no type\nhint: use one of auto, bool, f32, i64, u8\n", "text", path, "no", *given, "--input",
                  "boolean")


def check_refusals(buyer):
    net, logits, first, h = classifier(batch=8)
    buyer.save(net, "fixed.pt2", logits)
    net, loss, logits = decoder(inside=True)
    buyer.save(net, "wide.pt2", logits, T("input_ids"))
    net.ranges["s0"] = {"min_val": 2, "max_val": 4}
    buyer.save(net, "narrow.pt2", loss)
    cases = [
        ("one.pt2: forward() takes attention_mask, for which there is no field\nhint: say --inputs attention_mask=FIELD: the data has x and y",
         ("plain", "one.pt2")),
        ("outside.pt2: no input takes the field attention_mask of the data\n"
         "hint: say --inputs INPUT=attention_mask, or None=attention_mask to leave it out: forward() takes input_ids", ("text", "outside.pt2")),
        ("one.pt2: --inputs: forward() takes no tensor 'input_id'\nhint: did you mean input_ids?", ("text", "one.pt2", "--inputs", "input_id=x")),
        ("one.pt2: --inputs: the data has no field 'mask'\nhint: it has attention_mask, x and y", ("text", "one.pt2", "--inputs", "attention_mask=mask")),
        ("--inputs: 'mask' is not INPUT=FIELD\nhint: for example --inputs input_ids=x,attention_mask=mask,labels=y", ("text", "one.pt2", "--inputs", "mask")),
        ("--inputs: 'input_ids' is there twice", ("text", "one.pt2", "--inputs", "input_ids=x,input_ids=y")),
        ("all.pt2: forward() returns 3 tensors: logits, more.0 and more.1.hidden\n"
         "hint: say which by --model-output NAME, or by --loss output=NAME if it is the loss", ("text", "all.pt2")),
        ("all.pt2: forward() returns no tensor 'logit'\nhint: did you mean logits?", ("text", "all.pt2", "--model-output", "logit")),
        ("all.pt2: forward() returns no tensor '0'\nhint: it returns logits, more.0 and more.1.hidden", ("text", "all.pt2", "--model-output", "0")),
        ("fixed.pt2: was exported for a batch of 8, not 4\n"
         "hint: say --batch 8, or export it with dynamic_shapes: {0: torch.export.Dim(\"batch\")}", ("text", "fixed.pt2"), {"batch": 4}),
        ("narrow.pt2: input_ids: size 8 of dimension 0 is outside the exported range, 2 to 4", ("tokens", "narrow.pt2"), {"loss": "output"}),
        ("one.pt2: input_ids is a tensor of int64, --input says float32\nhint: leave out --input: an archive says what its inputs are",
         ("text", "one.pt2", "--input", "f32")),
        ("--model-output: with --loss output the loss is the output\nhint: say --loss output=loss", ("tokens", "inside.pt2", "--model-output", "loss"),
         {"loss": "output"}),
        ("loss output: the model's output is f32 [8,6,32], must be one number, f32 []\nhint: take the mean in forward(), or name another output",
         ("tokens", "inside.pt2"), {"loss": "output=logits"}),
        ("inside.pt2: forward() returns 2 tensors: loss and logits\nhint: say which by --model-output NAME, or by --loss output=NAME if it is the loss",
         ("tokens", "inside.pt2"), {"loss": "output"}),
        ("outside.pt2: no input takes the field y of the data\nhint: say --inputs INPUT=y, or None=y to leave it out: forward() takes input_ids",
         ("tokens", "outside.pt2"), {"loss": "output"}),
        ("loss cross-entropy: the dataset has no y", ("bare", "outside.pt2")),
        ("--inputs goes with a model file, not with a built-in model", ("plain", "mlp:6-4", "--inputs", "x=x")),
        ("--loss output goes with a model file, not with a built-in model", ("plain", "mlp:6-4"), {"loss": "output"}),
        ("model 'mlp:6-4': no input takes the field attention_mask of the data\n"
         "hint: say --inputs INPUT=attention_mask, or None=attention_mask to leave it out: forward() takes x", ("text", "mlp:6-4")),
    ]
    for words, (data, model, *more), *named in cases:
        before = sorted(os.listdir(buyer.folder))
        buyer.refused(f"dgx-submit: error: {words}\n", data, model, "no", *more, **(named[0] if named else {}))
        buyer.check(sorted(os.listdir(buyer.folder)) == before, f"{words}: files were made")
    print(f"{len(cases)} refusals")


def main():
    options = support.arguments()
    models = os.path.abspath(options.models)
    with Buyer(options.bin) as buyer:
        make_data(buyer)
        check_classifier(buyer)
        check_decoder(buyer)
        check_script(buyer, models)
        check_refusals(buyer)


if __name__ == "__main__":
    main()
