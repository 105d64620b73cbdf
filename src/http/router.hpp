// Which handler a path and a method belong to. Used by the server.
// Promises: a literal goes before a capture, a capture before `{rest...}`; a path that is known with other methods is
// told apart from one that is not known.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ration::http {

using Captures = std::map<std::string, std::string>;

/// `/api/v1/workloads/{name}/explain`, `/periods/{period}:close`, `/{rest...}` (everything below, also nothing).
/// A capture is one non-empty segment, or the part of one between literal text; values are decoded.
class Pattern {
 public:
  /// Throws std::invalid_argument for a pattern that is none: patterns are written in the program.
  explicit Pattern(std::string_view text);

  [[nodiscard]] std::optional<Captures> match(std::string_view path) const;
  [[nodiscard]] bool takes_rest() const noexcept { return !rest_.empty(); }
  /// Sorts more special patterns first.
  [[nodiscard]] const std::string& rank() const noexcept { return rank_; }

 private:
  struct Segment {
    std::string before, capture, after;
  };
  std::vector<Segment> segments_;
  std::string rest_;
  std::string rank_;
};

class Router {
 public:
  struct Found {
    std::optional<std::size_t> route;  ///< what add() returned
    Captures captures;
    std::vector<std::string> allowed;  ///< the methods of this path; empty: no such path
  };

  /// Returns the number of the route.
  std::size_t add(std::string method, std::string_view pattern);
  /// Method and pattern of every route, in the order in which they were added.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> routes() const;
  /// HEAD is answered by the route of GET.
  [[nodiscard]] Found find(std::string_view method, std::string_view path) const;

 private:
  struct Route {
    std::string method;
    Pattern pattern;
    std::size_t number;
    std::string text;  ///< of the pattern
  };
  std::vector<Route> routes_;
};

}  // namespace ration::http
