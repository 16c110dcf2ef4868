#include "dgx/manifest/file_kind.h"

#include <catch2/catch.hpp>

#include "dgx/manifest/statement.h"
#include "statements.h"

namespace dgx::manifest {
namespace {

std::string words_of(std::string_view content) { return recognise(content).words(); }

}  // namespace

TEST_CASE("a file's kind is told by its content") {
  const std::string task = seal_any(test::bodies().front(), test::key(1))->envelope;
  CHECK(words_of(task + "\n") == "a task statement");
  CHECK(words_of(task + "\n" + task + "\n") == "a file of several statements");
  CHECK(words_of("{\"k\":\"input\",\"v\":0}\n{") == "a step program");
  CHECK(words_of("{\"drawn\":[]}\n") == "a shard");
  CHECK(words_of("{\"agrees\":true,\"expected\":\"\"}\n") == "a verdict's rows");
  CHECK(words_of("{\n \"sample_ppm\": 1\n}") == "a policy");
  CHECK(words_of("-----BEGIN PUBLIC KEY-----\n") == "a public key");
  CHECK(words_of("-----BEGIN DGX ENCRYPTED PRIVATE KEY-----\n") == "a private key");
  CHECK(words_of("\x89HDF\r\n\x1a\n") == "an HDF5 bundle");
  CHECK(words_of({"\x10\0\0\0\0\0\0\0{", 9}) == "a safetensors file");
  CHECK(words_of("PK\x03\x04") == "a ZIP archive");
  CHECK(words_of("PK\x05\x06") == "an NPZ archive");
  const std::string header = "PK\x03\x04" + std::string(22, '\0') + std::string("\x05\0\0\0", 4);
  CHECK(words_of(header + "a.npy") == "an NPZ archive");
  CHECK(words_of(header + "a.npx") == "a ZIP archive");
  CHECK(words_of(header + "a.np") == "a ZIP archive");
  CHECK(words_of("\x08\x08\x12\x07pytorch") == "an ONNX model");
  CHECK(words_of("\x80\x02}q") == "a pickle");
}

TEST_CASE("what is nearly a file of ours is none") {
  for (const char* text :
       {"", "\n", "{}", "[]", "{\"k\":1}", "{\"sample_ppm\":1,\"other\":2}", "x", "{\"a\":1}{{{{"}) {
    CAPTURE(text);
    CHECK(recognise(text).kind == FileKind::kOther);
  }
  const Recognised forged = recognise("{\"payload\":1,\"signatures\":2}");
  CHECK(forged.kind == FileKind::kStatement);
  CHECK_FALSE(forged.statement.has_value());
  CHECK(forged.words() == "an unknown statement");
}

TEST_CASE("every kind of statement is recognised by what it claims to be") {
  for (const Body& body : test::bodies()) {
    const auto sealed = seal_any(body, test::key(1));
    REQUIRE(sealed.ok());
    CHECK(recognise(sealed->envelope).statement == kind_of(body));
  }
}

}  // namespace dgx::manifest
