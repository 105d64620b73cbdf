#include "http/server.hpp"

#include <arpa/inet.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <utility>

#include "base/strings.hpp"
#include "http/problem.hpp"

namespace ration::http {
namespace {

/// After the process ran out of descriptors: accepting again at once would only spin.
constexpr milliseconds kAcceptPause{1'000};
/// A peer that vanished without a word is noticed within this time while something is sent to it.
constexpr int kUnacknowledgedMilliseconds = 60'000;

std::string address_text(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* place = address.ss_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
                          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  return ::inet_ntop(address.ss_family, place, text.data(), text.size()) == nullptr ? "" : text.data();
}

/// One host has a whole /64 of IPv6, and this one all of 127.0.0.0/8: its addresses are counted together.
std::string network_of(const sockaddr_storage& address) {
  if (address.ss_family != AF_INET6) {
    const std::string text = address_text(address);
    return text.rfind("127.", 0) == 0 ? "127.0.0.0/8" : text;
  }
  sockaddr_storage network = address;
  auto& bytes = reinterpret_cast<sockaddr_in6&>(network).sin6_addr.s6_addr;
  std::fill(std::begin(bytes) + 8, std::end(bytes), static_cast<std::uint8_t>(0));
  return address_text(network);
}

/// Says it and closes, without ever keeping the connection.
void turn_away(int socket) {
  const auto response =
      problem({"E1517", "too many clients are connected", "Try again in 5 s; who they are: ss -xp", 1}, 503);
  const std::string text = fmt::format(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: {}\r\nContent-Length: {}\r\nRetry-After: 5\r\nCache-Control: "
      "no-store\r\n"
      "Connection: close\r\n\r\n{}",
      response.content_type, response.body.size(), response.body);
  [[maybe_unused]] const auto sent = ::send(socket, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

tl::unexpected<Error> token_needed(const std::string& address) {
  return fail("E1505", fmt::format("{} can be reached from other machines, and no token file is set", address),
              "umask 077; head -c 32 /dev/urandom | base64 > /etc/ration/token    then set token_file = "
              "\"/etc/ration/token\", or listen on 127.0.0.1",
              2);
}

/// The port that is wanted, else the next one that is free.
Result<void> take_port(const ServerOptions& options, Places& places) {
  const auto address = parse_tcp_address(options.tcp_address);
  if (!address) return tl::unexpected(address.error());
  if (!address->loopback && options.token_file.empty()) return token_needed(options.tcp_address);
  places.tcp_host = address->host;
  for (int next = 0; next <= options.further_ports && !places.tcp; ++next) {
    TcpAddress place = *address;
    place.port = static_cast<std::uint16_t>(place.port + next);
    auto tcp = open_tcp(place);
    if (tcp) {
      places.tcp = std::move(*tcp);
    } else if (options.further_ports == 0) {
      return tl::unexpected(tcp.error());
    } else if (places.tcp_problem.empty()) {
      places.tcp_problem = tcp.error().what;
    }
  }
  return {};
}

/// Beside the folder of the socket, which containers mount: they can lock what they can open.
std::string containers_lock(const std::string& socket) { return socket.substr(0, socket.rfind('/')) + ".lock"; }

}  // namespace

Result<Places> take_places(const ServerOptions& options) {
  Places places;
  // First: who is told that a daemon runs here already learns more than that its port is taken.
  if (!options.socket_path.empty()) {
    auto socket = UnixListener::open(options.socket_path, options.socket_mode);
    if (!socket) return tl::unexpected(socket.error());
    places.socket = std::move(*socket);
  }
  if (!options.containers_socket.empty()) {
    auto socket =
        UnixListener::open(options.containers_socket, options.socket_mode, containers_lock(options.containers_socket));
    if (!socket) return tl::unexpected(socket.error());
    places.containers = std::move(*socket);
  }
  if (!options.tcp_address.empty())
    if (auto taken = take_port(options, places); !taken) return tl::unexpected(taken.error());
  return places;
}

struct Server::ListenerCallbacks {
  template <Entrance kEntrance>
  static void on_accept(evconnlistener*, int socket, sockaddr*, int, void* server) {
    static_cast<Server*>(server)->on_accept(socket, kEntrance);
  }
  static void on_error(evconnlistener*, void* server) { static_cast<Server*>(server)->on_accept_failed(); }
};

void Server::FreeListener::operator()(evconnlistener* listener) const noexcept { evconnlistener_free(listener); }

Server::Server(EventLoop& loop, ServerOptions options)
    : loop_(loop), options_(std::move(options)), clients_(options_.clients) {
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
  routes_.push_back(std::move(route));
}

Result<void> Server::listen() {
  auto places = take_places(options_);
  return places ? listen(std::move(*places)) : tl::unexpected(places.error());
}

Result<void> Server::listen(Places places) {
  if (!options_.token_file.empty()) {
    auto token = read_token(options_.token_file);
    if (!token) return tl::unexpected(token.error());
    rules_.token = std::move(*token);
  }
  places_ = std::move(places);
  if (places_.socket) accept_on(places_.socket->get(), Entrance::kSocket);
  if (places_.containers) accept_on(places_.containers->get(), Entrance::kContainers);
  if (places_.tcp) {
    rules_.host_names.push_back(places_.tcp_host);
    accept_on(places_.tcp->socket.get(), Entrance::kTcp);
  }
  return {};
}

void Server::accept_on(int socket, Entrance entrance) {
  const auto accepted = entrance == Entrance::kTcp          ? ListenerCallbacks::on_accept<Entrance::kTcp>
                        : entrance == Entrance::kContainers ? ListenerCallbacks::on_accept<Entrance::kContainers>
                                                            : ListenerCallbacks::on_accept<Entrance::kSocket>;
  evconnlistener* listener = evconnlistener_new(loop_.base(), accepted, this, LEV_OPT_CLOSE_ON_EXEC, 0, socket);
  if (listener == nullptr) throw std::bad_alloc();
  evconnlistener_set_error_cb(listener, ListenerCallbacks::on_error);
  listeners_[entrance].reset(listener);
}

Result<void> Server::keep_socket() {
  if (auto kept = keep(places_.socket, options_.socket_path, Entrance::kSocket); !kept) return kept;
  return keep(places_.containers, options_.containers_socket, Entrance::kContainers);
}

Result<void> Server::keep(std::optional<UnixListener>& socket, const std::string& path, Entrance entrance) {
  if (path.empty() || done_ || (socket && socket->in_place())) return {};
  listeners_.erase(entrance);
  socket.reset();  // and its lock: the file may be there still
  auto place = UnixListener::open(path, options_.socket_mode,
                                  entrance == Entrance::kContainers ? containers_lock(path) : std::string());
  if (!place) return tl::unexpected(place.error());
  socket = std::move(*place);
  accept_on(socket->get(), entrance);
  return {};
}

void Server::on_accept_failed() {
  for (const auto& [entrance, listener] : listeners_) evconnlistener_disable(listener.get());
  accept_again_ = loop_.after(kAcceptPause, [this] {
    for (const auto& [entrance, listener] : listeners_) evconnlistener_enable(listener.get());
  });
}

void Server::on_accept(int socket, Entrance entrance) {
  FileDescriptor accepted(socket);
  Peer peer;
  std::string key, local;
  bool favoured = false;
  if (entrance == Entrance::kTcp) {
    sockaddr_storage remote{}, here{};
    socklen_t size = sizeof remote;
    if (::getpeername(socket, reinterpret_cast<sockaddr*>(&remote), &size) != 0) return;
    size = sizeof here;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&here), &size) != 0) return;
    peer.kind = Peer::Kind::kTcp;
    peer.address = address_text(remote);
    local = address_text(here);
    key = network_of(remote);
    const int one = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnacknowledgedMilliseconds,
                 sizeof kUnacknowledgedMilliseconds);
  } else if (entrance == Entrance::kContainers) {
    const auto who = credentials_of(socket);
    if (!who) return;
    peer.pid = who->pid;  // of the user an image decides
    key = "containers";
  } else {
    const auto who = credentials_of(socket);
    if (!who) return;
    peer.uid = who->uid;
    peer.gid = who->gid;
    peer.pid = who->pid;
    key = fmt::format("uid {}", who->uid);
    // So that an administrator gets in when tenants have taken every other place.
    favoured = who->uid == 0 || who->uid == ::geteuid();
  }
  if (!clients_.make_room(key, favoured, counters_.turned_away)) {
    ++counters_.turned_away;
    turn_away(socket);
    return;
  }
  ++counters_.accepted;
  ConnectionOwner& owner = *this;
  clients_.add(std::make_unique<Connection>(owner, loop_, std::move(accepted), std::move(peer), std::move(local),
                                            options_.limits),
               std::move(key), favoured);
}

