#include "base/read_json.hpp"

#include <rapidjson/reader.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace ration {
namespace {

using nlohmann::json;

/// Takes what RapidJSON's reader meets. Every function's answer is whether it may go on.
class Tree {
 public:
  using Ch = char;

  bool Null() { return add(nullptr); }
  bool Bool(bool value) { return add(value); }
  bool Int(int value) { return value >= 0 ? Uint(static_cast<unsigned>(value)) : add(value); }
  bool Uint(unsigned value) { return add(value); }
  bool Int64(std::int64_t value) { return add(value); }
  bool Uint64(std::uint64_t value) { return add(value); }
  bool Double(double value) { return add(value); }
  bool RawNumber(const Ch*, rapidjson::SizeType, bool) { return false; }  // not asked for
  bool String(const Ch* text, rapidjson::SizeType length, bool) { return add(std::string(text, length)); }
  bool StartObject() { return open(json::object()); }
  bool StartArray() { return open(json::array()); }
  bool EndObject(rapidjson::SizeType) { return close(); }
  bool EndArray(rapidjson::SizeType) { return close(); }
  bool Key(const Ch* text, rapidjson::SizeType length, bool) {
    member_ = &(*open_.back())[std::string(text, length)];
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
  bool add(json value) {
    place(std::move(value));
    return true;
  }
  // What is open stays where it is: only the innermost grows.
  bool open(json value) {
    open_.push_back(&place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  json root_;
  std::vector<json*> open_;
  json* member_ = nullptr;  // of the innermost object: whose value comes next
};

}  // namespace

namespace {

template <unsigned kHow>
bool fill(Tree& tree, std::string& text) {
  constexpr unsigned kAlways =
      rapidjson::kParseIterativeFlag | rapidjson::kParseFullPrecisionFlag | rapidjson::kParseInsituFlag;
  rapidjson::InsituStringStream stream(text.data());
  rapidjson::Reader reader;
  // A NUL looks like the end.
  return !reader.Parse<kAlways | kHow>(stream, tree).IsError() && stream.Tell() == text.size();
}

}  // namespace

json read_json(std::string text) {
  const bool ascii = std::none_of(text.begin(), text.end(), [](char letter) { return (letter & 0x80) != 0; });
  Tree tree;
  const bool good = ascii ? fill<0>(tree, text) : fill<rapidjson::kParseValidateEncodingFlag>(tree, text);
  return good ? tree.take() : json(json::value_t::discarded);
}

}  // namespace ration
