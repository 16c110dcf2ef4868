#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "input_file.h"
#include "messages.h"
#include "structure.h"

namespace dgx::bundle {

/// HDF5's checksum of metadata: Jenkins' lookup3, initial value 0.
[[nodiscard]] std::uint32_t lookup3(ByteView bytes);

/// Blocks of a file, each of which may be claimed only once.
class Blocks {
 public:
  Blocks(const InputFile& file, Checksums sums) : file_(file), sums_(sums) {}

  /// Marks [begin, begin + size) as used. kMalformed if any of it is already used, or not in the file.
  [[nodiscard]] Status claim(std::uint64_t begin, std::uint64_t size);
  /// Claims a block of metadata and reads it. kMalformed unless it begins with the signature and version 0,
  /// and its last four bytes are its checksum; returns the bytes in between.
  [[nodiscard]] Result<Bytes> checked(std::uint64_t begin, std::uint64_t size, std::string_view signature);
  /// Claims a block and reads it unchecked: for blocks whose checksum is elsewhere.
  [[nodiscard]] Result<Bytes> raw(std::uint64_t begin, std::uint64_t size);
  /// Reads up to `size` bytes from `begin` on without claiming them.
  [[nodiscard]] Result<Bytes> peek(std::uint64_t begin, std::uint64_t size) const;

  /// kMalformed, calling the bytes `name`, unless their checksum is `stated`.
  [[nodiscard]] Status compare_sum(ByteView bytes, std::uint32_t stated, std::string_view name) const;
  /// Checks a block whose last four bytes are its checksum.
  [[nodiscard]] Status compare_sum(ByteView block, std::string_view name) const;

  [[nodiscard]] std::uint64_t file_bytes() const { return file_.size_bytes(); }

 private:
  const InputFile& file_;
  Checksums sums_;
  std::map<std::uint64_t, std::uint64_t> used_;  ///< begin to end, disjoint
};

/// The links that a group keeps in a fractal heap. kMalformed if there are more than `most`.
[[nodiscard]] Result<std::vector<Link>> read_dense_links(Blocks& blocks, const DenseLinks& dense,
                                                         std::size_t most);

/// The extents, in order, of a filtered fixed array's `count` chunks, none of which may skip a filter; does
/// not claim them.
[[nodiscard]] Result<std::vector<Extent>> read_fixed_array(Blocks& blocks, std::uint64_t address,
                                                           std::uint64_t count);

}  // namespace dgx::bundle
