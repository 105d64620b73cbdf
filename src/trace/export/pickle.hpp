// Writes a Python pickle of protocol 2 with dictionaries, lists, texts and whole numbers only. Divides lists into
// pieces that are short enough for readers in other languages. Used by the export for PyTorch's memory viewer.
#pragma once

#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <string_view>

namespace ration::trace {

class Pickle {
 public:
  explicit Pickle(std::ostream& out) : out_(out) { out_ << "\x80\x02"; }
  void end() { out_ << '.'; }

  void begin_dict() { out_ << "}("; }
  void end_dict() { out_ << 'u'; }
  Pickle& key(std::string_view name) {
    text(name);
    return *this;
  }

  /// A list. The caller calls item() before it writes each item, and end() after the last.
  class List {
   public:
    explicit List(Pickle& pickle) : pickle_(pickle) { pickle_.out_ << ']'; }
    void item() {
      if (items_++ % kBatch != 0) return;
      if (items_ > 1) pickle_.out_ << 'e';
      pickle_.out_ << '(';
    }
    void end() {
      if (items_ > 0) pickle_.out_ << 'e';
    }

   private:
    static constexpr std::uint64_t kBatch = 1000;
    Pickle& pickle_;
    std::uint64_t items_ = 0;
  };

  void text(std::string_view text) {
    out_ << 'X';
    little_endian(text.size(), 4);
    out_ << text;
  }
  void number(std::uint64_t value) {
    if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
      out_ << 'J';
      little_endian(value, 4);
      return;
    }
    int bytes = 5;
    while (bytes < 9 && value >> (8 * bytes - 1) != 0) ++bytes;  // the highest bit is the sign
    out_ << '\x8a' << static_cast<char>(bytes);
    little_endian(value, bytes);
  }
  void no() { out_ << '\x89'; }

  /// Gives the object that was just written a number, by which recall() refers to the object again.
  void remember(std::uint32_t number) {
    out_ << 'r';
    little_endian(number, 4);
  }
  void recall(std::uint32_t number) {
    out_ << 'j';
    little_endian(number, 4);
  }

 private:
  void little_endian(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ << static_cast<char>(i < 8 ? value >> 8 * i : 0);
  }
  std::ostream& out_;
};

}  // namespace ration::trace
