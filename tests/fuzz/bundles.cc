// Bundles of every kind. With digests checked, an accepted bundle is what was written: its recomputed digest
// is the one in the file. The structure is also read without comparing checksums, which an attacker would
// make right.

#include <algorithm>

#include "containers.h"
#include "dgx/bundle/dataset.h"
#include "dgx/bundle/opened.h"
#include "dgx/bundle/run.h"
#include "dgx/bundle/sample.h"
#include "dgx/bundle/state.h"
#include "dgx/bundle/trace.h"
#include "dgx/crypto/sha256.h"
#include "input_file.h"
#include "scratch.h"
#include "structure.h"
#include "target.h"

using namespace dgx;
using namespace dgx::bundle;

namespace {

/// Total size of the extents that a structure names.
std::uint64_t bytes_of(const Object& object) {
  std::uint64_t sum = 0;
  if (object.dataset) {
    for (const Extent& piece : object.dataset->pieces) sum += piece.size;
  }
  for (const auto& [name, child] : object.children) sum += bytes_of(child);
  return sum;
}

void read_unchecked(const std::string& path) {
  const auto file = InputFile::open(path);
  const auto root = read_structure(*file, Checksums::kIgnore);
  if (root.ok())
    fuzz::require(bytes_of(*root) < file->size_bytes(), "a file has all that its structure names");
}

/// One thread: starting a pool for every input would be most of the work. 16 MiB is far more than any seed
/// needs.
constexpr Effort kEffort{.threads = 1, .max_bytes = std::uint64_t{16} << 20};

Digest digest(std::string_view word) { return crypto::sha256(as_bytes(word)); }

State small_state(std::int64_t step) {
  State state;
  state.push_back({"loss", Tensor(DType::kF32, {})});
  state.push_back({"model/0.weight", Tensor(DType::kF32, {3, 5})});
  for (float& x : state[1].tensor.as<float>()) x = static_cast<float>(step) + 0.5F;
  state.push_back({"step", Tensor(DType::kI64, {})});
  state[2].tensor.as<std::int64_t>()[0] = step;
  return state;
}

void check_stored(const Result<StoredState>& stored) {
  if (!stored.ok()) return;
  const auto again = digests_of(stored->state, 1);
  fuzz::require(
      again.ok() && again->state == stored->digests.state && again->tensors == stored->digests.tensors,
      "a state read with its digests has them");
}

/// Reads the rows of an opened dataset: all of them, if it is a small one.
Status read_rows(const std::string& path) {
  DGX_TRY(const auto opened,
          OpenedDataset::open(path,
                              {.threads = 1, .max_bytes = kEffort.max_bytes, .cache_from = kMaxTensorBytes}));
  for (const auto& [name, rows] : opened.rows()) {
    const std::int64_t count = rows.shape()[0];
    DGX_TRY(const std::int64_t numbers, element_count(rows.shape()));
    if (numbers > 1 << 20) continue;
    Bytes row(static_cast<std::size_t>(numbers / count) * size_of(rows.dtype()));
    for (std::int64_t i = 0; i < count; ++i) DGX_CHECK(rows.copy(i, row));
  }
  return {};
}

void read_as_dataset(const std::string& path) {
  static_cast<void>(read_dataset_info(path));
  static_cast<void>(read_dataset(path, Check::kNothing, kEffort));
  const auto dataset = read_dataset(path, Check::kDigests, kEffort);
  const Status rows = read_rows(path);
  if (!dataset.ok()) return;
  fuzz::require(rows.ok(), "a dataset that can be read can be opened");
  const auto info = read_dataset_info(path);
  fuzz::require(info.ok() && *dataset_digest(*dataset) == info->digest, "a dataset has the digest it says");
}

void read_as_state(const std::string& path) {
  static_cast<void>(read_state(path, Check::kNothing, kEffort));
  check_stored(read_state(path, Check::kDigests, kEffort));
}

void read_as_run(const fuzz::Scratch& folder) {
  const auto run = RunReader::open(folder / "");
  if (!run.ok()) return;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(run->index().segments(), 3); ++i) {
    static_cast<void>(run->index().losses_of(i));
    check_stored(run->state(i, Check::kDigests, kEffort));
  }
}

void read_as_sample(const std::string& path) {
  const auto sample = SampleReader::open(path);
  if (!sample.ok()) return;
  for (std::size_t i = 0; i < std::min<std::size_t>(sample->segments().size(), 3); ++i) {
    static_cast<void>(sample->start(i, Check::kNothing, kEffort));
    check_stored(sample->start(i, Check::kDigests, kEffort));
  }
}

