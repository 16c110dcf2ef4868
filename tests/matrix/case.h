#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dgx/kernels/primitive.h"
#include "dgx/program/program.h"

namespace dgx::matrix {

/// Random numbers that are the same with every compiler and library (splitmix64), so that a seed names one
/// case on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// In [0, count).
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(count));
  }
  bool one_in(std::int64_t count) { return below(count) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(below(static_cast<std::int64_t>(all.size())))];
  }

 private:
  std::uint64_t state_;
};

/// The numbers that an input is filled with.
enum class Values : std::uint8_t {
  kOrdinary,  ///< f32: exponents -12 … 11, some zeros; integers: all that are in the input's range
  kEdges,     ///< f32: subnormal, ±0, huge, tiny and everything between; integers: of every size
};

struct Input {
  DType dtype = DType::kF32;
  Shape shape;
  Values values = Values::kOrdinary;
  std::int64_t least = 0, below = 256;  ///< range of ordinary integers
  /// The only number of a constant input, in text form; empty: a state entry.
  std::string constant;
};

/// The parts of one line; empty ones are left out.
struct Line {
  kernels::Kind kind = kernels::Kind::kMap;
  Shape shape;
  std::vector<std::string> x = {};
  std::vector<std::string> steps = {};
  Shape fold = {};
  DType dtype = DType::kF32;
  Shape iteration = {};
  std::vector<std::string> when = {};
  std::string init = {};
};

/// A program of a few lines and its inputs. Values are numbered inputs first.
struct Case {
  std::string name;
  std::vector<Input> inputs;
  std::vector<std::string> lines;  ///< each with @V in place of its number

  int add(Input input);
  int add(const Line& line);
  int add_text(std::string line);
  /// Adds a map of `value`, an ordinary f32 input, that turns its largest numbers into infinities and its
  /// smallest into NaN. All inputs must be added before it.
  int poison(int value);
};

/// The inputs that a case's lines read: its own, or poison() of them.
enum class Purity : std::uint8_t { kFinite, kPoisoned };

/// The form of the step program. Every input stays unchanged, unless `in_place` is set, with which the last
/// value may replace input 0; with `keep_last` the last value becomes the entry model/z. `evaluation`: inputs
/// have no next value. `samples`: inputs of that first extent (is_field) are fields of a batch of as many
/// samples, and no entries.
struct Form {
  bool evaluation = false;
  bool keep_last = false;
  bool in_place = false;
  std::int64_t samples = 0;

  [[nodiscard]] bool is_field(const Input& input) const {
    return samples > 0 && input.constant.empty() && !input.shape.empty() && input.shape[0] == samples;
  }
};
[[nodiscard]] Result<std::shared_ptr<const program::Program>> program_of(const Case& c, const Form& form);

/// The inputs' numbers, drawn from `seed`, constants included.
[[nodiscard]] kernels::ByValue<Tensor> input_tensors(const Case& c, std::uint64_t seed);

/// "model/00", "model/01", …; and of an input that is a field "f00", "f01", …
[[nodiscard]] std::string entry_name(std::size_t input);
[[nodiscard]] std::string field_name(std::size_t input);

[[nodiscard]] std::string join(const Shape& shape, char separator = ',');

}  // namespace dgx::matrix
