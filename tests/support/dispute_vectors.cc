#include "dispute_vectors.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "dgx/core/bytes.h"

namespace dgx::test {
namespace {

const json::Value& member(const json::Value& value, std::string_view key) {
  return value.as_object()->find(key)->second;
}

std::string envelope_of(const json::Value& line) {
  if (const std::string* text = line.as_string()) return *text + "\n";
  const json::Array signatures{json::Object{{"keyid", member(line, "keyid")}, {"sig", member(line, "sig")}}};
  const std::string payload = member(line, "statement").dump();
  return json::Value(json::Object{{"payload", to_base64(as_bytes(payload))},
                                  {"payloadType", "application/vnd.in-toto+json"},
                                  {"signatures", signatures}})
             .dump() +
         "\n";
}

}  // namespace

std::vector<DisputeVector> dispute_vectors(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  std::string json = text.str();
  constexpr std::string_view kOpen = "\"ruling\":null";  // our JSON reader has no null
  for (std::size_t at = 0; (at = json.find(kOpen, at)) != std::string::npos;)
    json.replace(at, kOpen.size(), "\"ruling\":true");
  const auto file = json::parse(json, {std::size_t{16} << 20, 32});
  if (!file.ok()) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), file.error().message.c_str());
    std::abort();
  }
  std::vector<std::string> lines;
  for (const json::Value& line : *member(*file, "lines").as_array()) lines.push_back(envelope_of(line));
  std::vector<DisputeVector> out;
  for (const json::Value& value : *member(*file, "cases").as_array()) {
    DisputeVector vector;
    vector.name = *member(value, "name").as_string();
    for (const json::Value& line : *member(value, "lines").as_array())
      vector.transcript += lines[static_cast<std::size_t>(*line.as_int())];
    const json::Value& ruling = member(value, "ruling");
    vector.refused = ruling.as_string() != nullptr;
    if (const json::Object* object = ruling.as_object()) vector.ruling = *object;
    out.push_back(std::move(vector));
  }
  return out;
}

}  // namespace dgx::test
