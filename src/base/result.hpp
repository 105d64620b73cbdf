// Reports failure of a call across a room's border as a value, never as an exception. Used everywhere outside the
// guard's hot path.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace ration {

/// The reason why something was not done, for a person. `id` is stable (`E1104`, see `ration help E1104`), `what` names
/// the thing, the amount and the holder, `fix` is something to type.
struct Error {
  std::string id;
  std::string what;
  std::string fix;
  /// Exit code of the command line that ends with this error (`ration help exit-codes`).
  int exit_code = 1;
};

template <typename T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(std::string id, std::string what, std::string fix = {},
                                                int exit_code = 1) {
  return tl::unexpected<Error>(Error{std::move(id), std::move(what), std::move(fix), exit_code});
}

}  // namespace ration
