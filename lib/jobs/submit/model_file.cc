#include "submit/model_file.h"

#include "dgx/core/files.h"
#include "dgx/manifest/file_kind.h"
#include "dgx/program/model_archive.h"

namespace dgx::jobs {
namespace {

constexpr const char* kExport =
    "torch.export.save(torch.export.export(model.train(), (x,)), \"net.pt2\") writes one";

}  // namespace

Status check_model_file(const std::string& model) {
  using manifest::FileKind;
  const std::string path = program::model_file(model).path;
  if (!exists(path)) return {};
  DGX_TRY(const std::string start, read_start(path, manifest::kMagicBytes));
  const manifest::Recognised found = manifest::recognise(start);
  switch (found.kind) {
    case FileKind::kZip: return {};
    case FileKind::kSafetensors:
      return malformed(path + ": is a safetensors file, which holds weights and no program",
                       "give it by --init, and by --model what computes with it");
    case FileKind::kOnnx:
      return malformed(path + ": is an ONNX model, which is made to compute and not to be trained",
                       "export the PyTorch model that it was made of: " + std::string(kExport));
    case FileKind::kPickle:
      return malformed(path + ": is a pickle, as torch.save wrote before torch 1.6, and holds no program",
                       kExport);
    case FileKind::kOther: return malformed(path + ": is no archive of torch.export or TorchScript", kExport);
    default: break;
  }
  return malformed(path + ": is " + found.words() + ", not a model", kExport);
}

std::string name_of_model_file(const std::string& model) {
  const program::ModelFile file = program::model_file(model);
  const std::string name = file.path.substr(file.path.rfind('/') + 1);
  return file.program.empty() ? name : name + ":" + file.program;
}

}  // namespace dgx::jobs
