#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dgx/kernels/compiled.h"

// The pieces that the text of a generated kernel is made of (device_source.h): lines, loops, and what a primitive's steps make of an element, given how
// a kernel reads what an access names. The text means what kernels/cuda/generated.cuh says.
namespace dgx::exec {

/// C++ text, line by line.
class Lines {
 public:
  void add(const std::string& line);
  /// `line` and a brace; names made until close() mean nothing behind it.
  void open(const std::string& line);
  void close(const std::string& end = "");
  /// The name of a constant that holds `expression`: a new one, or one made before. Expressions must mean the same wherever they stand in their scope.
  std::string constant(const std::string& type, const std::string& expression);
  /// All of another text, indented as here.
  void append(const Lines& other);
  [[nodiscard]] const std::string& text() const { return text_; }
  /// Names begin with this.
  explicit Lines(std::string prefix = "v") : prefix_(std::move(prefix)) {}

 private:
  std::string prefix_;
  std::string text_;
  std::vector<std::map<std::string, std::string>> scopes_{1};
  int names_ = 0;
};

/// "12", or an expression of 64 bits where 32 do not suffice.
[[nodiscard]] std::string integer_text(std::int64_t number);
[[nodiscard]] std::string real_text(float number);

/// base + Σ strides[d] · index[d] over all dimensions of some loops.
struct Form {
  std::int64_t base = 0;
  std::vector<std::int64_t> strides;
};

/// The loops of a kernel in parts, as the outputs and the positions of a fold: each part has a number, of which its indices follow in row-major order. What is
/// asked of them is asked twice: before freeze(), which learns from it which dimensions all forms walk as one, and after it for the text.
class Loops {
 public:
  struct Part {
    std::string number;  ///< an unsigned variable
    Shape extents;
  };
  /// `name`: what the names of the indices begin with.
  Loops(std::string name, std::vector<Part> parts);

  /// The form's least and greatest value, or nullopt where they need more than 62 bits.
  [[nodiscard]] std::optional<std::pair<std::int64_t, std::int64_t>> range(const Form& form) const;
  /// An expression of 32 bits where is_narrow(form), else of 64.
  [[nodiscard]] std::string text(const Form& form);
  [[nodiscard]] bool is_narrow(const Form& form) const;

  void freeze();
  /// Constants for a part's indices.
  void declare(Lines& lines, std::size_t part);

  /// From here on the innermost index of the last part stands for it and `step` more.
  void step_by(const std::string& step) { step_ = step; }
  /// How far neighbours lie apart: the form's stride along the innermost dimension.
  [[nodiscard]] std::int64_t inner_stride(const Form& form) const;
  [[nodiscard]] std::int64_t inner_extent() const;
  /// Whether `divisor` divides all that moves the form but the innermost dimension, and its base.
  [[nodiscard]] bool is_aligned(const Form& form, std::int64_t divisor) const;

 private:
  struct Dimension {
    std::size_t part = 0;
    std::int64_t extent = 1;
    std::string index;
    bool is_wide = false;
    std::vector<std::size_t> of;  ///< of the dimensions that it was made of, the innermost
  };
  [[nodiscard]] std::int64_t stride_of(const Form& form, const Dimension& dimension) const { return form.strides[dimension.of.back()]; }

  [[nodiscard]] std::size_t end_of_part(std::size_t first) const;
  [[nodiscard]] bool walks_in_order(const Form& form, std::size_t begin, std::size_t end) const;

  std::string name_;
  std::vector<Part> parts_;
  std::vector<Dimension> dimensions_;
  std::vector<Form> noted_;
  bool frozen_ = false;
  std::string step_;
};

/// How a kernel reads.
class NumberReader {
 public:
  virtual ~NumberReader() = default;
  /// The number (a float or a std::int64_t) of a value at a form that lies inside it.
  virtual std::string inside(kernels::ValueIndex value, DType dtype, const Form& form) = 0;
  /// The same at a place that need not lie inside: it is read only where this stands.
  virtual std::string at(kernels::ValueIndex value, DType dtype, const std::string& place) = 0;
};

/// Writes what steps make of the element that some loops are at.
class ElementWriter {
 public:
  /// All are kept. The primitive's dimensions, those of the fold behind the others, are the loops'.
  ElementWriter(const kernels::CompiledPrimitive& primitive, Loops& loops, NumberReader& reader, Lines& lines)
      : primitive_(primitive), loops_(loops), reader_(reader), lines_(lines) {}

  /// The result of `do` or `when`.
  std::string run(const kernels::CompiledSteps& list);
  std::string access(std::int32_t n);
  std::string operand(const kernels::CompiledOperand& from, const std::vector<std::string>& steps);
  /// What `acc` is.
  std::string accumulator = "acc";

 private:
  /// A coordinate: where it is in its dimension, and under which conditions it is inside.
  struct Located {
    std::string place;
    std::vector<std::string> conditions;
    bool is_narrow = false;
  };
  [[nodiscard]] Form form_of(const std::vector<kernels::CompiledTerm>& terms, std::int64_t base) const;
  [[nodiscard]] Form index_form(std::int32_t slot) const;
  Located locate(const kernels::CompiledCoordinate& coordinate);
  Located divided(const kernels::CompiledCoordinate& coordinate, Located at, std::optional<std::pair<std::int64_t, std::int64_t>> range);
  std::string guarded(const kernels::CompiledAccess& access);
  std::string step(const kernels::CompiledStep& step, const std::vector<std::string>& steps);

  const kernels::CompiledPrimitive& primitive_;
  Loops& loops_;
  NumberReader& reader_;
  Lines& lines_;
};

}  // namespace dgx::exec
