#include "scenes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <functional>
#include <map>

#include "dgx/crypto/sha256.h"
#include "dgx/kernels/scalar.h"
#include "dgx/merkle/digests.h"
#include "dgx/program/check.h"
#include "dgx/program/cut_spec.h"
#include "dgx/program/line.h"
#include "statements.h"

namespace dgx::test {

std::uint64_t Dice::next() {
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}
std::int64_t Dice::below(std::int64_t count) {
  return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(count));
}

namespace {

[[noreturn]] void broken(const std::string& what) {
  fmt::print(stderr, "scene: {}\n", what);
  std::abort();
}

std::string strings(const char* key, const std::vector<std::string>& all) {
  return all.empty() ? "" : fmt::format("\"{}\":[\"{}\"],", key, fmt::join(all, "\",\""));
}

}  // namespace

int Sketch::parse(std::string text) {
  auto line = program::parse_line(text, program_.values.next());
  if (!line.ok()) broken(text + ": " + line.error().message);
  program_.values.push_back(*std::move(line));
  return to_number(program_.values.last());
}

int Sketch::state(const std::string& name, const char* type, const Shape& shape) {
  const std::size_t v = program_.values.size();
  return parse(fmt::format(R"({{"k":"input","next":{},"s":[{}],"src":"state {}","t":"{}","v":{}}})", v,
                           fmt::join(shape, ","), name, type, v));
}
int Sketch::input(const std::string& source, const char* type, const Shape& shape,
                  const std::vector<std::string>& of) {
  return parse(fmt::format(R"({{"k":"input",{}"s":[{}],"src":"{}","t":"{}","v":{}}})", strings("of", of),
                           fmt::join(shape, ","), source, type, program_.values.size()));
}
int Sketch::add(const Line& line) {
  std::string text = "{" + strings("do", line.steps);
  if (!line.fold.empty()) text += fmt::format("\"f\":[{}],", fmt::join(line.fold, ","));
  if (!line.init.empty()) text += fmt::format("\"init\":\"{}\",", line.init);
  text += fmt::format(R"("k":"{}","s":[{}],"t":"{}","v":{},)", line.kind, fmt::join(line.shape, ","),
                      line.type, program_.values.size());
  text += strings("when", line.when) + strings("x", line.x);
  text.back() = '}';
  return parse(std::move(text));
}

program::Program Sketch::finish(std::optional<int> loss) {
  const int entry = state("loss", "f32", {});
  if (loss) next(entry, *loss);
  const int step = state("step", "i64", {});
  next(step, add({"map", {}, {fmt::format("{}[]", step)}, {"add x0 1"}, {}, "i64"}));
  if (const Status status = program::check_program(program_); !status.ok()) broken(status.error().message);
  return program_;
}

namespace {

/// Ordinary numbers: floats of a few binades around one, integers −3 … 40.
void fill(Tensor& tensor, Dice& dice) {
  for (float& number : tensor.dtype() == DType::kF32 ? tensor.as<float>() : std::span<float>()) {
    number = static_cast<float>(dice.below(2'000'001) - 1'000'000) * 0x1p-20F;
  }
  for (auto& number : tensor.dtype() == DType::kI64 ? tensor.as<std::int64_t>() : std::span<std::int64_t>())
    number = dice.below(44) - 3;
  for (std::uint8_t& number : tensor.dtype() == DType::kU8 ? tensor.bytes() : std::span<std::uint8_t>())
    number = static_cast<std::uint8_t>(dice.below(256));
}

State first_state(const program::Program& program, Dice& dice) {
  State state;
  for (const kernels::ValueIndex v : program::state_inputs(program)) {
    const kernels::Primitive& line = program.values[v];
    Tensor tensor(line.dtype, line.shape);
    if (line.source.name != "step" && line.source.name != "loss") fill(tensor, dice);
    state.push_back({line.source.name, std::move(tensor)});
  }
  return state;
}

constexpr std::int64_t kSamples = 37;

/// Type and shape of one sample's fields, as the program reads them: x, y and others.
std::map<std::string, manifest::DatasetField, std::less<>> fields_of(const program::Program& program,
                                                                     std::int64_t& batch) {
  std::map<std::string, manifest::DatasetField, std::less<>> out{{"x", {DType::kF32, {1}}},
                                                                 {"y", {DType::kF32, {1}}}};
  for (const kernels::Primitive& line : program.values) {
    if (line.kind != kernels::Kind::kInput || line.source.kind != kernels::Source::Kind::kBatch) continue;
    batch = line.shape[0];
    if (line.source.name == program::kSampleNumbers) continue;  // no field
    out[line.source.name] = {line.dtype, Shape(line.shape.begin() + 1, line.shape.end())};
  }
  return out;
}

Entry drawn_field(const std::string& name, const manifest::DatasetField& field, Dice& dice) {
  Shape shape{kSamples};
  shape.insert(shape.end(), field.shape.begin(), field.shape.end());
  Entry entry{name, Tensor(field.dtype, shape)};
  fill(entry.tensor, dice);
  return entry;
}

}  // namespace

