#include "eager.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/api/module.h>

#include <cstring>

namespace dgx::test {
namespace {

at::Tensor to_torch(const Tensor& tensor) {
  const auto type = tensor.dtype() == DType::kI64  ? at::kLong
                    : tensor.dtype() == DType::kU8 ? at::kByte
                                                   : at::kFloat;
  at::Tensor result = at::empty(tensor.shape(), type);
  std::memcpy(result.data_ptr(), tensor.bytes().data(), tensor.bytes().size());
  return result;
}

Tensor from_torch(const at::Tensor& tensor) {
  const at::Tensor rows = tensor.detach().contiguous();
  const auto type = rows.scalar_type();
  Tensor result(type == at::kLong    ? DType::kI64
                : type == at::kFloat ? DType::kF32
                                     : DType::kU8,
                rows.sizes().vec());
  if (rows.nbytes() == result.bytes().size())
    std::memcpy(result.bytes().data(), rows.const_data_ptr(), result.bytes().size());
  return result;
}

std::string first_lines(const char* what) { return std::string(what).substr(0, 2000); }

}  // namespace

struct Eager::Impl {
  torch::jit::Module module{"Case"};
  std::vector<std::string> parameters;
};

Eager::Eager(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Eager::~Eager() = default;

Result<std::unique_ptr<Eager>> Eager::create(const Case& one, const std::string& source, std::uint32_t seed,
                                             bool with_draws) {
  auto impl = std::make_unique<Impl>();
  torch::jit::Module& module = impl->module;
  at::set_num_threads(1);
  try {
    for (const Field& field : one.parameters) {
      DGX_TRY(const Tensor value, filled(field, seed));
      module.register_parameter(field.name, to_torch(value).requires_grad_(), false);
      impl->parameters.push_back(field.name);
    }
    for (const Field& field : one.buffers) {
      DGX_TRY(const Tensor value, filled(field, seed));
      module.register_buffer(field.name, to_torch(value));
    }
    for (const Draw& draw : one.draws) {
      if (with_draws) module.register_buffer(draw.name, at::zeros(draw.shape));
    }
    module.register_attribute("training", c10::BoolType::get(), true);
    module.define(source);
  } catch (const std::exception& thrown) {
    return malformed(first_lines(thrown.what()));
  }
  return std::unique_ptr<Eager>(new Eager(std::move(impl)));
}

Status Eager::save(const std::string& path) {
  try {
    impl_->module.save(path);
  } catch (const std::exception& thrown) {
    return malformed(first_lines(thrown.what()));
  }
  return {};
}

void Eager::set_buffer(const std::string& name, const Tensor& value) {
  impl_->module.setattr(name, to_torch(value));
}

Tensor Eager::entry(const std::string& name) const { return from_torch(impl_->module.attr(name).toTensor()); }

Result<Tensor> Eager::evaluate(const Tensor& x) {
  try {
    impl_->module.train(false);
    const c10::InferenceMode no_gradients;
    return from_torch(impl_->module.forward({to_torch(x)}).toTensor());
  } catch (const std::exception& thrown) {
    return malformed(first_lines(thrown.what()));
  }
}

Result<Eager::Step> Eager::train(const Tensor& x, const Tensor& y, double learning_rate) {
  try {
    impl_->module.train(true);
    const c10::AutoGradMode with_gradients(true);
    std::vector<at::Tensor> parameters;
    for (const std::string& name : impl_->parameters)
      parameters.push_back(impl_->module.attr(name).toTensor());
    const at::Tensor output = impl_->module.forward({to_torch(x)}).toTensor();
    const at::Tensor loss = at::mse_loss(output, to_torch(y));
    const auto gradients = torch::autograd::grad({loss}, parameters, {}, std::nullopt, false, true);
    Step step{loss.item<float>(), {}};
    const c10::AutoGradMode without(false);
    for (std::size_t n = 0; n < parameters.size(); ++n) {
      step.gradients.emplace_back();
      if (!gradients[n].defined()) continue;
      step.gradients.back() = from_torch(gradients[n]);
      parameters[n].sub_(gradients[n], learning_rate);
    }
    return step;
  } catch (const std::exception& thrown) {
    return malformed(first_lines(thrown.what()));
  }
}

}  // namespace dgx::test
