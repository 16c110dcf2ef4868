#include "archive.h"

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
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

using Stored = Archive::Stored;

/// The form of a stored tensor, checked: sizes, strides and offset are not negative, and its elements and the
/// memory that they span are counted without overflow.
Result<Stored> checked(const ExportedForm& form) {
  const auto type = scalar_type_named(form.dtype);
  const auto sizes = plain(form.sizes);
  const auto strides = plain(form.strides);
  const auto* const offset = std::get_if<std::int64_t>(&form.offset);
  if (!type) return usage_error("numbers are " + form.dtype + ", which cannot be captured");
  const auto is_negative = [](std::int64_t n) { return n < 0; };
  if (!sizes || !strides || !offset || sizes->size() != strides->size() || *offset < 0 ||
      std::ranges::any_of(*sizes, is_negative) || std::ranges::any_of(*strides, is_negative))
    return malformed("its sizes, strides and offset are no form of a tensor");
  Stored out{{}, *type, *sizes, *strides, *offset, 0, form.requires_grad};
  if (std::ranges::find(out.sizes, 0) != out.sizes.end()) return out;
  std::optional<std::int64_t> end = checked_add(out.offset, std::int64_t{1}), count = 1;
  for (std::size_t d = 0; d < out.sizes.size() && end && count; ++d) {
    const auto reach = checked_mul(out.sizes[d] - 1, out.strides[d]);
    end = reach ? checked_add(*end, *reach) : std::nullopt;
    count = checked_mul(*count, out.sizes[d]);
  }
  const auto width = static_cast<std::int64_t>(c10::elementSize(out.type));
  const auto bytes = count ? checked_mul(*count, width) : std::nullopt;
  if (!end || !bytes || !checked_mul(*end, width)) return malformed("its sizes and strides overflow");
  if (*count > *end && *bytes > Archive::kMaxRepeatedBytes) {
    return malformed(fmt::format("it repeats {} numbers to {} bytes, at most {} are made", *end, *bytes,
                                 Archive::kMaxRepeatedBytes));
  }
  out.end = *end;
  return out;
}

/// True for an archive of torch 2.5 or older, by its first member. That lies in no folder, so that libtorch's
/// reader of archives takes none of them.
bool is_older(const std::string& path) {
  constexpr std::string_view kName = "serialized_exported_program.json";
  constexpr std::size_t kNameAt = 30;  // in the header before a member
  std::string start(kNameAt + kName.size(), '\0');
  std::ifstream(path, std::ios::binary).read(start.data(), static_cast<std::streamsize>(start.size()));
  return start.ends_with(kName);
}

/// Refuses a zip with compressed members that are large when unpacked, and one with members of two sizes.
/// libtorch's reader unpacks some members as it opens the file, whatever their size. What is no zip passes:
/// the reader says so.
Status check_unpacked(const std::string& path) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;
  int code = 0;
  const std::unique_ptr<zip_t, decltype(&zip_discard)> zip(zip_open(path.c_str(), ZIP_RDONLY, &code),
                                                           &zip_discard);
  if (zip == nullptr) {
    const bool is_zip = code != ZIP_ER_NOZIP && code != ZIP_ER_OPEN && code != ZIP_ER_READ;
    return is_zip && code != ZIP_ER_NOENT ? malformed(path + ": the zip's directory is damaged") : Status();
  }
  std::uint64_t unpacked = 0;
  const zip_int64_t count = zip_get_num_entries(zip.get(), 0);
  for (zip_int64_t n = 0; n < count; ++n) {
    zip_stat_t info;
    zip_stat_init(&info);
    constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    const bool is_known = zip_stat_index(zip.get(), static_cast<zip_uint64_t>(n), 0, &info) == 0 &&
                          (info.valid & kNeeded) == kNeeded;
    const bool is_stored = is_known && info.comp_method == ZIP_CM_STORE;
    if (!is_known || (is_stored && info.comp_size != info.size))
      return malformed(fmt::format("{}: member {} does not state its size", path, n));
    if (is_stored) continue;
    unpacked = info.size > kMostBytes ? kMostBytes + 1 : unpacked + info.size;
    if (unpacked > kMostBytes)
      return malformed(fmt::format("{}: compressed members unpack to more than {} bytes", path, kMostBytes),
                       "save the model again: torch's own archives have little that is compressed");
  }
  return {};
}

}  // namespace

