// Every changed bit of what was signed or committed is noticed: in numbers, in bundle files, in statements. A
// bit of a file that carries nothing (padding inside HDF5) may change, but then everything that is read stays
// the same.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dgx/bundle/dataset.h"
#include "dgx/bundle/run.h"
#include "dgx/manifest/statement.h"
#include "dgx/merkle/digests.h"
#include "dgx/program/program.h"
#include "statements.h"
#include "support.h"

namespace dgx {
namespace {

using bundle::test::Folder;
using bundle::test::numbers;
using bundle::test::Random;
using bundle::test::same;
using bundle::test::sample_state;
using bundle::test::slurp;
using bundle::test::spill;

constexpr std::uint64_t kSeed = 20240229;

void flip(std::span<std::uint8_t> bytes, std::uint64_t bit) {
  bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] ^ 1U << bit % 8);
}

std::string flipped(std::string text, std::uint64_t bit) {
  text[bit / 8] = static_cast<char>(text[bit / 8] ^ 1 << bit % 8);
  return text;
}

/// The result of reading a flipped file.
enum class Seen { kNoticed, kNothingChanged, kMissed };

/// Flips `count` bits of the file, one at a time, and restores it. None may be missed.
int noticed_flips(const std::string& path, int count, const std::function<Seen()>& read) {
  const std::string good = slurp(path);
  REQUIRE(read() == Seen::kNothingChanged);
  Random random(kSeed);
  int noticed = 0;
  for (int n = 0; n < count; ++n) {
    const std::uint64_t bit = random.below(good.size() * 8);
    spill(path, flipped(good, bit));
    const Seen seen = read();
    if (seen == Seen::kMissed) FAIL(path << ": nobody noticed bit " << bit);
    // Padding is zeros: a byte that is not zero carries something.
    if (seen == Seen::kNothingChanged && good[bit / 8] != 0)
      FAIL(path << ": bit " << bit << " carries nothing");
    noticed += seen == Seen::kNoticed;
  }
  spill(path, good);
  return noticed;
}

bundle::Dataset small_dataset() {
  auto made =
      bundle::make_dataset(numbers(DType::kU8, {60, 9, 5}, 1), numbers(DType::kI64, {60}, 2), 0x1p-8F);
  REQUIRE(made.ok());
  return std::move(made).value();
}

Digest digest_of(const bundle::Dataset& dataset) {
  const auto digest = bundle::dataset_digest(dataset);
  REQUIRE(digest.ok());
  return *digest;
}

/// The state digest; nullopt if the names are not valid for a state.
std::optional<Digest> digest_of(const State& state) {
  const auto digests = merkle::state_digests(state);
  return digests.ok() ? std::optional(digests->state) : std::nullopt;
}

/// Checks that every statement's envelope is refused when `changed` has flipped a bit of its text.
void refuse_flips(
    int each,
    const std::function<std::string(const manifest::Envelope&, const std::string&, Random&)>& changed) {
  Random random(kSeed);
  for (const manifest::Body& body : test::bodies()) {
    const auto sealed = manifest::seal_any(body, test::key(7));
    REQUIRE(sealed.ok());
    const auto envelope = manifest::parse_envelope(sealed->envelope);
    REQUIRE(envelope.ok());
    for (int n = 0; n < each; ++n) {
      const std::string text = changed(*envelope, sealed->envelope, random);
      const auto opened = manifest::open_any(text);
      if (opened.ok()) FAIL(manifest::name_of(manifest::kind_of(body)) << ": opened: " << text);
    }
  }
}

std::string with_payload(const std::string& envelope, const std::string& payload,
                         const std::string& changed) {
  std::string out = envelope;
  const std::string before = to_base64(as_bytes(payload));
  return out.replace(out.find(before), before.size(), to_base64(as_bytes(changed)));
}

}  // namespace

TEST_CASE("a flipped bit of a sample, a label or the recipe gives another dataset digest") {
  bundle::Dataset dataset = small_dataset();
  const Digest good = digest_of(dataset);
  Random random(kSeed);
  for (auto& [name, field] : dataset.fields) {
    BulkTensor* const tensor = &field.numbers;
    for (int n = 0; n < 250; ++n) {
      const std::uint64_t bit = random.below(tensor->bytes().size() * 8);
      flip(tensor->bytes(), bit);
      if (digest_of(dataset) == good) FAIL("bit " << bit);
      flip(tensor->bytes(), bit);
    }
  }
  for (auto& [name, field] : dataset.fields) {
    for (std::int64_t* bound : {&field.range->low, &field.range->high}) {
      ++*bound;
      CHECK(digest_of(dataset) != good);
      --*bound;
    }
  }
  for (float* number : {&dataset.scale, &dataset.shift}) {
    const float before = *number;
    *number = std::nextafter(before, 1.0F);
    CHECK(digest_of(dataset) != good);
    *number = before;
  }
  CHECK(digest_of(dataset) == good);
}

