#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <thread>

#include "dgx/core/files.h"
#include "dgx/core/stop.h"
#include "dgx/exchange/exchange.h"
#include "dgx/exec/leading_executor.h"
#include "dgx/lowering/workers.h"
#include "dgx/program/pieces.h"
#include "dgx/program/stages.h"
#include "rank_threads.h"
#include "stored_steps.h"

namespace dgx::exec {
namespace {

using kernels::ValueIndex;
using test::require_same;
using test::states_of;
using test::Stored;

using test::Exchanges;

/// Cuts of a step, and bounds of the parts of its batch.
struct Pipeline {
  std::vector<ValueIndex> cuts;
  std::vector<std::int64_t> bounds;
};

program::Classes classes_of(const Stored& stored) {
  return *program::classify(*stored.program, stored.slices > 0 ? stored.slices : stored.batch);
}

/// Cuts that leave each stage as many forward lines.
std::vector<ValueIndex> even_cuts(const Stored& stored, std::size_t stages) {
  const auto forward = program::forward_lines(*stored.program, classes_of(stored));
  std::vector<ValueIndex> out;
  for (std::size_t n = 1; n < stages; ++n) out.push_back(forward[n * forward.size() / stages]);
  return out;
}

/// The whole states after each step, by threads of this process that are stages.
std::vector<State> in_stages(const Stored& stored, const Pipeline& pipeline, const Exchanges& exchanges,
                             int threads, int steps) {
  std::vector<State> states;
  test::check_ranks(exchanges, [&](std::size_t r) -> Status {
    DGX_TRY(auto executor, PartsExecutor::create_stage(*exchanges[r], stored.program, stored.inputs(),
                                                       threads, pipeline.cuts, pipeline.bounds));
    DGX_CHECK(executor->load(stored.state));
    for (int s = 0; s < steps; ++s) {
      DGX_CHECK(executor->step());
      DGX_TRY(State state, executor->collect());
      CHECK(state.empty() == (r != 0));
      if (r == 0) states.push_back(std::move(state));
    }
    return {};
  });
  return states;
}

/// Lets a program with a cut of the model, if it is one, begin at the last step in which that sends plain
/// activations.
void begin_before_codes(Stored& stored) {
  for (const ValueIndex v : stored.program->values.indices()) {
    const auto first = program::zero_from(*stored.program, v);
    for (Entry& entry : stored.state)
      if (first && entry.name == "step") entry.tensor.as<std::int64_t>()[0] = *first - 1;
  }
}

std::vector<std::vector<std::int64_t>> bounds_of(std::int64_t slices) {
  std::vector<std::vector<std::int64_t>> out;
  for (const std::int64_t parts : {1, 2, 3}) {
    std::vector<std::int64_t> bounds;
    for (std::int64_t q = 0; q <= parts; ++q) bounds.push_back(slices * q / parts);
    out.push_back(bounds);
  }
  out.push_back({0, 1, 3, slices});
  out.push_back({0, slices - 2, slices - 1, slices});
  return out;
}

}  // namespace

TEST_CASE("pipelines have the states of one process, however they are cut") {
  for (const char* name :
       {"placement/regression", "placement/clipped", "placement/gpt", "placement/switch", "placement/cut",
        "placement/cut-gpt", "placement/convolutions", "placement/counting", "tasks/quickstart"}) {
    Stored stored(name);
    begin_before_codes(stored);
    const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
    const auto expected = states_of(*whole, stored.state, 2);
    for (const int stages : {1, 2, 3}) {
      for (const auto& bounds : bounds_of(stored.batch)) {
        CAPTURE(name, stages, bounds);
        const auto exchanges = exchange::make_local(stages);
        const Pipeline pipeline{even_cuts(stored, static_cast<std::size_t>(stages)), bounds};
        require_same(in_stages(stored, pipeline, exchanges, stages == 2 ? 2 : 1, 2), expected);
      }
    }
  }
}

TEST_CASE("pipelines side by side have the states of one process, however they are cut") {
  struct Case {
    const char* name;
    std::int64_t workers;  // 0: none
  };
  for (const auto& [name, workers] :
       {Case{"placement/regression", 0}, Case{"placement/regression", 6}, Case{"placement/clipped", 0},
        Case{"placement/clipped", 5}, Case{"placement/gpt", 0}, Case{"placement/gpt", 6},
        Case{"placement/cut", 0}, Case{"placement/cut", 6}, Case{"placement/cut-gpt", 0},
        Case{"placement/cut-gpt", 6}, Case{"placement/convolutions", 0}, Case{"placement/convolutions", 7},
        Case{"placement/counting", 0}, Case{"placement/counting", 6}}) {
    Stored stored(name);
    begin_before_codes(stored);
    if (workers > 0) {
      stored.program = std::make_shared<program::Program>(
          lowering::divide_among_workers(*stored.program, workers).value());
      stored.slices = workers;
    }
    const std::int64_t slices = workers > 0 ? workers : stored.batch;
    const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
    const auto expected = states_of(*whole, stored.state, 2);
    // Stages, pipelines, and the bounds of the parts of all.
    const std::vector<std::int64_t> uneven = {0, 1, 3, slices - 1, slices};
    std::vector<std::int64_t> each;
    for (std::int64_t n = 0; n <= slices; ++n) each.push_back(n);
    for (const auto& [stages, pipelines, bounds] :
         std::vector<std::tuple<int, int, std::vector<std::int64_t>>>{{2, 2, {}},
                                                                      {2, 2, uneven},
                                                                      {1, 4, uneven},
                                                                      {3, 2, uneven},
                                                                      {2, static_cast<int>(slices), each}}) {
      CAPTURE(name, workers, stages, pipelines, bounds);
      const auto exchanges = exchange::make_local(stages * pipelines);
      const Pipeline pipeline{even_cuts(stored, static_cast<std::size_t>(stages)), bounds};
      require_same(in_stages(stored, pipeline, exchanges, stages == 3 ? 2 : 1, 2), expected);
    }
  }
}

TEST_CASE("a task of workers goes through one pipeline worker by worker") {
  Stored stored("placement/gpt");
  stored.program =
      std::make_shared<program::Program>(lowering::divide_among_workers(*stored.program, 6).value());
  stored.slices = 6;
  const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
  const auto expected = states_of(*whole, stored.state, 2);
  for (const auto& bounds : bounds_of(6)) {
    CAPTURE(bounds);
    const auto exchanges = exchange::make_local(3);
    require_same(in_stages(stored, {even_cuts(stored, 3), bounds}, exchanges, 1, 2), expected);
  }
}

TEST_CASE("what is over the whole batch goes through a pipeline in one part") {
  for (const char* name :
       {"placement/normed", "placement/resnet20", "placement/recurrence", "placement/encoder"}) {
    const Stored stored(name);
    const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
    const auto expected = states_of(*whole, stored.state, 2);
    for (const int stages : {2, 4}) {
      CAPTURE(name, stages);
      const auto exchanges = exchange::make_local(stages);
      require_same(
          in_stages(stored, {even_cuts(stored, static_cast<std::size_t>(stages)), {}}, exchanges, 1, 2),
          expected);
    }
    if (!program::first_obstacle(*stored.program, classes_of(stored))) continue;
    const auto exchanges = exchange::make_local(2);
    const auto refused = PartsExecutor::create_stage(*exchanges[0], stored.program, stored.inputs(), 1,
                                                     even_cuts(stored, 2), {0, 1, stored.batch});
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kUsage);
    CHECK_THAT(refused.error().message, Catch::Contains("of all samples before a part can go on"));
  }
}

