#include "dgx/bundle/transforms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "class_names.h"

namespace dgx::bundle {
namespace {

/// Calls visit(number, its index, its channel) for all numbers in order.
template <class T, class Visit>
Status visit_as(const BulkTensor& field, const Visit& visit) {
  const Shape& shape = field.shape();
  const auto channels = static_cast<std::size_t>(channels_of(shape));
  const auto samples = static_cast<std::size_t>(shape.empty() ? 1 : shape[0]);
  const auto numbers = static_cast<std::size_t>(field.count());
  const std::size_t run = numbers / std::max<std::size_t>(samples * channels, 1);
  std::size_t channel = 0;
  std::size_t within_run = 0;
  return for_each_piece(numbers, [&](std::size_t begin, std::size_t count) -> Status {
    const std::span<const T> piece = field.as<T>().subspan(begin, count);
    for (std::size_t i = 0; i < count; ++i) {
      visit(piece[i], begin + i, channel);
      if (++within_run < run) continue;
      within_run = 0;
      if (++channel == channels) channel = 0;
    }
    release(field.view(), begin * sizeof(T), count * sizeof(T));
    return {};
  });
}

template <class Visit>
Status visit_numbers(const BulkTensor& field, const Visit& visit) {
  switch (field.dtype()) {
    case DType::kF32: return visit_as<float>(field, visit);
    case DType::kI64: return visit_as<std::int64_t>(field, visit);
    case DType::kU8: return visit_as<std::uint8_t>(field, visit);
  }
  return internal_error("unknown element type");
}

}  // namespace

Status reshape_samples(const Shape& sample, BulkTensor& x) {
  const Shape found(x.shape().begin() + 1, x.shape().end());
  const auto wanted = element_count(sample);
  if (!wanted.ok()) return usage_error("--shape: " + wanted.error().message);
  DGX_TRY(const std::int64_t there, element_count(found));
  if (*wanted != there) {
    return usage_error(fmt::format("--shape: {} has {} numbers, but a sample is {} and has {}",
                                   to_string(sample), *wanted, to_string(found), there));
  }
  Shape shape{x.shape()[0]};
  shape.insert(shape.end(), sample.begin(), sample.end());
  if (shape.size() > kMaxRank)
    return usage_error(fmt::format("--shape: more than {} dimensions", kMaxRank - 1));
  x.reshape(std::move(shape));
  return {};
}

Result<Rows> choose_rows(std::int64_t samples, std::int64_t skip, std::optional<std::int64_t> first) {
  if (skip < 0 || skip >= samples)
    return usage_error(fmt::format("cannot leave out {} samples: there are only {}", skip, samples));
  const std::int64_t left = samples - skip;
  if (first && (*first < 1 || *first > left))
    return usage_error(fmt::format("cannot keep the first {} samples: there are only {}", *first, left));
  return Rows{skip, first.value_or(left)};
}

Result<BulkTensor> take_rows(const BulkTensor& field, const Rows& rows, std::uint64_t bulk_bytes) {
  Shape shape = field.shape();
  assert(rows.begin >= 0 && rows.count <= shape[0] - rows.begin);
  const std::uint64_t row_bytes = field.bytes().size() / static_cast<std::uint64_t>(shape[0]);
  shape[0] = rows.count;
  DGX_TRY(BulkTensor out, BulkTensor::create(field.dtype(), std::move(shape), bulk_bytes));
  if (!rows.order) {
    const std::uint64_t from = static_cast<std::uint64_t>(rows.begin) * row_bytes;
    DGX_CHECK(for_each_piece(out.bytes().size(), [&](std::size_t begin, std::size_t size) -> Status {
      DGX_CHECK(copy_bytes(field.view(), from + begin, out.bytes().subspan(begin, size)));
      release(out.view(), begin, size);
      return {};
    }));
    return out;
  }
  PageReleaser pages(out.view());
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const auto from = static_cast<std::uint64_t>(rows.order(rows.begin + i)) * row_bytes;
    const std::uint64_t to = static_cast<std::uint64_t>(i) * row_bytes;
    DGX_CHECK(copy_bytes(field.view(), from, out.bytes().subspan(to, row_bytes)));
    pages.passed(to);
  }
  return out;
}

