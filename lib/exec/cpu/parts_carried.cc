// Running states that go from one process to the next, around the lines that they are of.
#include <utility>

#include "cpu/parts_executor_impl.h"
#include "dgx/kernels/dot_state.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::ValueIndex;
using kernels::cpu::DotWord;
using program::SampleClass;

std::vector<std::span<float>> floats_of(const std::vector<std::span<std::uint8_t>>& lists) {
  std::vector<std::span<float>> out;
  for (const auto bytes : lists)
    out.emplace_back(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
  return out;
}

/// The memory of what is carried of the line behind so many slices, before or behind the part.
std::vector<std::span<std::uint8_t>> PartsExecutor::Impl::carried_at(const Part& part, ValueIndex v,
                                                                     std::int64_t slices) {
  Carried& fold = carried.at(v);
  const auto size = static_cast<std::size_t>(bytes_of(at(v)));
  if (!fold.is_dot) {
    const bool is_received = slices == part.slices.begin;
    return {{is_received ? fold.other.bytes().data() : fold.value, size}};
  }
  const kernels::DotWords words = kernels::dot_words_at(fold.positions / classes.slices * slices);
  std::vector<std::span<std::uint8_t>> out;
  for (const auto& [exists, word] : {std::pair(words.block, DotWord::kBlock),
                                     {words.group, DotWord::kGroup},
                                     {words.total, DotWord::kTotal}}) {
    float* const place = fold.places[static_cast<std::size_t>(word)];
    if (exists) out.push_back({reinterpret_cast<std::uint8_t*>(place), size});
  }
  return out;
}

/// Begins to receive the running states of all carried lines from the process before, if there is one.
void PartsExecutor::Impl::expect_carries(const Neighbours& neighbours, const Part& part) {
  if (!neighbours.before) return;
  for (const auto& [v, fold] : carried) {
    const auto words = carried_at(part, v, part.slices.begin);
    if (exchange::SparseMessages* const messages = coded(v)) {
      messages->expect(*neighbours.before, to_number(v), words.size());
      continue;
    }
    for (const auto bytes : words)
      expected_carries[v].push_back(neighbours.ranks->receive(*neighbours.before, to_number(v), bytes));
  }
}

/// Lets each line of class C that the body makes wait for its running state, and hand it on behind the part.
Status PartsExecutor::Impl::surround_carried(const Neighbours& neighbours, Body& body, const Part& part) {
  for (const ValueIndex line : body.piece.origins.indices()) {
    const ValueIndex v = body.piece.origins[line].value;
    const bool is_made = body.piece.program.values[line].kind != Kind::kInput && v != kernels::kNoValue;
    if (!is_made || classes.of[v] != SampleClass::kCarried) continue;
    const auto before = [this, neighbours, &part, v] {
      if (exchange::SparseMessages* const messages = neighbours.before ? coded(v) : nullptr) {
        const auto words = floats_of(carried_at(part, v, part.slices.begin));
        return wait_for([&] { return messages->receive(to_number(v), words); });
      }
      for (const exchange::Request request : std::exchange(expected_carries[v], {}))
        wait_for(*neighbours.ranks, request);
    };
    const auto after = [this, neighbours, &part, v] {
      if (!neighbours.behind) return;
      const auto words = carried_at(part, v, part.slices.end);
      before_carry(v, words.front());
      if (exchange::SparseMessages* const messages = coded(v))
        return messages->send(*neighbours.behind, to_number(v), floats_of(words));
      for (const auto bytes : words)
        sent_carries.push_back(neighbours.ranks->send(*neighbours.behind, to_number(v), bytes));
    };
    DGX_CHECK(body.machine->surround(line, {before, after}));
  }
  return {};
}

/// Waits until all that was handed on may change again.
void PartsExecutor::Impl::end_carries(const Neighbours& neighbours) {
  for (const exchange::Request request : std::exchange(sent_carries, {}))
    wait_for(*neighbours.ranks, request);
}

/// Lets a line of class C, made in one part, go on where the process before stopped.
void PartsExecutor::Impl::connect_carried_once(const Part& part, Machine& machine, ValueIndex line,
                                               ValueIndex v) {
  Carried& fold = carried.at(v);
  if (fold.is_dot) machine.resume(line, resumed(part, fold));
  machine.set_memory(line, fold.value);
  fold.before = fold.is_dot ? fold.value : fold.other.bytes().data();
}

}  // namespace dgx::exec
