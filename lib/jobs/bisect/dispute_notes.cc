#include "bisect/dispute_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "dgx/core/files.h"

namespace dgx::jobs {
namespace {

constexpr std::size_t kMostBytes = std::size_t{256} << 20;
constexpr std::string_view kFormat = "dgx-note-1";
constexpr std::string_view kStatePrefix = "state-";

std::string base64_of(std::span<const Digest> digests) {
  Bytes bytes;
  for (const Digest& digest : digests) bytes.insert(bytes.end(), digest.bytes.begin(), digest.bytes.end());
  return to_base64(bytes);
}

std::optional<std::vector<Digest>> digests_in(const json::Object& object, const char* key) {
  const auto found = object.find(key);
  const std::string* text = found == object.end() ? nullptr : found->second.as_string();
  if (text == nullptr) return std::nullopt;
  const auto bytes = from_base64(*text);
  if (!bytes.ok() || bytes->size() % 32 != 0) return std::nullopt;
  std::vector<Digest> out;
  for (std::size_t at = 0; at < bytes->size(); at += 32)
    out.push_back(*digest_from_bytes(ByteView(*bytes).subspan(at, 32)));
  return out;
}

/// Puts entries as two lists, names and digests: only entries_in() reads them.
void put_entries(json::Object& object, const std::string& key, std::span<const merkle::NamedDigest> entries) {
  json::Array names;
  std::vector<Digest> digests;
  for (const merkle::NamedDigest& entry : entries) {
    names.emplace_back(entry.name);
    digests.push_back(entry.digest);
  }
  object.emplace(key, std::move(names));
  object.emplace(key + "_digests", base64_of(digests));
}

std::optional<std::vector<merkle::NamedDigest>> entries_in(const json::Object& object,
                                                           const std::string& key) {
  const auto digests = digests_in(object, (key + "_digests").c_str());
  const auto found = object.find(key);
  const json::Array* names = found == object.end() ? nullptr : found->second.as_array();
  if (!digests || names == nullptr || names->size() != digests->size()) return std::nullopt;
  std::vector<merkle::NamedDigest> out;
  for (std::size_t i = 0; i < names->size(); ++i) {
    const std::string* name = (*names)[i].as_string();
    if (name == nullptr) return std::nullopt;
    out.push_back({*name, (*digests)[i]});
  }
  return out;
}

/// Writes without syncing: the bytes' digest is checked whenever they are read.
Status write_bytes(const std::string& path, std::span<const ByteView> parts) {
  std::vector<std::string_view> texts;
  for (const ByteView part : parts) texts.push_back(as_text(part));
  return write_scratch(path, texts);
}

std::string step_file(std::int64_t step) { return fmt::format("step-{}.json", step); }
std::string state_file(std::int64_t step) { return fmt::format("{}{}", kStatePrefix, step); }
std::string value_file(std::int64_t step, kernels::ValueIndex value) {
  return fmt::format("value-{}-{}", step, value);
}

}  // namespace

Status refuse_link(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_symlink(folder, ignored)) return {};
  return Error{ErrorCode::kCannotCreate, folder + ": is a symbolic link, not a folder of notes",
               "remove it unless you know why it is there"};
}

Result<json::Object> DisputeNotes::read_own(const std::string& name) const {
  DGX_TRY(const std::string text, read_file(at(name), kMostBytes));
  DGX_TRY(const std::string_view line, keys_.open(text));
  DGX_TRY(const json::Value value, json::parse(line, {kMostBytes}));
  const json::Object* const object = value.as_object();
  if (object == nullptr) return malformed("is not an object");
  const auto has = [&](const char* key, const json::Value& value) {
    const auto found = object->find(key);
    return found != object->end() && found->second == value;
  };
  if (!has("format", kFormat) || !has("name", name) || !has("of", identity_))
    return malformed("belongs to another replay");
  return *object;
}

std::optional<json::Object> DisputeNotes::read(const std::string& name) const {
  if (!exists(at(name))) return std::nullopt;
  auto object = read_own(name);
  if (object.ok()) return *std::move(object);
  progress_.warning(fmt::format("{}: is ignored: {}", at(name), object.error().message));
  return std::nullopt;
}

/// The line contains the note's name, so that a renamed note is not taken for another.
Status DisputeNotes::write(const std::string& name, json::Object object) const {
  DGX_CHECK(make_folders());
  object.emplace("format", kFormat);
  object.emplace("name", name);
  object.emplace("of", identity_);
  return write_file(at(name), keys_.seal(json::Value(std::move(object)).dump()), Clobber::kReplace);
}

