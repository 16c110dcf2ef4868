#include "compiler.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "block.h"
#include "dgx/core/files.h"

namespace dgx::kernels::cuda::emulated {
namespace {

const Host host{&place, &barrier};

/// A folder that goes when it does; what is open of it stays.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "dgx-generated-XXXXXX").string()) { made_ = ::mkdtemp(path_.data()) != nullptr; }
  ~Folder() {
    std::error_code ignored;
    if (made_) std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  [[nodiscard]] bool made() const { return made_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  bool made_ = false;
};

Result<void*> compile(const std::string& text) {
  const Folder folder;
  if (!folder.made()) return internal_error("no folder for generated kernels could be made");
  const std::string source = folder.file("kernels.cc"), library = folder.file("kernels.so"), log = folder.file("log");
  DGX_CHECK(write_file(source, text, Clobber::kReplace));
  const std::string command = "cd " + folder.file("") + " && " DGX_HOST_COMPILER " -shared kernels.cc -o kernels.so >log 2>&1";
  if (std::system(command.c_str()) != 0) {
    const auto said = read_file(log, 1 << 16);
    return internal_error("a generated kernel was refused: " + (said.ok() ? *said : said.error().message).substr(0, 2000));
  }
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return internal_error(::dlerror());
  return handle;
}

}  // namespace

Result<std::vector<GeneratedFunction>> compile_library(const std::string& text, std::int32_t count) {
  static std::map<std::string, void*> opened;
  auto found = opened.find(text);
  if (found == opened.end()) {
    DGX_TRY(void* const library, compile(text));
    found = opened.emplace(text, library).first;
  }
  const auto meet = reinterpret_cast<MeetFunction>(::dlsym(found->second, kMeetSymbol));
  if (meet == nullptr) return internal_error("a library of generated kernels has no " + std::string(kMeetSymbol));
  meet(&host);
  std::vector<GeneratedFunction> out;
  for (std::int32_t n = 0; n < count; ++n) {
    const std::string name = "k" + std::to_string(n);
    out.push_back(reinterpret_cast<GeneratedFunction>(::dlsym(found->second, name.c_str())));
    if (out.back() == nullptr) return internal_error("a library of generated kernels has no " + name);
  }
  return out;
}

}  // namespace dgx::kernels::cuda::emulated
