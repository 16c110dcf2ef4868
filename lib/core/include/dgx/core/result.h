#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace dgx {

/// The kind of an error. The low byte of the value is the exit code of a program that ends with it (dgx(7),
/// "Exit codes").
enum class ErrorCode : int {
  kUsage = 2,          ///< the request never makes sense: flags, field values
  kInconclusive = 3,   ///< nothing could be decided
  kMalformed = 65,     ///< a file's content is not what its format says
  kMissing = 66,       ///< an input file does not exist
  kLocked = 69,        ///< another process is writing there
  kInternal = 70,      ///< a bug of ours, or an environment that cannot work
  kCannotCreate = 73,  ///< an output exists already or cannot be created
  kIo = 74,            ///< the system failed while reading or writing
  kInterrupted = 75,   ///< a signal came; state is saved, run again
  kNotAllowed = 76,    ///< the request is well-formed, but not allowed now: balance, state, turn, deadline
  kUnauthorised = 77,  ///< signature, key or identity
  /// A dataset's numbers are not those that its digest names, or not a dataset's. As an exit code kMalformed,
  /// which a step gives, too, if the state after it is not finite; but that convicts whoever signed for it,
  /// and this convicts nobody.
  kBadData = 65 + 256,
};

/// The exit code of a program that ends with this error.
[[nodiscard]] constexpr int exit_code(ErrorCode code) { return static_cast<int>(code) & 0xFF; }

/// An error as a user reads it: the message is in lower case and names the file, field or index. `hint` says
/// what to do, where that is known.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string hint;
};

/// Either a T or an Error. Every function that can fail returns one; no exception crosses a module.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : data_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Error error) : data_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const { return data_.index() == 0; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] T& value() & { return assert(ok()), std::get<0>(data_); }
  [[nodiscard]] const T& value() const& { return assert(ok()), std::get<0>(data_); }
  [[nodiscard]] T&& value() && { return assert(ok()), std::get<0>(std::move(data_)); }
  [[nodiscard]] const Error& error() const& { return assert(!ok()), std::get<1>(data_); }
  [[nodiscard]] Error&& error() && { return assert(!ok()), std::get<1>(std::move(data_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

 private:
  std::variant<T, Error> data_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit by design

  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error& error() const& { return assert(!ok()), *error_; }
  [[nodiscard]] Error&& error() && { return assert(!ok()), *std::move(error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

[[nodiscard]] inline Error usage_error(std::string message, std::string hint = {}) {
  return {ErrorCode::kUsage, std::move(message), std::move(hint)};
}
[[nodiscard]] inline Error not_allowed(std::string message, std::string hint = {}) {
  return {ErrorCode::kNotAllowed, std::move(message), std::move(hint)};
}
[[nodiscard]] inline Error malformed(std::string message, std::string hint = {}) {
  return {ErrorCode::kMalformed, std::move(message), std::move(hint)};
}
[[nodiscard]] inline Error internal_error(std::string message, std::string hint = {}) {
  return {ErrorCode::kInternal, std::move(message), std::move(hint)};
}
[[nodiscard]] inline Error unauthorised(std::string message, std::string hint = {}) {
  return {ErrorCode::kUnauthorised, std::move(message), std::move(hint)};
}

/// `error` with `where` (a path, field or index) and ": " before its message.
[[nodiscard]] inline Error within(std::string where, Error error) {
  error.message = std::move(where) + ": " + error.message;
  return error;
}

}  // namespace dgx

#define DGX_CONCAT_(a, b) a##b
#define DGX_CONCAT(a, b) DGX_CONCAT_(a, b)
#define DGX_TRY_(result, decl, expr)                  \
  auto result = (expr);                               \
  if (!result.ok()) return std::move(result).error(); \
  decl = std::move(result).value()

/// Declares `decl` from the value of `expr`, or returns its error from the enclosing function.
#define DGX_TRY(decl, expr) DGX_TRY_(DGX_CONCAT(dgx_try_, __LINE__), decl, expr)

/// Returns the error of the Status `expr` from the enclosing function, if it has one.
#define DGX_CHECK(expr) \
  if (auto dgx_status = (expr); !dgx_status.ok()) return std::move(dgx_status).error()
