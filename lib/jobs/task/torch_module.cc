#include "task/torch_module.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "dgx/core/beside.h"

#if defined(__SANITIZE_ADDRESS__)
// At exit LeakSanitizer stops all threads and reads their thread-local storage, which crashes now and then
// while libtorch's threads end.
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() {
  return ::dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD) != nullptr ? 1 : 0;
}
#endif

namespace dgx::jobs {
namespace {

/// The hint for a module that does not open: it is missing, or its libtorch is.
std::string hint_for(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return "install dgx-torch, or build with -DDGX_TORCH=pypi or a libtorch folder, or set DGX_TORCH_MODULE";
  }
  return "libtorch is looked for in " + std::filesystem::path(path).replace_filename("torch").string() +
         ", a folder or a link to one (dgx(7), FILES)";
}

}  // namespace

Result<program::ModelReader*> open_torch_module() {
  static program::ModelReader* module = nullptr;
  if (module != nullptr) return module;
  const std::string path = beside_program("DGX_TORCH_MODULE", "lib/dgx/libdgx_torch.so");
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return internal_error(std::string("cannot open the torch module: ") + ::dlerror(), hint_for(path));
  }
  const auto make =
      reinterpret_cast<program::TorchModuleFunction>(::dlsym(handle, program::kTorchModuleSymbol));
  if (make == nullptr) {
    return internal_error(path + ": no " + program::kTorchModuleSymbol,
                          "it belongs to another version of dgx");
  }
  module = make();
  return module;
}

}  // namespace dgx::jobs
