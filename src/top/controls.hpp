// The effects of keys and of answers on the view. Used by the live loop; independent of terminal and daemon. Promises
// that a read-only view never yields a request that changes something, and that full-width keys (`？`) act as those of
// ASCII.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "base/result.hpp"
#include "top/view.hpp"

namespace ration::top {

struct Key {
  enum class Kind { kLetter, kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kEnter, kEscape, kBackspace, kOther };
  Kind kind = Kind::kOther;
  char32_t letter = 0;  ///< letter of kLetter
};

struct Pressed {
  bool quit = false;
  std::optional<Request> request;
};

[[nodiscard]] Pressed press(View& view, const Key& typed);

/// Shows the answer to a request. For kSet it is `{"changes":[…],"consequences":[…]}`, with `"agree":true` if nothing
/// was changed because the new limit is below what is held; for kWhy a denial; for kExplain an explanation for each
/// device.
void take_answer(View& view, const Request& request, const Result<nlohmann::json>& answer);

}  // namespace ration::top
