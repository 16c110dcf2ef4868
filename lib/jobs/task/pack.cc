#include "dgx/jobs/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "dgx/core/files.h"
#include "dgx/kernels/order.h"
#include "dgx/merkle/digests.h"

namespace dgx::jobs {
namespace {

using bundle::Affine;
using bundle::Samples;

/// Settings of all readers, besides the options of each.
struct Wanted {
  bundle::Reading reading;
  std::vector<std::string> classes;  ///< names from --like; empty: those of the source
  int threads = 1;
};

/// A source's fields, and names of the classes, if it has any.
struct Contents {
  bundle::FieldNumbers fields;
  std::vector<std::string> classes = {};
};

Contents contents_of(Samples samples) {
  Contents out{{}, std::move(samples.classes)};
  out.fields.emplace("x", std::move(samples.x));
  out.fields.emplace("y", std::move(samples.y));
  return out;
}

// One array of a source, by the place that the user gives: a member of its file or, where its file has no
// members, an NPY file beside it.

template <class AnySource>
Result<BulkTensor> read_array(const AnySource&, const std::string& place, const Wanted& wanted) {
  return bundle::read_npy(place, wanted.reading);
}
Result<BulkTensor> read_array(const NpzSource& from, const std::string& place, const Wanted& wanted) {
  return bundle::read_npz(from.file, place, wanted.reading);
}
Result<BulkTensor> read_array(const SafetensorsSource& from, const std::string& place, const Wanted& wanted) {
  return bundle::read_safetensor(from.file, place, wanted.reading);
}
Result<BulkTensor> read_array(const Hdf5Source& from, const std::string& place, const Wanted& wanted) {
  return bundle::read_hdf5(from.file, place, wanted.reading);
}

// All that a source has besides the fields of PackOptions.

template <class ArraySource>
Result<Contents> read(const ArraySource& from, const Wanted& wanted) {
  Contents out;
  DGX_TRY(BulkTensor x, read_array(from, from.x, wanted));
  out.fields.emplace("x", std::move(x));
  if (!from.y) return out;
  DGX_TRY(BulkTensor y, read_array(from, *from.y, wanted));
  out.fields.emplace("y", std::move(y));
  return out;
}

Result<Contents> read(const IdxSource& from, const Wanted& wanted) {
  Samples out;
  DGX_TRY(out.x, bundle::read_idx(from.images, wanted.reading));
  DGX_TRY(out.y, bundle::read_idx(from.labels, wanted.reading));
  return contents_of(std::move(out));
}
Result<Contents> read(const CsvSource& from, const Wanted& wanted) {
  bundle::TableReading table = from.table;
  table.delimiter = from.delimiter == "tab"         ? '\t'
                    : from.delimiter == "semicolon" ? ';'
                    : from.delimiter == "space"     ? ' '
                                                    : ',';
  DGX_TRY(table.dtype, dtype_from_name(from.dtype));
  table.classes = wanted.classes;
  DGX_TRY(Samples out, bundle::read_csv(from.file, table, wanted.reading));
  return contents_of(std::move(out));
}
Result<Contents> read(const ImagesSource& from, const Wanted& wanted) {
  DGX_TRY(Samples out, bundle::read_images(from.folder, wanted.classes, wanted.threads, wanted.reading));
  return contents_of(std::move(out));
}
Result<Contents> read(const TokensSource& from, const Wanted& wanted) {
  const auto encoding = !from.raw            ? bundle::TokenFile::kNpy
                        : *from.raw == "u16" ? bundle::TokenFile::kU16
                                             : bundle::TokenFile::kU32;
  DGX_TRY(Samples out, bundle::read_tokens(from.file, encoding, from.context, wanted.reading));
  return contents_of(std::move(out));
}
Result<Contents> read(const TextSource& from, const Wanted& wanted) {
  DGX_TRY(Samples out, bundle::read_text(from.file, from.context, wanted.reading));
  return contents_of(std::move(out));
}

/// The places of the fields of PackOptions, by name.
using Places = std::map<std::string, std::string, std::less<>>;

Result<Places> parse_fields(const std::vector<std::string>& texts) {
  Places out;
  for (const std::string& text : texts) {
    const std::size_t sign = text.find('=');
    const std::string name = text.substr(0, sign);
    if (sign == std::string::npos || sign + 1 == text.size())
      return usage_error(fmt::format("--field {}: is not NAME=PLACE", text));
    if (!merkle::is_field_name(name))
      return usage_error(fmt::format("--field {}: \"{}\" is no name of a field", text, name),
                         "a lower-case letter and at most 31 more, digits or _, but not classes or channels");
    if (name == "x" || name == "y" || !out.emplace(name, text.substr(sign + 1)).second)
      return usage_error(fmt::format("--field {}: a second field {}", text, name),
                         "x and y are what the source's own options say");
  }
  if (out.size() + 2 <= merkle::kMaxFields) return out;
  return usage_error(
      fmt::format("--field: {} fields besides x and y, at most {}", out.size(), merkle::kMaxFields - 2));
}

Status read_fields(const Source& source, const Places& places, const Wanted& wanted,
                   bundle::FieldNumbers& fields) {
  for (const auto& [name, place] : places) {
    DGX_TRY(BulkTensor numbers,
            std::visit([&, &to = place](const auto& from) { return read_array(from, to, wanted); }, source));
    fields.emplace(name, std::move(numbers));
  }
  return {};
}

/// True unless the source may have a y, and the options name none.
bool has_y(const Source& source) {
  return std::visit(
      [](const auto& from) {
        if constexpr (requires { from.y; }) return from.y.has_value();
        return true;
      },
      source);
}

/// True if two paths lead to one file, whether or not it exists.
bool is_same_place(const std::string& a, const std::string& b) {
  std::error_code ignored;
  const auto place = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
  };
  return place(a) == place(b);
}

Status check_options(const PackOptions& options) {
  if (options.split.has_value() != options.rest.has_value())
    return usage_error("--split and --rest go together");
  if (options.split && !(*options.split > 0 && *options.split < 1))
    return usage_error(fmt::format("--split: {} is not between 0 and 1", *options.split));
  if (options.rest && is_same_place(*options.rest, options.output))
    return usage_error(fmt::format("--rest: {} is the place of the other bundle", *options.rest));
  return {};
}

/// The bundles that are to be made: one, or two with --split.
Result<std::vector<AtomicFile>> claim_bundles(const PackOptions& options, Clobber clobber) {
  std::vector<AtomicFile> out;
  for (const auto& path : {std::optional(options.output), options.rest}) {
    if (!path) continue;
    DGX_TRY(AtomicFile target, AtomicFile::create(*path, clobber));
    out.push_back(std::move(target));
  }
  return out;
}

/// The rows of each bundle: of one or, with --split, of two.
Result<std::vector<bundle::Rows>> choose_parts(const PackOptions& options, std::int64_t samples) {
  DGX_TRY(bundle::Rows all, bundle::choose_rows(samples, options.skip, options.first));
  if (options.shuffle || options.split) {
    DGX_TRY(const auto order, kernels::DataOrder::create(options.seed, samples, 1));
    all.order = [order](std::int64_t position) { return order.sample_at(position); };
  }
  if (!options.split) return std::vector{all};
  const auto size = std::llround(*options.split * static_cast<double>(all.count));
  if (size < 1 || size >= all.count)
    return usage_error(fmt::format("--split: {} of {} samples is {}, which leaves one bundle empty",
                                   *options.split, all.count, size));
  bundle::Rows rest = all;
  all.count = size;
  rest.begin += size;
  rest.count -= size;
  return std::vector{all, rest};
}

/// A copy of the samples in these rows.
Result<Contents> take(const Contents& samples, const bundle::Rows& rows) {
  Contents out{{}, samples.classes};
  for (const auto& [name, numbers] : samples.fields) {
    DGX_TRY(BulkTensor taken, bundle::take_rows(numbers, rows));
    out.fields.emplace(name, std::move(taken));
  }
  return out;
}

/// Cuts the samples into parts. If there is one part, of all of them in their order, it is moved, not copied.
Result<std::vector<Contents>> cut(Contents samples, const std::vector<bundle::Rows>& parts) {
  std::vector<Contents> out;
  const bundle::Rows& first = parts.front();
  if (parts.size() == 1 && !first.order && first.count == samples.fields["x"].shape()[0]) {
    out.push_back(std::move(samples));
    return out;
  }
  for (const bundle::Rows& rows : parts) {
    DGX_TRY(Contents part, take(samples, rows));
    out.push_back(std::move(part));
  }
  return out;
}

/// The options' scale and shift, or one pair for each channel.
Result<std::vector<Affine>> given_affines(const PackOptions& options, std::size_t channels) {
  std::size_t count = 1;
  for (const auto& [name, list] : {std::pair{"scale", &options.scale}, std::pair{"shift", &options.shift}}) {
    if (list->size() != 1 && list->size() != channels)
      return usage_error(fmt::format("--{} has {} numbers, x has {} channel{}", name, list->size(), channels,
                                     channels == 1 ? "" : "s"));
    count = std::max(count, list->size());
  }
  const auto at = [](const std::vector<double>& list, std::size_t i) {
    return static_cast<float>(list[list.size() == 1 ? 0 : i]);
  };
  std::vector<Affine> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back({at(options.scale, i), at(options.shift, i)});
  return out;
}

/// Scale and shift of all of x, or of each channel. `x` is that of the first part.
Result<std::vector<Affine>> choose_affines(const PackOptions& options,
                                           const std::optional<bundle::DatasetInfo>& like,
                                           const BulkTensor& x) {
  const auto channels = static_cast<std::size_t>(bundle::channels_of(x.shape()));
  if (options.normalise) return bundle::normalising(x);
  if (!like) return given_affines(options, channels);
  if (like->channels.empty()) return std::vector<Affine>{{like->scale, like->shift}};
  if (like->channels.size() == channels) return like->channels;
  return usage_error(
      fmt::format("--like: {} has {} channels, x has {}", *options.like, like->channels.size(), channels));
}

/// A bundle that is complete but for its name, and what is said of it.
struct Staged {
  Packed packed;
  bundle::StagedDataset file;
};

Status summarise(const bundle::Dataset& data, Packed& out) {
  for (const auto& [name, field] : data.fields) {
    DGX_TRY(out.values[name], bundle::summary_of(field.numbers));
  }
  DGX_TRY(out.classes, bundle::class_counts(data));
  return {};
}

/// Writes a bundle. One scale and shift are left to those who read it; of several, each channel's are
/// applied.
Result<Staged> stage(Contents samples, const std::vector<Affine>& affines, AtomicFile target,
                     bundle::Storage storage, const JobContext& context) {
  Affine later;
  if (affines.size() == 1) {
    later = affines.front();
  } else {
    DGX_TRY(samples.fields["x"], bundle::scaled(samples.fields["x"], affines));
  }
  DGX_TRY(bundle::Dataset data, bundle::make_dataset(std::move(samples.fields), later.scale, later.shift,
                                                     std::move(samples.classes)));
  if (affines.size() > 1) data.channels = affines;
  Packed packed{target.target(), {}, {}, {}};
  DGX_CHECK(summarise(data, packed));
  DGX_TRY(bundle::StagedDataset staged,
          bundle::stage_dataset(std::move(target), data, {.threads = context.threads}, storage));
  return Staged{std::move(packed), std::move(staged)};
}

Error unfit(const std::string& file, std::string_view what) {
  return {ErrorCode::kCannotCreate, fmt::format("{}: is there already, with another {}", file, what),
          "choose another name, or use --force to replace it"};
}

/// Describes a bundle that is there, if it may be the one of these options.
Result<Packed> describe_existing(const PackOptions& options, const std::set<std::string>& fields,
                                 const std::string& file) {
  Packed out{file, {}, {}, {}, true};
  DGX_TRY(out.info, bundle::read_dataset_info(file));
  const bundle::DatasetInfo& info = out.info;
  std::set<std::string> found_fields;
  for (const auto& [name, field] : info.fields) found_fields.insert(name);
  if (found_fields != fields) return unfit(file, "list of fields");
  const Shape sample(info.x().shape.begin() + 1, info.x().shape.end());
  if (!options.shape.empty() && options.shape != sample) return unfit(file, "shape");
  if (!options.normalise && !options.like) {
    DGX_TRY(const auto asked,
            given_affines(options, static_cast<std::size_t>(bundle::channels_of(info.x().shape))));
    const std::vector<Affine> found =
        info.channels.empty() ? std::vector<Affine>{{info.scale, info.shift}} : info.channels;
    if (asked != found) return unfit(file, "scale or shift");
  }
  DGX_TRY(const bundle::Dataset data, bundle::read_dataset(file, bundle::Check::kNothing));
  DGX_CHECK(summarise(data, out));
  return out;
}

/// The bundles that an earlier call wrote; empty if there are none.
Result<std::vector<Packed>> existing(const PackOptions& options, const std::set<std::string>& fields) {
  std::vector<std::string> files{options.output};
  if (options.rest) files.push_back(*options.rest);
  std::vector<Packed> out;
  std::string missing;
  for (const std::string& file : files) {
    if (!exists(file)) {
      missing = file;
      continue;
    }
    DGX_TRY(Packed found, describe_existing(options, fields, file));
    out.push_back(std::move(found));
  }
  if (out.empty() || missing.empty()) return out;
  return Error{ErrorCode::kCannotCreate,
               fmt::format("{}: is there already, but not {}", out.front().file, missing),
               "remove it, or make both anew with --force"};
}

}  // namespace

