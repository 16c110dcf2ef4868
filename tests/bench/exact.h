#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dgx/exec/executor.h"
#include "dgx/kernels/cuda/device.h"
#include "roof.h"

namespace dgx::bench {

/// A dataset's samples, concatenated bytes, and their classes. Empty: there is no dataset.
struct Samples {
  std::vector<std::uint8_t> x, y;
};

/// A task whose step is measured: model, optimiser, batch, and form of a sample.
struct Case {
  std::string name;
  std::string model;  ///< a built-in model's spec, or a TorchScript file
  std::string optimizer;
  std::int64_t batch = 1;
  Shape sample;  ///< of x, u8
  /// True: x, y are numbers below 256, a target a position; else pixels, a class below 10.
  bool tokens = false;
  const Samples* data = nullptr;  ///< the training data; null: generated numbers
  std::int64_t workers = 1;
};

/// A case's step program, data and executor. Exits with a message if something fails.
class Exact {
 public:
  /// Captures the model with libtorch and lowers it.
  explicit Exact(const Case& of);
  /// Makes the data and the executor: memory taken from here on is the step's own.
  void start(int threads);
  /// Like the above, on a device.
  void start(std::unique_ptr<kernels::cuda::Device> device);
  void step();
  /// A step of which every value is shown.
  void trace(const program::ValueVisitor& visit);
  [[nodiscard]] const program::Program& program() const { return *program_; }
  /// The least work of a step, and the share of zero terms in the products of the next one.
  [[nodiscard]] Least least() const;
  [[nodiscard]] double zero_terms();
  void start_profile() { static_cast<void>(executor_->start_profile()); }
  [[nodiscard]] const exec::StepExecutor& executor() const { return *executor_; }

 private:
  /// Makes the data and returns the parts that a step reads.
  [[nodiscard]] exec::StepInputs make_inputs();

  Case case_;
  std::shared_ptr<const program::Program> program_;
  State state_;
  Tensor x_, y_;
  std::unique_ptr<exec::StepExecutor> executor_;
};

}  // namespace dgx::bench