std::optional<at::ScalarType> scalar_type_named(std::string_view name) {
  for (int n = 0; n < static_cast<int>(at::ScalarType::NumOptions); ++n) {
    const auto type = static_cast<at::ScalarType>(n);
    if (dtype_name(type) == name) return type;
  }
  return std::nullopt;
}

Result<bool> Archive::is_exported(const std::string& path) {
  DGX_CHECK(check_unpacked(path));
  return is_older(path) || PyTorchStreamReader(path).hasRecord("archive_format");
}

Result<std::string> Archive::text(const std::string& name, std::size_t limit) const {
  if (!zip_->hasRecord(name)) return malformed("the archive has no " + name);
  const std::size_t size = zip_->getRecordSize(name);
  if (size > limit) return malformed(fmt::format("{} has {} bytes, at most {} are read", name, size, limit));
  std::string out(size, '\0');
  zip_->getRecord(name, out.data(), size);
  return out;
}

Status Archive::check_members(const std::string& path) const {
  struct Member {
    std::size_t begin, end;
    std::string name;
  };
  std::vector<Member> members;
  std::set<std::string, std::less<>> names;
  for (const std::string& name : zip_->getAllRecords()) {
    if (!names.insert(name).second) return malformed("the archive has two members " + printable(name));
    const std::size_t begin = zip_->getRecordOffset(name);
    members.push_back({begin, begin + zip_->getRecordSize(name), name});
  }
  std::ranges::sort(members, {}, &Member::begin);
  const std::size_t size = std::filesystem::file_size(path);
  for (std::size_t n = 0; n < members.size(); ++n) {
    const bool is_last = n + 1 == members.size();
    const std::size_t next = is_last ? size : members[n + 1].begin;
    if (members[n].begin > members[n].end || members[n].end > next) {
      return malformed(fmt::format("{} is compressed, or runs into {}", printable(members[n].name),
                                   is_last ? "the end of the file" : printable(members[n + 1].name)));
    }
  }
  return {};
}

Status Archive::read_lists() {
  const auto read = [&](std::string_view folder, std::string_view ending, List& out) -> Status {
    const std::string name = fmt::format("{}{}_{}_config.json", folder, name_, ending);
    DGX_TRY(const std::string bytes, text(name, lowering::kMaxExportedListBytes));
    auto list = lowering::parse_exported_tensors(bytes);
    if (!list.ok()) return within(printable(name), std::move(list).error());
    out = *std::move(list);
    return {};
  };
  DGX_CHECK(read(kWeights, "weights", weights_));
  return read(kConstants, "constants", constants_);
}

Status Archive::read_program() {
  constexpr std::string_view kFolder = "models/";
  constexpr std::string_view kEnding = ".json";
  std::vector<std::string> models;
  bool is_compiled = false;
  for (const std::string& name : zip_->getAllRecords()) {
    if (name.starts_with(kFolder) && name.ends_with(kEnding))
      models.push_back(name.substr(kFolder.size(), name.size() - kFolder.size() - kEnding.size()));
    is_compiled = is_compiled || name.starts_with("data/aotinductor/");
  }
  if (models.empty() && is_compiled) {
    return usage_error("is a package of AOTInductor: machine code, which computes and cannot be trained",
                       "save what torch.export.export returns: torch.export.save(program, \"net.pt2\")");
  }
  if (models.empty()) return malformed("the archive has no program");
  if (models.size() > 1)
    return usage_error(fmt::format("the archive has {} programs, {} and {} among them", models.size(),
                                   printable(models[0]), printable(models[1])),
                       "save each with torch.export.save in a file of its own");
  name_ = models.front();
  const std::string name = fmt::format("{}{}{}", kFolder, name_, kEnding);
  DGX_TRY(const std::string bytes, text(name, lowering::kMaxExportedProgramBytes));
  auto program = lowering::parse_exported_program(bytes);
  if (!program.ok()) return within(printable(name), std::move(program).error());
  program_ = *std::move(program);
  return {};
}

