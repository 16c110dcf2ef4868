#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dgx/kernels/compiled.h"

// The pieces of a generated kernel's text (device_source.h): lines, loops, and the computation of a
// primitive's steps for one element, given how a kernel reads an access. kernels/cuda/generated.cuh defines
// the words of the text.
namespace dgx::exec {

/// C++ text, line by line.
class Lines {
 public:
  void add(const std::string& line);
  /// Adds `line` and an opening brace. Constants made until close() are not used after it.
  void open(const std::string& line);
  void close(const std::string& end = "");
  /// The name of a constant that holds `expression`: a new one, or one that is in scope. So an expression
  /// must mean the same throughout its scope.
  std::string constant(const std::string& type, const std::string& expression);
  /// Appends all of another text, indented as here.
  void append(const Lines& other);
  [[nodiscard]] const std::string& text() const { return text_; }
  /// `prefix`: the beginning of the names of constants.
  explicit Lines(std::string prefix = "v") : prefix_(std::move(prefix)) {}

 private:
  std::string prefix_;
  std::string text_;
  std::vector<std::map<std::string, std::string>> scopes_{1};
  int names_ = 0;
};

/// The number as an expression: "12", or one of 64 bits where 32 do not suffice.
[[nodiscard]] std::string integer_text(std::int64_t number);
/// The number as an expression that gives its exact bits.
[[nodiscard]] std::string real_text(float number);

/// The least and the greatest value of something.
using Range = std::pair<std::int64_t, std::int64_t>;

/// An affine index: base + Σ strides[d] · index[d], over all dimensions of some loops.
struct Form {
  std::int64_t base = 0;
  std::vector<std::int64_t> strides;
};

/// The sum of `base` and the terms over a primitive's indices, those of its iteration before those of its
/// fold. Leaves out terms that read an access.
[[nodiscard]] Form form_of(const kernels::CompiledPrimitive& primitive,
                           const std::vector<kernels::CompiledTerm>& terms, std::int64_t base);

/// The accesses that a primitive's steps reach, and the form of every linear access, coordinate and index
/// that they name.
struct Reads {
  std::vector<const kernels::CompiledAccess*> accesses;
  std::vector<Form> forms;
};
[[nodiscard]] Reads reads_of(const kernels::CompiledPrimitive& primitive);

/// The loops of a kernel in parts, such as the outputs and the positions of a fold. Each part has a number,
/// from which its indices follow in row-major order. Neighbouring dimensions of a part that all forms walk as
/// one are one loop, so that fewer indices are computed.
class Loops {
 public:
  struct Part {
    std::string number;  ///< an unsigned variable
    Shape extents;
  };
  /// `name`: the beginning of the indices' names. `forms`: all that text() will be given.
  Loops(const std::string& name, std::vector<Part> parts, const std::vector<Form>& forms);

  /// The form as an expression of 32 bits if is_narrow(form), else of 64.
  [[nodiscard]] std::string text(const Form& form) const;
  [[nodiscard]] bool is_narrow(const Form& form) const;

  /// Declares constants for a part's indices.
  void declare(Lines& lines, std::size_t part) const;

  /// From here on text() adds `step` to the innermost index of the last part.
  void step_by(const std::string& step) { step_ = step; }
  /// The form's stride along the innermost dimension: the distance between neighbours.
  [[nodiscard]] std::int64_t inner_stride(const Form& form) const;
  [[nodiscard]] std::int64_t inner_extent() const;
  /// True if `divisor` divides the form's base and all its strides but the innermost dimension's.
  [[nodiscard]] bool is_aligned(const Form& form, std::int64_t divisor) const;

 private:
  struct Dimension {
    std::size_t part = 0;
    std::int64_t extent = 1;
    std::string index;
    bool is_wide = false;
    std::size_t innermost = 0;  ///< number of the innermost of the dimensions joined into it
  };
  [[nodiscard]] static std::int64_t stride_of(const Form& form, const Dimension& dimension) {
    return form.strides[dimension.innermost];
  }
  /// True if the form has one stride over `outer` and `inner` taken together.
  [[nodiscard]] static bool walks_as_one(const Form& form, const Dimension& outer, const Dimension& inner);

  [[nodiscard]] std::size_t end_of_part(std::size_t first) const;
  [[nodiscard]] bool walks_in_order(const Form& form, std::size_t begin, std::size_t end) const;

  std::vector<Part> parts_;
  std::vector<Dimension> dimensions_;
  std::string step_;
};

/// A kernel's way to read numbers; each function returns an expression.
class NumberReader {
 public:
  virtual ~NumberReader() = default;
  /// The number (a float or a std::int64_t) of a value at a form that is always inside it.
  virtual std::string inside(kernels::ValueIndex value, DType dtype, const Form& form) = 0;
  /// The number at an element that may be outside. The expression must read it only when it is evaluated: it
  /// is one branch of a condition.
  virtual std::string at(kernels::ValueIndex value, DType dtype, const std::string& place) = 0;
};

/// Writes the text that computes a primitive's steps for the element that the loops are at.
class ElementWriter {
 public:
  /// Borrows all four. The loops' dimensions must be the primitive's: those of the iteration, then those of
  /// the fold.
  ElementWriter(const kernels::CompiledPrimitive& primitive, const Loops& loops, NumberReader& reader,
                Lines& lines)
      : primitive_(primitive), loops_(loops), reader_(reader), lines_(lines) {}

  /// The result of `do` or `when`.
  std::string run(const kernels::CompiledSteps& list);
  std::string access(std::int32_t n);
  std::string operand(const kernels::CompiledOperand& from, const std::vector<std::string>& steps);
  /// The text of the operand `acc`.
  std::string accumulator = "acc";

 private:
  /// A coordinate: its place in its dimension, and the conditions under which it is inside.
  struct Located {
    std::string place;
    std::vector<std::string> conditions;
    bool is_narrow = false;
  };
  Located locate(const kernels::CompiledCoordinate& coordinate);
  Located divided(const kernels::CompiledCoordinate& coordinate, Located at, std::optional<Range> range);
  std::string guarded(const kernels::CompiledAccess& access);
  std::string step(const kernels::CompiledStep& step, const std::vector<std::string>& steps);

  const kernels::CompiledPrimitive& primitive_;
  const Loops& loops_;
  NumberReader& reader_;
  Lines& lines_;
};

}  // namespace dgx::exec
