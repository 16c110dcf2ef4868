// The program driven by tests/interop/h5py_bundle.py: writes bundles of known content, and reads given ones.
//
//   bundle_tool write FOLDER           state.h5, data.h5, sample.h5, trace.h5, plain ones of both, and run/
//   bundle_tool read KIND FILE         exit 0, or the error's code with its message on stderr
//   bundle_tool open dataset FILE      the same, reading its rows one by one
//   bundle_tool hdf5 FILE PATH         dtype, shape and tensor digest of a dataset in a foreign file

#include <cstdio>
#include <string>

#include "dgx/bundle/dataset.h"
#include "dgx/bundle/opened.h"
#include "dgx/bundle/run.h"
#include "dgx/bundle/sample.h"
#include "dgx/bundle/sources.h"
#include "dgx/bundle/state.h"
#include "dgx/bundle/trace.h"
#include "dgx/core/files.h"
#include "dgx/merkle/digests.h"

namespace dgx::bundle {
namespace {

/// A tensor whose element i is i modulo 251, times 0.25 for floats.
Tensor counting(DType dtype, Shape shape) {
  Tensor tensor(dtype, std::move(shape));
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t value = i % 251;
    if (dtype == DType::kF32) tensor.as<float>()[at] = static_cast<float>(value) * 0.25F;
    if (dtype == DType::kI64) tensor.as<std::int64_t>()[at] = value;
    if (dtype == DType::kU8) tensor.bytes()[at] = static_cast<std::uint8_t>(value);
  }
  return tensor;
}

State known_state() {
  State state;
  state.push_back({"loss", counting(DType::kF32, {})});
  state.push_back({"model/bias", counting(DType::kF32, {10})});
  state.push_back({"model/empty", counting(DType::kF32, {0, 3})});
  state.push_back({"model/weight", counting(DType::kF32, {70001, 5})});
  state.push_back({"step", counting(DType::kI64, {})});
  return state;
}

Status write_all(const std::string& folder) {
  const State state = known_state();
  DGX_TRY(const StateDigests digests, digests_of(state));
  DGX_CHECK(write_state(folder + "/state.h5", state, digests, Clobber::kReplace));
  DGX_CHECK(write_state(folder + "/plain.h5", state, digests, Clobber::kReplace, {}, Storage::kPlain));
  DGX_TRY(const Dataset data,
          make_dataset(counting(DType::kU8, {3000, 28, 28}), counting(DType::kI64, {3000})));
  DGX_TRY(const Digest digest, write_dataset(folder + "/data.h5", data, Clobber::kReplace));
  DGX_TRY([[maybe_unused]] const Digest same,
          write_dataset(folder + "/data.plain.h5", data, Clobber::kReplace, {}, Storage::kPlain));
  DGX_TRY(SampleWriter sample,
          SampleWriter::create(folder + "/sample.h5", {digest, digest, 9}, Clobber::kReplace));
  DGX_CHECK(sample.add({4, digests.state, {digest, digest}}, state, digests));
  DGX_CHECK(sample.commit());
  DGX_CHECK(write_trace(folder + "/trace.h5", {digest, 1, 0, {digest, digest}, {}, {}}, Clobber::kReplace));
  DGX_TRY(const RunWriter run,
          RunWriter::create(folder + "/run", {digest, digest, 5, ""}, {}, state, digests));
  return {};
}

Status read(const std::string& kind, const std::string& path) {
  if (kind == "state") {
    DGX_TRY(const auto state, read_state(path, Check::kDigests, {2, 1 << 28}));
  } else if (kind == "dataset") {
    DGX_TRY(const auto data, read_dataset(path, Check::kDigests, {2, 1 << 28}));
  } else if (kind == "sample") {
    DGX_TRY(const auto sample, SampleReader::open(path));
    for (std::size_t i = 0; i < sample.segments().size(); ++i) {
      DGX_TRY(const auto start, sample.start(i));
    }
  } else if (kind == "trace") {
    DGX_TRY(const auto trace, read_trace(path));
  } else {
    DGX_TRY(const auto run, RunReader::open(path));
  }
  return {};
}

Status open_rows(const std::string& path) {
  DGX_TRY(const auto data, OpenedDataset::open(path, {.cache_from = kMaxTensorBytes}));
  for (const auto& [name, rows] : data.rows()) {
    Tensor row(rows.dtype(), Shape(rows.shape().begin() + 1, rows.shape().end()));
    for (std::int64_t i = 0; i < rows.shape()[0]; ++i) DGX_CHECK(rows.copy(i, row.bytes()));
  }
  return {};
}

Status show_hdf5(const std::string& file, const std::string& path) {
  DGX_TRY(const BulkTensor tensor, read_hdf5(file, path));
  std::printf("%s %s %s\n", std::string(name_of(tensor.dtype())).c_str(), to_string(tensor.shape()).c_str(),
              merkle::tensor_digest(tensor.view()).hex().c_str());
  return {};
}

int report(const Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return dgx::exit_code(status.error().code);
}

}  // namespace
}  // namespace dgx::bundle

int main(int argc, char** argv) {
  using namespace dgx::bundle;
  const std::string command = argc > 2 ? argv[1] : "";
  if (command == "write" && argc == 3) return report(write_all(argv[2]));
  if (command == "read" && argc == 4) return report(read(argv[2], argv[3]));
  if (command == "open" && argc == 4) return report(open_rows(argv[3]));
  if (command == "hdf5" && argc == 4) return report(show_hdf5(argv[2], argv[3]));
  return 2;
}
