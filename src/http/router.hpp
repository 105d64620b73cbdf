// Finds the handler for a path and a method. Used by the server. Promises: a literal takes precedence over a capture,
// and a capture over `{rest...}`; an unknown method of a known path differs from an unknown path.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ration::http {

using Captures = std::map<std::string, std::string>;

/// A pattern such as `/api/v1/workloads/{name}/explain`, `/periods/{period}:close` or `/{rest...}` (everything below,
/// also nothing). A capture is a non-empty segment, or a part of one between literal text; its value is decoded.
class Pattern {
 public:
  /// Throws std::invalid_argument for an invalid pattern, which is an error of the program.
  explicit Pattern(std::string_view text);

  [[nodiscard]] std::optional<Captures> match(std::string_view path) const;
  [[nodiscard]] bool takes_rest() const noexcept { return !rest_.empty(); }
  /// Returns a key by which more specific patterns sort first.
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
    std::optional<std::size_t> route;  ///< the number from add()
    Captures captures;
    std::vector<std::string> allowed;  ///< the methods of the path; empty if there is no such path
  };

  /// Adds a route and returns its number.
  std::size_t add(std::string method, std::string_view pattern);
  /// Returns method and pattern of every route, in the order in which they were added.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> routes() const;
  /// Finds a route. A HEAD finds the route of GET.
  [[nodiscard]] Found find(std::string_view method, std::string_view path) const;

 private:
  struct Route {
    std::string method;
    Pattern pattern;
    std::size_t number;
    std::string text;  ///< text of the pattern
  };
  std::vector<Route> routes_;
};

}  // namespace ration::http
