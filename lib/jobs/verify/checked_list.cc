#include "verify/checked_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dgx/core/files.h"
#include "dgx/core/parallel.h"
#include "dgx/protocol/verify.h"
#include "task/allow_urls.h"
#include "task/memory_needs.h"

namespace dgx::jobs {
namespace {

/// The most bytes of a list: more than a million lines.
constexpr std::size_t kMaxListBytes = std::size_t{256} << 20;

/// A verdict's name says its proof: the first 16 digits of its id.
std::string verdict_path(const std::string& folder, const Digest& proof) {
  return fmt::format("{}/{}.json", folder, proof.hex().substr(0, 16));
}

}  // namespace

ShardDeal::ShardDeal(std::int64_t count, std::int64_t proofs) : count_(count) {
  // The others have none.
  for (std::int64_t shard = 0; shard < std::min(count, proofs); ++shard) loads_.emplace(0, shard);
}

std::int64_t ShardDeal::next(std::int64_t work) {
  const auto [load, shard] = loads_.top();
  loads_.pop();
  const std::int64_t more = add_up(load, std::max<std::int64_t>(work, 1));
  loads_.emplace(more, shard);
  most_ = std::max(most_, more);
  return shard;
}

bool CheckedList::Later::operator()(const Ready& a, const Ready& b) const {
  if (a.work != b.work) return a.work < b.work;
  const Digest& mine = a.verification->files.task.id;
  const Digest& theirs = b.verification->files.task.id;
  return mine != theirs ? mine > theirs : a.place > b.place;
}

Result<CheckedList> CheckedList::open(const BatchOptions& options, const JobContext& context,
                                      VerifyNeeds needs) {
  CheckedList out(options, context, needs);
  if (options.each.shard) {
    DGX_TRY(out.shard_, parse_shard(*options.each.shard));
  }
  DGX_TRY(out.key_, read_either_key(options.each.key));
  if (context.trust) {
    DGX_TRY(out.trust_, manifest::Trust::load(*context.trust));
  }
  if (needs == VerifyNeeds::kReplay) {
    if (!out.key_.secret)
      return malformed(options.each.key.path + ": is a public key, expected a private key",
                       "a verdict is signed; --plan takes a public key");
    DGX_CHECK(make_folder(options.output));
  }
  DGX_CHECK(allow_urls({options.each.from, options.each.data}, options.each.insecure, context));
  DGX_TRY(const std::string text, read_file(options.list, kMaxListBytes));
  VerifyOptions defaults = options.each;
  defaults.shard.reset();
  out.proofs_ = parse_list(text, defaults);
  return out;
}

Result<bool> CheckedList::check(Clock::time_point until) {
  constexpr std::size_t kPiece = 64;  // between two looks at the clock
  while (checked_ < proofs_.size() && (Clock::now() < until || checked_ == 0)) {
    if (context_->stop.requested()) return false;
    const std::size_t first = checked_;
    const std::size_t count = std::min(kPiece, proofs_.size() - first);
    std::vector<std::optional<Result<Ready>>> opened(count);
    DGX_CHECK(for_each_index(count, context_->threads, [&](std::size_t n) -> Status {
      opened[n] = open(first + n);
      return {};
    }));
    for (std::size_t n = 0; n < count; ++n) add(proofs_[first + n], *std::move(opened[n]));
    checked_ += count;
  }
  return true;
}

void CheckedList::add(const ListedProof& listed, Result<Ready> ready) {
  if (ready.ok()) {
    const Digest& proof = ready->verification->proof.proof.id;
    const auto [at, is_new] = lines_.emplace(proof, listed.line);
    if (is_new) return ready_.push(std::move(ready).value());
    ready = usage_error(fmt::format("is the proof of line {} again", at->second));
  }
  failures_.push_back(
      {listed.line, listed.task, {}, BatchOutcome::kFailed, false, {}, 0, std::move(ready).error()});
}

/// Checks the statements of one proof, and draws its segments.
Result<Ready> CheckedList::open(std::size_t place) const {
  const ListedProof& listed = proofs_[place];
  if (!listed.options.ok()) return listed.options.error();
  Ready out{listed.line, place, *listed.options, nullptr, 0};
  const bool folder = is_task_folder(out.options.task);
  if (folder) DGX_CHECK(complete(out.options, needs_));
  if (out.options.proof.empty()) return usage_error("names no proof");
  if (needs_ == VerifyNeeds::kReplay) {
    if (out.options.from.empty())
      return usage_error("names no start states", "--from names those of all lines");
    if (out.options.data.empty()) return usage_error("names no dataset", "--data names that of all lines");
  }
  DGX_TRY(Verification opened,
          open_verification(out.options, *context_, {&key_, programs_.get(), tasks_.get(), &trust_}));
  DGX_TRY(out.work, protocol::replay_work(opened.files.body(), opened.proof.segments, opened.drawn));
  out.options.output = verdict_path(options_->output, opened.proof.proof.id);
  out.verification = std::make_shared<const Verification>(std::move(opened));
  return out;
}

void CheckedList::take_share(const ShardName& shard) {
  ShardDeal deal(shard.count, ready());
  std::priority_queue<Ready, std::vector<Ready>, Later> mine;
  for (; !ready_.empty(); ready_.pop())
    if (deal.next(ready_.top().work) == shard.index) mine.push(ready_.top());
  ready_ = std::move(mine);
  std::erase_if(failures_, [&](const BatchItem& item) { return deal.of_bad_line(item.line) != shard.index; });
}

Ready CheckedList::take_next() {
  Ready next = ready_.top();
  ready_.pop();
  return next;
}

std::vector<BatchItem> CheckedList::take_failures() {
  std::sort(failures_.begin(), failures_.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
  return std::exchange(failures_, {});
}

}  // namespace dgx::jobs
