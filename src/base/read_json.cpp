#include "base/read_json.hpp"

#include <rapidjson/reader.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace ration {
namespace {

using nlohmann::json;

/// Builds the tree from the events of RapidJSON's reader. Every function returns true to continue.
class Tree {
 public:
  using Ch = char;

  explicit Tree(std::span<const std::string_view> passed_over) : passed_over_(passed_over) {}

  bool Null() { return add(nullptr); }
  bool Bool(bool value) { return add(value); }
  bool Int(int value) { return value >= 0 ? Uint(static_cast<unsigned>(value)) : add(value); }
  bool Uint(unsigned value) { return add(value); }
  bool Int64(std::int64_t value) { return add(value); }
  bool Uint64(std::uint64_t value) { return add(value); }
  bool Double(double value) { return add(value); }
  bool RawNumber(const Ch*, rapidjson::SizeType, bool) { return false; }  // never called: the parser converts numbers
  bool String(const Ch* text, rapidjson::SizeType length, bool) { return add(std::string_view(text, length)); }
  bool StartObject() { return open(json::object()); }
  bool StartArray() { return open(json::array()); }
  bool EndObject(rapidjson::SizeType) { return close(); }
  bool EndArray(rapidjson::SizeType) { return close(); }
  bool Key(const Ch* text, rapidjson::SizeType length, bool) {
    if (below_ > 0) return true;
    const std::string_view name(text, length);
    passing_over_ = std::find(passed_over_.begin(), passed_over_.end(), name) != passed_over_.end();
    if (!passing_over_) member_ = &(*open_.back())[std::string(name)];
    return true;
  }

  json take() { return std::move(root_); }

 private:
  json& place(json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return open_.back()->back();
    }
    return *member_ = std::move(value);
  }
  template <typename Value>
  bool add(Value&& value) {
    if (!passing_over_)
      place(std::forward<Value>(value));
    else if (below_ == 0)
      passing_over_ = false;
    return true;
  }
  // Unfinished objects and arrays keep their addresses, because only the innermost one grows.
  bool open(json value) {
    if (passing_over_)
      ++below_;
    else
      open_.push_back(&place(std::move(value)));
    return true;
  }
  bool close() {
    if (!passing_over_)
      open_.pop_back();
    else if (--below_ == 0)
      passing_over_ = false;
    return true;
  }

  json root_;
  std::vector<json*> open_;
  json* member_ = nullptr;  // the member of the innermost object that gets the next value
  std::span<const std::string_view> passed_over_;
  bool passing_over_ = false;  // true while a value is skipped
  std::size_t below_ = 0;      // number of unfinished objects and arrays in the skipped value
};

}  // namespace

namespace {

template <unsigned kHow>
bool fill(Tree& tree, std::string& text) {
  constexpr unsigned kAlways =
      rapidjson::kParseIterativeFlag | rapidjson::kParseFullPrecisionFlag | rapidjson::kParseInsituFlag;
  rapidjson::InsituStringStream stream(text.data());
  rapidjson::Reader reader;
  // The parser stops at a NUL as if the text ended there.
  return !reader.Parse<kAlways | kHow>(stream, tree).IsError() && stream.Tell() == text.size();
}

}  // namespace

json read_json(std::string text, std::span<const std::string_view> passed_over) {
  const bool ascii = std::none_of(text.begin(), text.end(), [](char letter) { return (letter & 0x80) != 0; });
  Tree tree(passed_over);
  const bool good = ascii ? fill<0>(tree, text) : fill<rapidjson::kParseValidateEncodingFlag>(tree, text);
  return good ? tree.take() : json(json::value_t::discarded);
}

}  // namespace ration
