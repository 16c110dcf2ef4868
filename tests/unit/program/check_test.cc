#include "dgx/program/check.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "run_program.h"

using namespace dgx;
using namespace dgx::program;

namespace {

/// A step with values 0 (f32 [4,6]), 1 (i64 [4]), 2 (f32 [2], the schedule), and the tested line as number 5;
/// line 6 computes the next step number.
std::string program_with(const std::string& line) {
  return R"({"k":"input","next":0,"s":[4,6],"src":"state model/w","t":"f32","v":0})"
         "\n"
         R"({"k":"input","s":[4],"src":"batch y","t":"i64","v":1})"
         "\n"
         R"({"k":"input","of":["lr","-lr"],"s":[2],"src":"schedule","t":"f32","v":2})"
         "\n"
         R"({"k":"input","next":3,"s":[],"src":"state loss","t":"f32","v":3})"
         "\n"
         R"({"k":"input","next":6,"s":[],"src":"state step","t":"i64","v":4})"
         "\n" +
         line +
         "\n"
         R"({"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":6,"x":["4[]"]})"
         "\n";
}

Status checked(const std::string& text) {
  const auto program = parse_program(text);
  if (!program.ok()) FAIL(text << program.error().message);
  return check_program(*program);
}

std::string map(const std::string& accesses, const std::string& steps = "",
                const std::string& shape = "[4,6]", const std::string& type = "f32") {
  const std::string list = steps.empty() ? "" : "\"do\":[" + steps + "],";
  return "{" + list + R"("k":"map","s":)" + shape + R"(,"t":")" + type + R"(","v":5,"x":[)" + accesses + "]}";
}

void check_refused(const std::string& line, const std::string& message) {
  INFO(line);
  const Status status = checked(program_with(line));
  REQUIRE(!status.ok());
  CHECK(status.error().code == ErrorCode::kMalformed);
  CHECK_THAT(status.error().message, Catch::StartsWith("line 5: "));
  CHECK_THAT(status.error().message, Catch::Contains(message));
}

void check_accepted(const std::string& line) {
  INFO(line);
  const Status status = checked(program_with(line));
  if (!status.ok()) FAIL(status.error().message);
}

}  // namespace