TEST_CASE("pipelines may be cut at any forward lines") {
  std::mt19937_64 random(1);
  for (const char* name : {"placement/clipped", "placement/gpt", "placement/switch", "placement/convolutions",
                           "placement/counting", "placement/cut", "placement/cut-gpt"}) {
    Stored stored(name);
    begin_before_codes(stored);
    const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
    const auto expected = states_of(*whole, stored.state, 2);
    const auto forward = program::forward_lines(*stored.program, classes_of(stored));
    const std::size_t rounds = std::min<std::size_t>(forward.size(), 12);
    for (std::size_t round = 0; round < rounds; ++round) {
      std::vector<ValueIndex> cuts(forward.begin() + 1, forward.end());
      std::ranges::shuffle(cuts, random);
      cuts.resize(round + 1 == rounds ? cuts.size() : random() % std::min<std::size_t>(cuts.size(), 6));
      std::ranges::sort(cuts);
      const int stages = static_cast<int>(cuts.size()) + 1;
      const auto one = exchange::make_local(stages), two = exchange::make_local(2 * stages);
      CAPTURE(name, cuts);
      require_same(in_stages(stored, {cuts, {0, 1, 3, stored.batch}}, one, 1, 2), expected);
      require_same(in_stages(stored, {cuts, {0, 1, 3, 4, stored.batch}}, two, 1, 2), expected);
    }
  }
}

