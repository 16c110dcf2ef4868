#include "dispute_vectors.h"

#include <catch2/catch.hpp>

#include "dgx/protocol/referee.h"

using namespace dgx;
using namespace dgx::test;

TEST_CASE("A transcript comes to what a second implementation says") {
  const auto vectors = dispute_vectors(DGX_VECTORS "/dispute.json");
  REQUIRE(vectors.size() >= 100);
  for (const DisputeVector& vector : vectors) {
    INFO(vector.name);
    const auto transcript = protocol::play_transcript(vector.transcript);
    REQUIRE(transcript.ok() == !vector.refused);
    if (vector.refused) continue;
    const auto ruling = transcript->game.ruling();
    REQUIRE(ruling.ok() == vector.ruling.has_value());
    if (!ruling.ok()) continue;
    json::Object said = ruling->predicate();
    for (const char* parties : {"words", "task", "game", "statement", "defender", "challenger"})
      said.erase(parties);
    CHECK(json::Value(said).dump() == json::Value(*vector.ruling).dump());
  }
}