Result<Archive> Archive::open(const std::string& path) {
  if (is_older(path))
    return usage_error("is an archive of torch 2.5 or older, which only that torch reads",
                       "export the model again with torch 2.9 or later");
  Archive out(std::make_shared<PyTorchStreamReader>(path));
  DGX_CHECK(out.check_members(path));
  DGX_TRY(const std::string format, out.text("archive_format", kMaxWordBytes));
  DGX_TRY(const std::string version, out.text("archive_version", kMaxWordBytes));
  if (format != "pt2" || version != "0")
    return usage_error(
        fmt::format("is an archive of the format {} {}, not pt2 0", printable(format), printable(version)));
  DGX_TRY(const std::string order, out.text("byteorder", kMaxWordBytes));
  if (order != "little")
    return usage_error("has numbers in the byte order " + printable(order) + ", not little");
  DGX_CHECK(out.read_program());
  if (!out.zip_->hasRecord(fmt::format("{}{}_weights_config.json", kWeights, out.name_))) {
    return usage_error(
        fmt::format("was saved by torch {}, whose weights are a pickle", out.program_.torch_version),
        "with torch 2.9 or later: python3 -c 'import torch.export as e; e.save(e.load(\"old.pt2\"), "
        "\"net.pt2\")'");
  }
  DGX_CHECK(out.read_lists());
  return out;
}

bool Stored::is_tied_to(const Stored& other) const {
  return std::tie(member, type, sizes, strides, offset) ==
         std::tie(other.member, other.type, other.sizes, other.strides, other.offset);
}

bool Stored::overlaps(const Stored& other) const {
  const auto begins = [](const Stored& each) {
    return each.offset * static_cast<std::int64_t>(c10::elementSize(each.type));
  };
  const auto ends = [](const Stored& each) {
    return each.end * static_cast<std::int64_t>(c10::elementSize(each.type));
  };
  return member == other.member && begins(*this) < ends(other) && begins(other) < ends(*this);
}

Result<Stored> Archive::find(const ExportedInput& input) const {
  const bool is_constant = constants_.contains(input.title) && !weights_.contains(input.title);
  const List& list = is_constant ? constants_ : weights_;
  const auto found = list.find(input.title);
  if (found == list.end()) return malformed(printable(input.title) + ": the archive has no numbers of it");
  const auto& [path, form] = found->second;
  auto place = checked(form);
  if (!place.ok()) return within(printable(input.title), std::move(place).error());
  place->member = std::string(is_constant ? kConstants : kWeights) + path;
  const auto refused = [&](std::string_view what) {
    return malformed(fmt::format("{}: {}", printable(input.title), what));
  };
  if (!zip_->hasRecord(place->member)) return refused("the archive has no " + printable(place->member));
  const std::size_t size = zip_->getRecordSize(place->member);
  if (static_cast<std::uint64_t>(place->end) * c10::elementSize(place->type) > size) {
    return refused(
        fmt::format("{} has {} bytes, too few for its sizes and strides", printable(place->member), size));
  }
  if (place->requires_grad && !at::isFloatingType(place->type))
    return refused(fmt::format("is a tensor of {}, which has no gradient", form.dtype));
  return place;
}

Result<at::Tensor> Archive::read(const Stored& place) const {
  if (place.end == 0) return at::empty(place.sizes, at::TensorOptions(place.type));
  const std::size_t size = zip_->getRecordSize(place.member);
  const std::size_t width = c10::elementSize(place.type);
  const at::Tensor flat =
      at::empty({static_cast<std::int64_t>((size + width - 1) / width)}, at::TensorOptions(place.type));
  zip_->getRecord(place.member, flat.mutable_data_ptr(), size);
  const at::Tensor out = at::as_strided(flat, place.sizes, place.strides, place.offset);
  // A part of a file that many share keeps none of the rest.
  return out.is_contiguous() && place.offset == 0 && flat.numel() == place.end ? out
                                                                               : out.clone().contiguous();
}

}  // namespace dgx::torch_bridge
