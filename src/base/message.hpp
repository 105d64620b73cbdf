// Sentences as data: an id of the table (message_table.hpp), arguments by name, and the English text made from both.
// Used for every text of the daemon that is stored, sent or translated: events, reasons, errors, findings. say.hpp
// makes them. Promise: the English text is made together with the message, so a reader of the text alone needs no
// table.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace ration {

/// A text, with its id and arguments if it has an id. Code that only shows a message uses the message as a string. A
/// text that does not come from the table is a message without an id.
class Message : public std::string {
 public:
  Message() = default;
  Message(std::string text) : std::string(std::move(text)) {}
  Message(const char* text) : std::string(text) {}
  Message(std::string text, std::string_view id, std::string arguments)
      : std::string(std::move(text)), id_(id), arguments_(std::move(arguments)) {}

  /// Returns the id; empty for a message without an id.
  [[nodiscard]] std::string_view id() const { return id_; }
  /// Returns the arguments as a JSON object. A size is an integer in bytes, a duration a number of seconds. An argument
  /// that is itself a message is an object with `text`, `message_id` and `arguments`.
  [[nodiscard]] const std::string& arguments() const { return arguments_; }
  /// Returns `{"message_id":…,"arguments":…}`, or an empty text for a message without an id.
  [[nodiscard]] std::string json() const;

  // Deleted, because the text follows from the arguments: code replaces a message as a whole.
  template <typename T>
  Message& operator+=(const T&) = delete;
  template <typename... T>
  Message& append(const T&...) = delete;

 private:
  std::string_view id_;  ///< points into the table, which is static
  std::string arguments_;
};

/// A message without arguments, made by `fixed<"id">()` of say.hpp. It allocates only when it is converted to a
/// Message.
class FixedMessage {
 public:
  constexpr FixedMessage(std::string_view id, const char* text) : id_(id), text_(text) {}
  operator Message() const { return {text_, id_, "{}"}; }

  [[nodiscard]] constexpr std::string_view id() const { return id_; }
  [[nodiscard]] constexpr const char* text() const { return text_; }
  friend constexpr bool operator==(const FixedMessage& one, const FixedMessage& other) { return one.id_ == other.id_; }

 private:
  std::string_view id_;
  const char* text_;
};

/// Returns the message as it was stored or sent, or a message without an id if the table lacks the id.
[[nodiscard]] Message known_message(std::string text, std::string_view id, std::string arguments);

}  // namespace ration
