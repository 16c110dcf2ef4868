#include <fmt/format.h>

#include "dgx/bundle/format.h"
#include "dgx/bundle/sources.h"
#include "npy.h"
#include "widen.h"

namespace dgx::bundle {
namespace {

/// Cuts a row of tokens into windows; `unit` is the word for a token in messages.
Result<Samples> cut(const BulkTensor& row, std::int64_t context, std::string_view unit,
                    const Reading& reading) {
  const auto count = static_cast<std::size_t>(row.count());
  const auto window = static_cast<std::size_t>(context);
  const std::size_t samples = count == 0 ? 0 : (count - 1) / window;
  if (samples == 0) {
    return usage_error(fmt::format("{} {}s are fewer than one window of {} and the {} after it", count, unit,
                                   context, unit));
  }
  const Shape shape{static_cast<std::int64_t>(samples), context};
  const std::size_t width = size_of(row.dtype());
  DGX_TRY(BulkTensor x, BulkTensor::create(row.dtype(), shape, reading.bulk_bytes));
  DGX_TRY(BulkTensor y, BulkTensor::create(row.dtype(), shape, reading.bulk_bytes));
  DGX_CHECK(for_each_piece(x.bytes().size(), [&](std::size_t begin, std::size_t size) -> Status {
    DGX_CHECK(copy_bytes(row.view(), begin, x.bytes().subspan(begin, size)));
    DGX_CHECK(copy_bytes(row.view(), begin + width, y.bytes().subspan(begin, size)));
    release(x.view(), begin, size);
    release(y.view(), begin, size);
    return {};
  }));
  return Samples{std::move(x), std::move(y)};
}

Status check_context(std::int64_t context) {
  if (context < 1) return usage_error(fmt::format("context {} is below 1", context));
  return {};
}

Result<BulkTensor> row_of(const BulkTensor& file, TokenFile encoding, const Reading& reading) {
  if (encoding == TokenFile::kNpy) {
    DGX_TRY(BulkTensor row, parse_npy(file, reading));
    if (row.shape().size() == 1 && row.dtype() != DType::kF32) return row;
    return malformed(
        fmt::format("is {}{}, not a row of integers", name_of(row.dtype()), to_string(row.shape())));
  }
  const std::size_t width = encoding == TokenFile::kU16 ? 2 : 4;
  const std::size_t size = file.bytes().size();
  if (size % width != 0)
    return malformed(fmt::format("{} bytes are not a whole number of u{}", size, 8 * width));
  const NumberType type{NumberType::Kind::kUnsigned, width, NumberType::Order::kLittle};
  return widen(type, {static_cast<std::int64_t>(size / width)}, file.view(), 0, reading);
}

}  // namespace

Result<Samples> read_tokens(const std::string& path, TokenFile encoding, std::int64_t context,
                            const Reading& reading) {
  DGX_CHECK(check_context(context));
  DGX_TRY(const BulkTensor file, BulkTensor::open(path, kMaxTensorBytes, reading.bulk_bytes));
  auto row = row_of(file, encoding, reading);
  if (!row.ok()) return within(path, std::move(row).error());
  auto samples = cut(*row, context, "token", reading);
  if (!samples.ok()) return within(path, std::move(samples).error());
  return samples;
}

Result<Samples> read_text(const std::string& path, std::int64_t context, const Reading& reading) {
  DGX_CHECK(check_context(context));
  DGX_TRY(const BulkTensor file, BulkTensor::open(path, kMaxTensorBytes, reading.bulk_bytes));
  auto samples = cut(file, context, "byte", reading);
  if (!samples.ok()) return within(path, std::move(samples).error());
  return samples;
}

}  // namespace dgx::bundle