void write_seeds() {
  const auto path = [](const char* name) { return fuzz::scratch() / name; };
  const State start = small_state(0), end = small_state(4);
  const StateDigests start_digests = *digests_of(start, 1), end_digests = *digests_of(end, 1);
  Tensor x(DType::kU8, {4, 6}), y(DType::kI64, {4});
  const auto data = make_dataset(std::move(x), std::move(y), 0.5F);
  auto named = make_dataset(Tensor(DType::kF32, {4, 2}), Tensor(DType::kI64, {4}), 1, 0, {"cat", "dog"});
  named->channels = {{0.5F, -1}, {2, 0}};
  FieldNumbers fields;
  for (const char* name : {"x", "y", "mask", "a_2"}) fields.emplace(name, Tensor(DType::kU8, {4, 3}));
  const auto masked = make_dataset(std::move(fields));
  bool ok = write_dataset(path("dataset"), *data, Clobber::kReplace, kEffort).ok() &&
            write_dataset(path("named"), *named, Clobber::kReplace, kEffort).ok() &&
            write_dataset(path("masked"), *masked, Clobber::kReplace, kEffort).ok() &&
            write_state(path("state"), start, start_digests, Clobber::kReplace, kEffort).ok();
  auto run = RunWriter::create(path("run"), {digest("task"), digest("program"), 4, ""}, {}, start,
                               start_digests, kEffort);
  ok = ok && run.ok() && run->append(end, end_digests, std::vector<float>{1, 2}).ok();
  auto sample =
      SampleWriter::create(path("sample"), {digest("task"), digest("proof"), 5}, Clobber::kReplace, kEffort);
  ok = ok && sample->add({2, start_digests.state, {digest("a"), digest("b")}}, start, start_digests).ok() &&
       sample->commit().ok();
  // The same with a constant entry: a checkpoint whose file of constant entries is beside it, and a sample.
  const Constants constant = *constants_of(start, start_digests, {"loss"});
  auto adapter = RunWriter::create(path("adapter"), {digest("task"), digest("program"), 4, ""}, {}, start,
                                   start_digests, kEffort, {}, constant);
  ok = ok && adapter.ok();
  fuzz::scratch().write(std::string(constants_path("", constant.digest)).substr(1),
                        fuzz::Scratch::read(constants_path(path("adapter"), constant.digest)));
  ok = ok && write_state(path("left"), start, start_digests, constant, Clobber::kReplace, kEffort).ok();
  auto shared = SampleWriter::create(path("shared"), {digest("task"), digest("proof"), 5}, Clobber::kReplace,
                                     kEffort, constant);
  ok = ok && shared->add({2, start_digests.state, {digest("a")}}, start, start_digests).ok() &&
       shared->commit().ok();
  Trace trace{digest("task"), 0, 0, {start_digests.state, end_digests.state}, {}, {}};
  trace.values = TraceValues{0, {digest("v0"), digest("v1")}};
  ok = ok && write_trace(path("trace"), trace, Clobber::kReplace, kEffort).ok();
  fuzz::require(ok, "bundles can be written");
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  write_seeds();
  std::vector<std::string> out;
  for (const char* name :
       {"dataset", "named", "masked", "state", "run/index.h5", "sample", "left", "shared", "trace"}) {
    out.push_back(Scratch::read(fuzz::scratch() / name));
  }
  for (const test::Trick trick : test::all_tricks()) {
    test::write_container(fuzz::scratch() / "trick", trick, test::Format::kBundle);
    out.push_back(Scratch::read(fuzz::scratch() / "trick"));
  }
  return out;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = fuzz::scratch().write("index.h5", fuzz::text_of(data, size));
  read_unchecked(path);
  const auto kind = kind_of(path);
  if (!kind.ok()) return 0;
  switch (*kind) {
    case Kind::kDataset: read_as_dataset(path); break;
    case Kind::kState: read_as_state(path); break;
    case Kind::kRun: read_as_run(fuzz::scratch()); break;
    case Kind::kSample: read_as_sample(path); break;
    case Kind::kTrace:
      static_cast<void>(read_trace(path, Check::kNothing, kEffort));
      static_cast<void>(read_trace(path, Check::kDigests, kEffort));
      break;
  }
  return 0;
}
