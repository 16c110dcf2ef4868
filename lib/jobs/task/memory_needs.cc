#include "task/memory_needs.h"

#include <algorithm>

#include "dgx/core/bulk.h"
#include "dgx/exec/executor.h"
#include "dgx/program/cost.h"

namespace dgx::jobs {
namespace {

/// The program itself, its libraries and what they keep: measured, tests/repro/plans.py.
constexpr std::int64_t kProgramBytes = std::int64_t{24} << 20;
/// A thread's stack, its blocks of a product, and what the allocator keeps for it.
constexpr std::int64_t kThreadBytes = std::int64_t{2} << 20;
/// The chunks, packed and compressed, and the numbers of a state that is written.
constexpr std::int64_t kWriterBytes = std::int64_t{8} << 20;
/// A line of a program, parsed, planned and compiled.
constexpr std::int64_t kLineBytes = std::int64_t{16} << 10;

/// The bytes of a field's samples.
std::int64_t bytes_of(const manifest::DatasetReference& data, const manifest::DatasetField& field) {
  std::int64_t bytes = data.samples * static_cast<std::int64_t>(size_of(field.dtype));
  for (const std::int64_t extent : field.shape) bytes *= extent;
  return bytes;
}

Result<std::int64_t> memory_of(const TaskFiles& files, int threads, int states) {
  DGX_TRY(const std::int64_t step, program_bytes(files.program, threads));
  return program_memory(threads) + step + data_memory(files.body()) + states * state_bytes(files);
}

}  // namespace

Result<std::int64_t> program_bytes(std::shared_ptr<const program::Program> program, int threads,
                                   const std::vector<kernels::ValueIndex>& keep) {
  const std::int64_t lines = kLineBytes * std::ssize(program->values);
  DGX_TRY(const std::int64_t values, exec::needed_bytes(std::move(program), threads, keep));
  return lines + values;
}

std::int64_t field_memory(std::int64_t bytes) {
  // A larger one stays in a file.
  return bytes < static_cast<std::int64_t>(kBulkBytes) ? bytes : 0;
}

std::int64_t writer_memory(const TaskFiles& files) { return state_bytes(files) + kWriterBytes; }

std::int64_t merge_memory(std::int64_t states, std::int64_t drawn, std::int64_t shards) {
  constexpr std::int64_t kRowBytes = 4096;  // its text, parsed, and as it is signed
  constexpr std::int64_t kStateBytes = 64;  // twice its digest
  constexpr std::int64_t kDrawnBytes = 64;  // a drawn segment's number in the text of one shard, parsed
  constexpr std::int64_t kNumberBytes = 8;  // and in each of them
  constexpr std::int64_t kMostShards = std::int64_t{1} << 24;  // so that nothing wraps
  return program_memory(1) + states * kStateBytes + drawn * (kRowBytes + kDrawnBytes) +
         std::min(shards, kMostShards) * (kRowBytes + drawn * kNumberBytes);
}

std::int64_t program_memory(int threads) { return kProgramBytes + kThreadBytes * threads; }

std::int64_t data_memory(const manifest::Task& task) {
  std::int64_t total = 0;
  for (const auto& [name, field] : task.dataset.fields) {
    const std::int64_t bytes = bytes_of(task.dataset, field);
    // Nodes are one for every 16 KiB, and hashes as many while they are checked.
    total += field_memory(bytes) + bytes / 256;
  }
  return total;
}

std::int64_t state_bytes(const TaskFiles& files) { return program::cost_of(*files.program).state_bytes; }

Result<std::int64_t> replay_memory(const TaskFiles& files, int threads) {
  // The start state as it was read, and the entries that all states share or that lie in another order.
  return memory_of(files, threads, 2);
}

Result<std::int64_t> training_memory(const TaskFiles& files, int threads) {
  // The state being committed, the one that a resumed call reads, and as above.
  DGX_TRY(const std::int64_t bytes, memory_of(files, threads, 3));
  return bytes + kWriterBytes;
}

}  // namespace dgx::jobs
