#include "base/message.hpp"

#include <fmt/format.h>

#include "base/say.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"

namespace ration {
namespace {

/// Writes a JSON string. Bytes that are not UTF-8 become U+FFFD.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::string_view before = text;
    const char32_t character = take_character(text);
    if (character == kNoCharacter)
      out += "\xef\xbf\xbd";
    else if (character == U'"' || character == U'\\')
      (out += '\\') += static_cast<char>(character);
    else if (character < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(character));
    else
      out += before.substr(0, before.size() - text.size());
  }
  return out + '"';
}

}  // namespace

std::string Message::json() const {
  return id_.empty() ? std::string() : fmt::format(R"({{"message_id":"{}","arguments":{}}})", id_, arguments_);
}

Message known_message(std::string text, std::string_view id, std::string arguments) {
  const std::size_t place = messages::find_row(id);
  if (place == std::size(kMessageTable)) return text;
  return {std::move(text), kMessageTable[place].id, std::move(arguments)};
}

namespace messages {

Filled filled(std::string_view name, Bytes value) { return {name, format_size(value), std::to_string(value.count())}; }

Filled filled(std::string_view name, std::chrono::nanoseconds value) {
  const double seconds = static_cast<double>(value.count()) / 1e9;
  const bool has_tenth = form_of(name) == Form::kWait && seconds < 10;
  return {name,
          has_tenth ? fmt::format("{:.1f}s", seconds) : format_duration(static_cast<std::uint64_t>(value.count())),
          fmt::format("{}", seconds)};
}

Filled filled(std::string_view name, double value) {
  return {name, fmt::format("{:g}", value), fmt::format("{}", value)};
}

Filled filled(std::string_view name, std::string_view value) { return {name, std::string(value), quoted(value)}; }

Filled filled(std::string_view name, const Message& value) {
  if (value.id().empty()) return filled(name, std::string_view(value));
  return {
      name, value,
      fmt::format(R"({{"text":{},"message_id":"{}","arguments":{}}})", quoted(value), value.id(), value.arguments())};
}

Filled filled_number(std::string_view name, std::int64_t value) {
  return {name, std::to_string(value), std::to_string(value)};
}

Filled filled_list(std::string_view name, const std::vector<Filled>& parts, std::string_view separator) {
  Filled all{name, {}, "["};
  for (const Filled& part : parts) {
    if (&part != &parts.front()) all.text += separator, all.json += ',';
    all.text += part.text;
    all.json += part.json;
  }
  all.json += ']';
  all.is_absent = parts.empty();
  return all;
}

Message make(const MessageRow& row, const Filled* arguments, std::size_t count) {
  std::string text, json = "{", part;
  bool is_optional = false, is_left_out = false;
  for (std::string_view rest = row.english; !rest.empty();) {
    const std::size_t plain = std::min(rest.find_first_of("[]{"), rest.size());
    (is_optional ? part : text) += rest.substr(0, plain);
    rest.remove_prefix(plain);
    if (rest.empty()) break;
    const char mark = rest.front();
    if (mark == '{') {
      const std::string_view name = rest.substr(1, rest.find('}') - 1);
      const Filled* found =
          std::find_if(arguments, arguments + count, [&](const auto& each) { return each.name == name; });
      if (found == arguments + count || (is_optional && found->is_absent))
        is_left_out = true;
      else
        (is_optional ? part : text) += found->text;
      rest.remove_prefix(name.size() + 2);
      continue;
    }
    if (mark == ']' && !is_left_out) text += part;
    is_optional = mark == '[';
    is_left_out = false;
    part.clear();
    rest.remove_prefix(1);
  }
  for (const Filled* each = arguments; each != arguments + count; ++each)
    if (!each->is_absent) json += fmt::format("{}\"{}\":{}", json.size() > 1 ? "," : "", each->name, each->json);
  return {std::move(text), row.id, json + "}"};
}

}  // namespace messages
}  // namespace ration