Scene scene_from(std::string name, program::Program program, manifest::Task task, State initial,
                 State dataset) {
  Scene scene;
  scene.name = std::move(name);
  kernels::ByValue<kernels::ValueType> types;
  for (const kernels::Primitive& line : program.values) {
    scene.compiled.push_back(std::nullopt);
    if (line.kind != kernels::Kind::kInput) {
      auto compiled = kernels::compile(line, types);
      if (!compiled.ok()) broken(compiled.error().message);
      scene.compiled.back() = *std::move(compiled);
    }
    types.push_back({line.dtype, line.shape});
  }
  scene.initial = std::move(initial);
  scene.dataset = std::move(dataset);
  scene.scales = crypto::sha256(as_bytes(scene.name));
  std::vector<merkle::NamedDigest> fields;
  for (const Entry& entry : scene.dataset)
    fields.push_back({entry.name, merkle::tensor_digest(entry.tensor.view())});
  task.dataset.digest = *merkle::dataset_digest(fields, scene.name);
  task.program = {program::program_root(program), static_cast<std::int64_t>(program.values.size())};
  task.initial.digest = merkle::state_digests(scene.initial)->state;
  task.model = scene.name;
  task.caps.steps = task.steps;
  scene.program = std::move(program);
  scene.task = *manifest::seal(task, key(2));
  return scene;
}

Scene scene_of(std::string name, program::Program program, std::int64_t steps, std::int64_t every,
               std::uint64_t seed) {
  Dice dice(seed);
  State initial = first_state(program, dice);
  manifest::Task task = test::task();
  task.batch = 1;
  task.dataset.samples = kSamples;
  task.dataset.fields = fields_of(program, task.batch);
  State dataset;
  for (const auto& [field, form] : task.dataset.fields) dataset.push_back(drawn_field(field, form, dice));
  task.steps = steps;
  task.checkpoint_every = every;
  return scene_from(std::move(name), std::move(program), std::move(task), std::move(initial),
                    std::move(dataset));
}

Scene small_scene(std::int64_t steps, std::int64_t every) {
  Sketch s;
  const int b = s.state("model/b", "u8", {3});
  const int n = s.state("model/n", "i64", {4});
  const int w = s.state("model/w", "f32", {3, 4});
  s.input("batch x", "u8", {2, 4});                         // 3
  s.input("batch y", "i64", {2});                           // 4
  s.input("schedule", "f32", {2}, {"lr", "-lr"});           // 5
  s.input("constant", "f32", {2}, {"0x1p-1", "-0x1.8p0"});  // 6
  s.input("uniform 0", "f32", {2, 4});                      // 7
  const int x = s.add({"map",
                       {2, 4},
                       {"3[i0,i1]", "7[i0,i1]"},  // 8: half of the data dropped
                       {"lt x1 0x1p-1", "f32 x0", "div t1 0x1p8", "select t0 t2 0x0p0"}});
  const int h = s.add({"dot", {2, 3}, {fmt::format("{}[i0,k0]", x), fmt::format("{}[i1,k0]", w)}, {}, {4}});
  const int best = s.add({"argmax", {2}, {fmt::format("{}[i0,k0]", h)}, {}, {3}, "i64"});
  const int top = s.add({"max", {2}, {fmt::format("{}[i0,k0]", h)}, {}, {3}});
  // Selects the label's column; a label out of range gives the fill.
  const int hit = s.add({"map",
                         {2},
                         {fmt::format("{}[i0,$1]?-0x1p0", h), "4[i0]", fmt::format("{}[i0]", top)},
                         {"sub x0 x2", "exp t0"}});
  const int total = s.add(
      {"sum", {}, {fmt::format("{}[k0]", hit), fmt::format("{}[k0]", best)}, {"f32 x1", "add x0 t0"}, {2}});
  const int count = s.add({"sum",
                           {4},
                           {fmt::format("{}[i0]", n), fmt::format("{}[k0]", best)},
                           {"eq x0 x1", "add t0 x0"},
                           {2},
                           "i64"});
  const int sum8 = s.add({"sum", {3}, {fmt::format("{}[i0]", b), "3[k0,k1]"}, {"add x0 x1"}, {2, 4}, "u8"});
  const int run = s.add({"chain",
                         {3},
                         {fmt::format("{}[i0,k0-1]?0x1p0", w), "6[0]"},
                         {"mul acc 0x1p-1", "add t0 x0"},
                         {4},
                         "f32",
                         {"ge k0 1"},
                         "x1"});
  const int table = s.add({"map",
                           {3, 4},
                           {fmt::format("{}[i0,i1]", w), "5[1]", fmt::format("{}[i0]", run)},
                           {"mul x2 0x1p-6", "fma t0 x1 x0"}});
  const int bytes = s.add({"map",
                           {3},
                           {fmt::format("{}[i0]", sum8), fmt::format("{}[i0//2]", best)},
                           {"add x0 x1", "u8 t0"},
                           {},
                           "u8"});
  s.next(b, bytes);
  s.next(n, count);
  s.next(w, table);
  return scene_of("small", s.finish(total), steps, every, 1);
}

