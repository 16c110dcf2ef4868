#include "dgx/protocol/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <set>

#include "dgx/core/checked.h"
#include "dgx/crypto/sha256.h"
#include "dgx/protocol/admission.h"

namespace dgx::protocol {
namespace {

constexpr std::int64_t kMillion = 1'000'000;

std::uint64_t first_u64(const Digest& digest) {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < 8; ++i) out = out << 8 | digest.bytes[i];
  return out;
}

/// Draw `j`: the first 8 bytes of H("dgx-draw" ‖ beacon ‖ proof ‖ verifier ‖ u64be(j)), as a number.
std::uint64_t drawn_number(const Digest& beacon, const Digest& proof_id, const Digest& verifier,
                           std::uint64_t j) {
  ByteWriter out;
  out.text("dgx-draw").digest(beacon).digest(proof_id).digest(verifier).u64(j);
  return first_u64(crypto::sha256(out.bytes()));
}

/// A decimal floating-point number in integers: 10^17 ≤ mantissa < 10^18, value = mantissa · 10^exponent.
/// Each scale() loses less than one part in 10^17, so six digits stand after any number of segments we allow.
class Decimal {
 public:
  static Decimal one() { return {}; }

  /// this · numerator / denominator, for 0 < numerator ≤ denominator ≤ 2^53.
  void scale(std::int64_t numerator, std::int64_t denominator) {
    auto product = static_cast<unsigned __int128>(mantissa_) * static_cast<std::uint64_t>(numerator);
    const auto divisor = static_cast<unsigned __int128>(denominator);
    while (product / divisor < kLow) {
      product *= 10;
      --exponent_;
    }
    mantissa_ = static_cast<std::uint64_t>(product / divisor);
    while (mantissa_ >= kLow * 10) {
      mantissa_ /= 10;
      ++exponent_;
    }
  }

  /// Six significant digits, rounded half up.
  [[nodiscard]] std::string text() const {
    std::uint64_t digits = (mantissa_ + kSixth / 2) / kSixth;
    int exponent = exponent_ + 12;
    while (digits % 10 == 0) {
      digits /= 10;
      ++exponent;
    }
    const std::string number = fmt::format("{}", digits);
    const int leading = exponent + static_cast<int>(number.size()) - 1;  // value = d.ddd · 10^leading
    if (leading >= 0) return number;
    if (leading >= -6) return "0." + std::string(static_cast<std::size_t>(-leading - 1), '0') + number;
    const std::string rest = number.size() > 1 ? "." + number.substr(1) : "";
    return fmt::format("{}{}e{}", number.substr(0, 1), rest, leading);
  }

 private:
  static constexpr std::uint64_t kLow = 100'000'000'000'000'000;
  static constexpr std::uint64_t kSixth = 1'000'000'000'000;
  std::uint64_t mantissa_ = kLow;
  int exponent_ = -17;
};

/// An exact product of positive numbers.
class Product {
 public:
  explicit Product(std::int64_t number) : limbs_{static_cast<std::uint64_t>(number)} {}

  void multiply(std::int64_t factor) {
    std::uint64_t carry = 0;
    for (std::uint64_t& limb : limbs_) {
      const auto product = static_cast<unsigned __int128>(limb) * static_cast<std::uint64_t>(factor) + carry;
      limb = static_cast<std::uint64_t>(product);
      carry = static_cast<std::uint64_t>(product >> 64);
    }
    if (carry != 0) limbs_.push_back(carry);
  }

  [[nodiscard]] bool exceeds(const Product& other) const {
    if (limbs_.size() != other.limbs_.size()) return limbs_.size() > other.limbs_.size();
    return std::lexicographical_compare(other.limbs_.rbegin(), other.limbs_.rend(), limbs_.rbegin(),
                                        limbs_.rend());
  }

 private:
  std::vector<std::uint64_t> limbs_;  ///< the least significant first, the last not 0
};

/// True if q of n segments miss m bad ones with a chance of at most miss_ppm / 10^6, which is above 0.
bool misses_at_most(std::int64_t n, std::int64_t m, std::int64_t q, std::int64_t miss_ppm) {
  if (m + q > n) return true;
  // C(n−m, q) / C(n, q) = C(n−q, m) / C(n, m): take the shorter product.
  const std::int64_t factors = std::min(m, q);
  const std::int64_t other = std::max(m, q);
  Product missing(kMillion);
  Product all(miss_ppm);
  for (std::int64_t i = 0; i < factors; ++i) {
    missing.multiply(n - other - i);
    all.multiply(n - i);
  }
  return !missing.exceeds(all);
}

}  // namespace

