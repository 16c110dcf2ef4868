// make_torchscript FOLDER: writes the TorchScript files used by the tests of capture, one for each model
// below.
#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace {

using torch::jit::Module;

void add_parameter(Module& module, const std::string& name, std::vector<std::int64_t> shape) {
  module.register_parameter(name, at::randn(shape).mul_(0.1).requires_grad_(), false);
}

Module linear(std::int64_t inputs, std::int64_t outputs) {
  Module module("Linear");
  add_parameter(module, "weight", {outputs, inputs});
  add_parameter(module, "bias", {outputs});
  module.define("def forward(self, x):\n  return torch.linear(x, self.weight, self.bias)\n");
  return module;
}

/// Linear 784-64, the activation, Linear 64-10; `activation` is TorchScript on x.
Module mlp(const std::string& activation) {
  Module module("Mlp");
  module.register_module("fc1", linear(784, 64));
  module.register_module("fc2", linear(64, 10));
  module.define("def forward(self, x):\n  x = self.fc1.forward(x.flatten(1))\n  x = " + activation +
                "\n  return self.fc2.forward(x)\n");
  return module;
}

/// Convolution, batch norm with running statistics, max pool, a linear head.
Module cnn() {
  Module module("Cnn");
  add_parameter(module, "conv", {8, 1, 3, 3});
  add_parameter(module, "gamma", {8});
  add_parameter(module, "beta", {8});
  module.register_buffer("mean", at::zeros({8}));
  module.register_buffer("var", at::ones({8}));
  module.register_buffer("count", at::zeros({}, at::kLong));
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_module("head", linear(8 * 14 * 14, 10));
  module.define(R"(
def forward(self, x):
  x = torch.conv2d(x, self.conv, None, [1, 1], [1, 1])
  if self.training:
    self.count.add_(1)
  x = torch.batch_norm(x, self.gamma, self.beta, self.mean, self.var, self.training, 0.1, 1e-5, False)
  x = torch.max_pool2d(torch.relu(x), [2, 2])
  return self.head.forward(x.flatten(1))
)");
  return module;
}

/// Tokens: an embedding tied to the output projection, layer norm, causal attention, dropout.
Module language() {
  Module module("Language");
  module.register_attribute("training", c10::BoolType::get(), true);
  add_parameter(module, "table", {32, 16});
  module.register_parameter("head", module.attr("table").toTensor(), false);
  add_parameter(module, "qkv", {48, 16});
  add_parameter(module, "unused", {3});
  module.define(R"(
def forward(self, x):
  h = torch.embedding(self.table, x)
  h = torch.layer_norm(h, [16])
  parts = torch.chunk(torch.linear(h, self.qkv), 3, 2)
  a = torch.scaled_dot_product_attention(parts[0], parts[1], parts[2], None, 0.0, True)
  h = h + torch.dropout(a, 0.1, self.training)
  return torch.linear(h, self.head)
)");
  return module;
}

/// Tokens with a mask and, perhaps, weights: the mean of the embeddings that count, a linear head; returns a
/// dictionary.
Module masked_tokens() {
  Module module("Masked");
  add_parameter(module, "table", {32, 16});
  module.register_module("head", linear(16, 4));
  module.define(R"(
def forward(self, ids, mask, bias: Optional[Tensor]=None):
  h = torch.embedding(self.table, ids)
  m = mask.to(6).unsqueeze(2)
  h = torch.sum(h * m, [1]) / torch.sum(m, [1])
  y = self.head.forward(h)
  if bias is not None:
    y = y + bias
  return {"pooled": h, "logits": y}
)");
  return module;
}

Module body(const std::string& statements) {
  Module module("Body");
  module.register_module("fc", linear(784, 10));
  module.define("def forward(self, x):\n  y = self.fc.forward(x.flatten(1))\n" + statements +
                "\n  return y\n");
  return module;
}

/// One linear layer and a buffer that is assigned, not changed in place; `host` adds an attribute that is not
/// a tensor.
Module counting(bool host) {
  Module module("Counting");
  module.register_module("fc", linear(784, 10));
  module.register_buffer("total", at::zeros({10}));
  module.register_attribute("calls", c10::IntType::get(), 0);
  module.define(std::string("def forward(self, x):\n  y = self.fc.forward(x.flatten(1))\n") +
                "  self.total = self.total + y.detach().sum(0)\n" +
                (host ? "  self.calls = self.calls + 1\n" : "") + "  return y\n");
  return module;
}

Module doubled() {
  Module module = mlp("torch.tanh(x)");
  module.to(at::kDouble);
  return module;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  at::manual_seed(1);
  const std::vector<std::pair<std::string, std::function<Module()>>> models = {
      {"relu", [] { return mlp("torch.relu(x)"); }},
      {"gelu", [] { return mlp("torch.gelu(x)"); }},
      {"gelu_tanh", [] { return mlp("torch.gelu(x, approximate='tanh')"); }},
      {"tanh", [] { return mlp("torch.tanh(x)"); }},
      {"sigmoid", [] { return mlp("torch.sigmoid(x)"); }},
      {"scaled", [] { return mlp("torch.relu(x * 0.5 + 1)"); }},
      {"cnn", cnn},
      {"language", language},
      {"masked_tokens", masked_tokens},
      {"in_place", [] { return body("  y[:, 0] = 2.0\n  y.mul_(3)"); }},
      {"nonzero", [] { return body("  y = torch.nonzero(y).float()"); }},
      {"item", [] { return body("  y = y * float(y.sum())"); }},
      {"masked", [] { return body("  y = y[y > 0]"); }},
      {"tolist", [] { return body("  l : List[List[float]] = y.tolist()\n  y = y * l[0][0]"); }},
      {"rows", [] { return body("  y = y[torch.argsort(y[:, 0])]"); }},
      {"half", [] { return body("  y = (y.half() * 2).float()"); }},
      {"pair", [] { return body("  return y, y"); }},
      {"float64", doubled},
      {"assigned", [] { return counting(false); }},
      {"host_state", [] { return counting(true); }},
      {"clipped", [] { return body("  w = self.fc.weight.detach()\n  w.clamp_(-1.0, 1.0)"); }},
  };
  for (const auto& [name, make] : models) {
    try {
      make().save(std::string(argv[1]) + "/" + name + ".pt");
    } catch (const std::exception& thrown) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), thrown.what());
      return 70;
    }
  }
  return 0;
}
