#include "archive.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "dgx/core/checked.h"
#include "dgx/core/text.h"
#include "recorder.h"

namespace dgx::torch_bridge {
namespace {

using lowering::ExportedForm;
using lowering::ExportedInput;
using lowering::ExportedInteger;

constexpr std::size_t kMaxWordBytes = 64;  // of archive_format and its like
constexpr std::string_view kModels = "models/";
constexpr std::string_view kEnding = ".json";
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
  Stored out{{}, *type, *sizes, *strides, *offset, 0, form.requires_grad, 0};
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

/// The program of archives of torch 2.5 and older, which lies in no folder.
constexpr std::string_view kOlderProgram = "serialized_exported_program.json";

/// Refuses a zip with compressed members that are large when unpacked: libtorch's reader of TorchScript files
/// unpacks some as it opens one, whatever their size.
Status check_unpacked(const ZipFile& zip) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;
  std::uint64_t left = kMostBytes;
  for (const auto& [name, member] : zip.members()) {
    if (member.is_stored) continue;
    if (member.bytes > left)
      return malformed(fmt::format("compressed members unpack to more than {} bytes", kMostBytes),
                       "save the model again: torch's own archives have little that is compressed");
    left -= member.bytes;
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
  auto zip = ZipFile::open(path);
  if (!zip.ok()) return within(path, std::move(zip).error());
  if (Status unpacked = check_unpacked(*zip); !unpacked.ok())
    return within(path, std::move(unpacked).error());
  return zip->members().contains(kOlderProgram) || zip->members().contains(zip->folder() + "archive_format");
}

const ZipFile::Member* Archive::find_member(std::string_view name) const {
  const auto found = zip_.members().find(zip_.folder() + std::string(name));
  return found == zip_.members().end() ? nullptr : &found->second;
}

Result<std::string> Archive::text(const std::string& name, std::size_t limit) const {
  const ZipFile::Member* const member = find_member(name);
  if (!member) return malformed("the archive has no " + printable(name));
  if (member->bytes > limit)
    return malformed(
        fmt::format("{} has {} bytes, at most {} are read", printable(name), member->bytes, limit));
  std::string out(member->bytes, '\0');
  if (Status read = zip_.read(*member, out.data()); !read.ok())
    return within(printable(name), std::move(read).error());
  return out;
}

Status Archive::check_members() const {
  for (const auto& [name, member] : zip_.members()) {
    if (!name.starts_with(zip_.folder()))
      return malformed(
          fmt::format("{} lies outside of the folder {}", printable(name), printable(zip_.folder())));
    if (!member.is_stored) return malformed(printable(name.substr(zip_.folder().size())) + " is compressed");
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

Result<std::string> Archive::choose_program(const std::string& wanted) const {
  std::vector<std::string> models;
  bool is_compiled = false;
  for (const auto& [whole_name, member] : zip_.members()) {
    const std::string_view name = std::string_view(whole_name).substr(zip_.folder().size());
    if (name.starts_with(kModels) && name.ends_with(kEnding))
      models.emplace_back(name.substr(kModels.size(), name.size() - kModels.size() - kEnding.size()));
    is_compiled = is_compiled || name.starts_with("data/aotinductor/");
  }
  if (models.empty() && is_compiled) {
    return usage_error("is a package of AOTInductor: machine code, which computes and cannot be trained",
                       "save what torch.export.export returns: torch.export.save(program, \"net.pt2\")");
  }
  if (models.empty()) return malformed("the archive has no program");
  if (wanted.empty() && models.size() == 1) return models.front();
  if (wanted.empty())
    return usage_error(fmt::format("the archive has {} programs, {} and {} among them", models.size(),
                                   printable(models[0]), printable(models[1])),
                       fmt::format("say which: NET.pt2:{}", printable(models[0])));
  if (std::ranges::find(models, wanted) != models.end()) return wanted;
  return usage_error(fmt::format("the archive has no program {}", printable(wanted)),
                     hint_among(wanted, models));
}

Status Archive::read_program() {
  const std::string name = fmt::format("{}{}{}", kModels, name_, kEnding);
  DGX_TRY(const std::string bytes, text(name, lowering::kMaxExportedProgramBytes));
  auto program = lowering::parse_exported_program(bytes);
  if (!program.ok()) return within(printable(name), std::move(program).error());
  program_ = *std::move(program);
  return {};
}

Result<Archive> Archive::open(const std::string& path, const std::string& program) {
  DGX_TRY(ZipFile zip, ZipFile::open(path));
  if (zip.members().contains(kOlderProgram))
    return usage_error("is an archive of torch 2.5 or older, which only that torch reads",
                       "export the model again with torch 2.9 or later");
  Archive out(std::move(zip));
  DGX_CHECK(out.check_members());
  DGX_TRY(const std::string format, out.text("archive_format", kMaxWordBytes));
  DGX_TRY(const std::string version, out.text("archive_version", kMaxWordBytes));
  if (format != "pt2" || version != "0")
    return usage_error(
        fmt::format("is an archive of the format {} {}, not pt2 0", printable(format), printable(version)));
  DGX_TRY(const std::string order, out.text("byteorder", kMaxWordBytes));
  if (order != "little")
    return usage_error("has numbers in the byte order " + printable(order) + ", not little");
  DGX_TRY(out.name_, out.choose_program(program));
  DGX_CHECK(out.read_program());
  if (!out.find_member(fmt::format("{}{}_weights_config.json", kWeights, out.name_))) {
    return usage_error(
        fmt::format("was saved by torch {}, whose weights are a pickle", out.program_.torch_version),
        "with torch 2.9 or later: python3 -c 'import torch.export as e; e.save(e.load(\"old.pt2\"), "
        "\"net.pt2\")'");
  }
  DGX_CHECK(out.read_lists());
  return out;
}

std::int64_t Stored::count() const { return c10::multiply_integers(sizes); }

bool Stored::is_dense() const { return at::detail::empty_strided_meta(sizes, strides, type).is_contiguous(); }

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
  const ZipFile::Member* const member = find_member(place->member);
  if (!member) return refused("the archive has no " + printable(place->member));
  place->member_bytes = static_cast<std::int64_t>(member->bytes);
  if (static_cast<std::uint64_t>(place->end) * c10::elementSize(place->type) > member->bytes) {
    return refused(fmt::format("{} has {} bytes, too few for its sizes and strides", printable(place->member),
                               member->bytes));
  }
  if (place->requires_grad && !at::isFloatingType(place->type) && !at::isComplexType(place->type))
    return refused(fmt::format("is a tensor of {}, which has no gradient", form.dtype));
  return place;
}

Result<at::Tensor> Archive::read(const Stored& place) const {
  if (place.end == 0) return at::empty(place.sizes, at::TensorOptions(place.type));
  const ZipFile::Member& member = *find_member(place.member);
  at::Tensor bytes = place.member == last_.member ? last_.bytes : at::Tensor();
  if (!bytes.defined()) {
    constexpr std::uint64_t kWidest = 16;  // a tensor of bytes becomes one of any type
    bytes = at::empty({static_cast<std::int64_t>(ceil_div(member.bytes, kWidest) * kWidest)}, at::kByte);
    if (Status read = zip_.read(member, bytes.mutable_data_ptr()); !read.ok())
      return within(printable(place.member), std::move(read).error());
  }
  const std::uint64_t spanned = static_cast<std::uint64_t>(place.end) * c10::elementSize(place.type);
  const bool is_part = place.offset != 0 || spanned != member.bytes;
  last_ = is_part ? Last{place.member, bytes} : Last();
  const at::Tensor out = at::as_strided(bytes.view(place.type), place.sizes, place.strides, place.offset);
  return out.is_contiguous() && !is_part ? out : out.clone(at::MemoryFormat::Contiguous);
}

Result<Tensor> Archive::read_numbers(const Stored& place) const {
  const DType dtype = dtype_of(place.type).value_or(DType::kF32);
  const ZipFile::Member& member = *find_member(place.member);
  const std::uint64_t bytes = static_cast<std::uint64_t>(place.count()) * size_of(dtype);
  if (!place.is_dense() || bytes != member.bytes || c10::elementSize(place.type) != size_of(dtype)) {
    DGX_TRY(const at::Tensor numbers, read(place));
    return numbers_of(numbers);
  }
  Tensor out(dtype, place.sizes);
  if (Status read = zip_.read(member, out.bytes().data()); !read.ok())
    return within(printable(place.member), std::move(read).error());
  return out;
}

}  // namespace dgx::torch_bridge