std::int64_t confident_count(std::int64_t n, std::int64_t miss_ppm, std::int64_t share_ppm) {
  assert(n >= 1 && miss_ppm >= 0 && miss_ppm <= kMillion && share_ppm >= 1 && share_ppm <= kMillion);
  if (n > kMaxSegments) return n;
  const std::int64_t bad = std::max<std::int64_t>(1, n * share_ppm / kMillion);
  if (miss_ppm == 0) return n - bad + 1;
  std::int64_t enough = 1;
  while (!misses_at_most(n, bad, enough, miss_ppm)) enough *= 2;
  for (std::int64_t too_few = enough / 2; enough - too_few > 1;) {
    const std::int64_t middle = too_few + (enough - too_few) / 2;
    (misses_at_most(n, bad, middle, miss_ppm) ? enough : too_few) = middle;
  }
  return enough;
}

std::int64_t sample_count(const manifest::Policy& policy, std::int64_t whole, std::int64_t n) {
  const auto product = static_cast<__int128>(n) * policy.sample_ppm;
  const auto share = static_cast<std::int64_t>((product + kMillion - 1) / kMillion);
  const std::int64_t confident =
      policy.miss_ppm == 0 ? 0 : confident_count(whole, policy.miss_ppm, policy.miss_share_ppm);
  return std::min(std::max({std::int64_t{1}, share, confident}), n);
}

Result<std::vector<std::int64_t>> draw_segments(const Digest& beacon, const Digest& proof_id,
                                                const Digest& verifier, std::int64_t n, std::int64_t q) {
  if (q < 1 || q > n) return usage_error(fmt::format("draw: {} of {} segments", q, n));
  std::set<std::int64_t> drawn;
  if (q == n) {
    // The loop below would draw them all too, in about n ln n hashes.
    for (std::int64_t i = 0; i < n; ++i) drawn.insert(drawn.end(), i);
  }
  for (std::uint64_t j = 0; std::ssize(drawn) < q; ++j) {
    const std::uint64_t number = drawn_number(beacon, proof_id, verifier, j);
    drawn.insert(static_cast<std::int64_t>(number % static_cast<std::uint64_t>(n)));
  }
  return std::vector<std::int64_t>(drawn.begin(), drawn.end());
}

Result<std::vector<std::int64_t>> policy_draw(const manifest::Task& task, const Segments& segments,
                                              const Digest& beacon, const Digest& proof_id,
                                              const Digest& verifier) {
  const std::int64_t diverging = segments.diverged() ? 1 : 0;
  std::vector<std::int64_t> out;
  if (const std::int64_t n = segments.between(); n > 0) {
    // A round draws the same segments whoever verifies, so that one opening serves them all.
    const Digest key = task.policy.beacon_source == 0 ? verifier : Digest{};
    DGX_TRY(out, draw_segments(beacon, proof_id, key, n, drawn_count(task, segments) - diverging));
  }
  if (segments.diverged()) out.push_back(segments.between());
  return out;
}

std::int64_t drawn_count(const manifest::Task& task, const Segments& segments) {
  const auto whole = Segments::of(task.steps, task.checkpoint_every);
  assert(whole.ok());
  return sample_count(task.policy, whole->count(), segments.between()) + (segments.diverged() ? 1 : 0);
}

std::int64_t witness_step(const Segment& segment) {
  assert(segment.length() >= 2);
  return segment.end - 1;
}

Digest witness_of(const Digest& verifier, const Digest& interior_state) {
  return crypto::sha256(ByteWriter().text("dgx-witness").digest(verifier).digest(interior_state).bytes());
}

std::string miss_probability(std::int64_t n, std::int64_t m, std::int64_t k) {
  assert(n >= 1 && m >= 0 && m <= n && k >= 0 && k <= n);
  if (m == 0 || k == 0) return "1";
  if (m + k > n) return "0";
  // C(n−m, k) / C(n, k) = C(n−k, m) / C(n, m): take the shorter product.
  const std::int64_t factors = std::min(m, k);
  const std::int64_t other = std::max(m, k);
  Decimal out = Decimal::one();
  for (std::int64_t i = 0; i < factors; ++i) out.scale(n - other - i, n - i);
  return out.text();
}

manifest::MissProbability miss_probabilities(std::int64_t n, std::int64_t k) {
  if (n == 0) return {"0", "0", "0"};
  const auto part = [&](std::int64_t divisor) {
    return miss_probability(n, std::max<std::int64_t>(1, n / divisor), k);
  };
  return {part(n), part(100), part(10)};
}

manifest::MissProbability miss_probabilities(const Segments& segments,
                                             std::span<const std::int64_t> replayed) {
  const auto drawn = std::count_if(replayed.begin(), replayed.end(),
                                   [&](std::int64_t index) { return !segments.diverges(index); });
  if (segments.diverged() && drawn == std::ssize(replayed)) return kMissedForCertain;
  return miss_probabilities(segments.between(), drawn);
}

}  // namespace dgx::protocol
