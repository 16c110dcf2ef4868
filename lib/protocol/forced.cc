#include "dgx/protocol/forced.h"

#include <cassert>

#include "dgx/crypto/sha256.h"
#include "dgx/protocol/draw.h"

namespace dgx::protocol {

bool may_be_forced(const manifest::Task& task, const manifest::Verdict& verdict) {
  return forces_errors(task.policy) && verdict.draw == manifest::Draw::kPolicy &&
         verdict.outcome == manifest::Outcome::kAccepted;
}

Digest forced_lot(const DrawSource& round, const Digest& secret) {
  return lot("forced", round.round, ByteWriter().digest(secret).digest(round.proof).bytes());
}

std::optional<std::int64_t> forced_segment(const manifest::Task& task, const Segments& segments,
                                           const DrawSource& round, const Digest& secret) {
  assert(round.is_round);
  const Digest lot = forced_lot(round, secret);
  if (!hits(lot, task.policy.forced_error_ppm)) return std::nullopt;
  const auto drawn = policy_draw(task, segments, round.value, round.proof, Digest{});
  assert(drawn.ok() && !drawn->empty());
  std::uint64_t number = 0;
  for (std::size_t i = 8; i < 16; ++i) number = number << 8 | lot.bytes[i];
  const std::int64_t index = (*drawn)[static_cast<std::size_t>(number % drawn->size())];
  return segments[index].length() > 1 ? std::optional(index) : std::nullopt;
}

Digest false_witness(const Digest& witness) {
  return crypto::sha256(ByteWriter().text("dgx-false-witness").digest(witness).bytes());
}

}  // namespace dgx::protocol
