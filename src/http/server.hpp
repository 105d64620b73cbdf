// The daemon's HTTP/1.1 server, on a Unix socket and, if configured, on a TCP address. Used by `rationd`. Promises: the
// server has one thread, which no client can block; everything that a client can use up is bounded (by the numbers
// below); a handler that throws causes only an answer 500; an address that other machines can reach needs a token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "http/access.hpp"
#include "http/clients.hpp"
#include "http/connection.hpp"
#include "http/event_loop.hpp"
#include "http/listener.hpp"
#include "http/message.hpp"
#include "http/responder.hpp"
#include "http/router.hpp"

namespace ration::http {

struct ServerOptions : PlaceOptions {
  std::vector<std::string> host_names;                   ///< further names by which browsers may connect
  std::function<void(Response&, const Peer&)> complete;  ///< completes every answer before it is sent; may be empty
  bool anonymous_sees_all = false;                       ///< the value of Peer::sees_all
  /// Rejects a request before the handler sees it, by the pattern of its route; may be empty.
  std::function<std::optional<Response>(const Request&, const std::string&)> gate;
  ConnectionLimits limits;
  ClientBounds clients;
};

/// A handler that may keep the Responder and answer later, from any thread; it must then copy the request.
using DeferredHandler = std::function<void(const Request&, Responder)>;

/// The rules of access to a route.
enum class Access {
  kNormal,
  kSameOriginOnly,  ///< rejects pages of another origin even for GET, as event streams need
};

class Server final : private ConnectionOwner {
 public:
  struct Counters {
    std::uint64_t accepted = 0;     ///< connections
    std::uint64_t turned_away = 0;  ///< connections beyond a bound
    std::uint64_t requests = 0;
    std::uint64_t refused = 0;  ///< requests rejected before any handler
    std::uint64_t handler_failures = 0;
  };

  Server(EventLoop& loop, ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Adds a route with a pattern as in router.hpp. A HEAD is answered by the route of GET.
  void route(std::string method, std::string_view pattern, Handler handler, Access access = Access::kNormal);
  void route_deferred(std::string method, std::string_view pattern, DeferredHandler handler,
                      Access access = Access::kNormal);

  /// Listens on addresses that were taken before. Fails with E1506 if the token file is unsafe.
  [[nodiscard]] Result<void> listen(Places places);
  /// Takes the addresses and listens. Fails as take_places() does, and with E1506 if the token file is unsafe.
  [[nodiscard]] Result<void> listen();
  /// Makes a socket again if its path no longer leads to it; connected clients stay connected. Fails as listen() does.
  [[nodiscard]] Result<void> keep_sockets();
  /// Returns the chosen port; 0 if TCP is not used.
  [[nodiscard]] std::uint16_t tcp_port() const noexcept {
    const auto& tcp = acceptor_.places().tcp;
    return tcp ? tcp->port : 0;
  }
  /// Returns why the port is not the requested one; empty if it is.
  [[nodiscard]] const std::string& tcp_problem() const noexcept { return acceptor_.places().tcp_problem; }

  [[nodiscard]] const ServerOptions& options() const noexcept { return options_; }
  /// Returns the token that makes a client an operator; empty if there is none.
  [[nodiscard]] const std::string& token() const noexcept { return rules_.token; }

  /// Accepts no more clients, ends streams and idle connections, and waits at most `patience` for pending answers; then
  /// calls `done` in the loop.
  void stop(milliseconds patience, std::function<void()> done);

  /// Returns the installed routes.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> routes() const { return router_.routes(); }

  [[nodiscard]] std::size_t connections() const noexcept { return clients_.size(); }
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  struct Route {
    DeferredHandler deferred;
    Handler handler;
    Access access;
    std::string pattern = {};
  };

  void add(std::string method, std::string_view pattern, Route route);
  void on_arrival(Arrival arrival);
  void handle(Connection& connection, Request request) override;
  void ended(Connection& connection) override;
  void complete(Response& response, const Peer& peer) override;
  void free_ended();

  EventLoop& loop_;
  ServerOptions options_;
  AccessRules rules_;
  Router router_;
  std::vector<Route> routes_;
  Acceptor acceptor_;
  Clients clients_;
  Watch freeing_, patience_;
  std::function<void()> done_;
  Counters counters_;
};

}  // namespace ration::http
