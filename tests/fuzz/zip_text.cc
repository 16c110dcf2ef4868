#include "zip_text.h"

#include <zlib.h>

#include <charconv>
#include <cstdint>
#include <vector>

namespace dgx::fuzz {
namespace {

constexpr std::string_view kMember = "## ";
constexpr std::string_view kPatch = "!! ";
constexpr std::size_t kMostBytes = std::size_t{1} << 20;

struct Member {
  std::string name, local_name, bytes;
  std::uint64_t crc = 0, method = 0, flags = 0, stated = 0, at = 0;
  std::size_t offset = 0;
};
struct Patch {
  std::int64_t offset = 0, byte = 0;
};

/// The number at the start of a word; 0 if there is none.
std::int64_t number_of(std::string_view word) {
  std::int64_t out = 0;
  std::from_chars(word.data(), word.data() + word.size(), out);
  return out;
}

/// The next word of `text`, which loses it.
std::string_view take_word(std::string_view& text) {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  const std::size_t end = std::min(text.find(' ', begin), text.size());
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

/// The line at the start of `text`, which loses it.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

bool begins_item(std::string_view text) { return text.starts_with(kMember) || text.starts_with(kPatch); }

Member read_member(std::string_view line, std::string_view bytes, std::size_t index) {
  Member out;
  out.bytes = bytes;
  out.name = out.local_name = take_word(line);
  std::string_view options = line;
  for (std::string_view word = take_word(line); !word.empty(); word = take_word(line)) {
    if (word.starts_with("size="))
      out.bytes.resize(static_cast<std::uint64_t>(number_of(word.substr(5))) % kMostBytes);
  }
  out.crc = crc32_z(0, reinterpret_cast<const Bytef*>(out.bytes.data()), out.bytes.size());
  out.stated = out.bytes.size();
  out.at = index;
  for (std::string_view word = take_word(options); !word.empty(); word = take_word(options)) {
    const std::size_t equals = std::min(word.find('='), word.size() - 1);
    const std::string_view key = word.substr(0, equals), value = word.substr(equals + 1);
    const auto number = static_cast<std::uint64_t>(number_of(value));
    if (key == "crc") out.crc = number;
    if (key == "method") out.method = number;
    if (key == "flags") out.flags = number;
    if (key == "bytes") out.stated = number;
    if (key == "at") out.at = number;
    if (key == "local") out.local_name = value;
  }
  return out;
}

/// Appends `value` in so many bytes, the least significant first.
void append(std::string& out, std::uint64_t value, int bytes) {
  for (int n = 0; n < bytes; ++n, value >>= 8) out += static_cast<char>(value & 0xff);
}

/// Appends the fields that the header before a member and its entry in the directory have in common.
void append_description(std::string& out, const Member& member, const std::string& name) {
  append(out, member.flags, 2);
  append(out, member.method, 2);
  append(out, 0, 4);  // time and date
  append(out, member.crc, 4);
  append(out, member.stated, 4);
  append(out, member.stated, 4);
  append(out, name.size(), 2);
}

std::string pack(std::vector<Member>& members) {
  std::string out;
  for (Member& member : members) {
    member.offset = out.size();
    out += "PK\3\4";
    append(out, 20, 2);
    append_description(out, member, member.local_name);
    append(out, 0, 2);
    out += member.local_name + member.bytes;
  }
  const std::size_t directory = out.size();
  for (const Member& member : members) {
    out += "PK\1\2";
    append(out, 20, 2);
    append(out, 20, 2);
    append_description(out, member, member.name);
    append(out, 0, 12);
    append(out, members[member.at % members.size()].offset, 4);
    out += member.name;
  }
  const std::size_t directory_bytes = out.size() - directory;
  out += "PK\5\6";
  append(out, 0, 4);
  append(out, members.size(), 2);
  append(out, members.size(), 2);
  append(out, directory_bytes, 4);
  append(out, directory, 4);
  append(out, 0, 2);
  return out;
}

}  // namespace

std::string zip_of_text(std::string_view text) {
  if (!begins_item(text)) return std::string(text);
  std::vector<Member> members;
  std::vector<Patch> patches;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (line.starts_with(kPatch)) {
      line.remove_prefix(kPatch.size());
      const std::int64_t offset = number_of(take_word(line));
      patches.push_back({offset, number_of(take_word(line))});
      continue;
    }
    const char* const begin = text.data();
    while (!text.empty() && !begins_item(text)) take_line(text);
    std::string_view bytes(begin, static_cast<std::size_t>(text.data() - begin));
    if (bytes.ends_with('\n')) bytes.remove_suffix(1);
    line.remove_prefix(std::min(kMember.size(), line.size()));
    members.push_back(read_member(line, bytes, members.size()));
  }
  std::string out = pack(members);
  for (const Patch& patch : patches) {
    const auto size = static_cast<std::int64_t>(out.size());
    const std::int64_t at = patch.offset < 0 ? size + patch.offset : patch.offset;
    if (at >= 0 && at < size) out[static_cast<std::size_t>(at)] = static_cast<char>(patch.byte);
  }
  return out;
}

}  // namespace dgx::fuzz
