#pragma once

#include <string>
#include <vector>

/// HDF5 files with what no bundle of ours has, made by the HDF5 library: some are good, others are made to do
/// harm.
namespace dgx::test {

enum class Trick {
  kVirtual,          ///< the numbers are another file's
  kVirtualRank33,    ///< the same, with a mapping of more dimensions than HDF5 has room for
  kCompact,          ///< the numbers are in the header
  kCompactShort,     ///< fewer of them than the shape needs
  kExternal,         ///< the numbers are /etc/passwd
  kFletcher32,       ///< chunks with checksums
  kFletcher32Short,  ///< one of them shorter than its checksum
  kDenseGroup,       ///< links in a heap
  kFilteredGroup,    ///< links in a heap that goes through filter kPluginFilter
};
inline constexpr int kPluginFilter = 40000;

/// In HDF5's oldest format, or the one that bundles have.
enum class Format { kOldest, kBundle };

[[nodiscard]] std::vector<Trick> all_tricks();
[[nodiscard]] std::string name_of(Trick trick);

/// Makes a container with the dataset or group "x" that plays the trick. In Format::kBundle its root says
/// that it is a state bundle, and "x" lies in its group "state".
void write_container(const std::string& path, Trick trick, Format format);

}  // namespace dgx::test
