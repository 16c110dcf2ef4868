#!/usr/bin/python3
"""What people fine-tune, each through its whole life: fine_tuning.py --bin FOLDER --plugins FOLDER

Archives of torch.export, written without torch: a classifier with a mask of its attention, classes of tokens of which some are ignored, a regression,
labels of which a sample has several, an adapter of low rank on a frozen decoder, and a decoder with its loss inside. Each is trained, proved,
verified, evaluated and exported; of the last two a cheat's run is disputed, about a frozen weight and about the loss. Exits 77 without NumPy.
"""

import support
from support import needs

needs.modules("numpy")
import numpy  # noqa: E402
from exported import Export, uniform  # noqa: E402  (of tests/support)
from inputs import CLASSES, LENGTH, WIDTH, WORDS, Buyer, classifier, decoder, embedded, encoder, linear  # noqa: E402

SAMPLES, STEPS = 43, 40


def head(outputs, tokens):
    """Outputs for every token, or for the first alone."""
    net, _, encoded = encoder()
    if not tokens:
        encoded = net.call("select.int", self=encoded, dim=1, index=0)
    return net, linear(net, "head", encoded, WIDTH, outputs)


def adapted():
    """A decoder of frozen weights; an adapter of rank 2 beside its head is all that is trained."""
    net = Export()
    ids = net.input("input_ids", ["s0", LENGTH], "int64")
    h = net.call("layer_norm", input=embedded(net, ids, trained=False), normalized_shape=[WIDTH])
    base = net.parameter("head.weight", uniform((WORDS, WIDTH), 3), trained=False)
    a, b = net.parameter("head.lora_A.weight", uniform((2, WIDTH), 4)), net.parameter("head.lora_B.weight", numpy.zeros((WORDS, 2), "f4"))
    low = net.call("linear", input=net.call("linear", input=h, weight=a), weight=b)
    return net, net.call("add.Tensor", self=net.call("linear", input=h, weight=base), other=net.call("mul.Scalar", self=low, other=2.0))


def life(buyer, name, data, net, results, loss, **named):
    """Trains the model on the data, proves and verifies it; returns its final state."""
    buyer.save(net, f"{name}.pt2", *results, **named)
    buyer.submit(data, f"{name}.pt2", name, loss=loss, steps=STEPS)
    state = buyer.final_state(name, data)
    buyer.run("dgx-prove", f"{name}.json", f"{name}.run", "--key", "solver.pem", "-o", f"{name}.proof.json")
    verdict = buyer.run("dgx-verify", f"{name}.json", f"{name}.proof.json", "--from", f"{name}.run", "--data", f"{data}.h5", "--all", "--key", "verifier.pem",
                        "-o", f"{name}.verdict.json")
    buyer.check(verdict["verdict"] == "accepted", f"{name}: {verdict}")
    buyer.run("dgx-inspect", "export", f"{name}.run", "-o", f"{name}.npz")
    buyer.run("dgx-inspect", "check-model", f"{name}.npz", f"{name}.proof.json")
    before, after = (buyer.run("dgx-train", f"{name}.json", "--data", f"{data}.h5", "--evaluate", start)["loss"]
                     for start in (f"{name}.init.h5", f"{name}.run"))
    buyer.check(0 <= after < before, f"{name}: the loss goes from {before} to {after}")
    print(f"{name}: loss {before} to {after}, proved and verified")
    return state


def make_data(buyer):
    draw = numpy.random.default_rng(6)
    ids = draw.integers(0, WORDS, (SAMPLES, LENGTH))
    mask = (numpy.arange(LENGTH) < draw.integers(2, LENGTH + 1, (SAMPLES, 1))).astype("u1")
    buyer.pack("classes", x=ids, y=(ids[:, 0] % CLASSES).astype("u1"), attention_mask=mask)
    hidden = numpy.where(mask, ids, (ids + 1) % WORDS)
    buyer.pack("hidden", x=hidden, y=(ids[:, 0] % CLASSES).astype("u1"), attention_mask=mask)
    buyer.pack("parts", x=ids, y=numpy.where(mask, ids % CLASSES, -100), attention_mask=mask)
    buyer.pack("other_parts", x=ids, y=numpy.where(mask, ids % CLASSES, 0), attention_mask=mask)
    buyer.pack("scores", x=ids, y=(ids[:, :1] / WORDS).astype("f4"), attention_mask=mask)
    buyer.pack("labels", x=ids, y=(ids[:, :1] >> numpy.arange(CLASSES) & 1).astype("u1"), attention_mask=mask)
    buyer.pack("text", x=ids, y=ids)
    for name in ("alice", "solver", "verifier", "cheat", "referee"):
        buyer.run("dgx-key", "new", name)


def main():
    options = support.arguments()
    with Buyer(options.bin) as buyer:
        make_data(buyer)
        net, logits, *_ = classifier()
        state = life(buyer, "classifier", "classes", net, [logits], "cross-entropy")
        buyer.submit("hidden", "classifier.pt2", "masked", steps=STEPS)
        buyer.check(buyer.final_state("masked", "hidden") == state, "tokens that the mask hides change the state")

        net, logits = head(CLASSES, tokens=True)
        state = life(buyer, "tokens", "parts", net, [logits], "cross-entropy:ignore=-100")
        buyer.submit("other_parts", "tokens.pt2", "all_tokens", steps=STEPS)
        buyer.check(buyer.final_state("all_tokens", "other_parts") != state, "targets that are ignored count")

        net, y = head(1, tokens=False)
        life(buyer, "regression", "scores", net, [y], "mse")
        net, logits = head(CLASSES, tokens=False)
        life(buyer, "several_labels", "labels", net, [logits], "bce:pos-weights=1/2/1/0.5")

        net, logits = adapted()
        life(buyer, "adapter", "text", net, [logits], "cross-entropy")
        weights = numpy.load(buyer.path("adapter.npz"))
        before = {"head.lora_A.weight": uniform((2, WIDTH), 4), "head.lora_B.weight": numpy.zeros((WORDS, 2)), "head.weight": uniform((WORDS, WIDTH), 3)}
        moved = [name for name, start in before.items() if (weights[name] != start).any()]
        buyer.check(moved == ["head.lora_A.weight", "head.lora_B.weight"], f"trained are {moved}")
        base = next(n for n, line in enumerate(buyer.lines("adapter")) if line.get("src") == "state model/head.weight")
        said = buyer.disputed("adapter", "text", f"step=7,op={base},element=3,bit=20")
        buyer.check("model/head.weight" in said, f"the dispute is about another entry: {said}")

        net, loss, logits = decoder(inside=True)
        life(buyer, "inside", "text", net, [loss, logits], "output=loss", tree={"loss": 0, "logits": 0})
        lines = buyer.lines("inside")
        loss = lines[next(line["next"] for line in lines if line.get("src") == "state loss")]
        said = buyer.disputed("inside", "text", f"step=9,op={loss['v']},element=0,bit=0")
        buyer.check("\nscalar as diff has it\n" in said, f"the dispute about the loss: {said}")


if __name__ == "__main__":
    main()
