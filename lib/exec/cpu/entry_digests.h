#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/merkle/digests.h"

namespace dgx::exec {

/// The digests of an executor's state. That of a constant entry, whose next value is its own input, is
/// computed once, and again only after its numbers were replaced, which the executor must tell.
class EntryDigests {
 public:
  /// Gives an entry's numbers in rows. The view must last until of_state() returns.
  using Numbers = std::function<Result<TensorView>(std::size_t entry)>;

  /// Adds the state's next entry, in order of name.
  void add(std::string name, bool is_constant) { entries_.push_back({std::move(name), is_constant, {}}); }
  /// True if of_state() will not ask for the entry's numbers.
  [[nodiscard]] bool knows(std::size_t entry) const { return entries_[entry].digest.has_value(); }
  /// To be called when a constant entry's numbers are replaced by others.
  void forget(std::size_t entry) { entries_[entry].digest.reset(); }
  void forget_all();

  /// The digests of the state, as merkle::state_digests() gives them. Errors of that and of `numbers`.
  [[nodiscard]] Result<merkle::StateDigests> of_state(const Numbers& numbers, int threads);

 private:
  struct Known {
    std::string name;
    bool is_constant = false;
    std::optional<Digest> digest;  ///< of a constant entry, once it has been computed
  };
  std::vector<Known> entries_;
};

}  // namespace dgx::exec