Scene growing_scene() {
  Sketch s;
  const int w = s.state("model/w", "f32", {2});
  const int big =
      s.add({"map", {2}, {fmt::format("{}[i0]", w)}, {"abs x0", "add t0 0x1p0", "mul t1 0x1p50"}});
  s.next(w, big);
  return scene_of("growing", s.finish(), 6, 6, 2);
}

Scene large_scene() {
  Sketch s;
  const int w = s.state("model/w", "f32", {70'000});
  const int v = s.state("model/v", "f32", {2});
  const int k = s.state("model/z", "i64", {70'000});
  const auto flat = [](int value) { return fmt::format("{}[k0]", value); };
  const int grown = s.add(
      {"map", {70'000}, {fmt::format("{}[i0]", w), fmt::format("{}[i0//40000]", v)}, {"fma x1 0x1p-7 x0"}});
  const int dot = s.add({"dot", {2}, {flat(grown), fmt::format("{}[69999-k0]", w)}, {}, {70'000}});
  const int short_dot = s.add({"dot", {2}, {fmt::format("{}[i0+k0]", w), flat(grown)}, {}, {300}});
  const int sum =
      s.add({"sum", {2}, {fmt::format("{}[k0]", grown), fmt::format("{}[i0]", v)}, {"mul x0 x1"}, {70'000}});
  const int short_sum = s.add({"sum", {}, {flat(w)}, {"neg x0"}, {2'047}});
  const int whole = s.add({"sum", {}, {flat(k)}, {}, {70'000}, "i64"});
  const int chain = s.add({"chain",
                           {2},
                           {fmt::format("{}[k0]", grown), fmt::format("{}[i0]", v)},
                           {"mul acc 0x1.fp-1", "add t0 x0"},
                           {70'000},
                           "f32",
                           {"gt x0 0x0p0"},
                           "x1"});
  const int greatest = s.add({"max", {}, {flat(grown)}, {}, {70'000}});
  const int where = s.add({"argmax", {}, {flat(grown)}, {"abs x0"}, {70'000}, "i64"});
  const int first = s.add({"argmax", {}, {flat(k)}, {}, {3'000}, "i64"});
  const int all =
      s.add({"map",
             {2},
             {fmt::format("{}[i0]", dot), fmt::format("{}[i0]", short_dot), fmt::format("{}[i0]", sum),
              fmt::format("{}[]", short_sum), fmt::format("{}[i0]", chain), fmt::format("{}[]", greatest)},
             {"add x0 x1", "add t0 x2", "add t1 x3", "add t2 x4", "add t3 x5", "tanh t4"}});
  const int integers = s.add({"map",
                              {70'000},
                              {fmt::format("{}[i0]", k), fmt::format("{}[]", whole),
                               fmt::format("{}[]", where), fmt::format("{}[]", first)},
                              {"add x0 x1", "add t0 x2", "add t1 x3", "imod t2 1000"},
                              {},
                              "i64"});
  s.next(w, grown);
  s.next(v, all);
  s.next(k, integers);
  return scene_of("large", s.finish(), 2, 2, 3);
}

Scene wide_scene() {
  Sketch s;
  std::vector<int> entries;
  for (int i = 0; i < 299; ++i) entries.push_back(s.state(fmt::format("model/{:03}", i), "f32", {}));
  for (int i = 0; i < 299; ++i) {
    const int other = entries[static_cast<std::size_t>((i + 7) % 299)];
    s.next(entries[static_cast<std::size_t>(i)],
           s.add({"map",
                  {},
                  {fmt::format("{}[]", entries[static_cast<std::size_t>(i)]), fmt::format("{}[]", other)},
                  {"fma x1 0x1p-3 x0"}}));
  }
  return scene_of("wide", s.finish(), 2, 2, 4);
}

Scene long_scene() {
  Sketch s;
  const int w = s.state("model/w", "f32", {2});
  s.next(w, s.add({"map", {2}, {fmt::format("{}[1-i0]", w)}, {"fma x0 -0x1p-1 0x1p0"}}));
  return scene_of("long", s.finish(), 1'200, 600, 5);
}

Scene tiny_scene(int which) {
  Sketch s;
  const int w = s.state("model/w", "f32", {2});
  if (which == 0) s.next(w, s.add({"map", {2}, {fmt::format("{}[1-i0]", w)}, {"add x0 0x1p0", "sqrt t0"}}));
  if (which == 1)
    s.next(w, s.add({"dot", {2}, {fmt::format("{}[k0]", w), fmt::format("{}[-i0+k0]?0x1p0", w)}, {}, {2}}));
  if (which == 2) s.next(w, s.add({"sum", {2}, {fmt::format("{}[k0]", w)}, {"add x0 0x1p-2"}, {2}}));
  if (which == 3)
    s.next(w, s.add({"chain",
                     {2},
                     {fmt::format("{}[k0]", w), fmt::format("{}[i0]", w)},
                     {"add acc x0"},
                     {2},
                     "f32",
                     {"eq k0 i0"},
                     "x1"}));
  return scene_of(fmt::format("tiny {}", which), s.finish(), 3, 3, 6);
}

}  // namespace dgx::test