Result<std::vector<Packed>> pack(const Source& source, const PackOptions& options,
                                 const JobContext& context) {
  DGX_CHECK(check_options(options));
  DGX_TRY(const Places places, parse_fields(options.fields));
  if (options.skip_existing) {
    std::set<std::string> fields{"x"};
    if (has_y(source)) fields.insert("y");
    for (const auto& [name, place] : places) fields.insert(name);
    DGX_TRY(std::vector<Packed> found, existing(options, fields));
    if (!found.empty()) return found;
  }
  DGX_TRY(std::vector<AtomicFile> targets, claim_bundles(options, context.clobber));
  std::optional<bundle::DatasetInfo> like;
  if (options.like) {
    DGX_TRY(like, bundle::read_dataset_info(*options.like));
  }
  const Wanted wanted{
      {.rounding = options.rounding}, like ? like->classes : std::vector<std::string>(), context.threads};
  DGX_TRY(Contents samples, std::visit([&](const auto& from) { return read(from, wanted); }, source));
  DGX_CHECK(read_fields(source, places, wanted, samples.fields));
  if (samples.classes.empty() && has_y(source)) samples.classes = wanted.classes;
  DGX_CHECK(bundle::check_fields(samples.fields));
  if (!options.shape.empty()) DGX_CHECK(bundle::reshape_samples(options.shape, samples.fields["x"]));
  DGX_TRY(const auto rows, choose_parts(options, samples.fields["x"].shape()[0]));
  DGX_TRY(std::vector<Contents> parts, cut(std::move(samples), rows));
  DGX_TRY(const auto affines, choose_affines(options, like, parts.front().fields["x"]));
  std::vector<Staged> staged;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    DGX_TRY(Staged one, stage(std::move(parts[i]), affines, std::move(targets[i]), options.storage, context));
    staged.push_back(std::move(one));
  }
  std::vector<Packed> out;
  for (Staged& one : staged) {
    DGX_CHECK(one.file.commit());
    DGX_TRY(one.packed.info, bundle::read_dataset_info(one.packed.file));
    out.push_back(std::move(one.packed));
  }
  return out;
}

}  // namespace dgx::jobs
