// Writes and reads messages in JSON documents: a message in the field `text` has `message_id` and `arguments` beside
// it; a message in any other field F has both in an object `F_message`. Used by the daemon for its answers and its
// files. Promise: a message without an id gets no such fields.
#pragma once

#include <string>

#include "base/message.hpp"

namespace ration {

/// Sets `field` of the object `row` to `message`. `Json` is nlohmann::json or nlohmann::ordered_json.
template <typename Json>
void put_message(Json& row, const std::string& field, const Message& message) {
  row[field] = static_cast<const std::string&>(message);
  if (message.id().empty()) return;
  Json said = Json::parse(message.json());
  if (field == "text")
    row.update(said);
  else
    row[field + "_message"] = std::move(said);
}

/// Returns the message that put_message() entered as `field`, or a message without an id if this version of ration has
/// no such id.
template <typename Json>
[[nodiscard]] Message message_in(const Json& row, const std::string& field) {
  const auto text = row.find(field);
  if (text == row.end() || !text->is_string()) return {};
  const Json none = Json::object();
  const auto beside = row.find(field + "_message");
  const Json& said = field == "text" ? row : beside == row.end() ? none : *beside;
  const auto id = said.find("message_id"), arguments = said.find("arguments");
  if (id == said.end() || !id->is_string() || arguments == said.end()) return text->template get<std::string>();
  return known_message(text->template get<std::string>(), id->template get<std::string>(), arguments->dump());
}

}  // namespace ration
