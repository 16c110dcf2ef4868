// HDF5 files of others, opened by the HDF5 library in a separate process: whatever happens there, the result
// is a tensor or an error.

#include "containers.h"

#include "dgx/bundle/sources.h"
#include "scratch.h"
#include "target.h"

using namespace dgx;

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> out;
  for (const test::Format format : {test::Format::kOldest, test::Format::kBundle}) {
    for (const test::Trick trick : test::all_tricks()) {
      test::write_container(fuzz::scratch() / "trick", trick, format);
      out.push_back(Scratch::read(fuzz::scratch() / "trick"));
    }
  }
  return out;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = fuzz::scratch().write("x.h5", fuzz::text_of(data, size));
  for (const char* name : {"x", "state/x"}) {
    const auto tensor = bundle::read_hdf5(path, name);
    if (!tensor.ok()) continue;
    fuzz::require(*element_count(tensor->shape()) == tensor->count(), "a tensor has its shape's elements");
  }
  return 0;
}
