// Tells of events whoever follows them, and of alerts the webhook. Used by the daemon.
// Promise: a follower gets the details of an event only where they may see them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/command.hpp"
#include "http/stream.hpp"
#include "node/http/event_view.hpp"
#include "node/watch/webhook.hpp"

namespace ration::node {

class Announcer {
 public:
  /// Commands in events are given the options of `commands`, which outlives this.
  Announcer(http::EventLoop& loop, const http::StreamOptions& options, const CommandOptions& commands)
      : commands_(commands), stream_(loop, options) {}

  /// Those without a number are left out: they are told when they have one.
  void tell(const std::vector<history::Event>& events);
  /// Sends the alerts among them to `url`, whether they have a number or not; empty: nowhere.
  void send_alerts(const std::string& url, const std::vector<history::Event>& events);
  /// At every tick. What went wrong with the webhook, where that is news.
  [[nodiscard]] std::optional<std::string> step(std::uint64_t now_ns) { return webhook_.step(now_ns); }
  /// Whether anybody follows, or is still to be told.
  [[nodiscard]] bool busy() const { return stream_.subscribers() > 0 || webhook_.busy(); }

  [[nodiscard]] http::EventStream& stream() { return stream_; }

 private:
  [[nodiscard]] nlohmann::json json_of(const history::Event& event, bool with_details) const;

  const CommandOptions& commands_;
  http::EventStream stream_;
  Webhook webhook_;
};

}  // namespace ration::node
