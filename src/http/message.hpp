// A request, its answer, and its sender. Used by every handler of the daemon. Promise: plain values, safe to copy into
// a worker thread.
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

/// Header lines in their order. Names are stored in lower case.
class Headers {
 public:
  void add(std::string name, std::string value) { lines_.emplace_back(std::move(name), std::move(value)); }
  /// Returns the first line of that name (lower case), or nullptr.
  [[nodiscard]] const std::string* find(std::string_view name) const noexcept {
    for (const auto& [key, value] : lines_)
      if (key == name) return &value;
    return nullptr;
  }
  /// Returns its value; empty if there is none.
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

/// The process at the other end. On the socket the kernel identifies it (SO_PEERCRED, when it connected); on TCP, and
/// on the socket for containers, it is unknown.
struct Peer {
  enum class Kind { kUnix, kTcp };
  Kind kind = Kind::kUnix;
  std::optional<uid_t> uid;
  std::optional<gid_t> gid;
  std::optional<pid_t> pid;
  std::string address;          ///< TCP: the remote address, without port
  std::string local_address;    ///< TCP: the address that it connected to, without port
  bool token_accepted = false;  ///< this request carried the content of the token file
  bool sees_all = false;        ///< configured: a peer without a user and a token sees more than totals
};

struct Request {
  std::string method;
  std::string path;  ///< as sent, still percent-encoded
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> captures;  ///< the decoded values of `{name}` in the route
  Headers headers;
  std::string body;
  Peer peer;

  /// Returns a value of the query; nullptr if it was not given.
  [[nodiscard]] const std::string* parameter(const std::string& name) const {
    const auto found = query.find(name);
    return found == query.end() ? nullptr : &found->second;
  }
};

/// `Content-Length`, `Date`, `Connection` and (unless set otherwise) `Cache-Control: no-store` are added when it is
/// sent. A header with a line break or another control character is not sent: the answer becomes a 500.
struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// Answers a request; an error becomes its problem (problem.hpp).
using Handler = std::function<Result<Response>(const Request&)>;

}  // namespace ration::http
