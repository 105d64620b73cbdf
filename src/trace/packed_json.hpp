// Header and summaries of a packed recording as its file has them (docs/recording.md). Used by what writes it and what
// reads it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "trace/packed_file.hpp"

namespace ration::trace {

/// Returns the text of a document, with U+FFFD for what is not UTF-8.
[[nodiscard]] std::string dumped(const nlohmann::json& json);

[[nodiscard]] nlohmann::json to_json(const Header& header);
[[nodiscard]] nlohmann::json to_json(const Summary& summary);

/// Read what to_json() wrote. Throw nlohmann::json::exception for anything else.
[[nodiscard]] Header header_of(const nlohmann::json& json);
[[nodiscard]] Summary summary_of(const nlohmann::json& json);

}  // namespace ration::trace
