// Writes messages of Protocol Buffers in their wire format (https://protobuf.dev/programming-guides/encoding). Used by
// the exports whose readers take such messages. Promises: fields stand in the order of the calls; a value of zero is
// written, too, so that a reader can tell it from a missing one.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace ration::trace {

class Message {
 public:
  /// Adds a field of an integer type, bool or enum; a negative number takes ten bytes, as int64 does.
  template <class Value>
  requires std::is_integral_v<Value> || std::is_enum_v<Value> Message& number(std::uint32_t field, Value value) {
    key(field, kVarint);
    put_varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  /// Adds a field of the type double.
  Message& real(std::uint32_t field, double value) {
    key(field, kEightBytes);
    return fixed(std::bit_cast<std::uint64_t>(value), 8);
  }
  /// Adds a field of the type float.
  Message& single(std::uint32_t field, float value) {
    key(field, kFourBytes);
    return fixed(std::bit_cast<std::uint32_t>(value), 4);
  }
  /// Adds a field of the type fixed64.
  Message& fixed64(std::uint32_t field, std::uint64_t value) {
    key(field, kEightBytes);
    return fixed(value, 8);
  }
  /// Adds a field of the type string or bytes.
  Message& text(std::uint32_t field, std::string_view value) {
    key(field, kCounted);
    put_varint(value.size());
    bytes_.append(value);
    return *this;
  }
  Message& message(std::uint32_t field, const Message& value) { return text(field, value.bytes_); }
  /// Adds the beginning of a field of the type string, bytes or message. The caller then writes the `length` bytes of
  /// its value.
  Message& opened(std::uint32_t field, std::uint64_t length) {
    key(field, kCounted);
    put_varint(length);
    return *this;
  }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  enum Wire : std::uint32_t { kVarint = 0, kEightBytes = 1, kCounted = 2, kFourBytes = 5 };

  void key(std::uint32_t field, Wire wire) { put_varint(field << 3 | wire); }
  void put_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  Message& fixed(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<char>(value >> 8 * i));
    return *this;
  }

  std::string bytes_;
};

}  // namespace ration::trace
