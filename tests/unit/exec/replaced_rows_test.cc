#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "dgx/exec/executor.h"
#include "dgx/kernels/order.h"
#include "dgx/program/check.h"
#include "run_program.h"

namespace dgx::exec {
namespace {

constexpr std::int64_t kSamples = 9;
constexpr std::uint64_t kSeed = 11;

/// A step that replaces rows of an entry.
struct Kept {
  std::int64_t rows = kSamples, width = 5, batch = 4;
  std::string key = "i";     ///< the batch's field that names rows; i: the samples' numbers
  std::string type = "i64";  ///< its type
  std::string place = R"("do":["add k0 0"],"init":"-1","when":["eq x0 i0"])";
  std::string select = R"(["ge x0 0","select t0 x1 x2"])";
  /// Behind the update: a line that reads the entry, too.
  bool is_read_later = false;
};

std::shared_ptr<const program::Program> program_of(const Kept& kept) {
  const auto& [rows, width, batch, key, type, place, select, is_read_later] = kept;
  std::string text;
  auto line = [&, v = 0](const std::string& fields) mutable {
    text += fmt::format("{{{},\"v\":{}{}\n", fields.substr(0, fields.find('|')), v++,
                        fields.substr(fields.find('|') + 1));
  };
  const std::string whole = fmt::format("[{},{}]", rows, width), some = fmt::format("[{},{}]", batch, width);
  line(R"("k":"input","next":9,"s":[],"src":"state loss","t":"f32"|})");
  line(fmt::format(R"("k":"input","next":8,"s":{},"src":"state optimizer/message/1","t":"f32"|}})", whole));
  line(R"("k":"input","next":10,"s":[],"src":"state step","t":"i64"|})");
  line(fmt::format(R"("k":"input","s":[{}],"src":"batch {}","t":"{}"|}})", batch, key, type));
  line(fmt::format(R"("k":"input","s":{},"src":"batch x","t":"f32"|}})", some));
  line(fmt::format(R"("k":"map","s":{},"t":"f32"|,"x":["1[$1,i1]?0x0p0","3[i0]"]}})", some));
  line(fmt::format(R"("do":["fma x0 0x1p-1 x1"],"k":"map","s":{},"t":"f32"|,"x":["5[i0,i1]","4[i0,i1]"]}})",
                   some));
  // Keys: do, f, init, k, s, t, v, when, x.
  const std::size_t when = place.find(",\"when\"");
  const std::size_t init = place.find(",\"init\"");
  line(fmt::format(R"({},"f":[{}]{},"k":"chain","s":[{}],"t":"i64"|{},"x":["3[k0]"]}})",
                   place.substr(0, init), batch, place.substr(init, when - init), rows, place.substr(when)));
  line(fmt::format(R"("do":{},"k":"map","s":{},"t":"f32"|,"x":["7[i0]","6[$0,i1]?0x0p0","1[i0,i1]"]}})",
                   select, whole));
  line(fmt::format(R"("f":{},"k":"sum","s":[],"t":"f32"|,"x":["{}[k0,k1]"]}})", is_read_later ? whole : some,
                   is_read_later ? 1 : 6));
  line(R"("do":["add x0 1"],"k":"map","s":[],"t":"i64"|,"x":["2[]"]})");
  auto program = program::parse_program(text);
  if (!program.ok()) FAIL(text << program.error().message);
  if (const Status good = program::check_program(*program); !good.ok()) FAIL(text << good.error().message);
  return std::make_shared<const program::Program>(*std::move(program));
}

/// The dataset of such a step; the keys of another field than i are anything.
struct Data {
  Tensor x, keys;

  explicit Data(const Kept& kept) : x(DType::kF32, {kSamples, kept.width}) {
    std::int64_t n = 0;
    for (float& number : x.as<float>()) number = static_cast<float>((n++ * 37) % 101 - 50) / 16.0F;
    keys = Tensor(kept.type == "u8" ? DType::kU8 : DType::kI64, {kSamples});
    const std::vector<std::int64_t> some = {3, -1, 8, 3, 200, 0, 7, std::numeric_limits<std::int64_t>::max(),
                                            3};
    for (std::size_t k = 0; k < some.size(); ++k) {
      if (kept.type == "u8") keys.bytes()[k] = static_cast<std::uint8_t>(std::abs(some[k] % 256));
      if (kept.type == "i64") keys.as<std::int64_t>()[k] = some[k];
    }
  }

  [[nodiscard]] StepInputs inputs(const Kept& kept) const {
    StepInputs out;
    out.seed = kSeed;
    out.batch = kept.batch;
    out.fields.emplace("x", x.view());
    if (kept.key != "i") out.fields.emplace(kept.key, keys.view());
    return out;
  }

