#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace dgx::test {

/// A program that is drawn from a seed: dispatches, products with entries, joins, folds, and updates, of
/// whatever was there before.
class DrawnProgram {
 public:
  explicit DrawnProgram(std::uint32_t seed) : chance_(seed) {
    add(R"("k":"input","next":0,"s":[],"src":"state loss","t":"f32")");
    for (int n = 0; n < kEntries; ++n)
      entries_.push_back(add(fmt::format(R"("k":"input","next":1,"s":[4,4],"src":"state model/{}","t":"f32")",
                                         static_cast<char>('a' + n))));
    step_ = add(R"("k":"input","next":0,"s":[],"src":"state step","t":"i64")");
    tokens_.push_back(add(R"("k":"input","s":[6,8,4],"src":"batch x","t":"f32")"));
    numbers_ = add(R"("k":"input","s":[6,8],"src":"batch n","t":"i64")");
    tokens_.push_back(map("6,8,4", {at(tokens_[0], "i0,i1,i2")}, R"("mul x0 0x1p-1")"));
    whole_.push_back(entries_.back());
    for (int n = 0; n < 60; ++n) append_of_body();
    append_tail();
  }
  [[nodiscard]] std::string text() const {
    std::string out;
    for (const std::string& line : lines_) out += line + "\n";
    return out;
  }

 private:
  static constexpr int kEntries = 6;

  int add(std::string fields) {
    const auto at = fields.find(R"(,"x":)");
    const std::string number = fmt::format(R"(,"v":{})", lines_.size());
    fields.insert(at == fields.npos ? fields.size() : at, number);
    lines_.push_back("{" + fields + "}");
    return static_cast<int>(lines_.size()) - 1;
  }
  static std::string at(int value, std::string_view coordinates, std::string_view view = "") {
    return fmt::format(R"("{}{}[{}]")", value, view, coordinates);
  }
  int map(std::string_view shape, const std::vector<std::string>& reads, std::string_view steps) {
    const std::string by = steps.empty() ? "" : fmt::format(R"("do":[{}],)", steps);
    return add(fmt::format(R"({}"k":"map","s":[{}],"t":"f32","x":[{}])", by, shape, fmt::join(reads, ",")));
  }
  int fold(std::string_view kind, std::string_view over, std::string_view shape,
           const std::vector<std::string>& reads) {
    return add(fmt::format(R"("f":[{}],"k":"{}","s":[{}],"t":"f32","x":[{}])", over, kind, shape,
                           fmt::join(reads, ",")));
  }
  int any(const std::vector<int>& of) {
    // Mostly of the last ones, so that some things are long.
    const auto from = of.size() > 6 && chance_() % 3 != 0 ? of.size() - 6 : 0;
    return of[from + chance_() % (of.size() - from)];
  }

  void append_of_body() {
    if (products_.empty() || chance_() % 6 == 0) {
      const int rows = any(tokens_);
      for (unsigned branch = 0; branch < 1 + chance_() % 4; ++branch) {
        const std::string place = branch == 0 ? "i0,i1" : fmt::format("i0,i1+{}", 2 * branch);
        slots_.push_back(
            map("6,2,4", {fmt::format(R"("{}[i0,$1,i2]?0x0p0")", rows), at(numbers_, place)}, ""));
      }
    }
    const int slots = any(slots_);
    if (products_.empty() || chance_() % 3 == 0) {
      const char* const of_entry = chance_() % 2 == 0 ? "i1,k0" : "k0,i1";
      products_.push_back(
          fold("dot", "4", "12,4", {at(slots, "i0,k0", "@12.4"), at(any(entries_), of_entry)}));
    }
    const int product = any(products_), other = any(products_);
    switch (chance_() % 9) {
      case 0: slots_.push_back(map("6,2,4", {at(product, "i0,i1,i2", "@6.2.4")}, "")); break;
      case 1:
        tokens_.push_back(map("6,8,4",
                              {fmt::format(R"("{}[i0,i1,i2]?0x0p0")", slots),
                               fmt::format(R"("{}[i0,i1-2,i2]?0x0p0")", any(slots_))},
                              R"("lt i1 2","select t0 x0 x1")"));
        break;
      case 2:
        tokens_.push_back(
            map("6,8,4", {at(any(tokens_), "i0,i1,i2"), at(any(tokens_), "i0,i1,i2")}, R"("sub x0 x1")"));
        break;
      case 3: grads_.push_back(fold("dot", "12", "4,4", {at(product, "k0,i0"), at(other, "k0,i1")})); break;
      case 4:
        if (chance_() % 4 == 0) whole_.push_back(fold("max", "12", "4,4", {at(product, "k0,i1")}));
        break;
      case 5:
        if (chance_() % 3 == 0) products_.push_back(map("12,4", {at(product, "11-i0,i1")}, R"("neg x0")"));
        break;
      case 6:
        products_.push_back(map("12,4", {at(product, "i0,i1"), at(any(entries_), "0,i1")}, R"("add x0 x1")"));
        break;
      case 7:
        products_.push_back(map("12,4", {at(product, "i0,i1"), at(any(whole_), "1,i1")}, R"("add x0 x1")"));
        break;
      default:
        products_.push_back(
            map("12,4", {at(product, "i0,i1"), at(other, "i0,i1")}, R"("add x0 x1","mul t0 0x1p-1")"));
    }
  }

  void append_tail() {
    if (grads_.empty())
      grads_.push_back(fold("dot", "12", "4,4", {at(any(products_), "k0,i0"), at(any(products_), "k0,i1")}));
    std::vector<int> nexts, all = grads_;
    for (int n = 0; n < kEntries; ++n) {
      if (chance_() % 2 == 0)
        all.push_back(
            map("4,4", {at(any(all), "i0,i1"), at(any(entries_), "i0,i1")}, R"("fma x1 0x1p-2 x0")"));
      const int own = entries_[static_cast<std::size_t>(n)];
      nexts.push_back(map("4,4", {at(own, "i0,i1"), at(any(all), "i0,i1")}, R"("fma x1 -0x1p-4 x0")"));
      if (chance_() % 3 == 0) all.push_back(nexts.back());
    }
    const int sum = fold("sum", "4,4", "", {at(any(all), "k0,k1")});
    const int step =
        add(fmt::format(R"("do":["add x0 1"],"k":"map","s":[],"t":"i64","x":[{}])", at(step_, "")));
    const auto become = [&](int entry, int next) {
      std::string& line = lines_[static_cast<std::size_t>(entry)];
      const auto begin = line.find(R"("next":)") + 7;
      line.replace(begin, line.find(',', begin) - begin, std::to_string(next));
    };
    become(0, sum);
    become(step_, step);
    for (std::size_t n = 0; n < nexts.size(); ++n) become(entries_[n], nexts[n]);
  }

  std::mt19937 chance_;
  std::vector<std::string> lines_;
  std::vector<int> entries_, tokens_, slots_, products_, grads_, whole_;
  int step_ = 0, numbers_ = 0;
};

}  // namespace dgx::test
