#include "compiler.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "block.h"
#include "dgx/core/files.h"
#ifdef DGX_TRANSLATED_KERNELS
#include "nvrtc.h"
#endif

namespace dgx::kernels::cuda::emulated {
namespace {

const Host host{&place, &barrier};

/// A temporary folder that is removed with this object; files of it that are open stay usable.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "dgx-generated-XXXXXX").string()) {
    made_ = ::mkdtemp(path_.data()) != nullptr;
  }
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

Status run(const Folder& folder, const std::string& command) {
  if (std::system(("cd " + folder.file("") + " && " + command + " >log 2>&1").c_str()) == 0) return {};
  const auto said = read_file(folder.file("log"), 1 << 16);
  return internal_error("a generated kernel was refused: " +
                        (said.ok() ? *said : said.error().message).substr(0, 2000));
}

/// Writes kernels.cc.
Status write_source(const Folder& folder, const std::string& text) {
#ifdef DGX_TRANSLATED_KERNELS
  DGX_TRY(const auto nvrtc, Nvrtc::open());
  DGX_TRY(const std::string ptx, nvrtc->translate(text, 90));
  DGX_CHECK(write_file(folder.file("kernels.ptx"), ptx.substr(0, ptx.find('\0')), Clobber::kReplace));
  return run(folder, DGX_TRANSLATE " kernels.ptx kernels.cc");
#else
  return write_file(folder.file("kernels.cc"), text, Clobber::kReplace);
#endif
}

Result<void*> compile(const std::string& text) {
  const Folder folder;
  if (!folder.made()) return internal_error("no folder for generated kernels could be made");
  DGX_CHECK(write_source(folder, text));
  DGX_CHECK(run(folder, DGX_HOST_COMPILER " -shared kernels.cc -o kernels.so"));
  void* const handle = ::dlopen(folder.file("kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return internal_error(::dlerror());
  return handle;
}

}  // namespace

Status check_compiler() {
#ifdef DGX_TRANSLATED_KERNELS
  DGX_CHECK(Nvrtc::open());
#endif
  return {};
}

Result<std::vector<GeneratedFunction>> compile_library(const std::string& text, std::int32_t count) {
  static std::map<std::string, void*> opened;
  auto found = opened.find(text);
  if (found == opened.end()) {
    DGX_TRY(void* const library, compile(text));
    found = opened.emplace(text, library).first;
  }
  const auto meet = reinterpret_cast<MeetFunction>(::dlsym(found->second, kMeetSymbol));
  if (meet == nullptr)
    return internal_error("a library of generated kernels has no " + std::string(kMeetSymbol));
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
