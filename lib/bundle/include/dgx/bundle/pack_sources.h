#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "dgx/bundle/sources.h"

/// Readers like those of sources.h whose libraries dgx-pack alone links: they are not in libdgx.a, and this
/// header is not installed. Images may be followed by trailing bytes.
namespace dgx::bundle {

/// One array of an NPZ archive (numpy.savez, numpy.savez_compressed) by its name, without ".npy".
[[nodiscard]] Result<BulkTensor> read_npz(const std::string& path, const std::string& name,
                                          const Reading& reading = {});

/// Options for reading a table as text; dgx-pack(1), "Sources".
struct TableReading {
  char delimiter = ',';
  bool header = false;  ///< the first line has the columns' names
  std::string label;    ///< name or number, from 1, of the column that is y
  std::string columns;  ///< columns of x: names, numbers, ranges; empty: all but the label
  DType dtype = DType::kF32;
  /// The words that labels may be, in the order of their numbers; empty: those in the file.
  std::vector<std::string> classes = {};
};

/// A table as text, one sample per line. Reads the file twice; of one of reading.bulk_bytes or more, a MiB or
/// a line is in memory at a time. kUsage if a column that is asked for does not exist.
[[nodiscard]] Result<Samples> read_csv(const std::string& path, const TableReading& table,
                                       const Reading& reading = {});

/// A folder with a folder of PNG and JPEG files for each class: x is u8[samples, channels, height, width], y
/// i64[samples]. `classes` are the folders' names in the order of their numbers; if it is empty, they are
/// sorted by their bytes. Decodes on `threads` threads; neither the result nor the error depends on them.
[[nodiscard]] Result<Samples> read_images(const std::string& folder, const std::vector<std::string>& classes,
                                          int threads, const Reading& reading = {});

}  // namespace dgx::bundle