  [[nodiscard]] test::StepInputs of_step(const Kept& kept, std::int64_t step) const {
    const auto rows = kernels::DataOrder::create(kSeed, kSamples, kept.batch)->batch_indices(step);
    test::StepInputs out{Tensor(DType::kF32, {kept.batch, kept.width}), {}, {}, step, kSeed};
    Tensor named(keys.dtype(), {kept.batch});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<std::size_t>(rows[i]), width = static_cast<std::size_t>(kept.width);
      std::copy_n(x.as<float>().data() + row * width, width, out.x.as<float>().data() + i * width);
      if (keys.dtype() == DType::kU8)
        named.bytes()[i] = keys.bytes()[row];
      else
        named.as<std::int64_t>()[i] = kept.key == "i" ? rows[i] : keys.as<std::int64_t>()[row];
    }
    out.others.emplace(kept.key, std::move(named));
    return out;
  }
};

State start_of(const program::Program& program) {
  State out;
  for (const kernels::ValueIndex v : program::state_inputs(program))
    out.push_back({program.values[v].source.name, Tensor(program.values[v].dtype, program.values[v].shape)});
  std::int64_t n = 0;
  for (float& number : out[1].tensor.as<float>()) number = static_cast<float>(n++) / 4.0F;
  return out;
}

void require_entries(const State& found, const State& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t e = 0; e < found.size(); ++e) {
    CAPTURE(found[e].name);
    REQUIRE(std::ranges::equal(found[e].tensor.bytes(), expected[e].tensor.bytes()));
  }
}

/// True if the plan replaces rows. Seven steps must have the bits of the definition, by any team, and those
/// of a plan of every value.
bool replaces_rows(const Kept& kept) {
  const auto program = program_of(kept);
  const Data data(kept);
  bool replaces = false;
  for (const int threads : {1, 2, 3, 16}) {
    const auto executor = ExactExecutor::create(program, data.inputs(kept), threads).value();
    State state = start_of(*program);
    REQUIRE(executor->load(state).ok());
    for (std::int64_t step = 0; step < 7; ++step) {
      CAPTURE(threads, step);
      state = test::next_state(*program, state, data.of_step(kept, step));
      REQUIRE((step == 5 ? executor->trace({}) : executor->step()).ok());
      require_entries(executor->state().value(), state);
    }
    replaces = executor->explain().find("replaced rows") != std::string::npos;
  }
  return replaces;
}

TEST_CASE("an entry of which a batch replaces rows has the bits of the definition, and its other rows stay") {
  CHECK(replaces_rows({}));
  CHECK(replaces_rows({.width = 1000}));
  CHECK(replaces_rows({.width = 128}));
  CHECK(replaces_rows({.batch = 7}));  // across the end of an epoch: samples are there twice
  CHECK(replaces_rows({.rows = 4}));   // some samples have no row
  CHECK(replaces_rows({.rows = 30, .key = "k"}));
  CHECK(replaces_rows({.rows = 201, .key = "k", .type = "u8"}));
  CHECK(replaces_rows({.rows = 9, .is_read_later = true}));
}

TEST_CASE("what only looks like it is made as a whole") {
  CHECK_FALSE(replaces_rows({.place = R"("do":["add k0 1"],"init":"-1","when":["eq x0 i0"])"}));
  CHECK_FALSE(replaces_rows({.place = R"("do":["add k0 0"],"init":"0","when":["eq x0 i0"])"}));
  CHECK_FALSE(replaces_rows({.place = R"("do":["add k0 0"],"init":"-1","when":["ge x0 i0"])"}));
  CHECK_FALSE(replaces_rows({.select = R"(["ge x0 1","select t0 x1 x2"])"}));
  CHECK_FALSE(replaces_rows({.select = R"(["gt x0 0","select t0 x1 x2"])"}));
  CHECK_FALSE(replaces_rows({.select = R"(["ge x0 0","select t0 x2 x1"])"}));
  CHECK_FALSE(replaces_rows({.width = 1}));
}

TEST_CASE("a replaced row that is not finite ends the step, and is named as by a plan of every value") {
  const Kept kept;
  const auto program = program_of(kept);
  for (const float wrong :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Data data(kept);
    const std::int64_t sample = kernels::DataOrder::create(kSeed, kSamples, kept.batch)->batch_indices(0)[2];
    data.x.as<float>()[static_cast<std::size_t>(sample * kept.width + 3)] = wrong;
    for (const int threads : {1, 3}) {
      const auto executor = ExactExecutor::create(program, data.inputs(kept), threads).value();
      REQUIRE(executor->load(start_of(*program)).ok());
      const Status fused = executor->step();
      REQUIRE_FALSE(fused.ok());
      REQUIRE(executor->load(start_of(*program)).ok());
      const Status alone = executor->trace({});
      REQUIRE_FALSE(alone.ok());
      CHECK(fused.error().message == alone.error().message);
      const auto element = std::to_string(sample * kept.width + 3);
      CHECK_THAT(fused.error().message,
                 Catch::Contains("optimizer/message/1 is not finite at element " + element) ||
                     Catch::Contains("entry loss is not finite"));
    }
  }
}

TEST_CASE("samples' numbers are not taken for a field of their name, of another type, or of another size") {
  Kept kept;
  Data data(kept);
  StepInputs inputs = data.inputs(kept);
  inputs.batch = 3;
  CHECK_FALSE(ExactExecutor::create(program_of(kept), inputs, 1).ok());
  kept.type = "u8";
  CHECK_FALSE(ExactExecutor::create(program_of(kept), data.inputs(kept), 1).ok());
}

}  // namespace
}  // namespace dgx::exec
