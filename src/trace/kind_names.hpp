// Kinds of events in words, as exports write and imports read them.
#pragma once

#include <optional>
#include <string_view>

#include "trace/event.hpp"

namespace ration::trace {

[[nodiscard]] const char* name_of(Kind kind);
[[nodiscard]] std::optional<Kind> kind_named(std::string_view name);

}  // namespace ration::trace
