// Selects the rows that fulfil a condition as a person types it: `used>4GiB & denied>0`, `tenant~=nlp`, `governed==no`,
// `idle>30m`, `!(gpu=0 | gpu=1)`, or a bare word that is looked for in every text. The only filter language: `ration
// top --filter`, `ration ps --filter`, the dashboard and `?filter=` of the HTTP interface use it; docs/http-api.md
// explains its grammar. Promises: any text may be given; every comparison with an unknown number is false, except
// `=n/a`; full-width letters and signs, as in `used＞4GiB`, count as those of ASCII.
//
//   all   = every {"|" every}      every = one {["&"] one}    one = "!" one | "(" all ")" | FIELD OP VALUE | WORD
//   OP    = > >= < <= = == != ~= (contains, in any case) !~ (does not)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "rows/filter_fields.hpp"

namespace ration::rows {

class Filter {
 public:
  /// Makes a filter that every row matches.
  Filter() = default;
  /// Parses a filter; every row matches an empty text. Fails with E1429.
  [[nodiscard]] static Result<Filter> parse(std::string_view text);

  /// Returns true if the row matches. `device` is the device of the row, which shares such as `used>50%` refer to; null
  /// if it is unknown.
  [[nodiscard]] bool matches(const Row& row, const Device* device) const;
  [[nodiscard]] bool empty() const { return nodes_.empty(); }

 private:
  friend class FilterParser;
  enum class Kind { kAnd, kOr, kNot, kCompare, kWord };
  enum class Operator { kMore, kAtLeast, kLess, kAtMost, kEqual, kUnequal, kHolds, kHoldsNot };
  struct Node {
    Kind kind = Kind::kWord;
    std::size_t left = 0, right = 0;  ///< the parts of kAnd, kOr, kNot
    const Field* field = nullptr;
    Operator compare = Operator::kEqual;
    std::string text;          ///< in lower case and ASCII, as far as it has such letters
    std::uint64_t number = 0;  ///< the value, unless it is a share
    bool share_of_device = false;
    bool unknown = false;  ///< true for the value n/a
  };

  [[nodiscard]] bool holds(std::size_t node, const Row& row, const Device* device) const;
  [[nodiscard]] static bool compared(const Node& node, const Row& row, const Device* device);

  std::vector<Node> nodes_;  ///< the last one is the root
};

}  // namespace ration::rows
