#include "http/router.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/strings.hpp"
#include "http/grammar.hpp"

namespace ration::http {
namespace {

bool starts_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

}  // namespace

Pattern::Pattern(std::string_view text) {
  const auto wrong = [&] { return std::invalid_argument("no route pattern: " + std::string(text)); };
  if (!starts_with(text, "/")) throw wrong();
  for (const std::string_view part : split(text.substr(1), '/')) {
    if (!rest_.empty()) throw wrong();
    const std::size_t open = part.find('{'), close = part.find('}');
    if (open == std::string_view::npos) {
      if (close != std::string_view::npos) throw wrong();
      segments_.push_back({std::string(part), "", ""});
      rank_ += '0';
      continue;
    }
    if (close == std::string_view::npos || close < open + 2) throw wrong();
    const std::string_view name = part.substr(open + 1, close - open - 1), after = part.substr(close + 1);
    if (after.find_first_of("{}") != std::string_view::npos) throw wrong();
    if (name.size() > 3 && name.substr(name.size() - 3) == "...") {
      if (open != 0 || !after.empty()) throw wrong();
      rest_ = name.substr(0, name.size() - 3);
      rank_ += '3';
    } else {
      segments_.push_back({std::string(part.substr(0, open)), std::string(name), std::string(after)});
      rank_ += open == 0 && after.empty() ? '2' : '1';
    }
  }
}

std::optional<Captures> Pattern::match(std::string_view path) const {
  if (!starts_with(path, "/")) return {};
  const auto parts = split(path.substr(1), '/');
  if (parts.size() < segments_.size() || (rest_.empty() && parts.size() != segments_.size())) return {};
  Captures captures;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const auto& [before, capture, after] = segments_[i];
    if (capture.empty()) {
      if (percent_decode(parts[i]) != before) return {};
      continue;
    }
    std::string_view value = parts[i];
    if (value.size() <= before.size() + after.size() || !starts_with(value, before) ||
        value.substr(value.size() - after.size()) != after)
      return {};
    value.remove_prefix(before.size());
    value.remove_suffix(after.size());
    auto decoded = percent_decode(value);
    if (!decoded) return {};
    captures[capture] = std::move(*decoded);
  }
  if (rest_.empty()) return captures;
  const std::size_t begin = parts.size() > segments_.size()
                                ? static_cast<std::size_t>(parts[segments_.size()].data() - path.data())
                                : path.size();
  auto decoded = percent_decode(path.substr(begin));
  if (!decoded) return {};
  captures[rest_] = std::move(*decoded);
  return captures;
}

std::size_t Router::add(std::string method, std::string_view pattern) {
  const std::size_t number = routes_.size();
  Route route{std::move(method), Pattern(pattern), number, std::string(pattern)};
  const auto place = std::upper_bound(routes_.begin(), routes_.end(), route, [](const Route& left, const Route& right) {
    return left.pattern.rank() < right.pattern.rank();
  });
  routes_.insert(place, std::move(route));
  return number;
}

std::vector<std::pair<std::string, std::string>> Router::routes() const {
  std::vector<std::pair<std::string, std::string>> all(routes_.size());
  for (const Route& route : routes_) all[route.number] = {route.method, route.text};
  return all;
}

Router::Found Router::find(std::string_view method, std::string_view path) const {
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  // A path that fits a specific route never reaches the catch-all route, so that a wrong method is reported.
  for (const bool rest : {false, true}) {
    Found found;
    for (const Route& route : routes_) {
      if (route.pattern.takes_rest() != rest) continue;
      auto captures = route.pattern.match(path);
      if (!captures) continue;
      if (!found.route && route.method == wanted) {
        found.route = route.number;
        found.captures = std::move(*captures);
      }
      if (std::find(found.allowed.begin(), found.allowed.end(), route.method) == found.allowed.end())
        found.allowed.push_back(route.method);
    }
    if (!found.allowed.empty()) return found;
  }
  return {};
}

}  // namespace ration::http
