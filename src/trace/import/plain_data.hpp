// Reads Python pickles of protocols 2 to 5 that contain only plain data: dictionaries, lists, tuples, sets, texts and
// numbers. Used to import what PyTorch dumps. Promises: nothing of the pickle is executed or looked up, so a pickle
// with classes or functions fails; memory is a few times the file's size, and at most kMostValues values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace ration::trace {

class PlainData {
 public:
  static constexpr std::size_t kMostValues = std::size_t{12} << 20;

  enum class Type : std::uint8_t { kNone, kNumber, kReal, kText, kList, kDict };
  class Value;

  /// Returns the data of a pickle, or the reason why it cannot be read: "it needs a class of Python (at byte 17)".
  [[nodiscard]] static tl::expected<PlainData, std::string> parse(std::string pickle);

  [[nodiscard]] Value root() const;

 private:
  friend class PickleReader;
  struct Cell {
    Type type = Type::kNone;
    std::uint64_t payload = 0;  ///< a number's value, a text's place and length, or the number of a container
  };
  std::string pickle_;
  std::vector<std::vector<Cell>> containers_;  ///< items; for a dictionary, keys and values in turn
  Cell root_;
};

/// A value in a PlainData. The PlainData must outlive the value. A function that is not meant for the value's type
/// returns an absent or empty result.
class PlainData::Value {
 public:
  [[nodiscard]] Type type() const { return cell_.type; }
  [[nodiscard]] std::optional<std::int64_t> number() const;
  [[nodiscard]] std::string_view text() const;
  [[nodiscard]] std::size_t size() const { return items().size() / (cell_.type == Type::kDict ? 2 : 1); }
  /// Returns an item of a list or tuple; an empty value beyond the end.
  [[nodiscard]] Value operator[](std::size_t index) const;
  /// Returns the value of a name in a dictionary; an empty value if the dictionary lacks the name.
  [[nodiscard]] Value operator[](std::string_view name) const;
  /// Returns a number that two values have in common only if they are the same container.
  [[nodiscard]] std::uint64_t identity() const { return cell_.payload; }

 private:
  friend class PlainData;
  Value(const PlainData& data, Cell cell) : data_(&data), cell_(cell) {}
  [[nodiscard]] std::span<const Cell> items() const;
  const PlainData* data_;
  Cell cell_;
};

}  // namespace ration::trace
