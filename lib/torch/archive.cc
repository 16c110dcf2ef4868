#include "archive.h"

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "dgx/core/checked.h"
#include "dgx/core/text.h"
#include "recorder.h"

namespace dgx::torch_bridge {
namespace {

using caffe2::serialize::PyTorchStreamReader;
using lowering::ExportedForm;
using lowering::ExportedInput;
using lowering::ExportedInteger;

constexpr std::size_t kMaxWordBytes = 64;  // of archive_format and its like
constexpr std::string_view kWeights = "data/weights/";
constexpr std::string_view kConstants = "data/constants/";

/// The numbers of a list that has no symbols; nullopt if one has.
std::optional<std::vector<std::int64_t>> plain(const std::vector<ExportedInteger>& list) {
  std::vector<std::int64_t> numbers;
  for (const ExportedInteger& each : list) {
    const auto* const number = std::get_if<std::int64_t>(&each);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

struct PlainForm {
  at::ScalarType type;
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset;
  std::int64_t storage;  ///< elements of memory that it spans, from the first byte of its file
};

/// The form of a stored tensor, checked: sizes, strides and offset are not negative, and the memory that they
/// span is counted without overflow.
Result<PlainForm> checked(const ExportedForm& form) {
  const auto type = scalar_type_named(form.dtype);
  const auto sizes = plain(form.sizes);
  const auto strides = plain(form.strides);
  const auto* const offset = std::get_if<std::int64_t>(&form.offset);
  if (!type) return usage_error("numbers are " + form.dtype + ", which cannot be captured");
  const auto is_negative = [](std::int64_t n) { return n < 0; };
  if (!sizes || !strides || !offset || sizes->size() != strides->size() || *offset < 0 ||
      std::ranges::any_of(*sizes, is_negative) || std::ranges::any_of(*strides, is_negative))
    return malformed("its sizes, strides and offset are no form of a tensor");
  PlainForm out{*type, *sizes, *strides, *offset, 0};
  if (std::ranges::find(out.sizes, 0) != out.sizes.end()) return out;
  std::optional<std::int64_t> storage = checked_add(out.offset, std::int64_t{1});
  for (std::size_t d = 0; d < out.sizes.size() && storage; ++d) {
    const auto reach = checked_mul(out.sizes[d] - 1, out.strides[d]);
    storage = reach ? checked_add(*storage, *reach) : std::nullopt;
  }
  if (!storage) return malformed("its sizes and strides overflow");
  out.storage = *storage;
  return out;
}

}  // namespace

std::optional<at::ScalarType> scalar_type_named(std::string_view name) {
  for (int n = 0; n < static_cast<int>(at::ScalarType::NumOptions); ++n) {
    const auto type = static_cast<at::ScalarType>(n);
    if (dtype_name(type) == name) return type;
  }
  return std::nullopt;
}

bool Archive::is_exported(const std::string& path) {
  PyTorchStreamReader zip(path);
  return zip.hasRecord("archive_format") || zip.hasRecord("serialized_exported_program.json");
}

Result<std::string> Archive::text(const std::string& name, std::size_t limit) const {
  if (!zip_->hasRecord(name)) return malformed("the archive has no " + name);
  const std::size_t size = zip_->getRecordSize(name);
  if (size > limit) return malformed(fmt::format("{} has {} bytes, at most {} are read", name, size, limit));
  std::string out(size, '\0');
  zip_->getRecord(name, out.data(), size);
  return out;
}

Status Archive::read_lists(const std::string& model) {
  const auto read = [&](std::string_view folder, std::string_view ending, List& out) -> Status {
    const std::string name = fmt::format("{}{}_{}_config.json", folder, model, ending);
    DGX_TRY(const std::string bytes, text(name, lowering::kMaxExportedListBytes));
    auto list = lowering::parse_exported_tensors(bytes);
    if (!list.ok()) return within(name, std::move(list).error());
    out = *std::move(list);
    return {};
  };
  DGX_CHECK(read(kWeights, "weights", weights_));
  return read(kConstants, "constants", constants_);
}

Result<Archive> Archive::open(const std::string& path) {
  Archive out(std::make_shared<PyTorchStreamReader>(path));
  const char* const kAgain = "load it with torch.export.load in torch 2.9 or later, and save it again";
  if (!out.zip_->hasRecord("archive_format"))
    return usage_error("is of torch 2.5 or older, whose weights are pickles", kAgain);
  DGX_TRY(const std::string format, out.text("archive_format", kMaxWordBytes));
  DGX_TRY(const std::string version, out.text("archive_version", kMaxWordBytes));
  DGX_TRY(const std::string order, out.text("byteorder", kMaxWordBytes));
  if (format != "pt2" || version != "0")
    return usage_error(
        fmt::format("is an archive of the format {} {}, not pt2 0", printable(format), printable(version)));
  if (order != "little")
    return usage_error("has numbers in the byte order " + printable(order) + ", not little");

  constexpr std::string_view kFolder = "models/";
  std::vector<std::string> models;
  for (const std::string& name : out.zip_->getAllRecords()) {
    if (name.starts_with(kFolder) && name.ends_with(".json"))
      models.push_back(name.substr(kFolder.size(), name.size() - kFolder.size() - 5));
  }
  if (models.empty()) return malformed("the archive has no program");
  if (models.size() > 1)
    return usage_error(fmt::format("the archive has {} programs, {} and {} among them", models.size(),
                                   printable(models[0]), printable(models[1])),
                       "save each with torch.export.save in a file of its own");
  const std::string name = fmt::format("{}{}.json", kFolder, models.front());
  DGX_TRY(const std::string bytes, out.text(name, lowering::kMaxExportedProgramBytes));
  auto program = lowering::parse_exported_program(bytes);
  if (!program.ok()) return within(name, std::move(program).error());
  out.program_ = *std::move(program);
  if (!out.zip_->hasRecord(fmt::format("{}{}_weights_config.json", kWeights, models.front())))
    return usage_error(
        fmt::format("was saved by torch {}, whose weights are a pickle", out.program_.torch_version), kAgain);
  DGX_CHECK(out.read_lists(models.front()));
  return out;
}

Result<at::Tensor> Archive::read_tensor(const std::string& name, const ExportedForm& form) const {
  DGX_TRY(const PlainForm shape, checked(form));
  if (!zip_->hasRecord(name)) return malformed("the archive has no " + printable(name));
  const std::size_t size = zip_->getRecordSize(name);
  const auto width = static_cast<std::int64_t>(c10::elementSize(shape.type));
  const auto spanned = checked_mul(shape.storage, width);
  if (!spanned || static_cast<std::uint64_t>(*spanned) > size)
    return malformed(
        fmt::format("{} has {} bytes, too few for its sizes and strides", printable(name), size));
  const auto needed = static_cast<std::size_t>(*spanned);
  // Exactly the memory that the form spans is read, however long the file is.
  const at::Tensor flat = at::empty({shape.storage}, at::TensorOptions(shape.type));
  if (shape.storage == 0) return at::empty(shape.sizes, at::TensorOptions(shape.type));
  if (needed == size) {
    zip_->getRecord(name, flat.mutable_data_ptr(), size);
  } else {
    const auto [data, bytes] = zip_->getRecord(name);
    std::copy_n(static_cast<const char*>(data.get()), std::min(bytes, needed),
                static_cast<char*>(flat.mutable_data_ptr()));
  }
  return at::as_strided(flat, shape.sizes, shape.strides, shape.offset).contiguous();
}

Result<Archive::Stored> Archive::stored(const ExportedInput& input) const {
  const bool is_constant = constants_.contains(input.title) && !weights_.contains(input.title);
  const List& list = is_constant ? constants_ : weights_;
  const auto found = list.find(input.title);
  if (found == list.end()) return malformed(printable(input.title) + ": the archive has no numbers of it");
  const auto& [path, form] = found->second;
  const std::string name = std::string(is_constant ? kConstants : kWeights) + path;
  auto tensor = read_tensor(name, form);
  if (!tensor.ok()) return within(printable(input.title), std::move(tensor).error());
  const std::string key =
      fmt::format("{} {} {} {} {}", name, form.dtype, c10::str(tensor->sizes()),
                  fmt::join(*plain(form.strides), ","), std::get<std::int64_t>(form.offset));
  return Stored{*std::move(tensor), key, form.requires_grad};
}

}  // namespace dgx::torch_bridge
