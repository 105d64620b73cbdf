// Sends events to the clients of the event stream, and alerts to the webhook.
// Promise: a client gets an event's details only if its viewer may see them.
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
  /// Makes an announcer that adds the options of `commands` to commands in events; `commands` must outlive the
  /// announcer.
  Announcer(http::EventLoop& loop, const http::StreamOptions& options, const CommandOptions& commands)
      : commands_(commands), stream_(loop, options) {}

  /// Sends the numbered events to the stream's clients. An event without a number is sent once it has a number.
  void send(const std::vector<history::Event>& events);
  /// Sends the alerts among the events to `url`, even alerts without a number. Sends nothing if `url` is empty.
  void send_alerts(const std::string& url, const std::vector<history::Event>& events);
  /// Continues the webhook's transfers; called at every tick. Returns the failures to deliver since the last call.
  [[nodiscard]] std::optional<Message> step(std::uint64_t now_ns) { return webhook_.step(now_ns); }
  /// Returns true while a client follows the stream or an alert is unsent.
  [[nodiscard]] bool busy() const { return stream_.subscribers() > 0 || webhook_.busy(); }

  [[nodiscard]] http::EventStream& stream() { return stream_; }

 private:
  [[nodiscard]] nlohmann::json json_of(const history::Event& event, bool with_details) const;

  const CommandOptions& commands_;
  http::EventStream stream_;
  Webhook webhook_;
};

}  // namespace ration::node
