#include "mpi/mpi_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "mpi/length.h"

namespace dgx::exchange {
namespace {

std::string text_of(int error) {
  char text[MPI_MAX_ERROR_STRING + 1] = "";
  int size = 0;
  MPI_Error_string(error, text, &size);
  return {text, static_cast<std::size_t>(size)};
}

Status check(int error, const char* call) {
  if (error == MPI_SUCCESS) return {};
  return internal_error(std::string(call) + ": " + text_of(error));
}

// A rank that waits asks MPI again and again for so long, as most messages of a step take; then it naps
// between two questions: rank 0 may be waiting for a lock, or measuring the model.
constexpr std::chrono::milliseconds kSpinning(100);
constexpr std::chrono::microseconds kNap(200);

std::int64_t total(std::span<const std::int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

}  // namespace

Result<std::unique_ptr<Exchange>> MpiExchange::start() {
  int was_started = 0, provided = MPI_THREAD_SINGLE;
  DGX_CHECK(check(MPI_Initialized(&was_started), "MPI_Initialized"));
  if (was_started != 0) return internal_error("MPI was started in this process before");
  DGX_CHECK(check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread"));
  std::unique_ptr<MpiExchange> out(new MpiExchange());
  if (provided < MPI_THREAD_FUNNELED) return internal_error("this MPI allows no threads beside its own");
  DGX_CHECK(out->connect());
  DGX_CHECK(out->learn_hosts());
  return std::unique_ptr<Exchange>(std::move(out));
}

Status MpiExchange::connect() {
  DGX_CHECK(check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  for (MPI_Comm* each : {&messages_, &broadcasts_, &gathers_})  // they take over how errors are handled
    DGX_CHECK(check(MPI_Comm_dup(MPI_COMM_WORLD, each), "MPI_Comm_dup"));
  DGX_CHECK(check(MPI_Comm_rank(messages_, &rank_), "MPI_Comm_rank"));
  int* largest_tag = nullptr;
  int is_known = 0;
  DGX_CHECK(check(MPI_Comm_get_attr(messages_, MPI_TAG_UB, static_cast<void*>(&largest_tag), &is_known),
                  "MPI_Comm_get_attr"));
  if (is_known == 0 || *largest_tag < kMaxTag)
    return internal_error(fmt::format("this MPI has tags up to {} only, {} are needed",
                                      is_known == 0 ? 0 : *largest_tag, kMaxTag));
  return {};
}

Status MpiExchange::learn_hosts() {
  int ranks = 0, size = 0;
  DGX_CHECK(check(MPI_Comm_size(messages_, &ranks), "MPI_Comm_size"));
  std::string own(MPI_MAX_PROCESSOR_NAME, '\0');
  DGX_CHECK(check(MPI_Get_processor_name(own.data(), &size), "MPI_Get_processor_name"));
  std::string all(own.size() * static_cast<std::size_t>(ranks), '\0');
  DGX_CHECK(check(MPI_Allgather(own.data(), MPI_MAX_PROCESSOR_NAME, MPI_CHAR, all.data(),
                                MPI_MAX_PROCESSOR_NAME, MPI_CHAR, gathers_),
                  "MPI_Allgather"));
  for (std::size_t at = 0; at < all.size(); at += own.size()) hosts_.emplace_back(all.c_str() + at);
  MPI_Comm here = MPI_COMM_NULL;
  DGX_CHECK(check(MPI_Comm_split_type(messages_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here),
                  "MPI_Comm_split_type"));
  DGX_CHECK(check(MPI_Comm_size(here, &ranks_here_), "MPI_Comm_size"));
  return check(MPI_Comm_free(&here), "MPI_Comm_free");
}

MpiExchange::~MpiExchange() {
  for (MPI_Comm* each : {&messages_, &broadcasts_, &gathers_})
    if (*each != MPI_COMM_NULL) MPI_Comm_free(each);
  MPI_Finalize();
}

MPI_Request* MpiExchange::add_slot(Operation& operation) {
  if (free_.empty()) {
    free_.push_back(requests_.size());
    requests_.push_back(MPI_REQUEST_NULL);
    errors_.push_back(MPI_SUCCESS);
  }
  const std::size_t slot = free_.back();
  free_.pop_back();
  errors_[slot] = MPI_SUCCESS;
  operation.slots.push_back(slot);
  return &requests_[slot];
}

Request MpiExchange::add(Operation operation) {
  operations_.emplace(next_, std::move(operation));
  return {next_++};
}

Request MpiExchange::send(int to, Tag tag, ByteView bytes) {
  assert(to >= 0 && to < ranks() && tag >= 0 && tag <= kMaxTag);
  traffic_.sent += static_cast<std::int64_t>(bytes.size());
  ++traffic_.messages;
  Operation out;
  out.name = "message to";
  out.partner = to;
  out.tag = tag;
  const Length length(bytes.size());
  out.error = MPI_Isend(bytes.data(), length.count(), length.type(), to, tag, messages_, add_slot(out));
  return add(std::move(out));
}

Request MpiExchange::receive(int from, Tag tag, std::span<std::uint8_t> bytes) {
  assert(from >= 0 && from < ranks() && tag >= 0 && tag <= kMaxTag);
  Operation out;
  out.name = "message from";
  out.partner = from;
  out.tag = tag;
  out.is_receive = true;
  out.bytes = bytes;
  const Request request = add(std::move(out));
  Line& line = lines_[{from, tag}];
  if (line.arrivals.empty()) {
    line.receives.push_back(request.number);
    ++receives_;
  } else {
    take(operations_.at(request.number), line.arrivals.front());
    line.arrivals.pop_front();
  }
  return request;
}

Request MpiExchange::broadcast(int root, std::span<std::uint8_t> bytes) {
  assert(root >= 0 && root < ranks());
  if (root == rank_) {
    traffic_.broadcast += static_cast<std::int64_t>(bytes.size());
    ++traffic_.messages;
  }
  Operation out;
  out.name = "broadcast of";
  out.partner = root;
  const Length length(bytes.size());
  out.error = MPI_Ibcast(bytes.data(), length.count(), length.type(), root, broadcasts_, add_slot(out));
  return add(std::move(out));
}

Request MpiExchange::gather(ByteView own, std::span<std::uint8_t> all, std::span<const std::int64_t> sizes) {
  const auto rank = static_cast<std::size_t>(rank_);
  assert(static_cast<int>(sizes.size()) == ranks());
  assert(static_cast<std::int64_t>(own.size()) == sizes[rank]);
  assert(static_cast<std::int64_t>(all.size()) == total(sizes));
  traffic_.gathered += static_cast<std::int64_t>(own.size());
  ++traffic_.messages;
  // MPI takes own shares in place from all ranks or from none.
  const auto place = all.subspan(static_cast<std::size_t>(total(sizes.first(rank))), own.size());
  if (!own.empty() && own.data() != place.data()) std::memcpy(place.data(), own.data(), own.size());
  Operation out;
  out.name = "gather";
  if (all.size() <= kPlainBytes)
    gather_plain(out, all, sizes);
  else
    gather_large(out, all, sizes);
  return add(std::move(out));
}

void MpiExchange::gather_plain(Operation& operation, std::span<std::uint8_t> all,
                               std::span<const std::int64_t> sizes) {
  int place = 0;
  for (const std::int64_t size : sizes) {
    operation.counts.push_back(static_cast<int>(size));
    operation.places.push_back(std::exchange(place, place + operation.counts.back()));
  }
  operation.error = MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(), operation.counts.data(),
                                    operation.places.data(), MPI_BYTE, gathers_, add_slot(operation));
}

// MPI_Iallgatherv has places of type int: each share is broadcast instead, which takes as many bytes.
void MpiExchange::gather_large(Operation& operation, std::span<std::uint8_t> all,
                               std::span<const std::int64_t> sizes) {
  std::size_t place = 0;
  for (int root = 0; root < ranks() && operation.error == MPI_SUCCESS; ++root) {
    const auto size = static_cast<std::size_t>(sizes[static_cast<std::size_t>(root)]);
    const Length length(size);
    operation.error =
        MPI_Ibcast(all.data() + place, length.count(), length.type(), root, gathers_, add_slot(operation));
    place += size;
  }
}

Status MpiExchange::wait(Request request) {
  const auto place = operations_.find(request.number);
  assert(place != operations_.end());
  const Operation& operation = place->second;
  const auto begin = std::chrono::steady_clock::now();
  while (!has_ended(operation) && operation.error == MPI_SUCCESS && error_ == MPI_SUCCESS) {
    progress();
    if (has_ended(operation)) break;
    // Ranks may share processors, and the others' work is what this one waits for.
    if (std::chrono::steady_clock::now() - begin < kSpinning) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
  Status status = outcome_of(operation);
  // One that has not ended keeps its slots: MPI still has them.
  if (!has_ended(operation)) return status;
  free_.insert(free_.end(), operation.slots.begin(), operation.slots.end());
  operations_.erase(place);
  return status;
}

void MpiExchange::progress() {
  take_arrivals();
  test_slots();
}

// Takes all messages that have come, from any rank and with any tag, by one probe each, and gives each to the
// first receive that waits for it. A message that no receive waits for yet is kept for one that will.
void MpiExchange::take_arrivals() {
  while (receives_ > 0 && error_ == MPI_SUCCESS) {
    Arrival arrival;
    MPI_Status status;
    int has_come = 0;
    error_ = MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, messages_, &has_come, &arrival.message, &status);
    if (error_ != MPI_SUCCESS || has_come == 0) return;
    MPI_Get_elements_x(&status, MPI_BYTE, &arrival.length);
    Line& line = lines_[{status.MPI_SOURCE, status.MPI_TAG}];
    if (line.receives.empty()) {
      line.arrivals.push_back(arrival);
      continue;
    }
    take(operations_.at(line.receives.front()), arrival);
    line.receives.pop_front();
    --receives_;
  }
}

// Begins to receive the message. One of another length than the receive's goes to memory of its own: its
// sender is to see the end of its operation.
void MpiExchange::take(Operation& operation, Arrival arrival) {
  operation.length = arrival.length;
  const auto size = static_cast<std::size_t>(arrival.length);
  std::uint8_t* place = operation.bytes.data();
  if (size != operation.bytes.size()) {
    operation.refused.resize(size);
    place = operation.refused.data();
  }
  const Length length(size);
  operation.error = MPI_Imrecv(place, length.count(), length.type(), &arrival.message, add_slot(operation));
}

void MpiExchange::test_slots() {
  ended_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int error = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, ended_.data(),
                                 statuses_.data());
  if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) error_ = error;
  if (error_ != MPI_SUCCESS || count == MPI_UNDEFINED) return;  // undefined: none is under way
  for (int i = 0; i < count && error == MPI_ERR_IN_STATUS; ++i) {
    const auto slot = static_cast<std::size_t>(ended_[static_cast<std::size_t>(i)]);
    errors_[slot] = statuses_[static_cast<std::size_t>(i)].MPI_ERROR;
    requests_[slot] = MPI_REQUEST_NULL;
  }
}

bool MpiExchange::has_ended(const Operation& operation) const {
  if (operation.is_receive && operation.length < 0) return false;
  return std::ranges::all_of(operation.slots,
                             [&](std::size_t slot) { return requests_[slot] == MPI_REQUEST_NULL; });
}

Status MpiExchange::outcome_of(const Operation& operation) const {
  int error = error_ != MPI_SUCCESS ? error_ : operation.error;
  for (const std::size_t slot : operation.slots)
    if (error == MPI_SUCCESS) error = errors_[slot];
  if (error != MPI_SUCCESS) {
    const std::string whose =
        operation.partner < 0 ? ""
                              : fmt::format(" rank {} ({})", operation.partner, host_of(operation.partner));
    return internal_error(operation.name + whose + ": " + text_of(error));
  }
  if (!operation.is_receive || operation.length == static_cast<MPI_Count>(operation.bytes.size())) return {};
  return malformed(fmt::format("message {} from rank {} has {} bytes, {} are expected", operation.tag,
                               operation.partner, operation.length, operation.bytes.size()));
}

void MpiExchange::give_up(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace dgx::exchange
