// A request, its answer, and its sender. Used by every handler of the daemon. Promise: these are plain values that may
// be copied into a worker thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace ration::http {

/// The header lines in their order, with names in lower case.
class Headers {
 public:
  void add(std::string name, std::string value) { lines_.emplace_back(std::move(name), std::move(value)); }
  /// Returns the value of the first line of that name (in lower case); nullptr if there is none.
  [[nodiscard]] const std::string* find(std::string_view name) const noexcept {
    for (const auto& [key, value] : lines_)
      if (key == name) return &value;
    return nullptr;
  }
  /// Returns the value of that line; empty if there is none.
  [[nodiscard]] std::string_view get(std::string_view name) const noexcept {
    const std::string* value = find(name);
    return value == nullptr ? std::string_view{} : *value;
  }
  [[nodiscard]] std::size_t count(std::string_view name) const noexcept {
    std::size_t found = 0;
    for (const auto& line : lines_) found += line.first == name ? 1 : 0;
    return found;
  }
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& lines() const noexcept { return lines_; }

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

/// The process at the other end. The kernel identifies it on the socket (SO_PEERCRED, when it connected); it is unknown
/// on TCP and on the socket for containers.
struct Peer {
  enum class Kind { kUnix, kTcp };
  Kind kind = Kind::kUnix;
  std::optional<uid_t> uid;
  std::optional<gid_t> gid;
  std::optional<pid_t> pid;
  std::string address;          ///< the remote address on TCP, without port
  std::string local_address;    ///< the address that it connected to on TCP, without port
  bool token_accepted = false;  ///< true if this request has shown the content of the token file
  bool sees_all = false;        ///< true if the configuration lets anonymous peers see more than totals
};

struct Request {
  std::string method;
  std::string path;  ///< as sent, percent-encoded
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> captures;  ///< decoded values of `{name}` in the route
  Headers headers;
  std::string body;
  Peer peer;

  /// Returns a parameter of the query; nullptr if it is missing.
  [[nodiscard]] const std::string* parameter(const std::string& name) const {
    const auto found = query.find(name);
    return found == query.end() ? nullptr : &found->second;
  }
};

/// The answer to a request. Sending adds `Content-Length`, `Date`, `Connection` and, unless it is set, `Cache-Control:
/// no-store`. A header with a control character such as a line break turns the answer into a 500.
struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// A function that answers a request; an error becomes its problem (problem.hpp).
using Handler = std::function<Result<Response>(const Request&)>;

}  // namespace ration::http
