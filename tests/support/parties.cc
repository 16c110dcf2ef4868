#include "parties.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "dgx/kernels/evaluate.h"
#include "dgx/kernels/order.h"
#include "dgx/kernels/philox.h"
#include "dgx/kernels/schedule.h"
#include "dgx/merkle/openings.h"
#include "dgx/merkle/tree.h"
#include "dgx/program/line.h"
#include "statements.h"

namespace dgx::test {

using kernels::Source;
using Shared = std::shared_ptr<const Tensor>;

namespace {

Digest digest_of_nothing(const Fault& fault) { return digest(to_string(fault)); }

Shared share(Tensor tensor) { return std::make_shared<const Tensor>(std::move(tensor)); }

Shared flipped(const Tensor& tensor, const Fault& fault) {
  Tensor out = tensor;
  const std::size_t size = size_of(out.dtype());
  const std::size_t element = static_cast<std::size_t>(fault.element) % (out.bytes().size() / size);
  const auto bit = static_cast<std::size_t>(fault.bit) % (8 * size);
  out.bytes()[element * size + bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
  // A NaN is stored in one form only: a number flipped into a NaN becomes that one.
  if (out.dtype() == DType::kF32) {
    for (float& number : out.as<float>()) number = kernels::canonical_nan(number);
  }
  return share(std::move(out));
}

Shared with_nan(const Tensor& tensor, const Fault& fault) {
  if (tensor.dtype() != DType::kF32) return flipped(tensor, fault);
  Tensor out = tensor;
  const auto bits = std::bit_cast<float>(0x7FC00001U + static_cast<std::uint32_t>(fault.bit) * 0x10U);
  out.as<float>()[static_cast<std::size_t>(fault.element) % out.as<float>().size()] = bits;
  return share(std::move(out));
}

/// The tensor's bytes as one row, or with one element or one leaf more.
Shared reshaped(const Tensor& tensor, const Fault& fault) {
  const std::int64_t more = fault.bit % 3 == 0 ? 0 : fault.bit % 3 == 1 ? 1 : 256;
  Tensor out(tensor.dtype(), {1, tensor.count() + more});
  std::copy(tensor.bytes().begin(), tensor.bytes().end(), out.bytes().begin());
  return share(std::move(out));
}

}  // namespace

std::string to_string(const Fault& fault) {
  return fmt::format("fault {} at step {} value {} element {} bit {}{}", static_cast<int>(fault.kind),
                     fault.step, fault.value, fault.element, fault.bit, fault.consistent ? "" : ", alone");
}

Fault draw_fault(const Scene& scene, std::int64_t first, std::int64_t end, Dice& dice) {
  Fault fault;
  const bool value = dice.one_in(2);
  fault.kind = value ? Fault::Kind::kValue : static_cast<Fault::Kind>(dice.below(14));
  fault.step = first + dice.below(end - first);
  const bool of_value = fault.kind <= Fault::Kind::kTable;
  fault.value = dice.below(of_value ? std::ssize(scene.program.values) : std::ssize(scene.initial));
  const Shape& shape = of_value ? scene.program.values[kernels::ValueIndex(fault.value)].shape
                                : scene.initial[static_cast<std::size_t>(fault.value)].tensor.shape();
  fault.element = dice.below(*element_count(shape));
  fault.bit = static_cast<int>(dice.below(64));
  fault.consistent = dice.one_in(2);
  return fault;
}

void StateRecord::hash() {
  merkle::TreeBuilder tree;
  for (std::size_t i = 0; i < names.size(); ++i) tree.add_hash(merkle::entry_leaf(names[i], digests[i]));
  digest = merkle::state_digest(names.size(), tree.root());
}

TinyParty::TinyParty(const Scene& scene, std::vector<Fault> faults, TinyParty* honest)
    : scene_(scene), faults_(std::move(faults)), honest_(honest) {
  if (honest_ == nullptr) {
    StateRecord first;
    for (const Entry& entry : scene.initial) {
      first.names.push_back(entry.name);
      first.tensors.push_back(share(entry.tensor));
      first.digests.push_back(merkle::tensor_digest(entry.tensor.view()));
    }
    first.hash();
    states_.emplace(0, std::move(first));
    return;
  }
  shared_ = scene.task.body.steps;
  for (const Fault& fault : faults_) shared_ = std::min(shared_, fault.step);
}

std::vector<Fault> TinyParty::faults_at(std::int64_t step) const {
  std::vector<Fault> out;
  std::copy_if(faults_.begin(), faults_.end(), std::back_inserter(out),
               [step](const Fault& fault) { return fault.step == step; });
  return out;
}

Tensor TinyParty::input(const kernels::Primitive& line, std::int64_t step) {
  const manifest::Task& task = scene_.task.body;
  Tensor out(line.dtype, line.shape);
  switch (line.source.kind) {
    case Source::Kind::kState: {
      const StateRecord& state = state_record(step);
      const auto at = std::find(state.names.begin(), state.names.end(), line.source.name);
      if (at == state.names.end()) return find_entry(scene_.initial, line.source.name)->tensor;
      const Tensor& tensor = *state.tensors[static_cast<std::size_t>(at - state.names.begin())];
      if (tensor.dtype() == line.dtype && tensor.shape() == line.shape) return tensor;
      const std::size_t size = std::min(out.bytes().size(), tensor.bytes().size());
      std::copy_n(tensor.bytes().begin(), size, out.bytes().begin());
      return out;
    }
    case Source::Kind::kBatch: {
      const auto order = kernels::DataOrder::create(task.seed, task.dataset.samples, task.batch);
      const Entry* const entry = find_entry(scene_.dataset, line.source.name);
      if (entry == nullptr) {  // the samples' numbers
        std::ranges::copy(order->batch_indices(step), out.as<std::int64_t>().begin());
        return out;
      }
      const Tensor& field = entry->tensor;
      const std::size_t row = field.bytes().size() / static_cast<std::size_t>(task.dataset.samples);
      std::size_t at = 0;
      for (const std::int64_t sample : order->batch_indices(step)) {
        const ByteView from = field.bytes().subspan(static_cast<std::size_t>(sample) * row, row);
        std::copy(from.begin(), from.end(), out.bytes().begin() + static_cast<std::ptrdiff_t>(at));
        at += row;
      }
      return out;
    }
    case Source::Kind::kSchedule: {
      const auto parameters =
          program::schedule_parameters(task.optimizer, task.schedule, task.steps, task.update);
      const auto numbers = kernels::schedule_scalars(line.source.of, *parameters, step);
      std::copy(numbers->begin(), numbers->end(), out.as<float>().begin());
      return out;
    }
    case Source::Kind::kConstant:
      for (std::size_t i = 0; i < line.source.of.size(); ++i) {
        const kernels::Literal literal = *program::parse_literal(line.source.of[i]);
        if (line.dtype == DType::kF32) out.as<float>()[i] = std::get<float>(literal);
        if (line.dtype == DType::kI64) out.as<std::int64_t>()[i] = std::get<std::int64_t>(literal);
      }
      return out;
    case Source::Kind::kUniform:
      for (std::size_t i = 0; i < out.as<float>().size(); ++i) {
        const auto ordinal = static_cast<std::uint32_t>(std::stoul(line.source.name));
        out.as<float>()[i] = kernels::uniform(task.seed, {kernels::StreamKind::kDropout, ordinal}, step,
                                              static_cast<std::int64_t>(i));
      }
      return out;
  }
  return out;
}

StepRecord TinyParty::compute(std::int64_t step) {
  const std::vector<Fault> faults = faults_at(step);
  StepRecord out;
  std::vector<Shared> read;  // the values that later lines read
  kernels::ByValue<TensorView> views;
  for (const kernels::ValueIndex v : scene_.program.values.indices()) {
    const kernels::Primitive& line = scene_.program.values[v];
    Tensor tensor(line.dtype, line.shape);
    if (scene_.compiled[v]) {
      if (!kernels::evaluate_all(*scene_.compiled[v], views, tensor, 0, tensor.count()).ok()) std::abort();
    } else {
      tensor = input(line, step);
    }
    Shared right = share(std::move(tensor));
    Shared said = right;
    std::optional<Digest> digest;
    for (const Fault& fault : faults) {
      const bool table = fault.kind == Fault::Kind::kTable && fault.value <= to_number(v) && step > 0;
      if (table) said = this->step(step - 1).values[v];
      if (fault.value != to_number(v)) continue;
      if (fault.kind == Fault::Kind::kValue) said = flipped(*said, fault);
      if (fault.kind == Fault::Kind::kNan) said = with_nan(*said, fault);
      if (fault.kind == Fault::Kind::kShape) said = reshaped(*said, fault);
      if (fault.kind == Fault::Kind::kDigest) digest = digest_of_nothing(fault);
      if (fault.kind == Fault::Kind::kType) {
        const DType other = line.dtype == DType::kF32 ? DType::kI64 : DType::kF32;
        digest =
            merkle::tensor_digest(other, line.shape, merkle::root_of(merkle::tensor_leaves(said->bytes())));
      }
      if (fault.kind == Fault::Kind::kValue && fault.consistent) right = flipped(*right, fault);
    }
    out.digests.push_back(digest ? *digest : merkle::tensor_digest(said->view()));
    out.values.push_back(said);
    read.push_back(right);
    views.push_back(right->view());
  }
  return out;
}

StateRecord TinyParty::after(std::int64_t step) {
  const StepRecord& done = this->step(step);
  StateRecord out;
  for (const kernels::ValueIndex v : program::state_inputs(scene_.program)) {
    const kernels::Primitive& line = scene_.program.values[v];
    out.names.push_back(line.source.name);
    out.tensors.push_back(done.values[*line.next]);
    out.digests.push_back(done.digests[static_cast<std::size_t>(*line.next)]);
  }
  bool no_state = false;
  for (const Fault& fault : faults_at(step)) {
    const auto at = static_cast<std::ptrdiff_t>(fault.value % std::ssize(out.names));
    const auto i = static_cast<std::size_t>(at);
    const auto repeat = [&](std::string name) {
      out.names.insert(out.names.begin() + at + 1, std::move(name));
      out.tensors.insert(out.tensors.begin() + at + 1, Shared(out.tensors[i]));
      out.digests.insert(out.digests.begin() + at + 1, Digest(out.digests[i]));
    };
    switch (fault.kind) {
      case Fault::Kind::kEntry:
        out.tensors[i] = flipped(*out.tensors[i], fault);
        out.digests[i] = merkle::tensor_digest(out.tensors[i]->view());
        break;
      case Fault::Kind::kEntryDigest: out.digests[i] = digest_of_nothing(fault); break;
      case Fault::Kind::kMissing:
        out.names.erase(out.names.begin() + at);
        out.tensors.erase(out.tensors.begin() + at);
        out.digests.erase(out.digests.begin() + at);
        break;
      case Fault::Kind::kExtra: repeat(out.names[i] + (fault.bit % 2 == 0 ? "+" : "~")); break;
      case Fault::Kind::kTwice:
        repeat(fault.consistent ? out.names[i]
                                : out.names[static_cast<std::size_t>(fault.bit) % out.names.size()]);
        break;
      case Fault::Kind::kSwapped: {
        const std::size_t other = (i + out.names.size() - 1) % out.names.size();
        std::swap(out.names[i], out.names[other]);
        std::swap(out.tensors[i], out.tensors[other]);
        std::swap(out.digests[i], out.digests[other]);
        break;
      }
      case Fault::Kind::kRenamed:
        out.names[i] = fault.bit % 2 == 0 ? out.names[i] + "0" : "a/" + out.names[i];
        break;
      case Fault::Kind::kState: no_state = true; break;
      default: break;
    }
  }
  out.hash();
  if (no_state) out.digest = digest(fmt::format("no state {}", step));
  return out;
}

const StepRecord& TinyParty::step(std::int64_t step) {
  if (honest_ != nullptr && step < shared_) return honest_->step(step);
  const auto found = steps_.find(step);
  return found != steps_.end() ? found->second : steps_.emplace(step, compute(step)).first->second;
}

const StateRecord& TinyParty::state_record(std::int64_t step) {
  if (honest_ != nullptr && step <= shared_) return honest_->state_record(step);
  for (std::int64_t s = step; s > 0; --s) {  // iterates: recursion would be as deep as there are steps
    if (states_.contains(s) || (honest_ != nullptr && s <= shared_)) {
      for (std::int64_t next = s + 1; next <= step; ++next) {
        if (!states_.contains(next)) states_.emplace(next, after(next - 1));
      }
      return states_.at(step);
    }
  }
  for (std::int64_t next = 1; next <= step; ++next) {
    if (!states_.contains(next)) states_.emplace(next, after(next - 1));
  }
  return states_.at(step);
}

void TinyParty::look(std::int64_t first, std::int64_t end) {
  broken_.reset();
  for (std::int64_t step = first; step < end; ++step) {
    for (const Shared& tensor : state_record(step + 1).tensors) {
      if (tensor->dtype() != DType::kF32) continue;
      const auto numbers = tensor->as<float>();
      if (std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); })) continue;
      broken_ = step;
      return;
    }
  }
}

