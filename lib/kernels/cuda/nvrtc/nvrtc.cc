#include "nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

namespace dgx::kernels::cuda {
namespace {

constexpr const char* kLibrary = "libnvrtc.so.13";

// As NVIDIA's nvrtc.h declares them; libraries with this version in their name keep them.
using Program = void*;
using Code = int;  // 0 is success

template <class T>
bool find(void* library, const char* name, T& function) {
  function = reinterpret_cast<T>(::dlsym(library, name));
  return function != nullptr;
}

void* open_library(std::string& said) {
  std::vector<std::string> names;
  if (const char* const given = std::getenv("DGX_NVRTC"); given != nullptr && *given != '\0') {
    names = {given};
  } else {
    const std::string toolkit = "/usr/local/cuda/";
    names = {kLibrary, toolkit + "lib64/" + kLibrary, toolkit + "lib/" + kLibrary,
             toolkit + "targets/x86_64-linux/lib/" + kLibrary};
  }
  for (const std::string& name : names) {
    if (void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr)
      return library;
    if (said.empty()) said = ::dlerror();
  }
  return nullptr;
}

Error unusable(const std::string& why) {
  return internal_error("--device cuda: it needs NVRTC, NVIDIA's compiler library: " + why,
                        "install it (cuda-nvrtc-13-0 of NVIDIA's packages, nvidia-cuda-nvrtc of PyPI), name "
                        "the file in DGX_NVRTC, or use --device cpu");
}

/// The first lines of a compiler's log.
std::string beginning_of(const std::string& log) {
  std::size_t end = 0;
  for (int lines = 0; lines < 8 && end < log.size(); ++lines)
    end = std::min(log.find('\n', end), log.size() - 1) + 1;
  return log.substr(0, end);
}

}  // namespace

struct Nvrtc::Functions {
  Code (*supported_count)(int*) = nullptr;
  Code (*supported)(int*) = nullptr;
  Code (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  Code (*destroy)(Program*) = nullptr;
  Code (*compile)(Program, int, const char* const*) = nullptr;
  Code (*cubin_size)(Program, std::size_t*) = nullptr;
  Code (*cubin)(Program, char*) = nullptr;
  Code (*ptx_size)(Program, std::size_t*) = nullptr;
  Code (*ptx)(Program, char*) = nullptr;
  Code (*log_size)(Program, std::size_t*) = nullptr;
  Code (*log)(Program, char*) = nullptr;
  const char* (*error_text)(Code) = nullptr;

  [[nodiscard]] bool find_all(void* library) {
    return find(library, "nvrtcGetNumSupportedArchs", supported_count) &&
           find(library, "nvrtcGetSupportedArchs", supported) &&
           find(library, "nvrtcCreateProgram", create) && find(library, "nvrtcDestroyProgram", destroy) &&
           find(library, "nvrtcCompileProgram", compile) && find(library, "nvrtcGetCUBINSize", cubin_size) &&
           find(library, "nvrtcGetCUBIN", cubin) && find(library, "nvrtcGetPTXSize", ptx_size) &&
           find(library, "nvrtcGetPTX", ptx) && find(library, "nvrtcGetProgramLogSize", log_size) &&
           find(library, "nvrtcGetProgramLog", log) && find(library, "nvrtcGetErrorString", error_text);
  }

  /// The text that a pair of functions gives, one for its size and one for the text.
  static std::string text_of(Program program, Code (*size_of)(Program, std::size_t*),
                             Code (*get)(Program, char*)) {
    std::size_t size = 0;
    if (size_of(program, &size) != 0 || size == 0) return {};
    std::string text(size, '\0');
    if (get(program, text.data()) != 0) return {};
    return text;
  }
};

Nvrtc::Nvrtc(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}
Nvrtc::~Nvrtc() = default;

Result<std::unique_ptr<Nvrtc>> Nvrtc::open() {
  std::string said;
  void* const library = open_library(said);  // stays open as long as the process lives
  if (library == nullptr) return unusable(said);
  auto functions = std::make_unique<Functions>();
  if (!functions->find_all(library)) return unusable(std::string(kLibrary) + " lacks a function");
  int count = 0;
  if (functions->supported_count(&count) != 0 || count < 1)
    return unusable(std::string(kLibrary) + " knows no architecture");
  std::unique_ptr<Nvrtc> out(new Nvrtc(std::move(functions)));
  out->architectures_.resize(static_cast<std::size_t>(count));
  if (out->functions_->supported(out->architectures_.data()) != 0)
    return unusable(std::string(kLibrary) + " knows no architecture");
  return out;
}

Result<std::string> Nvrtc::compile(const std::string& source, int architecture) const {
  const bool knows =
      std::find(architectures_.begin(), architectures_.end(), architecture) != architectures_.end();
  if (knows) return make(source, "sm_" + std::to_string(architecture), false);
  int best = architectures_.front();  // the newest that is not newer than `architecture`
  for (const int known : architectures_) best = known <= architecture ? std::max(best, known) : best;
  return translate(source, best);
}

Result<std::string> Nvrtc::translate(const std::string& source, int architecture) const {
  return make(source, "compute_" + std::to_string(architecture), true);
}

Result<std::string> Nvrtc::make(const std::string& source, const std::string& architecture,
                                bool is_ptx) const {
  std::vector<const char*> names, texts;
  for (const EmbeddedHeader& header : embedded_headers()) {
    names.push_back(header.name);
    texts.push_back(header.text);
  }
  Program program = nullptr;
  const Code created = functions_->create(&program, source.c_str(), "generated.cu",
                                          static_cast<int>(names.size()), texts.data(), names.data());
  if (created != 0) return internal_error(std::string("NVRTC: ") + functions_->error_text(created));
  const std::string target = "--gpu-architecture=" + architecture;
  // --fmad=false: a fused multiply-add happens only where it is written.
  const std::vector<const char*> options = {target.c_str(), "--std=c++20", "--fmad=false", "--device-int128",
                                            "--no-source-include"};
  const Code compiled = functions_->compile(program, static_cast<int>(options.size()), options.data());
  Result<std::string> out = internal_error("");
  if (compiled != 0) {
    out = internal_error(std::string("NVRTC: ") + functions_->error_text(compiled) + ": " +
                             beginning_of(Functions::text_of(program, functions_->log_size, functions_->log)),
                         "try another version (DGX_NVRTC), or use --device cpu");
  } else if (is_ptx) {
    out = Functions::text_of(program, functions_->ptx_size, functions_->ptx);
  } else {
    out = Functions::text_of(program, functions_->cubin_size, functions_->cubin);
  }
  static_cast<void>(functions_->destroy(&program));
  return out;
}

}  // namespace dgx::kernels::cuda
