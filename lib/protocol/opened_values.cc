#include "opened_values.h"

#include <fmt/format.h>

#include "claims.h"
#include "dgx/merkle/digests.h"
#include "dgx/merkle/openings.h"

namespace dgx::protocol {
namespace {

Result<Digest> digest_of(const Operand& operand) {
  if (operand.root) return merkle::tensor_digest(operand.dtype, operand.shape, *operand.root);
  return merkle::tensor_digest_of(
      {operand.dtype, operand.shape, static_cast<std::uint64_t>(operand.leaf), operand.bytes, operand.path});
}

/// Checks that the operand leads to the value table; one without a path claims nothing.
Status check_operand(const Operand& operand, const Digest& table, std::int64_t lines) {
  if (!operand.table) return {};
  DGX_TRY(const Digest digest, digest_of(operand));
  DGX_TRY(const Digest root,
          merkle::root_from_path(merkle::value_leaf(digest), static_cast<std::uint64_t>(operand.value),
                                 static_cast<std::uint64_t>(lines), *operand.table));
  if (root != table) return malformed("is not in the value table");
  return {};
}

}  // namespace

Result<OpenedValues> OpenedValues::create(std::span<const Operand> operands, const Digest& table,
                                          std::int64_t lines) {
  OpenedValues out;
  for (const Operand& operand : operands) {
    const std::string where = fmt::format("operand value {}", operand.value);
    if (Status status = check_operand(operand, table, lines); !status.ok())
      return within(where, status.error());
    const bool proved = operand.table.has_value();
    const auto [known, added] =
        out.types_.try_emplace(operand.value, Type{{operand.dtype, operand.shape}, proved});
    if (!added && (known->second.type.dtype != operand.dtype || known->second.type.shape != operand.shape)) {
      return malformed(where + ": is opened with two types");
    }
    known->second.proved |= proved;
    if (proved && !operand.root) out.leaves_[{operand.value, operand.leaf}] = operand.bytes;
  }
  return out;
}

kernels::Number OpenedValues::element(kernels::ValueIndex value, std::int64_t index) {
  const auto type = types_.find(to_number(value));
  const DType dtype = type == types_.end() ? DType::kF32 : type->second.type.dtype;
  const merkle::ElementPlace place = merkle::place_of(dtype, static_cast<std::uint64_t>(index));
  const auto leaf = leaves_.find({to_number(value), static_cast<std::int64_t>(place.leaf)});
  if (leaf != leaves_.end() && place.offset_bytes < leaf->second.size())
    return number_at(dtype, leaf->second, place.offset_bytes);
  if (!missing_) missing_ = fmt::format("leaf {} of value {} is needed but not opened", place.leaf, value);
  return kernels::number_type(dtype) == kernels::NumberType::kFloat ? kernels::Number::of(0.0F)
                                                                    : kernels::Number::of(std::int64_t{0});
}

void OpenedValues::located(kernels::ValueIndex value) {
  const auto type = types_.find(to_number(value));
  if (type != types_.end() && type->second.proved) return;
  if (!missing_) missing_ = fmt::format("type and shape of value {} are needed but not opened", value);
}

kernels::TypeOf OpenedValues::types() const {
  return [this](kernels::ValueIndex value) -> std::optional<kernels::ValueType> {
    const auto found = types_.find(to_number(value));
    if (found == types_.end()) return std::nullopt;
    return found->second.type;
  };
}

}  // namespace dgx::protocol
