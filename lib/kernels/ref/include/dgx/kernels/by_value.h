#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace dgx::kernels {

/// The number of a value in the program's table: line v defines value v. Value 0 is ValueIndex{}. A type of
/// its own, so that it is not mistaken for the number of an operation, a step or an element.
enum class ValueIndex : std::int32_t {};

/// No value of any program.
inline constexpr ValueIndex kNoValue{-1};

/// The number as texts and JSON have it.
[[nodiscard]] constexpr std::int32_t to_number(ValueIndex value) { return static_cast<std::int32_t>(value); }
/// fmt prints a ValueIndex as this.
[[nodiscard]] constexpr std::int32_t format_as(ValueIndex value) { return to_number(value); }

/// Neighbouring values, in order.
struct ValueRange {
  struct Iterator {
    std::int32_t at;
    ValueIndex operator*() const { return ValueIndex{at}; }
    Iterator& operator++() { return ++at, *this; }
    bool operator==(const Iterator&) const = default;
  };
  Iterator first, behind;
  [[nodiscard]] Iterator begin() const { return first; }
  [[nodiscard]] Iterator end() const { return behind; }
};

/// A T for each value of a program, or for each of its first values: a vector that only a ValueIndex indexes.
template <class T>
class ByValue {
 public:
  ByValue() = default;
  ByValue(std::initializer_list<T> items) : items_(items) {}
  explicit ByValue(std::size_t count, const T& each = T()) : items_(count, each) {}
  void assign(std::size_t count, const T& each) { items_.assign(count, each); }
  void resize(std::size_t count) { items_.resize(count); }
  void push_back(T item) { items_.push_back(std::move(item)); }

  // decltype(auto), since an item of a vector<bool> is not a reference.
  [[nodiscard]] decltype(auto) operator[](ValueIndex value) {
    return items_[static_cast<std::size_t>(value)];
  }
  [[nodiscard]] decltype(auto) operator[](ValueIndex value) const {
    return items_[static_cast<std::size_t>(value)];
  }
  [[nodiscard]] bool contains(ValueIndex value) const {
    return value >= ValueIndex{} && static_cast<std::size_t>(value) < size();
  }
  [[nodiscard]] std::size_t size() const { return items_.size(); }
  [[nodiscard]] bool empty() const { return items_.empty(); }
  /// The values that have an item, from `first` on, which is at most next().
  [[nodiscard]] ValueRange indices(ValueIndex first = {}) const {
    return {{to_number(first)}, {to_number(next())}};
  }
  /// The value that the next item will be of.
  [[nodiscard]] ValueIndex next() const { return ValueIndex(size()); }
  /// The value of the last item, of which there must be one.
  [[nodiscard]] ValueIndex last() const { return ValueIndex(size() - 1); }
  [[nodiscard]] decltype(auto) back() { return items_.back(); }
  [[nodiscard]] decltype(auto) back() const { return items_.back(); }
  [[nodiscard]] auto begin() { return items_.begin(); }
  [[nodiscard]] auto begin() const { return items_.begin(); }
  [[nodiscard]] auto end() { return items_.end(); }
  [[nodiscard]] auto end() const { return items_.end(); }

  bool operator==(const ByValue&) const = default;

 private:
  std::vector<T> items_;
};

}  // namespace dgx::kernels
