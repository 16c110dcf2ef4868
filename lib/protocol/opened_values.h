#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/kernels/compiled.h"
#include "dgx/kernels/evaluate.h"
#include "dgx/protocol/message.h"

namespace dgx::protocol {

/// The operands that a claim opens, as a source of elements. Each leaf leads to the defender's value table.
/// Reading an element that is not opened gives zero and is remembered: the evaluation is then void.
class OpenedValues final : public kernels::ValueSource {
 public:
  /// kMalformed if an opening does not lead to the table, or two give one value different types.
  [[nodiscard]] static Result<OpenedValues> create(std::span<const Operand> operands, const Digest& table,
                                                   std::int64_t lines);

  [[nodiscard]] kernels::Number element(kernels::ValueIndex value, std::int64_t index) override;
  void located(kernels::ValueIndex value) override;
  [[nodiscard]] kernels::TypeOf types() const;
  [[nodiscard]] const std::optional<std::string>& missing() const { return missing_; }

 private:
  struct Type {
    kernels::ValueType type;
    bool proved = false;
  };
  std::map<std::int64_t, Type> types_;
  std::map<std::pair<std::int64_t, std::int64_t>, Bytes> leaves_;
  std::optional<std::string> missing_;
};

}  // namespace dgx::protocol
