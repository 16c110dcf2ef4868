#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "dgx/core/bulk.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"

namespace dgx {

/// Numbers that are read row by row from where they lie, each row checked when it is read.
class RowSource {
 public:
  virtual ~RowSource() = default;
  [[nodiscard]] virtual DType dtype() const = 0;
  [[nodiscard]] virtual const Shape& shape() const = 0;  ///< [rows, …]
  /// Copies a row, whose size `out` has. May be called from several threads. kBadData, naming the row, if its
  /// numbers are not what they should be; kIo.
  [[nodiscard]] virtual Status copy(std::int64_t row, std::span<std::uint8_t> out) const = 0;
  /// Begins to fetch a row in the background.
  virtual void expect(std::int64_t row) const = 0;
  /// True if copy() never waits.
  [[nodiscard]] virtual bool in_memory() const { return false; }
};

/// The rows of a tensor [rows, …], wherever its numbers are: in memory, in a mapped file, or in a RowSource.
/// Of the first two it is a view.
class RowView {
 public:
  RowView() = default;
  RowView(BulkView numbers) : numbers_(std::move(numbers)) {}    // NOLINT: implicit by design
  RowView(TensorView numbers) : numbers_(std::move(numbers)) {}  // NOLINT: implicit by design
  RowView(std::shared_ptr<const RowSource> source) : source_(std::move(source)) {}  // NOLINT: as above

  [[nodiscard]] DType dtype() const { return source_ ? source_->dtype() : numbers_.dtype; }
  [[nodiscard]] const Shape& shape() const { return source_ ? source_->shape() : numbers_.shape; }
  /// True if all rows are in memory, so that copy() never waits.
  [[nodiscard]] bool in_memory() const { return source_ ? source_->in_memory() : numbers_.file < 0; }
  /// Copies row `row`, which exists and has the size of `out`. Errors of copy_bytes() and RowSource::copy().
  [[nodiscard]] Status copy(std::int64_t row, std::span<std::uint8_t> out) const {
    if (source_) return source_->copy(row, out);
    return copy_bytes(numbers_, static_cast<std::uint64_t>(row) * out.size(), out);
  }
  /// Prefetches a row of `size` bytes: from a file in the background, from memory into the caches.
  void expect(std::int64_t row, std::uint64_t size) const {
    if (source_) return source_->expect(row);
    dgx::expect(numbers_, static_cast<std::uint64_t>(row) * size, size);
  }

 private:
  BulkView numbers_;
  std::shared_ptr<const RowSource> source_;  ///< if not null, the rows are its
};

/// A dataset's fields by name.
using FieldRows = std::map<std::string, RowView, std::less<>>;

}  // namespace dgx
