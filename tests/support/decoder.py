"""GPT-2 as an archive of torch.export, written without torch (exported.py)."""

import numpy
from exported import Export


def decoder(layers, width, heads, context, vocabulary, *, training=True, dropout=0.1):
    """The net and its output, [batch, context, vocabulary]; the head is tied to the table. Its weights are normal numbers, of one seed."""
    net = Export()
    random = numpy.random.default_rng(1)

    def parameter(title, *shape):
        return net.parameter(title, random.standard_normal(shape, "f4") * numpy.float32(0.02))

    def dropped(h):
        return net.call("dropout", input=h, p=dropout, train=training)

    def norm(title, h):
        weight, bias = net.parameter(f"{title}.weight", numpy.ones(width, "f4")), net.parameter(f"{title}.bias", numpy.zeros(width, "f4"))
        return net.call("layer_norm", input=h, normalized_shape=[width], weight=weight, bias=bias)

    def linear(title, h, inputs, outputs):
        return net.call("linear", input=h, weight=parameter(f"{title}.weight", outputs, inputs), bias=parameter(f"{title}.bias", outputs))

    def heads_of(h):
        return net.call("transpose.int", self=net.call("view", self=h, size=[-1, context, heads, width // heads]), dim0=1, dim1=2)

    x = net.input("x", ["s0", context], "int64")
    table = parameter("wte.weight", vocabulary, width)
    places = net.call("arange", end=context, dtype=None, device=None)
    places = net.call("embedding", weight=parameter("wpe.weight", context, width), indices=places)
    h = dropped(net.call("add.Tensor", self=net.call("embedding", weight=table, indices=x), other=places))
    for n in range(layers):
        q, k, v = net.call("chunk", results=3, self=linear(f"h.{n}.attn.c_attn", norm(f"h.{n}.ln_1", h), width, 3 * width), chunks=3, dim=2)
        net.nodes[-1]["outputs"] = [{"as_tensors": [{"name": each} for each in (q, k, v)]}]
        a = net.call("scaled_dot_product_attention", query=heads_of(q), key=heads_of(k), value=heads_of(v), is_causal=True,
                     dropout_p=dropout if training else 0.0)
        a = net.call("reshape", self=net.call("transpose.int", self=a, dim0=1, dim1=2), shape=[-1, context, width])
        h = net.call("add.Tensor", self=h, other=dropped(linear(f"h.{n}.attn.c_proj", a, width, width)))
        m = net.call("gelu", self=linear(f"h.{n}.mlp.c_fc", norm(f"h.{n}.ln_2", h), width, 4 * width), approximate="tanh")
        h = net.call("add.Tensor", self=h, other=dropped(linear(f"h.{n}.mlp.c_proj", m, 4 * width, width)))
    head = net.parameter("lm_head.weight", numpy.zeros((vocabulary, width), "f4"), file=net.lists["weights"]["wte.weight"]["path_name"])
    return net, net.call("linear", input=norm("ln_f", h), weight=head)


def weight_bytes(net):
    """The bytes of all weights, tied ones once."""
    return sum(len(data) for name, data in net.files.items() if name.startswith("data/weights/"))
