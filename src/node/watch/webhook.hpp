// Sends alerts to a URL, as JSON over HTTP.
// Promises: never waits for the receiver; follows no redirects, so that only the configured URL gets alerts; keeps the
// URL, which is often a secret, off every command line; drops an alert that is rejected, or fails three times, and
// reports the loss.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/child.hpp"
#include "base/message.hpp"

namespace ration::node {

/// Returns the configuration with which `curl --config` sends `body` to `url`.
[[nodiscard]] std::string request_of(const std::string& url, const std::string& body);

class Webhook {
 public:
  /// Makes a webhook that sends with `program`, which must be a curl.
  explicit Webhook(std::string program = "curl") : program_(std::move(program)) {}

  void send(const std::string& url, std::string body);
  /// Continues or starts a transfer. Returns permanent failures since the last call, without the path of the URL.
  [[nodiscard]] std::optional<Message> step(std::uint64_t now_ns);
  [[nodiscard]] bool busy() const { return child_ || !waiting_.empty(); }

 private:
  struct Delivery {
    std::string url, body;
    int attempts = 0;
    std::uint64_t not_before_ns = 0;
  };
  void drop(const Message& why);
  void failed(const Message& why, std::uint64_t now_ns);

  std::string program_;
  std::deque<Delivery> waiting_;  ///< oldest first; while there is a child, the child sends the first
  std::optional<Child> child_;
  std::uint64_t dropped_ = 0;
  Message problem_;
};

}  // namespace ration::node
