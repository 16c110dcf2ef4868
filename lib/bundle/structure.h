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
/// the format. This reader knows that part and no other, and every block of it may be used once only: no
/// loops, nothing that is two things, and never more work than the file is long. dgx-bundle(5), "STRUCTURE".
namespace dgx::bundle {

struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

/// A dataset's outside.
struct Stored {
  DType dtype = DType::kF32;
  Shape shape;
  std::uint64_t size_bytes = 0;
  std::optional<ChunkLayout> layout;  ///< absent: contiguous
  std::vector<Extent> pieces;  ///< its chunks in row-major order; or all of its bytes, none if there are none
};

/// A group or dataset.
struct Object {
  std::vector<Attribute> attributes;
  std::map<std::string, Object, std::less<>> children;
  std::optional<Stored> dataset;
};

/// The root group, with its attributes but no children. kMalformed, kIo; without the file's name.
[[nodiscard]] Result<Object> read_root(const InputFile& file);
/// Whether metadata must have the checksums that they state. Whoever makes a file to do harm makes them
/// right; a fuzz target cannot, and would see little but their mismatch.
enum class Checksums { kCompare, kIgnore };
/// Everything, the root group above it.
[[nodiscard]] Result<Object> read_structure(const InputFile& file, Checksums sums = Checksums::kCompare);

/// The object at "a/b/c", "" being `root`; null if there is none.
[[nodiscard]] const Object* find_object(const Object& root, std::string_view path);
/// A printable string, an i64. kMalformed if the object has no such attribute.
[[nodiscard]] Result<std::string> text_of(const Object& object, std::string_view name);
[[nodiscard]] Result<std::int64_t> integer_of(const Object& object, std::string_view name);

}  // namespace dgx::bundle
