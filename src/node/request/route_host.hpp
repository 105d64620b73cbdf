// The node, as the handlers of its HTTP paths use it: handlers record events, and make the node tick.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "http/message.hpp"
#include "node/events/event.hpp"
#include "node/request/request.hpp"

namespace ration::node {

class RouteHost {
 public:
  virtual ~RouteHost() = default;
  /// Returns the kind of node that answers: `daemon`, `sim` (a daemon of a simulated node) or `direct`.
  [[nodiscard]] virtual const char* source() const = 0;
  /// Stores events and sends them to clients.
  virtual void record(Events events) = 0;
  virtual void tick_now() = 0;
  /// Ticks if the pace of ticks allows one now, so that the answer is current.
  virtual void tick_if_stale() = 0;

  /// Makes a document of this schema around `data`.
  [[nodiscard]] http::Response answer(const std::string& schema, const nlohmann::json& data, int status = 200) const {
    return node::answer(source(), schema, data, status);
  }
};

/// A function that adds a route: method, pattern (http/router.hpp) and handler.
using AddRoute = std::function<void(std::string, std::string_view, http::Handler)>;

/// Ticks before a change, so that the change applies to current usage. For a user who is no operator, ticks only if the
/// pace of ticks allows one now.
void tick_before_change(RouteHost& host, const http::Request& request);

}  // namespace ration::node
