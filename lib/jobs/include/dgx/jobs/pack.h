#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "dgx/bundle/dataset.h"
#include "dgx/bundle/pack_sources.h"
#include "dgx/bundle/transforms.h"
#include "dgx/core/job_context.h"
#include "dgx/core/result.h"

namespace dgx::jobs {

// Sources of samples: one form for each command of dgx-pack(1). A new source is a form here, its reader in
// dgx/bundle/sources.h or pack_sources.h, and its read() in pack.cc.

struct IdxSource {
  std::string images, labels;
};
struct NpySource {
  std::string x;
  std::optional<std::string> y;
};
struct NpzSource {
  std::string file, x;
  std::optional<std::string> y;
};
struct SafetensorsSource {
  std::string file, x;
  std::optional<std::string> y;
};
struct Hdf5Source {
  std::string file, x;
  std::optional<std::string> y;
};
struct CsvSource {
  std::string file;
  std::string delimiter = "comma";  ///< comma, tab, semicolon, space
  std::string dtype = "f32";        ///< of x: f32, u8, i64
  bundle::TableReading table;       ///< all else but the classes; these two are ignored in it
};
struct ImagesSource {
  std::string folder;
};
struct TokensSource {
  std::string file;
  std::int64_t context = 0;
  std::optional<std::string> raw;  ///< u16, u32; empty: an NPY file
};
struct TextSource {
  std::string file;
  std::int64_t context = 0;
};
using Source = std::variant<IdxSource, NpySource, NpzSource, SafetensorsSource, Hdf5Source, CsvSource,
                            ImagesSource, TokensSource, TextSource>;

/// Changes that samples of any source go through, in the order in which they are made, and the output.
struct PackOptions {
  /// NAME=PLACE: fields besides x and y; PLACE is where NpzSource, SafetensorsSource and Hdf5Source find x in
  /// their file, and an NPY file for all other sources.
  std::vector<std::string> fields;
  bundle::Rounding rounding = bundle::Rounding::kRefuse;
  std::vector<std::int64_t> shape;  ///< shape of a sample; empty: unchanged
  bool shuffle = false;
  std::uint64_t seed = 0;
  std::int64_t skip = 0;
  std::optional<std::int64_t> first;
  std::optional<double> split;  ///< share of the samples that go to `output`; the others go to `rest`
  std::optional<std::string> rest;
  bool normalise = false;
  std::optional<std::string> like;  ///< bundle whose scale, shift and classes are taken
  std::vector<double> scale{1};     ///< one, or one for each channel; each rounded once to binary32
  std::vector<double> shift{0};
  bundle::Storage storage = bundle::Storage::kCompressed;
  std::string output;  ///< DATA.h5
  bool skip_existing = false;
};

/// A bundle that was made.
struct Packed {
  std::string file;
  bundle::DatasetInfo info;
  std::map<std::string, bundle::Summary> values;  ///< statistics of the stored numbers, by field
  std::vector<std::int64_t> classes;  ///< count of each class's samples; empty if y is not classes
  bool existed = false;               ///< it was there already, and `skip_existing`
};

/// Makes the bundle, or with `split` the two of them; dgx-pack(1). Neither gets its name before both are
/// written. Refuses an output that exists before it reads anything. With `skip_existing`, bundles that are
/// there and can be read are the result, and the source is not read: kCannotCreate if one of two is missing,
/// or for other fields, or another shape, scale or shift, than the options'. kUsage: options that do not fit
/// each other or the data. Errors of the source's reader, of bundle::make_dataset(), and of writing.
[[nodiscard]] Result<std::vector<Packed>> pack(const Source& source, const PackOptions& options,
                                               const JobContext& context);

}  // namespace dgx::jobs