TEST_CASE("a flipped bit of a state's numbers or names gives another state digest") {
  State state = sample_state(5);
  const auto good = digest_of(state);
  REQUIRE(good);
  Random random(kSeed);
  for (int n = 0; n < 200; ++n) {
    Entry& entry = state[random.below(state.size())];
    const bool name = n % 4 == 0 || entry.tensor.bytes().empty();
    const auto bytes = name ? std::span(reinterpret_cast<std::uint8_t*>(entry.name.data()), entry.name.size())
                            : entry.tensor.bytes();
    const std::uint64_t bit = random.below(bytes.size() * 8);
    flip(bytes, bit);
    if (digest_of(state) == good) FAIL(entry.name << ": bit " << bit);
    flip(bytes, bit);
  }
  CHECK(digest_of(state) == good);
}

TEST_CASE("a flipped bit of a dataset's file is noticed, or changes nothing that is read") {
  const Folder folder;
  const std::string path = folder / "data.h5";
  const bundle::Dataset dataset = small_dataset();
  REQUIRE(bundle::write_dataset(path, dataset, Clobber::kRefuse).ok());
  const int noticed = noticed_flips(path, 400, [&] {
    const auto read = bundle::read_dataset(path);
    if (!read.ok()) return Seen::kNoticed;
    const auto alike = [&](const char* field) {
      return same(read->find(field)->numbers.view(), dataset.find(field)->numbers.view());
    };
    return digest_of(*read) == digest_of(dataset) && alike("x") && alike("y") ? Seen::kNothingChanged
                                                                              : Seen::kMissed;
  });
  CHECK(noticed > 300);
}

TEST_CASE("a flipped bit of a checkpoint's file is noticed, or changes nothing that is read") {
  const Folder folder;
  const std::string path = folder / "state.h5";
  const State state = sample_state(3);
  const auto digests = bundle::digests_of(state);
  REQUIRE(digests.ok());
  REQUIRE(bundle::write_state(path, state, *digests, Clobber::kRefuse).ok());
  const int noticed = noticed_flips(path, 400, [&] {
    const auto read = bundle::read_state(path);
    if (!read.ok()) return Seen::kNoticed;
    return same(read->state, state) && read->digests.state == digests->state ? Seen::kNothingChanged
                                                                             : Seen::kMissed;
  });
  CHECK(noticed > 300);
}

TEST_CASE("a flipped bit of a run's index is noticed, or changes nothing that is read") {
  const Folder folder;
  const std::string run = folder / "run";
  const State state = sample_state(0);
  const State later = sample_state(4);
  const bundle::RunHeader header{test::digest("task"), test::digest("program"), 4, ""};
  {
    const auto digests = bundle::digests_of(state);
    auto writer = bundle::RunWriter::create(run, header, {}, state, *digests);
    REQUIRE(writer.ok());
    REQUIRE(writer->append(later, *bundle::digests_of(later), std::vector<float>{1, 2, 3, 4}).ok());
  }
  const auto good = bundle::RunReader::open(run);
  REQUIRE(good.ok());
  const int noticed = noticed_flips(run + "/index.h5", 400, [&] {
    const auto read = bundle::RunReader::open(run);
    if (!read.ok()) return Seen::kNoticed;
    const auto &index = read->index(), &whole = good->index();
    bool equal = index.header == header && index.diverged == whole.diverged && index.checkpoints.size() == 2;
    equal = equal && index.losses == whole.losses && index.loss_ends == whole.loss_ends;
    for (std::size_t n = 0; equal && n < 2; ++n) {
      const auto &one = index.checkpoints[n], &other = whole.checkpoints[n];
      equal = one.digest == other.digest && one.step == other.step && one.kept == other.kept;
    }
    return equal ? Seen::kNothingChanged : Seen::kMissed;
  });
  CHECK(noticed > 200);  // the file has 4 KiB, of which 45 % is padding
}

TEST_CASE("a flipped bit of any statement's envelope is refused") {
  refuse_flips(40, [](const manifest::Envelope&, const std::string& text, Random& random) {
    return flipped(text, random.below(text.size() * 8));
  });
}

TEST_CASE("a flipped bit of any statement's payload is refused though the envelope is in order") {
  refuse_flips(60, [](const manifest::Envelope& envelope, const std::string& text, Random& random) {
    return with_payload(text, envelope.payload,
                        flipped(envelope.payload, random.below(envelope.payload.size() * 8)));
  });
}

TEST_CASE("a flipped bit of the committed states is not what the proof commits to") {
  std::vector<Digest> states;
  for (int n = 0; n < 11; ++n) states.push_back(test::digest("state " + std::to_string(n)));
  manifest::Proof proof;
  proof.states = manifest::states_root(states);
  proof.initial = states.front();
  proof.final_state = states.back();
  const std::string good = manifest::encode_states(states);
  REQUIRE(manifest::decode_states(good, proof).ok());
  for (std::uint64_t bit = 0; bit < good.size() * 8; bit += 5) {
    if (manifest::decode_states(flipped(good, bit), proof).ok()) FAIL("bit " << bit);
  }
}

TEST_CASE("a flipped bit of a step program gives another root") {
  const std::string good = slurp(std::string(DGX_TEST_TASKS) + "/small.program.jsonl");
  REQUIRE(good.size() > 1000);
  const Digest root = program::program_root(good);
  Random random(kSeed);
  for (int n = 0; n < 400; ++n) {
    const std::uint64_t bit = random.below(good.size() * 8);
    if (program::program_root(flipped(good, bit)) == root) FAIL("bit " << bit);
  }
}

}  // namespace dgx
