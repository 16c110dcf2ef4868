#include "pem.h"

#include <fmt/format.h>

#include <algorithm>

namespace dgx::crypto {
namespace {

constexpr std::string_view kBegin = "-----BEGIN ";
constexpr std::string_view kDashes = "-----";

bool of_label(char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == ' '; }

}  // namespace

std::string to_pem(std::string_view label, ByteView content) {
  constexpr std::size_t kLine = 64;
  std::string digits = to_base64(content);
  std::string out = fmt::format("-----BEGIN {}-----\n", label);
  // Reserved at once, so that growing leaves no copy of a secret behind.
  out.reserve(out.size() * 2 + digits.size() + digits.size() / kLine + 2);
  for (std::size_t i = 0; i < digits.size(); i += kLine) out.append(digits, i, kLine).push_back('\n');
  erase(digits);
  return out.append("-----END ").append(label).append("-----\n");
}

std::string_view pem_label(std::string_view text) {
  constexpr std::size_t kMaxLabel = 64;
  if (!text.starts_with(kBegin)) return {};
  text.remove_prefix(kBegin.size());
  const auto end =
      static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), of_label) - text.begin());
  const bool is_label = end <= kMaxLabel && text.substr(end).starts_with(kDashes);
  return is_label ? text.substr(0, end) : std::string_view();
}

Result<SecretBytes> from_pem(std::string_view text, std::string_view label) {
  const std::string begin = fmt::format("-----BEGIN {}-----", label);
  const std::string end = fmt::format("-----END {}-----", label);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (!text.starts_with(begin) || !text.ends_with(end) || text.size() < begin.size() + end.size()) {
    return malformed(fmt::format("not a PEM file with one {} block", label));
  }
  text = text.substr(begin.size(), text.size() - begin.size() - end.size());
  std::string digits;
  digits.reserve(text.size());
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits),
               [](char c) { return c != '\n' && c != '\r'; });
  auto content = from_base64(digits);
  erase(digits);
  if (!content.ok()) return within(fmt::format("{} block", label), std::move(content).error());
  return SecretBytes(std::move(content).value());
}

}  // namespace dgx::crypto