TEST_CASE("what the head makes is not waited for, though a stage makes it for others, too") {
  // Stage 0 reads line 8 whole, which the head makes, before stage 1 can make it for line 13.
  const Stored stored(Result<std::string>(
      R"({"k":"input","next":12,"s":[],"src":"state loss","t":"f32","v":0}
{"k":"input","next":15,"s":[3],"src":"state model/w","t":"f32","v":1}
{"k":"input","next":6,"s":[4,3],"src":"state optimizer/first","t":"f32","v":2}
{"k":"input","next":8,"s":[4,3],"src":"state optimizer/second","t":"f32","v":3}
{"k":"input","next":16,"s":[],"src":"state step","t":"i64","v":4}
{"k":"input","s":[4,3],"src":"batch x","t":"f32","v":5}
{"do":["mul x0 0x1p-1"],"k":"map","s":[4,3],"t":"f32","v":6,"x":["5[i0,i1]"]}
{"do":["mul x0 x1"],"k":"map","s":[4,3],"t":"f32","v":7,"x":["6[i0,i1]","1[i1]"]}
{"do":["add x0 x0"],"k":"map","s":[4,3],"t":"f32","v":8,"x":["6[i0,i1]"]}
{"f":[4],"k":"sum","s":[3],"t":"f32","v":9,"x":["8[k0,i0]"]}
{"do":["sub x0 x1"],"k":"map","s":[4,3],"t":"f32","v":10,"x":["7[i0,i1]","9[i1]"]}
{"do":["add x0 x1"],"k":"map","s":[4,3],"t":"f32","v":11,"x":["7[i0,i1]","8[i0,i1]"]}
{"f":[4,3],"k":"sum","s":[],"t":"f32","v":12,"x":["11[k0,k1]"]}
{"do":["mul x0 x1"],"k":"map","s":[4,3],"t":"f32","v":13,"x":["10[i0,i1]","8[i0,i1]"]}
{"f":[4],"k":"dot","s":[3],"t":"f32","v":14,"x":["13[k0,i0]","5[k0,i0]"]}
{"do":["fma x0 -0x1p-4 x1"],"k":"map","s":[3],"t":"f32","v":15,"x":["14[i0]","1[i0]"]}
{"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":16,"x":["4[]"]}
)"));
  const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
  const auto expected = states_of(*whole, stored.state, 2);
  for (const int pipelines : {1, 2}) {
    CAPTURE(pipelines);
    const auto exchanges = exchange::make_local(2 * pipelines);
    const Pipeline pipeline{{ValueIndex(8)}, {0, 1, 4}};
    require_same(in_stages(stored, pipeline, exchanges, 1, 2), expected);
  }
}

TEST_CASE("what is nearly a cut of the model goes through pipelines, too") {
  const std::string cut =
      read_file(DGX_VECTORS "/placement/cut.program.jsonl", program::kMaxProgramBytes).value();
  const auto with = [&](const std::vector<std::pair<std::string, std::string>>& edits) {
    std::string text = cut;
    for (const auto& [old, now] : edits) {
      const auto at = text.find(old);
      REQUIRE(at != std::string::npos);
      text.replace(at, old.size(), now);
    }
    return text;
  };
  const std::string programs[] = {
      // Another entry becomes half of the one that keeps the activations.
      cut +
          R"({"k":"input","next":43,"s":[40,12],"src":"state optimizer/half/1","t":"f32","v":42})"
          "\n" +
          R"({"do":["mul x0 0x1p-1"],"k":"map","s":[40,12],"t":"f32","v":43,"x":["21[i0,i1]"]})"
          "\n",
      // The gradient has the activation added, a received line that reads another.
      with({{R"("mul t1 t2"],"g":"cut 1")", R"("mul t1 t2","add t3 x2"],"g":"cut 1")"},
            {R"("34[i0,i1]","33[i0]")", R"("34[i0,i1]","33[i0]","19[i0,i1]")"}}),
      // Nothing but the update reads what is received, and nothing but that the entry.
      with({{R"("13[i0,i1]","14[i0,i1]")", R"("13[i0,i1]","13[i0,i1]")"},
            {R"("19[i0,k0]")", R"("13[i0,k0]")"},
            {R"("19[k0,i1]")", R"("13[k0,i1]")"}}),
      // A received line is made of what any stage can make.
      with({{R"("v":33,"x":["28[i0,k0]"])", R"("v":33,"x":["8@12.64[i0,k0]"])"},
            {R"("33[i0]","28[i0,i1]")", R"("33[i0]","8@12.64[i0,i1]")"}})};
  for (const std::string& text : programs) {
    Stored stored{Result<std::string>(text)};
    begin_before_codes(stored);
    const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
    const auto expected = states_of(*whole, stored.state, 2);
    const auto forward = program::forward_lines(*stored.program, classes_of(stored));
    for (std::size_t second = 2; second < forward.size(); ++second) {
      for (std::size_t first = 1; first < second; ++first) {
        const std::vector<ValueIndex> cuts = {forward[first], forward[second]};
        CAPTURE(stored.program->values.size(), cuts);
        const auto one = exchange::make_local(3), two = exchange::make_local(6);
        require_same(in_stages(stored, {cuts, {0, 5, stored.batch}}, one, 1, 2), expected);
        require_same(in_stages(stored, {cuts, {0, 5, stored.batch}}, two, 1, 2), expected);
      }
    }
  }
}

TEST_CASE("rank 0 leads the stages of a pipeline as it leads ranks") {
  Stored stored("placement/clipped");
  const auto inputs = [&] {
    StepInputs out = stored.inputs();
    // Some scalar, as dgx-train logs them.
    for (const ValueIndex v : stored.program->values.indices()) {
      const kernels::Primitive& line = stored.program->values[v];
      if (line.kind == kernels::Kind::kSum && line.shape.empty() && line.dtype == DType::kF32)
        out.watched = {v};
    }
    return out;
  };
  REQUIRE(inputs().watched.size() == 1);
  const auto whole = ExactExecutor::create(stored.program, inputs(), 1).value();
  const auto exchanges = exchange::make_local(3);
  const Pipeline pipeline{even_cuts(stored, 3), {0, 4, 10}};
  const auto make = [&](std::size_t rank) {
    return PartsExecutor::create_stage(*exchanges[rank], stored.program, inputs(), 1, pipeline.cuts,
                                       pipeline.bounds)
        .value();
  };
  StopFlag stop;
  std::vector<Status> ends(3);
  std::vector<std::thread> followers;
  for (const std::size_t rank : {1U, 2U})
    followers.emplace_back([&, rank] { ends[rank] = follow(*exchanges[rank], *make(rank), stop); });
  int asked = 0;
  {
    LeadingExecutor leading(*exchanges[0], make(0), {.asked = [&] { ++asked; }});
    require_same(states_of(leading, stored.state, 2), states_of(*whole, stored.state, 2));
    CHECK(leading.loss() == whole->loss());
    REQUIRE(leading.watched().size() == 1);
    CHECK(leading.watched()[0] == whole->watched()[0]);
    CHECK(leading.digests(1)->state == whole->digests(1)->state);
    const Fault fault{ValueIndex(40), 0, 20};
    REQUIRE(whole->trace(fault, {}).ok());
    REQUIRE(leading.trace(fault, {}).ok());
    REQUIRE(whole->step().ok());
    REQUIRE(leading.step().ok());
    CHECK(leading.position() == whole->position());
    CHECK(leading.digests(1)->state == whole->digests(1)->state);
    const auto copy = leading.snapshot([](std::string_view name) { return name == "loss"; });
    REQUIRE(copy.ok());
    CHECK((*copy)()->size() == stored.state.size() - 1);
    stop.request();
    REQUIRE(leading.step().ok());
    CHECK(asked == 1);
    // A state that is not finite is seen by all, and named as one process names it.
    State bad = whole->state().value();
    for (Entry& entry : bad) {
      if (entry.name.starts_with("model/")) std::ranges::fill(entry.tensor.as<float>(), 1e38F);
    }
    REQUIRE(whole->load(bad).ok());
    REQUIRE(leading.load(bad).ok());
    const Status expected = whole->step(), found = leading.step();
    REQUIRE_FALSE(expected.ok());
    REQUIRE_FALSE(found.ok());
    CHECK(found.error().code == ErrorCode::kMalformed);
    CHECK_THAT(found.error().message, Catch::Contains("finite"));
    CHECK_FALSE(leading.is_broken());
  }
  for (std::thread& thread : followers) thread.join();
  for (const Status& end : ends) CHECK(end.ok());
}

TEST_CASE("a stage has its entries alone, and takes what was counted") {
  const Stored stored("placement/gpt");
  const auto exchanges = exchange::make_local(3);
  const Pipeline pipeline{even_cuts(stored, 3), {0, 2, 4, 6}};
  std::size_t entries = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const auto stage = PartsExecutor::create_stage(*exchanges[static_cast<std::size_t>(rank)], stored.program,
                                                   stored.inputs(), 1, pipeline.cuts, pipeline.bounds);
    REQUIRE(stage.ok());
    CHECK((*stage)->is_pipeline());
    REQUIRE((*stage)->load(stored.state).ok());
    entries += (*stage)->state()->size();
    const auto counted = PartsExecutor::bytes_of_stage(stored.program, stored.inputs(), 1, rank, 3,
                                                       pipeline.cuts, pipeline.bounds);
    REQUIRE(counted.ok());
    CHECK(*counted >= (*stage)->planned_bytes());
    CHECK_FALSE((*stage)->trace([](ValueIndex, const TensorView&) { return Status(); }).ok());
  }
  CHECK(entries == stored.state.size());
}

