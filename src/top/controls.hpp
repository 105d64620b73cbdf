// What keys do to the view, and what answers do. Used by the live loop; no terminal and no daemon here.
// Promise: what changes something is only ever asked for where the view is not read-only.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "base/result.hpp"
#include "top/view.hpp"

namespace ration::top {

struct Key {
  enum class Kind { kLetter, kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kEnter, kEscape, kBackspace, kOther };
  Kind kind = Kind::kOther;
  char32_t letter = 0;  ///< of kLetter
};

struct Pressed {
  bool quit = false;
  std::optional<Request> request;
};

[[nodiscard]] Pressed press(View& view, const Key& key);

/// What came back. kSet: `{"changes":[…],"consequences":[…]}`, with `"agree":true` where nothing was changed because
/// the new limit is below what is held; kWhy: the denial; kExplain: a list of what holds the bytes, one a device.
void take_answer(View& view, const Request& request, const Result<nlohmann::json>& answer);

}  // namespace ration::top