Result<std::optional<std::int64_t>> TinyParty::non_finite_after() {
  return ignores_non_finite ? std::nullopt : broken_;
}
Result<Digest> TinyParty::state(std::int64_t step) { return state_record(step).digest; }

Result<std::vector<merkle::NamedDigest>> TinyParty::entries(std::int64_t step) {
  const StateRecord& record = state_record(step);
  std::vector<merkle::NamedDigest> out;
  for (std::size_t i = 0; i < record.names.size(); ++i) out.push_back({record.names[i], record.digests[i]});
  return out;
}
Result<std::vector<Digest>> TinyParty::values(std::int64_t step) { return this->step(step).digests; }
Result<Tensor> TinyParty::value(std::int64_t step, kernels::ValueIndex value) {
  return *this->step(step).values[value];
}

Result<protocol::DataOpening> TinyParty::data(std::string_view field, std::int64_t element) {
  std::vector<merkle::NamedDigest> fields;
  for (const Entry& entry : scene_.dataset)
    fields.push_back({entry.name, merkle::tensor_digest(entry.tensor.view())});
  protocol::DataOpening out;
  out.scales = scene_.scales;
  DGX_TRY(out.entry, merkle::open_entry(fields, field));
  const Tensor& tensor = find_entry(scene_.dataset, field)->tensor;
  const auto leaf = merkle::place_of(tensor.dtype(), static_cast<std::uint64_t>(element)).leaf;
  DGX_TRY(out.tensor, merkle::open_tensor(tensor.view(), leaf));
  return out;
}

Result<Tensor> TinyParty::entry(std::int64_t step, std::string_view name) {
  const StateRecord& record = state_record(step);
  const auto at = std::find(record.names.begin(), record.names.end(), name);
  if (at == record.names.end()) return malformed("no such entry");
  return *record.tensors[static_cast<std::size_t>(at - record.names.begin())];
}

Result<manifest::OpenedRow> TinyParty::row(std::int64_t segment) {
  if (!own_row || own_row->row.index != segment) return malformed("no such row");
  return *own_row;
}

}  // namespace dgx::test
