#include "dgx/core/remote.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace dgx {
namespace {

/// A file of no bytes.
class Nothing final : public RemoteFile {
 public:
  [[nodiscard]] std::uint64_t size_bytes() const override { return 0; }
  [[nodiscard]] Status read(std::uint64_t, std::span<std::uint8_t>) override { return {}; }
  void expect(std::uint64_t, std::uint64_t) override {}
};

}  // namespace

TEST_CASE("a URL of the one form is taken apart") {
  const auto plain = parse_url("HTTP://LocalHost:80/a/b-c_d.h5");
  REQUIRE(plain.ok());
  CHECK((plain->origin == "http://localhost" && plain->path == "/a/b-c_d.h5"));
  CHECK((plain->loopback && !plain->secure));
  const auto secure = parse_url("https://data.example:8443/run%20one/");
  REQUIRE(secure.ok());
  CHECK((secure->origin == "https://data.example:8443" && secure->path == "/run%20one/"));
  CHECK((!secure->loopback && secure->secure));
  CHECK(parse_url("https://a:443/x")->origin == "https://a");
  CHECK(parse_url("https://[2001:db8::1]:80/x")->origin == "https://[2001:db8::1]:80");
  for (const char* here : {"http://127.0.0.1/x", "http://127.255.0.1:8000/x", "http://[::1]:8000/x"})
    CHECK(parse_url(here)->loopback);
  // Hosts that a resolver may take for this machine.
  for (const char* elsewhere : {"http://127.1/x", "http://0x7f000001/x", "http://2130706433/x", "http://0/x",
                                "http://localhost.example/x", "http://127.0.0.1.example/x", "http://[::2]/x"})
    CHECK_FALSE(parse_url(elsewhere)->loopback);
}

TEST_CASE("URLs of any other form are refused, and no error quotes one") {
  const std::vector<std::string> bad{"ftp://a/x",
                                     "https:/a/x",
                                     "https://",
                                     "https:///x",
                                     "https://a",
                                     "https://a:/x",
                                     "https://a:0/x",
                                     "https://a:65536/x",
                                     "https://a:8a/x",
                                     "https://a:-1/x",
                                     "https://a b/x",
                                     "https://a/x y",
                                     "https://a/\tx",
                                     "https://secret@a/x",
                                     "https://me:secret@a/x",
                                     "https://a:80@secret/x",
                                     "https://a/x?secret",
                                     "https://a/x#secret",
                                     "https://a/../x",
                                     "https://a/b/..",
                                     "https://a/./x",
                                     "https://a//x",
                                     "https://a/%2e%2E/x",
                                     "https://a/.%2e/x",
                                     "https://a/b%2fx",
                                     "https://a/b%5Cx",
                                     "https://a/x%00",
                                     "https://a\\b/x",
                                     "https://a/\\x",
                                     "https://[::1/x",
                                     "https://[a]/x",
                                     std::string("https://[::1\0\\ \n]/x", 19),
                                     "https://-a/x",
                                     "https://.a/x",
                                     "https://a_b/x",
                                     "https://a/\x7f",
                                     "https://a/" + std::string(2048, 'x')};
  for (const std::string& url : bad) {
    CAPTURE(url);
    const auto parsed = parse_url(url);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.error().code == ErrorCode::kUsage);
    CHECK_THAT(parsed.error().message + parsed.error().hint, !Catch::Contains("secret"));
  }
  CHECK(is_url("Https://x"));
  for (const char* path : {"", "http:", "https:/x", "./http://x", "file:///x", "data.h5"})
    CHECK_FALSE(is_url(path));
}

TEST_CASE("only URLs that were allowed are opened, and of a folder the files that lie in it") {
  std::vector<std::string> opened;
  const auto open = [&](const std::string& url) {
    opened.push_back(url);
    return Result<std::unique_ptr<RemoteFile>>(std::make_unique<Nothing>());
  };
  CHECK(open_remote("https://one/data.h5").error().code == ErrorCode::kUsage);
  allow_remote("https://one/data.h5", open);
  allow_remote("https://one/run/", open);
  CHECK(open_remote("https://one/data.h5").ok());
  CHECK(open_remote("https://one/run/index.h5").ok());
  CHECK(open_remote("https://one/run/checkpoint-0000000010-0123456789ab.h5").ok());
  for (const char* other :
       {"https://one/data.h5/", "https://one/data", "https://one/other.h5", "https://one/run",
        "https://one/run/a/b", "https://one/run/..", "https://one/run/.lock", "https://one/run/%2e%2e",
        "https://one/run/a?b", "https://one/run/a b", "http://one/data.h5", "https://two/data.h5"}) {
    CAPTURE(other);
    CHECK_FALSE(open_remote(other).ok());
  }
  CHECK(opened.size() == 3);
}

}  // namespace dgx
