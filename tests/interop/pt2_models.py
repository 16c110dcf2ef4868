"""The models of pt2.py as archives of torch.export."""

import numpy
from exported import Export, uniform


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