std::int64_t channels_of(const Shape& x) {
  return x.size() == 2 || x.size() == 4 || x.size() == 5 ? x[1] : 1;
}

Result<std::vector<Affine>> normalising(const BulkTensor& x) {
  struct Channel {
    double least = std::numeric_limits<double>::infinity();
    double greatest = -std::numeric_limits<double>::infinity();
    double mean = 0;
    double squares = 0;
  };
  std::vector<Channel> channels(static_cast<std::size_t>(channels_of(x.shape())));
  const double count = static_cast<double>(x.count()) / static_cast<double>(channels.size());
  DGX_CHECK(visit_numbers(x, [&](auto number, std::size_t, std::size_t c) {
    const auto value = static_cast<double>(number);
    channels[c].least = std::min(channels[c].least, value);
    channels[c].greatest = std::max(channels[c].greatest, value);
    channels[c].mean += value;
  }));
  // The mean of equal numbers is that number: the sum may be rounded, and what it is off by would be the
  // deviation.
  for (Channel& each : channels) each.mean = each.least == each.greatest ? each.least : each.mean / count;
  DGX_CHECK(visit_numbers(x, [&](auto number, std::size_t, std::size_t c) {
    const double difference = static_cast<double>(number) - channels[c].mean;
    channels[c].squares += difference * difference;
  }));
  std::vector<Affine> out;
  for (const Channel& each : channels) {
    const double deviation = each.squares > 0 ? std::sqrt(each.squares / count) : 1;
    out.push_back({static_cast<float>(1 / deviation), static_cast<float>((0 - each.mean) / deviation)});
    if (!std::isfinite(out.back().scale) || !std::isfinite(out.back().shift))
      return malformed(fmt::format("x: channel {} cannot be normalised: its numbers differ by too little",
                                   out.size() - 1));
  }
  return out;
}

Result<BulkTensor> scaled(const BulkTensor& x, const std::vector<Affine>& channels,
                          std::uint64_t bulk_bytes) {
  assert(channels.size() == static_cast<std::size_t>(channels_of(x.shape())));
  for (std::size_t c = 0; c < channels.size(); ++c) {
    if (std::isfinite(channels[c].scale) && channels[c].scale != 0 && std::isfinite(channels[c].shift))
      continue;
    return usage_error(fmt::format("channel {}: scale {} and shift {} must be finite, and scale not 0", c,
                                   channels[c].scale, channels[c].shift));
  }
  DGX_TRY(BulkTensor out, BulkTensor::create(DType::kF32, x.shape(), bulk_bytes));
  PageReleaser pages(out.view());
  const std::span<float> numbers = out.as<float>();
  DGX_CHECK(visit_numbers(x, [&](auto number, std::size_t index, std::size_t channel) {
    numbers[index] = std::fma(static_cast<float>(number), channels[channel].scale, channels[channel].shift);
    pages.passed(index * sizeof(float));
  }));
  return out;
}

Result<Summary> summary_of(const BulkTensor& field) {
  assert(field.count() > 0);
  Summary out;
  DGX_CHECK(visit_numbers(field, [&](auto number, std::size_t index, std::size_t) {
    const auto value = static_cast<double>(number);
    out.least = index == 0 ? value : std::min(out.least, value);
    out.greatest = index == 0 ? value : std::max(out.greatest, value);
    out.mean += value;
  }));
  out.mean /= static_cast<double>(field.count());
  return out;
}

Result<std::vector<std::int64_t>> class_counts(const Dataset& data) {
  std::vector<std::int64_t> counts;
  const Field* const y = data.find("y");
  if (y == nullptr || y->numbers.shape().size() != 1 || !y->range || y->range->low < 0 ||
      y->range->high >= static_cast<std::int64_t>(kMaxClasses))
    return counts;
  counts.resize(std::max(static_cast<std::size_t>(y->range->high) + 1, data.classes.size()), 0);
  DGX_CHECK(visit_numbers(y->numbers, [&](auto number, std::size_t, std::size_t) {
    ++counts[static_cast<std::size_t>(number)];
  }));
  return counts;
}

}  // namespace dgx::bundle
