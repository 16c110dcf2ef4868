#include "run_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "container.h"
#include "dgx/core/json.h"
#include "dgx/merkle/digests.h"

namespace dgx::bundle {
namespace {

constexpr std::size_t kMaxCheckpoints = std::size_t{1} << 24;
constexpr std::int64_t kMaxStep = std::int64_t{1} << 53;

/// An index as its bundle stores it: a dataset for each field of the checkpoints (row i is checkpoint i), and
/// the losses. Refers to the index, which must outlive it unchanged.
class Columns {
 public:
  explicit Columns(const RunIndex& index) {
    for (const Checkpoint& checkpoint : index.checkpoints) {
      digests_.insert(digests_.end(), checkpoint.digest.bytes.begin(), checkpoint.digest.bytes.end());
      kept_.push_back(checkpoint.kept ? 1 : 0);
      steps_.push_back(checkpoint.step);
    }
    views_ = {NamedView{"digests", column(DType::kU8, digests_, {rows(steps_), 32}), {}},
              NamedView{"kept", column(DType::kU8, kept_, {rows(kept_)}), {}},
              NamedView{"loss_ends", column(DType::kI64, index.loss_ends, {rows(index.loss_ends)}), {}},
              NamedView{"losses", column(DType::kF32, index.losses, {rows(index.losses)}), {}},
              NamedView{"steps", column(DType::kI64, steps_, {rows(steps_)}), {}}};
  }
  Columns(const Columns&) = delete;
  Columns& operator=(const Columns&) = delete;

  /// In ascending order of their names.
  [[nodiscard]] const std::array<NamedView, 5>& views() const { return views_; }

 private:
  template <class T>
  static std::int64_t rows(const std::vector<T>& numbers) {
    return static_cast<std::int64_t>(numbers.size());
  }
  template <class T>
  static TensorView column(DType dtype, const std::vector<T>& numbers, Shape shape) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(numbers.data());
    return {dtype, std::move(shape), {bytes, numbers.size() * sizeof(T)}};
  }

  std::vector<std::uint8_t> digests_;
  std::vector<std::uint8_t> kept_;
  std::vector<std::int64_t> steps_;
  std::array<NamedView, 5> views_;
};

/// The run digest of dgx-bundle(5): a state digest over the datasets and the attributes.
Result<Digest> run_digest(const RunIndex& index, const Columns& columns) {
  const std::string header = json::Value(json::Object{{"diverged", std::int64_t{index.diverged}},
                                                      {"drill", index.header.drill},
                                                      {"interval", index.header.interval},
                                                      {"program", index.header.program.hex()},
                                                      {"task", index.header.task.hex()}})
                                 .dump();
  std::vector<merkle::NamedDigest> entries;
  for (const NamedView& column : columns.views()) {
    entries.push_back({column.path, merkle::tensor_digest(column.view)});
  }
  const TensorView text{DType::kU8, {static_cast<std::int64_t>(header.size())}, as_bytes(header)};
  entries.insert(entries.begin() + 1, {"header", merkle::tensor_digest(text)});
  return merkle::state_digest(entries);
}

template <class T>
Result<std::vector<T>> read_column(const Reader& reader, const std::string& name, DType dtype) {
  DGX_TRY(const Tensor tensor, reader.tensor(name, {1, kMaxTensorBytes}));
  if (tensor.dtype() != dtype || tensor.shape().size() != 1) {
    return reader.in_file(
        malformed(fmt::format("\"{}\" is {}{}, expected {}[n]", name, name_of(tensor.dtype()),
                              to_string(tensor.shape()), name_of(dtype))));
  }
  const auto numbers = tensor.as<T>();
  return std::vector<T>(numbers.begin(), numbers.end());
}

Status check_columns(const RunIndex& index, const std::vector<std::uint8_t>& kept) {
  const auto& ends = index.loss_ends;
  for (std::size_t i = 0; i < index.checkpoints.size(); ++i) {
    const std::int64_t step = index.checkpoints[i].step;
    if (step < 0 || step > kMaxStep || (i > 0 && step <= index.checkpoints[i - 1].step)) {
      return malformed(fmt::format("checkpoint {} is at step {}, which does not ascend", i, step));
    }
    if (kept[i] > 1) return malformed(fmt::format("checkpoint {} is kept {} times", i, kept[i]));
    if (i > 0 && ends[i] < ends[i - 1])
      return malformed(fmt::format("losses of segment {} do not ascend", i - 1));
  }
  if (ends.front() == 0 && ends.back() == static_cast<std::int64_t>(index.losses.size())) return {};
  return malformed(fmt::format("has {} losses, its segments have {}", index.losses.size(), ends.back()));
}

Result<RunHeader> read_header(const Reader& reader) {
  DGX_CHECK(reader.expect_attributes("", {"digest", "diverged", "drill", "interval", "program", "task"}));
  RunHeader header;
  DGX_TRY(header.task, reader.digest("", "task"));
  DGX_TRY(header.program, reader.digest("", "program"));
  DGX_TRY(header.interval, reader.integer("", "interval", 1, kMaxStep));
  DGX_TRY(header.drill, reader.text("", "drill"));
  return header;
}

}  // namespace

