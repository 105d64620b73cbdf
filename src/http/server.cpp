#include "http/server.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/strings.hpp"
#include "http/problem.hpp"

namespace ration::http {
namespace {

/// Answers a new client with an error. Makes no Connection for it.
void turn_away(int socket) {
  const auto response =
      problem({"E1517", "too many clients are connected", "Retry in 5 s; ss -xp lists the clients", 1}, 503);
  const std::string text = fmt::format(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: {}\r\nContent-Length: {}\r\nRetry-After: 5\r\nCache-Control: "
      "no-store\r\n"
      "Connection: close\r\n\r\n{}",
      response.content_type, response.body.size(), response.body);
  [[maybe_unused]] const auto sent = ::send(socket, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

Server::Server(EventLoop& loop, ServerOptions options)
    : loop_(loop),
      options_(std::move(options)),
      acceptor_(loop, [this](Arrival arrival) { on_arrival(std::move(arrival)); }),
      clients_(options_.clients) {
  for (const std::string& name : options_.host_names) rules_.host_names.push_back(lower(name));
}

Server::~Server() {
  done_ = nullptr;
  clients_.abandon();
}

void Server::route(std::string method, std::string_view pattern, Handler handler, Access access) {
  add(std::move(method), pattern, {nullptr, std::move(handler), access});
}

void Server::route_deferred(std::string method, std::string_view pattern, DeferredHandler handler, Access access) {
  add(std::move(method), pattern, {std::move(handler), nullptr, access});
}

void Server::add(std::string method, std::string_view pattern, Route route) {
  router_.add(std::move(method), pattern);
  route.pattern = pattern;
  routes_.push_back(std::move(route));
}

Result<void> Server::listen() {
  auto places = take_places(options_);
  return places ? listen(std::move(*places)) : tl::unexpected(places.error());
}

Result<void> Server::listen(Places places) {
  if (!options_.token_file.empty()) {
    RATION_TRY(auto token, read_token(options_.token_file));
    rules_.token = std::move(token);
  }
  if (places.tcp) rules_.host_names.push_back(places.tcp_host);
  acceptor_.listen(std::move(places));
  return {};
}

Result<void> Server::keep_sockets() { return done_ ? Result<void>() : acceptor_.keep_sockets(options_); }

void Server::on_arrival(Arrival arrival) {
  if (!clients_.make_room(arrival.key, arrival.favoured, counters_.turned_away)) {
    ++counters_.turned_away;
    return turn_away(arrival.socket.get());
  }
  ++counters_.accepted;
  arrival.peer.sees_all = options_.anonymous_sees_all;
  ConnectionOwner& owner = *this;
  clients_.add(
      std::make_unique<Connection>(owner, loop_, std::move(arrival.socket), std::move(arrival.peer), options_.limits),
      std::move(arrival.key), arrival.favoured);
}

void Server::complete(Response& response, const Peer& peer) {
  if (options_.complete) options_.complete(response, peer);
}

void Server::ended(Connection& connection) {
  clients_.note_ended(connection);
  // Frees the connection in the loop's next round, because its callback is still running.
  freeing_ = loop_.after(milliseconds{0}, [this] { free_ended(); });
}

void Server::free_ended() {
  clients_.free_ended();
  if (!done_ || clients_.size() > 0) return;
  patience_.cancel();
  const auto done = std::exchange(done_, nullptr);
  done();
}

void Server::stop(milliseconds patience, std::function<void()> done) {
  acceptor_.stop();
  done_ = std::move(done);
  clients_.finish();
  patience_ = loop_.after(patience, [this] { clients_.abandon(); });
  freeing_ = loop_.after(milliseconds{0}, [this] { free_ended(); });
}

void Server::handle(Connection& connection, Request request) {
  ++counters_.requests;
  clients_.note_request(connection);
  auto found = router_.find(request.method, request.path);
  const bool strict = found.route && routes_[*found.route].access == Access::kSameOriginOnly;
  // Checks permission before the path, because a client without permission must not learn which paths exist.
  if (auto refusal = refused(request, rules_, strict)) {
    ++counters_.refused;
    return connection.answer(std::move(*refusal));
  }
  if (request.peer.token_accepted) connection.accept_token();
  if (request.peer.kind == Peer::Kind::kTcp && request.peer.token_accepted) clients_.note_token(connection);
  if (!found.route) {
    ++counters_.refused;
    if (found.allowed.empty())
      return connection.answer(
          problem({"E1511", "there is no path " + request.path, "GET /openapi.json lists the paths", 3}, 404));
    if (std::find(found.allowed.begin(), found.allowed.end(), "GET") != found.allowed.end())
      found.allowed.push_back("HEAD");
    const std::string allowed = fmt::format("{}", fmt::join(found.allowed, ", "));
    auto response =
        problem({"E1512", fmt::format("{} does not take {}", request.path, request.method), "Use " + allowed, 2}, 405);
    response.headers.emplace_back("Allow", allowed);
    return connection.answer(std::move(response));
  }
  request.captures = std::move(found.captures);
  const Route& route = routes_[*found.route];
  if (options_.gate)
    if (auto refusal = options_.gate(request, route.pattern)) {
      ++counters_.refused;
      return connection.answer(std::move(*refusal));
    }
  std::string failure = "it threw something that is not an exception";
  try {
    if (!route.handler) return route.deferred(request, connection.responder());
    const auto answer = route.handler(request);
    return connection.answer(answer ? *answer : problem(answer.error()));
  } catch (const std::exception& error) {
    failure = error.what();
  } catch (...) {
  }
  ++counters_.handler_failures;
  connection.answer(
      problem({"E1500", fmt::format("the daemon failed to answer {} {}: {}", request.method, request.path, failure),
               "ration doctor", 1},
              500));
}

}  // namespace ration::http