TEST_CASE("a rank of a pipeline has its slices alone, and takes what was counted") {
  Stored stored("placement/gpt");
  stored.program =
      std::make_shared<program::Program>(lowering::divide_among_workers(*stored.program, 6).value());
  stored.slices = 6;
  const auto cuts = even_cuts(stored, 2);
  const auto bytes = [&](int rank, int ranks, const std::vector<std::int64_t>& bounds) {
    return PartsExecutor::bytes_of_stage(stored.program, stored.inputs(), 1, rank, ranks, cuts, bounds)
        .value();
  };
  const auto exchanges = exchange::make_local(6);
  for (int rank = 0; rank < 6; ++rank) {
    CAPTURE(rank);
    const auto stage = PartsExecutor::create_stage(*exchanges[static_cast<std::size_t>(rank)], stored.program,
                                                   stored.inputs(), 1, cuts, {0, 1, 2, 3, 4, 5, 6});
    REQUIRE(stage.ok());
    CHECK((*stage)->stages() == 2);
    CHECK(bytes(rank, 6, {0, 1, 2, 3, 4, 5, 6}) >= (*stage)->planned_bytes());
  }
  // More pipelines have fewer gradients each.
  CHECK(bytes(1, 6, {0, 2, 4, 6}) < bytes(1, 4, {0, 3, 6}));
  const auto refused =
      PartsExecutor::create_stage(*exchanges[0], stored.program, stored.inputs(), 1, cuts, {0, 1, 2, 3, 6});
  CHECK_FALSE(refused.ok());
}

