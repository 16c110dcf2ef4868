#pragma once

#include <string>
#include <vector>

/// HDF5 files with features that no bundle of ours has, made by the HDF5 library: some are valid, others
/// malicious.
namespace dgx::test {

enum class Trick {
  kVirtual,          ///< the numbers are in another file
  kVirtualRank33,    ///< likewise, with a mapping of more dimensions than HDF5 has room for
  kCompact,          ///< the numbers are in the header
  kCompactShort,     ///< likewise, but fewer than the shape needs
  kExternal,         ///< the numbers are /etc/passwd
  kFletcher32,       ///< chunks have checksums
  kFletcher32Short,  ///< likewise, but one chunk is shorter than its checksum
  kDenseGroup,       ///< links in a heap
  kFilteredGroup,    ///< links in a heap with filter kPluginFilter
};
inline constexpr int kPluginFilter = 40000;

/// HDF5's oldest format, or that of bundles.
enum class Format { kOldest, kBundle };

[[nodiscard]] std::vector<Trick> all_tricks();
[[nodiscard]] std::string name_of(Trick trick);

/// Makes a container with the dataset or group "x" that plays the trick. In Format::kBundle its root claims
/// to be a state bundle, and "x" lies in its group "state".
void write_container(const std::string& path, Trick trick, Format format);

}  // namespace dgx::test
