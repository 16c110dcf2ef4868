#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "container.h"
#include "dgx/bundle/opened.h"
#include "support.h"

/// Datasets that tests write, damage and open.
namespace dgx::bundle::test {

inline Dataset samples(std::int64_t count, Shape sample, DType dtype = DType::kU8) {
  Shape shape{count};
  shape.insert(shape.end(), sample.begin(), sample.end());
  auto made = make_dataset(numbers(dtype, std::move(shape), 1), numbers(DType::kI64, {count}, 2));
  REQUIRE(made.ok());
  return std::move(made).value();
}

inline void write(const std::string& path, const Dataset& data, Storage storage) {
  REQUIRE(write_dataset(path, data, Clobber::kReplace, {}, storage).ok());
}

inline Result<Bytes> row_of(const OpenedDataset& opened, const Dataset& data, const std::string& field,
                            std::int64_t row) {
  const BulkTensor& numbers = data.find(field)->numbers;
  Bytes out(numbers.bytes().size() / static_cast<std::size_t>(numbers.shape()[0]));
  DGX_CHECK(opened.rows().at(field).copy(row, out));
  return out;
}

inline ByteView true_row(const Dataset& data, const std::string& field, std::int64_t row) {
  const BulkTensor& numbers = data.find(field)->numbers;
  const std::size_t size = numbers.bytes().size() / static_cast<std::size_t>(numbers.shape()[0]);
  return numbers.bytes().subspan(static_cast<std::size_t>(row) * size, size);
}

inline void flip(const std::string& path, std::uint64_t bit) {
  const int file = ::open(path.c_str(), O_RDWR);
  REQUIRE(file >= 0);
  std::uint8_t byte = 0;
  REQUIRE(::pread(file, &byte, 1, static_cast<off_t>(bit / 8)) == 1);
  byte = static_cast<std::uint8_t>(byte ^ 1U << bit % 8);
  REQUIRE(::pwrite(file, &byte, 1, static_cast<off_t>(bit / 8)) == 1);
  ::close(file);
}

/// The place of a field's numbers in a bundle.
inline Extent place_of(const std::string& path, const std::string& field, std::size_t piece = 0) {
  const auto reader = Reader::open(path, Kind::kDataset);
  REQUIRE(reader.ok());
  return (*reader->stored(field))->pieces.at(piece);
}

}  // namespace dgx::bundle::test
