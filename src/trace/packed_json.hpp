// Converts the header and the summaries of a packed recording to JSON and back, as its file has them
// (docs/recording.md). Used to write and to read the file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "trace/packed_file.hpp"

namespace ration::trace {

/// Returns the text of a document, with U+FFFD in place of invalid UTF-8.
[[nodiscard]] std::string dumped(const nlohmann::json& json);

[[nodiscard]] nlohmann::json to_json(const Header& header);
[[nodiscard]] nlohmann::json to_json(const Summary& summary);

/// Reads what to_json() wrote. Throws nlohmann::json::exception for any other document.
[[nodiscard]] Header header_of(const nlohmann::json& json);
[[nodiscard]] Summary summary_of(const nlohmann::json& json);

}  // namespace ration::trace
