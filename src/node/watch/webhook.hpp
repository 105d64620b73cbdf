// Tells another place of every alert, as JSON over HTTP. Used by the daemon. Promises: never waits for that place;
// redirects are not followed, so only the configured place hears; the address, which often is a secret, is on no
// command line; what the place refuses, or cannot be delivered in three attempts, is dropped, and that is said.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "node/child.hpp"

namespace ration::node {

/// What `curl --config` reads, to send `body` to `url`.
[[nodiscard]] std::string request_of(const std::string& url, const std::string& body);

class Webhook {
 public:
  /// `program`: a curl.
  explicit Webhook(std::string program = "curl") : program_(std::move(program)) {}

  void send(const std::string& url, std::string body);
  /// Does what there is to do now. Returns what went wrong for good since the last call, without the address's path.
  [[nodiscard]] std::optional<std::string> step(std::uint64_t now_ns);
  [[nodiscard]] bool busy() const { return child_ || !waiting_.empty(); }

 private:
  struct Message {
    std::string url, body;
    int attempts = 0;
    std::uint64_t not_before_ns = 0;
  };
  void drop(const std::string& why);
  void failed(const std::string& why, std::uint64_t now_ns);

  std::string program_;
  std::deque<Message> waiting_;  ///< the first one is being sent while there is a child
  std::optional<Child> child_;
  std::uint64_t dropped_ = 0;
  std::string problem_;
};

}  // namespace ration::node
