#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/tensor.h"
#include "dgx/kernels/compiled.h"
#include "dgx/manifest/statement.h"
#include "dgx/program/program.h"

namespace dgx::test {

/// The common ground of a dispute's sides: small programs with a task, data and a first state.

/// Random numbers that are the same with every compiler (splitmix64).
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// In [0, count).
  std::int64_t below(std::int64_t count);
  bool one_in(std::int64_t count) { return below(count) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(below(static_cast<std::int64_t>(all.size())))];
  }

 private:
  std::uint64_t state_;
};

/// Builds a program line by line.
class Sketch {
 public:
  struct Line {
    const char* kind = "map";
    Shape shape;
    std::vector<std::string> x;
    std::vector<std::string> steps = {};
    Shape fold = {};
    const char* type = "f32";
    std::vector<std::string> when = {};
    std::string init = {};
  };
  /// Adds `state NAME`, which stays unchanged unless next() replaces it.
  int state(const std::string& name, const char* type, const Shape& shape);
  int input(const std::string& source, const char* type, const Shape& shape,
            const std::vector<std::string>& of = {});
  int add(const Line& line);
  void next(int state, int value) {
    program_.values[kernels::ValueIndex{state}].next = kernels::ValueIndex{value};
  }
  /// Adds the entries `loss` (if given, an f32 [] that becomes `loss`) and `step`; asserts that the program
  /// is valid.
  [[nodiscard]] program::Program finish(std::optional<int> loss = std::nullopt);

 private:
  int parse(std::string text);
  program::Program program_;
};

struct Scene {
  std::string name;
  program::Program program;
  kernels::ByValue<std::optional<kernels::CompiledPrimitive>> compiled;  ///< none for inputs
  State initial;
  State dataset;  ///< x, y and what else the program reads
  Digest scales;  ///< SHA-256 of the dataset's
  manifest::Signed<manifest::Task> task;
};

/// A scene of the program with that state and data. `task` has what steps depend on: batch, steps, segments,
/// the data's fields, optimiser and schedule.
[[nodiscard]] Scene scene_from(std::string name, program::Program program, manifest::Task task, State initial,
                               State dataset);

/// A scene of `steps` steps of the program in segments of `every`; the first state and the data are drawn
/// from `seed`.
[[nodiscard]] Scene scene_of(std::string name, program::Program program, std::int64_t steps,
                             std::int64_t every, std::uint64_t seed);

/// Every kind of line and input, with a few elements each.
[[nodiscard]] Scene small_scene(std::int64_t steps = 4, std::int64_t every = 2);
/// A state that grows beyond f32 in its third step.
[[nodiscard]] Scene growing_scene();
/// Tensors of more than 256 leaves, folds of several blocks, groups and levels.
[[nodiscard]] Scene large_scene();
/// 300 entries and more than 256 lines.
[[nodiscard]] Scene wide_scene();
/// Segments of 600 steps: states are narrowed twice.
[[nodiscard]] Scene long_scene();
/// Two or three values of one or two elements; `which` is 0 to 3.
[[nodiscard]] Scene tiny_scene(int which);

}  // namespace dgx::test
