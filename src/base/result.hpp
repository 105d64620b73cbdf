// Reports the failure of a call from one room (ARCHITECTURE.md) into another as a value, never as an exception. Used
// everywhere outside the guard's hot path.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "base/message.hpp"

namespace ration {

/// The reason why something was not done, for people. `id` is stable (`E1104`, see `ration help E1104`), `what` names
/// the thing, the amount and the holder, and `fix` is something to type.
struct Error {
  std::string id;
  Message what;
  std::string fix;
  /// The exit code of a command that ends with this error (`ration help exit-codes`).
  int exit_code = 1;
};

template <typename T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(std::string id, Message what, std::string fix = {}, int exit_code = 1) {
  return tl::unexpected<Error>(Error{std::move(id), std::move(what), std::move(fix), exit_code});
}

}  // namespace ration

#define RATION_TRY_CHECK(expression) \
  if (auto tried = (expression); !tried) return tl::unexpected(std::move(tried).error())
#define RATION_TRY_DECLARE_AS(result, declaration, expression)   \
  auto result = (expression);                                    \
  if (!result) return tl::unexpected(std::move(result).error()); \
  declaration = *std::move(result)
#define RATION_TRY_JOIN(name, line) name##line
#define RATION_TRY_NAME(line) RATION_TRY_JOIN(tried_in_line_, line)
#define RATION_TRY_DECLARE(declaration, expression) \
  RATION_TRY_DECLARE_AS(RATION_TRY_NAME(__LINE__), declaration, expression)
#define RATION_TRY_OF(first, second, chosen, ...) chosen

/// Evaluates a Result or another tl::expected. Returns its error from the enclosing function, or continues with its
/// value:
///     RATION_TRY(const auto plan, make_plan(book));
///     RATION_TRY(workload.plan, make_plan(book));
///     RATION_TRY(save(plan));
/// An expression with a comma outside of parentheses, as in `make<A, B>()`, stands in parentheses of its own.
#define RATION_TRY(...) RATION_TRY_OF(__VA_ARGS__, RATION_TRY_DECLARE, RATION_TRY_CHECK, )(__VA_ARGS__)