void Server::complete(Response& response) {
  if (options_.complete) options_.complete(response);
}

void Server::ended(Connection& connection) {
  clients_.note_ended(connection);
  // It is still on the stack: buried when the loop comes round.
  bury_ = loop_.after(milliseconds{0}, [this] { bury(); });
}

void Server::bury() {
  clients_.free_ended();
  if (!done_ || clients_.size() > 0) return;
  patience_.cancel();
  const auto done = std::exchange(done_, nullptr);
  done();
}

void Server::stop(milliseconds patience, std::function<void()> done) {
  accept_again_.cancel();
  listeners_.clear();
  places_.socket.reset();
  places_.containers.reset();
  places_.tcp.reset();
  done_ = std::move(done);
  clients_.finish();
  patience_ = loop_.after(patience, [this] { clients_.abandon(); });
  bury_ = loop_.after(milliseconds{0}, [this] { bury(); });
}

void Server::handle(Connection& connection, Request request) {
  ++counters_.requests;
  clients_.note_request(connection);
  auto found = router_.find(request.method, request.path);
  const bool strict = found.route && routes_[*found.route].access == Access::kSameOriginOnly;
  // Before a path is told to be unknown: who may not ask learns nothing.
  if (auto refusal = refused(request, rules_, connection.local_address(), strict)) {
    ++counters_.refused;
    return connection.answer(std::move(*refusal));
  }
  if (request.peer.kind == Peer::Kind::kTcp && request.peer.token_accepted) clients_.note_token(connection);
  if (!found.route) {
    ++counters_.refused;
    if (found.allowed.empty())
      return connection.answer(
          problem({"E1511", "there is no " + request.path, "GET /openapi.json lists what there is", 3}, 404));
    if (std::find(found.allowed.begin(), found.allowed.end(), "GET") != found.allowed.end())
      found.allowed.push_back("HEAD");
    const std::string allowed = fmt::format("{}", fmt::join(found.allowed, ", "));
    auto response =
        problem({"E1512", fmt::format("{} is not for {}", request.path, request.method), "Use " + allowed, 2}, 405);
    response.headers.emplace_back("Allow", allowed);
    return connection.answer(std::move(response));
  }
  request.captures = std::move(found.captures);
  const Route& route = routes_[*found.route];
  std::string failure = "it threw something that is not an exception";
  try {
    if (!route.handler) return route.deferred(request, connection.responder());
    return connection.answer(route.handler(request));
  } catch (const std::exception& error) {
    failure = error.what();
  } catch (...) {
  }
  ++counters_.handler_failures;
  connection.answer(
      problem({"E1500", fmt::format("the daemon failed at {} {}: {}", request.method, request.path, failure),
               "ration doctor", 1},
              500));
}

}  // namespace ration::http
