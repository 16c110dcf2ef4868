"""torch.export for a PyTorch that has none, as far as the README's model needs it: modules without children, called one after another."""

import pathlib
import sys

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from exported import Export  # noqa: E402

CALLS = {
    nn.Conv2d: lambda net, module, x, **weights: net.call("conv2d", input=x, **weights, stride=list(module.stride), padding=list(module.padding)),
    nn.ReLU: lambda net, module, x: net.call("relu", self=x),
    nn.MaxPool2d: lambda net, module, x: net.call("max_pool2d", self=x, kernel_size=[module.kernel_size] * 2),
    nn.AdaptiveAvgPool2d: lambda net, module, x: net.call("adaptive_avg_pool2d", self=x, output_size=[module.output_size] * 2),
    nn.Flatten: lambda net, module, x: net.call("flatten.using_ints", self=x, start_dim=module.start_dim),
    nn.Linear: lambda net, module, x, **weights: net.call("linear", input=x, **weights),
}


class StandIn:
    @staticmethod
    def Dim(name, min):
        return name

    @staticmethod
    def export(model, arguments, dynamic_shapes):
        net = Export()
        x = net.input("x", [dynamic_shapes[0].get(n, size) for n, size in enumerate(arguments[0].shape)])
        for path, module in model.named_modules():
            if not list(module.children()):
                weights = {name: net.parameter(f"{path}.{name}", weight.detach().numpy()) for name, weight in module.named_parameters()}
                x = CALLS[type(module)](net, module, x, **weights)
        return net, x

    @staticmethod
    def save(program, path):
        net, result = program
        net.save(path, result)


if not hasattr(torch, "export"):
    torch.export = StandIn
