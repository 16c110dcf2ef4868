#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "input_file.h"
#include "layout.h"
#include "messages.h"

/// The structure of a bundle, read without the HDF5 library.
///
/// A bundle may come from a stranger, and HDF5 decodes what a file says of itself (virtual layouts, fill
/// values, filters of groups, plugins) before anybody can ask for its layout. Our writers use a small part of
/// the format. This reader knows only that part, and every block may be used only once: no loops, no block
/// with two roles, and never more work than the file is long. dgx-bundle(5), "STRUCTURE".
namespace dgx::bundle {

/// A range of bytes of the file.
struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

/// A dataset's metadata and the place of its numbers.
struct Stored {
  DType dtype = DType::kF32;
  Shape shape;
  std::uint64_t size_bytes = 0;
  std::optional<ChunkLayout> layout;  ///< absent: contiguous
  std::vector<Extent> pieces;  ///< its chunks in row-major order; if contiguous one, or none without bytes
};

/// A group or dataset.
struct Object {
  std::vector<Attribute> attributes;
  std::map<std::string, Object, std::less<>> children;
  std::optional<Stored> dataset;
};

/// The root group, with its attributes but no children. kMalformed, kIo; without the file's name.
[[nodiscard]] Result<Object> read_root(const InputFile& file);
/// The check of metadata against the checksums that they state, which guard against damage, not against an
/// attacker. A fuzzer's changes would nearly all end at a checksum, so a fuzz target ignores them.
enum class Checksums { kCompare, kIgnore };
/// The root group and everything below it.
[[nodiscard]] Result<Object> read_structure(const InputFile& file, Checksums sums = Checksums::kCompare);

/// The object at "a/b/c"; `root` for "", null if there is none.
[[nodiscard]] const Object* find_object(const Object& root, std::string_view path);
/// An attribute: a printable string, an i64. kMalformed if the object has none of that name.
[[nodiscard]] Result<std::string> text_of(const Object& object, std::string_view name);
[[nodiscard]] Result<std::int64_t> integer_of(const Object& object, std::string_view name);

}  // namespace dgx::bundle
