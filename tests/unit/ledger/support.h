#pragma once

#include <filesystem>
#include <string>

#include "dgx/core/files.h"
#include "dgx/ledger/ledger.h"
#include "statements.h"

/// Folders and statements that the tests of ledgers share.
namespace dgx::test {

inline constexpr std::uint8_t kOperator = 1;

/// A temporary folder, removed at the end.
struct LedgerFolder {
  LedgerFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "dgx-ledger-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~LedgerFolder() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string file() const { return path + "/L.jsonl"; }
  std::string path;
};

inline manifest::Signed<manifest::Body> numbered_deposit(int number) {
  return *manifest::seal_any(
      manifest::Deposit{key_id(7), 10, "payment " + std::to_string(number), ledger_id()}, key(kOperator));
}

inline std::string content(const std::string& path) { return *dgx::read_file(path, 1 << 24); }

}  // namespace dgx::test