TEST_CASE("an access without fill must be inside for every index") {
  check_accepted(map(R"("0[i0,i1]")"));
  check_accepted(map(R"("0[3-i0,5-i1]")"));
  check_accepted(map(R"("0[i0//2,i1]")"));
  check_accepted(map(R"("0@24[6*i0+i1]")"));
  check_accepted(map(R"("0@4.6[i0,i1]")"));  // the value's own shape, written differently
  check_accepted(map(R"("0[i0,2*i1]?0x0p0")"));
  check_accepted(map(R"("0[i0,2*i1-5]?-inf")"));
  check_refused(map(R"("0[i0,i1+1]")"), "reaches 1 to 6, outside 0 to 5");
  check_refused(map(R"("0[i0-1,i1]")"), "reaches -1 to 2");
  check_refused(map(R"("0[-i0,i1]")"), "reaches -3 to 0");
  check_refused(map(R"("0@24[6*i0+2*i1]")"), "reaches 0 to 28");
  check_refused(map(R"("0[(i0-1)//2,i1]")"), "reaches -1 to 1");
  check_refused(map(R"("0[i0,9007199254740992*i1]?0x0p0")"), "exceeds 2^53");
  check_refused(map(R"("0[(9007199254740992*i0+9007199254740992*i1)//9007199254740992,i1]?0x0p0")"),
                "exceeds 2^53");
}

TEST_CASE("a view has dimensions, so that what is checked can be printed and read") {
  auto program = parse_program(program_with(map(R"("3[]")", "", "[]")));
  REQUIRE(program.ok());
  REQUIRE(check_program(*program).ok());
  program->values.back().accesses.front().view = Shape{};
  const Status status = check_program(*program);
  REQUIRE(!status.ok());
  CHECK_THAT(status.error().message, Catch::Contains("a view without dimensions"));
}

TEST_CASE("an exact division and a read index need a fill, a read index stands alone") {
  check_accepted(map(R"("0[i0/2,i1]?0x0p0")"));
  check_refused(map(R"("0[i0/2,i1]")"), "a fill is needed");
  check_accepted(map(R"("0[$1,i1]?0x0p0","1[i0]")"));
  check_refused(map(R"("0[$1,i1]","1[i0]")"), "a fill is needed");
  check_refused(map(R"("0[$1+1,i1]?0x0p0","1[i0]")"), "$ must stand alone");
}

TEST_CASE("an index read through an index is refused") {
  check_refused(map(R"("0[$1,i1]?0x0p0","1[$2]?0","1[i0]")"), "access");
  check_refused(map(R"("0[$1,i1]?0x0p0","0[i0,i1]")"), "access");  // not an integer
  check_refused(map(R"("0[$7,i1]?0x0p0")"), "access");
}

TEST_CASE("a line must use what it names and name what exists") {
  check_refused(map(R"("0[i0,i1]","0[i0,0]")"), "access 1 is not used");
  check_refused(map(R"("0[i0,i1]")", R"("neg x0","abs x0")"), "step 0 is not used");
  check_refused(map(R"("5[i0,i1]")"), "value 5 is not defined before");
  check_refused(map(R"("9[i0,i1]")"), "value 9 is not defined before");
  check_refused(map(R"("0[i0]")"), "");
  check_refused(map(R"("0@23[i0]")"), "");
  check_refused(map(R"("0[i0,i2]")"), "");
  check_refused(map(R"("0[i0,k0]")"), "");
  check_refused(map(R"("0[i0,i1]")", R"("neg x1")"), "");
  check_refused(map(R"("0[i0,i1]")", R"("neg t0")"), "");
  check_refused(map(R"("0[i0,i1]")", R"("add x0 acc")"), "");
}

TEST_CASE("types of steps follow the operations") {
  check_refused(map(R"("0[i0,i1]")", R"("add x0 1")"), "");
  check_refused(map(R"("1[i0]")", R"("sqrt x0")"), "");
  check_refused(map(R"("1[i0]")"), "");                             // an integer as f32
  check_refused(map(R"("0[i0,i1]")", R"("select x0 x0 x0")"), "");  // a float condition
  check_accepted(map(R"("1[i0]")", R"("f32 x0")"));
  check_accepted(map(R"("1[i0]")", R"("add x0 i1")", "[4,6]", "i64"));
  check_refused(map(R"("1[i0]?0x0p0")", R"("add x0 i1")", "[4,6]", "i64"), "");
}

TEST_CASE("an element opens at most six leaves on any path") {
  const auto reads = [](int count) {
    std::string accesses, steps;
    for (int n = 0; n < count; ++n) {
      accesses +=
          (n ? ",\"" : "\"") + (n < 6 ? "0[i0," + std::to_string(n) + "]" : std::string("0[3-i0,0]")) + "\"";
    }
    for (int n = 1; n < count; ++n)
      steps += (n > 1 ? "," : "") +
               ("\"add x" + std::to_string(n) + (n > 1 ? " t" + std::to_string(n - 2) : " x0") + "\"");
    return map(accesses, steps, "[4]");
  };
  check_accepted(reads(6));
  check_refused(reads(7), "7 leaves");
  // Only one branch of a select is evaluated.
  check_accepted(map(R"("0[i0,0]","0[i0,1]","0[i0,2]","0[i0,3]","0[i0,4]","0[i0,5]","1[i0]")",
                     R"("add x0 x1","add t0 x2","add x3 x4","add t2 x5","lt x6 2","select t4 t1 t3")",
                     "[4]"));
  // An access opens the leaves of the places that it uses, whatever is done with it.
  const std::string places = R"("0@2.2.2.3[$1,$2,$3,$4]?0x0p0","1[i0]","1[3-i0]","1[i0//2]","1[i0//3]")";
  check_accepted(map(places, R"("neg x0")", "[4]"));
  const std::string more =
      R"("0@1.1.2.2.2.3[$1,$2,$3,$4,$5,$6]?0x0p0","1[i0]","1[3-i0]","1[i0//2]","1[i0//3]","1[(i0+1)//2]","1[(i0+2)//3]")";
  for (const char* steps :
       {"", R"("neg x0")", R"("neg x0","abs t0")", R"("add x0 0x1p0")", R"("select i0 x0 0x0p0")"})
    check_refused(map(more, steps, "[4]"), "7 leaves");
  // Constant places of one small value lie in one leaf.
  check_accepted(map(R"("0[0,0]","0[0,1]","0[0,2]","0[0,3]","0[0,4]","0[0,5]","0[1,0]")",
                     R"("add x0 x1","add t0 x2","add t1 x3","add t2 x4","add t3 x5","add t4 x6")", "[4]"));
}

TEST_CASE("a chain's first position opens the leaves of its start, too") {
  // The term reads two leaves; the start reads one, and the places that it uses.
  const auto chain = [](int names) {
    const std::vector<std::string> places{"1[i0]", "1[3-i0]", "1[i0//2]", "1[i0//3]"};
    std::string coordinates, accesses;
    for (int n = 0; n < 4; ++n) {
      coordinates += (n > 0 ? "," : "") + (n < names ? "$" + std::to_string(3 + n) : std::string("0"));
      if (n < names) accesses += ",\"" + places[static_cast<std::size_t>(n)] + "\"";
    }
    return R"({"do":["add acc x0","add t0 x1"],"f":[6],"init":"x2","k":"chain","s":[4],"t":"f32","v":5,)"
           R"("x":["0[i0,k0]","0[i0,5-k0]","0@2.2.2.3[)" +
           coordinates + "]?0x0p0\"" + accesses + "]}";
  };
  check_accepted(chain(0));
  check_accepted(chain(3));
  check_refused(chain(4), "7 leaves");
}

TEST_CASE("ways through selects are counted up to 128") {
  // A sum of two parts, each one of `count` accesses by nested selects: count^2 combinations of two leaves.
  const auto ways = [](int count) {
    const std::vector<std::string> rows{"i0", "3-i0", "i0//2", "i0//3"};
    std::string accesses, steps;
    int access = 0, step = 0;
    std::vector<int> chosen;
    for (int side = 0; side < 2; ++side) {
      for (int n = 0; n < count; ++n, ++access) {
        accesses += fmt::format("{}\"0[{},{}]\"", access > 0 ? "," : "",
                                rows[static_cast<std::size_t>(access / 6)], access % 6);
        if (n == 0) continue;
        const std::string before = n == 1 ? fmt::format("x{}", access - 1) : fmt::format("t{}", step - 1);
        steps += fmt::format("{}\"select i0 {} x{}\"", step++ > 0 ? "," : "", before, access);
      }
      chosen.push_back(step - 1);
    }
    return map(accesses, steps + fmt::format(",\"add t{} t{}\"", chosen[0], chosen[1]), "[4]");
  };
  check_accepted(ways(11));
  check_refused(ways(12), "more than 128 ways");
}

TEST_CASE("a fill lies in its value's type") {
  const auto line = [](const std::string& fill) {
    return R"({"k":"map","s":[2],"t":"u8","v":5,"x":["0[i0]?)" + fill + "\"]}";
  };
  const auto refused = [&](const std::string& fill) {
    std::string text = program_with(line(fill));
    const std::string from = R"("s":[4,6],"src":"state model/w","t":"f32")";
    text.replace(text.find(from), from.size(), R"("s":[4],"src":"state model/w","t":"u8")");
    const Status status = checked(text);
    return status.ok() ? std::string() : status.error().message;
  };
  CHECK(refused("0").empty());
  CHECK(refused("255").empty());
  CHECK_THAT(refused("256"), Catch::Contains("the fill 256 is not a u8"));
  CHECK_THAT(refused("-1"), Catch::Contains("the fill -1 is not a u8"));
}

TEST_CASE("the entry step counts the steps") {
  const std::string good = program_with(map(R"("0[i0,i1]")"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const Status status = checked(text);
    return status.ok() ? std::string() : status.error().message;
  };
  for (const char* other : {"add x0 2", "sub x0 -1", "add 1 x0"})
    CHECK_THAT(with("add x0 1", other), Catch::Contains("next: of state step"));
  CHECK_THAT(with(R"("next":6)", R"("next":4)"), Catch::Contains("next: of state step"));
}

TEST_CASE("a bundle can hold the names of the state") {
  const auto named = [](const std::string& name) {
    std::string text =
        program_with(R"({"k":"input","next":5,"s":[],"src":"state )" + name + R"(","t":"f32","v":5})");
    const Status status = checked(text);
    return status.ok() ? std::string() : status.error().message;
  };
  CHECK(named("model/a/b/c/d/e/f/g").empty());
  CHECK(named("model/w.x").empty());
  CHECK(named("model/w!").empty());  // sorts before the slash
  CHECK_THAT(named("model/a/b/c/d/e/f/g/h"), Catch::Contains("more than 8 parts"));
  for (const char* name : {"model/", "model//a", "model/a/", "model/./a", "optimizer/.."})
    CHECK_THAT(named(name), Catch::Contains("part"));
  CHECK_THAT(named("model/w/x"), Catch::Contains("'model/w' is a prefix of 'model/w/x'"));
  CHECK_THAT(named("model/w"), Catch::Contains("a second"));
}

TEST_CASE("folds have their own rules") {
  const auto fold = [](const std::string& kind, const std::string& f, const std::string& accesses,
                       const std::string& rest = "") {
    return "{" + (rest.find("\"do\"") == 0 ? rest + "," : std::string()) + R"("f":)" + f + R"(,"k":")" +
           kind + R"(","s":[4],"t":"f32","v":5,"x":[)" + accesses + "]}";
  };
  check_accepted(fold("dot", "[6]", R"("0[i0,k0]","0[0,k0]")"));
  check_accepted(fold("sum", "[6]", R"("0[i0,k0]")"));
  check_accepted(fold("max", "[6]", R"("0[i0,k0]")"));
  check_refused(fold("dot", "[6]", R"("0[i0,k0]")"), "");
  check_refused(fold("dot", "[6]", R"("0[i0,k0]","0[0,k0]","0[1,k0]")"), "not used");
  check_refused(fold("argmax", "[6]", R"("0[i0,k0]")"), "");  // gives i64
  check_refused(fold("sum", "[7]", R"("0[i0,k0]")"), "reaches 0 to 6");
  check_refused(fold("sum", "[9007199254740992,9007199254740992]", R"("0[i0,0]")"), "f: ");
  check_refused(fold("sum", "[9007199254740992,1024]", R"("0[i0,0]")"), "f: ");
}

TEST_CASE("a chain starts at a constant or at an access without fold indices") {
  const auto chain = [](const std::string& init, const std::string& when) {
    return R"({"do":["add acc x0"],"f":[6],"init":")" + init + R"(","k":"chain","s":[4],"t":"f32","v":5)" +
           when + R"(,"x":["0[i0,k0]","0[i0,0]"]})";
  };
  check_accepted(chain("x1", ""));
  check_refused(chain("x0", ""), "");
  check_refused(chain("k0", ""), "");
  check_refused(chain("0", ""), "");
  check_refused(chain("i0", ""), "neither a literal nor an access");
  check_refused(chain("0x0p0", ""), "access 1 is not used");
  check_refused(chain("x1", R"(,"when":["neg x0"])"), "");
  check_accepted(chain("x1", R"(,"when":["lt k0 i0"])"));
}

TEST_CASE("a chain's accumulator has 64 bits where its value has 8") {
  check_accepted(R"({"do":["add acc 1"],"f":[6],"init":"300","k":"chain","s":[4],"t":"u8","v":5,"x":[]})");
  // If the start were narrowed, 300 would be 255, and the first element 155; dgx-numerics(7), "Elements".
  const auto program = parse_program(
      R"({"do":["sub acc 100"],"f":[1],"init":"300","k":"chain","s":[1],"t":"u8","v":0,"x":[]})"
      "\n"
      R"({"do":["sub acc 1"],"f":[2],"init":"300","k":"chain","s":[1],"t":"u8","v":1,"when":["lt k0 0"],"x":[]})"
      "\n");
  REQUIRE(program.ok());
  const auto values = test::run_program(*program, {}, {});
  CHECK(values[{}].bytes()[0] == 200);
  CHECK(values.back().bytes()[0] == 255);
}

TEST_CASE("state entries, schedules and constants come from closed lists") {
  const auto input = [](const std::string& head, const std::string& tail) {
    return "{" + std::string(R"("k":"input",)") + head + R"(,"v":5})" + tail;
  };
  check_refused(input(R"("next":0,"s":[4,6],"src":"state model/w","t":"f32")", ""),
                "a second 'state model/w'");
  check_refused(input(R"("next":0,"s":[4,6],"src":"state other","t":"f32")", ""), "no state entry");
  check_refused(input(R"("s":[4,6],"src":"state model/v","t":"f32")", ""), "next: is missing");
  check_refused(input(R"("next":1,"s":[4,6],"src":"state model/v","t":"f32")", ""), "next: value 1 is i64");
  check_refused(input(R"("next":7,"s":[4,6],"src":"state model/v","t":"f32")", ""), "there is no value 7");
  check_refused(input(R"("of":["lr"],"s":[1],"src":"schedule","t":"f32")", ""), "a second 'schedule'");
  check_refused(input(R"("of":["lr"],"s":[],"src":"schedule","t":"f32")", ""),
                "a schedule of 1 names is f32 [1]");
  check_refused(input(R"("of":["0x1p0"],"s":[2],"src":"constant","t":"f32")", ""),
                "1 numbers for 2 elements");
  check_refused(input(R"("of":["1"],"s":[1],"src":"constant","t":"f32")", ""), "'1' is not of type f32");
  check_refused(input(R"("of":["256"],"s":[1],"src":"constant","t":"u8")", ""), "'256' is not of type u8");
  check_refused(input(R"("s":[4],"src":"batch y","t":"i64")", ""), "a second 'batch y'");
  check_refused(input(R"("s":[4],"src":"uniform 0","t":"i64")", ""), "f32");
  check_accepted(input(R"("of":["-inf","0x1p0"],"s":[2],"src":"constant","t":"f32")", ""));
}

TEST_CASE("a schedule's names are known and counted") {
  const std::string good = program_with(map(R"("0[i0,i1]")"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  CHECK(checked(good).ok());
  CHECK_THAT(checked(with(R"("-lr")", R"("2*lr")")).error().message,
             Catch::Contains("unknown schedule '2*lr'"));
  CHECK_THAT(checked(with(R"("s":[2],"src":"schedule")", R"("s":[3],"src":"schedule")")).error().message,
             Catch::Contains("f32 [2]"));
  CHECK_THAT(checked(with("state loss", "state model/loss")).error().message, Catch::Contains("state loss"));
  CHECK_THAT(checked(with(R"("s":[],"src":"state loss","t":"f32")", R"("s":[],"src":"state loss","t":"i64")"))
                 .error()
                 .message,
             Catch::Contains("f32 []"));
  for (const char* name : {"rate", "lr:0", "lr:33", "lr:01", "1/sqrt(1-b2^t):1"}) {
    const std::string of = std::string("\"of\":[\"") + name + "\",\"lr\"]";
    CHECK_THAT(checked(with(R"("of":["lr","-lr"])", of)).error().message,
               Catch::Contains("unknown schedule"));
  }
  CHECK(checked(with(R"("of":["lr","-lr"])", R"("of":["lr:1","-lr:32"])")).ok());
}

TEST_CASE("values that together exceed the cap are refused before anything is allocated") {
  check_refused(R"({"k":"map","s":[9007199254740992],"t":"f32","v":5,"x":["0[0,0]"]})", "together exceed");
  check_refused(R"({"k":"map","s":[4294967296,4294967296],"t":"f32","v":5,"x":["0[0,0]"]})", "s: ");
}

TEST_CASE("an evaluation program has no schedule and no random numbers, whose step it would not know") {
  const std::string mean = R"({"do":["add x0 x0"],"k":"map","s":[4],"t":"f32","v":1,"x":["0[i0]"]})"
                           "\n";
  const auto checked_evaluation = [&](const std::string& input) {
    const auto program = parse_program(input + "\n" + mean);
    if (!program.ok()) FAIL(program.error().message);
    return check_program(*program, ProgramRole::kEvaluation);
  };
  CHECK(checked_evaluation(R"({"k":"input","s":[4],"src":"batch y","t":"f32","v":0})").ok());
  CHECK(checked_evaluation(R"({"k":"input","s":[4],"src":"batch mask_2","t":"f32","v":0})").ok());
  const auto gives = [&](const char* shape) {
    const auto program = parse_program(R"({"k":"input","s":)" + std::string(shape) +
                                       R"(,"src":"batch y","t":"f32","v":0})" + "\n");
    REQUIRE(program.ok());
    return check_program(*program, ProgramRole::kEvaluation).ok();
  };
  CHECK(gives("[]"));
  CHECK(gives("[4]"));
  CHECK_FALSE(gives("[4,1]"));
  for (const char* input :
       {R"({"k":"input","s":[4],"src":"uniform 0","t":"f32","v":0})",
        R"({"k":"input","of":["lr","lr","lr","lr"],"s":[4],"src":"schedule","t":"f32","v":0})"}) {
    const Status status = checked_evaluation(input);
    REQUIRE(!status.ok());
    CHECK_THAT(status.error().message, Catch::Contains("an evaluation program has no schedule"));
  }
}