TEST_CASE("a rank whose entries differ from its column's is named") {
  Stored stored("placement/clipped");
  const auto exchanges = exchange::make_local(4);
  const Pipeline pipeline{even_cuts(stored, 2), {0, 2, 5, 6, 10}};
  StopFlag stop;
  std::vector<std::thread> followers;
  const auto make = [&](std::size_t rank) {
    return PartsExecutor::create_stage(*exchanges[rank], stored.program, stored.inputs(), 1, pipeline.cuts,
                                       pipeline.bounds)
        .value();
  };
  std::vector<std::unique_ptr<PartsExecutor>> others(4);
  for (std::size_t rank = 1; rank < 4; ++rank) others[rank] = make(rank);
  for (std::size_t rank = 1; rank < 4; ++rank)
    followers.emplace_back([&, rank] { (void)follow(*exchanges[rank], *others[rank], stop); });
  {
    LeadingExecutor leading(*exchanges[0], make(0), {});
    REQUIRE(leading.load(stored.state).ok());
    REQUIRE(leading.step().ok());
    REQUIRE(leading.snapshot([](std::string_view) { return false; }).ok());
    // Between two orders of rank 0 the others wait; one of them gets another state.
    State bad = stored.state;
    for (Entry& entry : bad) {
      if (entry.name.starts_with("model/")) entry.tensor.as<float>()[0] += 1;
      if (entry.name == "step") entry.tensor.as<std::int64_t>()[0] = 1;
    }
    REQUIRE(others[3]->load(bad).ok());
    const auto found = leading.snapshot([](std::string_view) { return false; });
    REQUIRE_FALSE(found.ok());
    CHECK_THAT(found.error().message,
               Catch::Contains("rank 3 (") && Catch::Contains("than rank 1, first in "));
  }
  for (std::thread& thread : followers) thread.join();
}

}  // namespace dgx::exec
