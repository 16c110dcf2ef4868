#include "dgx/core/files.h"
#include "dgx/program/model_archive.h"

namespace dgx::program {

ModelFile model_file(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (exists(text) || colon == std::string::npos || !exists(text.substr(0, colon))) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

}  // namespace dgx::program