Status DisputeNotes::make_folders() const {
  DGX_CHECK(refuse_link(std::filesystem::path(folder_).parent_path().string()));
  DGX_CHECK(refuse_link(folder_));
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return Error{ErrorCode::kCannotCreate, folder_ + ": " + error.message(), {}};
  return {};
}

std::optional<SegmentNotes> DisputeNotes::segment() const {
  const auto object = read("segment.json");
  if (!object) return std::nullopt;
  auto states = digests_in(*object, "states");
  if (!states || states->empty()) return std::nullopt;
  SegmentNotes out{*std::move(states), std::nullopt};
  const auto broken = object->find("broken");
  if (broken != object->end() && broken->second.as_int() != nullptr) out.broken = *broken->second.as_int();
  return out;
}

std::optional<StepNotes> DisputeNotes::step(std::int64_t step) const {
  const auto object = read(step_file(step));
  if (!object) return std::nullopt;
  auto before = entries_in(*object, "before");
  auto after = entries_in(*object, "after");
  auto values = digests_in(*object, "values");
  if (!before || !after || !values) return std::nullopt;
  return StepNotes{*std::move(before), *std::move(values), *std::move(after)};
}

std::vector<std::int64_t> DisputeNotes::states() const {
  std::vector<std::int64_t> out;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with(kStatePrefix)) continue;
    std::int64_t step = 0;
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + kStatePrefix.size(), end, step);
    if (parsed.ec == std::errc() && parsed.ptr == end) out.push_back(step);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<State> DisputeNotes::state(const program::Program& program, std::int64_t step,
                                         const Digest& digest) const {
  if (!exists(at(state_file(step)))) return std::nullopt;
  State out;
  std::size_t size = 0;
  for (const kernels::ValueIndex input : program::state_inputs(program)) {
    const kernels::Primitive& line = program.values[input];
    size += out.emplace_back(Entry{line.source.name, Tensor(line.dtype, line.shape)}).tensor.bytes().size();
  }
  const auto text = read_file(at(state_file(step)), size);
  if (!text.ok() || text->size() != size) return std::nullopt;
  ByteView rest = as_bytes(*text);
  for (Entry& entry : out) {
    const auto bytes = entry.tensor.bytes();
    std::copy_n(rest.begin(), bytes.size(), bytes.begin());
    rest = rest.subspan(bytes.size());
  }
  const auto digests = merkle::state_digests(out);
  if (!digests.ok() || digests->state != digest) return std::nullopt;
  return out;
}

std::optional<Tensor> DisputeNotes::value(const program::Program& program, std::int64_t step,
                                          kernels::ValueIndex value, const Digest& digest) const {
  if (!exists(at(value_file(step, value)))) return std::nullopt;
  const kernels::Primitive& line = program.values[value];
  Tensor out(line.dtype, line.shape);
  const auto text = read_file(at(value_file(step, value)), out.bytes().size());
  if (!text.ok() || text->size() != out.bytes().size()) return std::nullopt;
  std::copy_n(as_bytes(*text).begin(), text->size(), out.bytes().begin());
  if (merkle::tensor_digest(out.view()) != digest) return std::nullopt;
  return out;
}

Status DisputeNotes::keep(const SegmentNotes& notes) const {
  json::Object object{{"states", base64_of(notes.states)}};
  if (notes.broken) object.emplace("broken", *notes.broken);
  return write("segment.json", std::move(object));
}

Status DisputeNotes::keep(std::int64_t step, const StepNotes& notes) const {
  json::Object object{{"values", base64_of(notes.values)}};
  put_entries(object, "before", notes.before);
  put_entries(object, "after", notes.after);
  return write(step_file(step), std::move(object));
}

Status DisputeNotes::keep(std::int64_t step, const State& state) const {
  DGX_CHECK(make_folders());
  std::vector<ByteView> parts;
  for (const Entry& entry : state) parts.push_back(entry.tensor.bytes());
  return write_bytes(at(state_file(step)), parts);
}

Status DisputeNotes::keep(std::int64_t step, kernels::ValueIndex value, const Tensor& tensor) const {
  DGX_CHECK(make_folders());
  const ByteView bytes = tensor.bytes();
  return write_bytes(at(value_file(step, value)), {&bytes, 1});
}

}  // namespace dgx::jobs