std::string index_path(const std::string& folder) { return folder + "/index.h5"; }

Status write_index(const std::string& folder, const RunIndex& index) {
  const Columns columns(index);
  DGX_TRY(const Digest digest, run_digest(index, columns));
  DGX_TRY(AtomicFile target, AtomicFile::create(index_path(folder), Clobber::kReplace));
  DGX_TRY(Writer writer, Writer::create(std::move(target), Kind::kRun, {1, kMaxTensorBytes}));
  DGX_CHECK(writer.digest("", "task", index.header.task));
  DGX_CHECK(writer.digest("", "program", index.header.program));
  DGX_CHECK(writer.integer("", "interval", index.header.interval));
  DGX_CHECK(writer.text("", "drill", index.header.drill));
  DGX_CHECK(writer.integer("", "diverged", index.diverged ? 1 : 0));
  DGX_CHECK(writer.digest("", "digest", digest));
  DGX_CHECK(writer.tensors(columns.views()));
  return writer.commit();
}

Result<RunIndex> read_index(const std::string& folder) {
  DGX_TRY(const Reader reader, Reader::open(index_path(folder), Kind::kRun));
  DGX_CHECK(reader.expect_children("", {"digests", "kept", "loss_ends", "losses", "steps"}));
  RunIndex index;
  DGX_TRY(index.header, read_header(reader));
  DGX_TRY(const std::int64_t diverged, reader.integer("", "diverged", 0, 1));
  index.diverged = diverged == 1;
  DGX_TRY(const std::vector<Digest> digests, reader.digests("digests", kMaxCheckpoints));
  DGX_TRY(const auto kept, read_column<std::uint8_t>(reader, "kept", DType::kU8));
  DGX_TRY(const auto steps, read_column<std::int64_t>(reader, "steps", DType::kI64));
  DGX_TRY(index.loss_ends, read_column<std::int64_t>(reader, "loss_ends", DType::kI64));
  DGX_TRY(index.losses, read_column<float>(reader, "losses", DType::kF32));
  const std::size_t count = digests.size();
  if (count == 0 || kept.size() != count || steps.size() != count || index.loss_ends.size() != count) {
    return reader.in_file(malformed("has no checkpoint, or columns of different lengths"));
  }
  for (std::size_t i = 0; i < count; ++i) index.checkpoints.push_back({steps[i], digests[i], kept[i] == 1});
  Status sound = check_columns(index, kept);
  if (!sound.ok()) return reader.in_file(std::move(sound).error());
  DGX_TRY(const Digest stated, reader.digest("", "digest"));
  DGX_TRY(const Digest digest, run_digest(index, Columns(index)));
  if (digest == stated) return index;
  return reader.in_file(
      malformed(fmt::format("the index has digest {}, recomputed {}", stated.brief(), digest.brief()),
                "the index is damaged; its checkpoints were not touched"));
}

}  // namespace dgx::bundle
