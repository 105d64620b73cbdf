#include "http/listener.hpp"

#include <arpa/inet.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/file_lock.hpp"
#include "base/strings.hpp"
#include "http/grammar.hpp"

namespace ration::http {
namespace {

/// The number of connections that may wait to be accepted; the kernel bounds it by net.core.somaxconn.
constexpr int kBacklog = 512;
/// The pause after this process has run out of descriptors, since accepting at once would fail again.
constexpr milliseconds kAcceptPause{1'000};
/// The time after which a client that acknowledges no data counts as gone.
constexpr int kUnacknowledgedMilliseconds = 60'000;

tl::unexpected<Error> unusable(const std::string& where, const std::string& why, const std::string& fix = {}) {
  return fail("E1507", fmt::format("cannot listen on {}: {}", where, why), fix);
}

std::string user_name(uid_t uid) {
  std::array<char, 4096> buffer{};
  passwd entry{}, *found = nullptr;
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) return entry.pw_name;
  return fmt::format("uid {}", uid);
}

/// Describes the process that answers on that socket; absent if no process does.
std::optional<std::string> owner_of(const sockaddr_un& address) {
  const FileDescriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // EAGAIN means that the queue is full, so a process listens.
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno != EAGAIN)
    return {};
  const auto who = credentials_of(probe.get());
  if (!who || who->pid == 0) return "another process";
  return fmt::format("pid {} of user {}", who->pid, user_name(who->uid));
}

tl::unexpected<Error> taken(const std::string& path, const std::string& lock, std::optional<std::string> who) {
  if (const auto holder = lock_holder(lock); !who && holder)
    who = fmt::format("pid {}, which does not answer there yet", *holder);
  return fail(
      "E1504", fmt::format("a daemon answers on {} already: {}", path, who.value_or("one that is just starting")),
      "systemctl status rationd    or give this daemon a folder of its own: RATION_RUNTIME_DIR=FOLDER ration serve "
      "--state FOLDER --socket FOLDER/ration.sock");
}

std::string address_text(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* place = address.ss_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
                          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  return ::inet_ntop(address.ss_family, place, text.data(), text.size()) == nullptr ? "" : text.data();
}

/// Returns the network under which an address is counted, since one host may use a whole /64 of IPv6, and this host
/// uses all of 127.0.0.0/8.
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

tl::unexpected<Error> token_needed(const std::string& address) {
  return fail("E1505", fmt::format("{} can be reached from other machines, and no token file is set", address),
              "umask 077; head -c 32 /dev/urandom | base64 > /etc/ration/token    then set token_file = "
              "\"/etc/ration/token\", or listen on 127.0.0.1",
              2);
}

/// Takes the requested port, or the next free one.
Result<void> take_port(const PlaceOptions& options, Places& places) {
  RATION_TRY(const auto address, parse_tcp_address(options.tcp_address));
  if (!address.loopback && options.token_file.empty()) return token_needed(options.tcp_address);
  places.tcp_host = address.host;
  for (int next = 0; next <= options.further_ports && !places.tcp; ++next) {
    TcpAddress place = address;
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

/// Returns the path of a lock outside the socket's folder: containers mount that folder, and could lock any file in it.
std::string containers_lock(const std::string& socket) { return socket.substr(0, socket.rfind('/')) + ".lock"; }

/// Identifies a client that came over TCP, and configures its connection. Returns false if it has gone already.
bool describe_remote(Arrival& arrival) {
  const int socket = arrival.socket.get();
  sockaddr_storage remote{}, here{};
  socklen_t size = sizeof remote;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&remote), &size) != 0) return false;
  size = sizeof here;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&here), &size) != 0) return false;
  arrival.peer.kind = Peer::Kind::kTcp;
  arrival.peer.address = address_text(remote);
  arrival.peer.local_address = address_text(here);
  arrival.key = network_of(remote);
  const int one = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnacknowledgedMilliseconds, sizeof kUnacknowledgedMilliseconds);
  return true;
}

/// Identifies a client that came over a Unix socket. Returns false if it has gone already.
bool describe_local(Arrival& arrival, bool from_container) {
  const auto who = credentials_of(arrival.socket.get());
  if (!who) return false;
  arrival.peer.pid = who->pid;
  if (from_container) {  // unidentified, since an image chooses its own user
    arrival.key = "containers";
    return true;
  }
  arrival.peer.uid = who->uid;
  arrival.peer.gid = who->gid;
  arrival.key = fmt::format("uid {}", who->uid);
  // Favours an administrator, who gets in even if tenants have taken every other place.
  arrival.favoured = who->uid == 0 || who->uid == ::geteuid();
  return true;
}

}  // namespace

std::optional<Credentials> credentials_of(int socket) noexcept {
  ucred found{};
  socklen_t size = sizeof found;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &found, &size) != 0) return {};
  return Credentials{found.pid, found.uid, found.gid};
}

Result<UnixListener> UnixListener::open(const std::string& path, mode_t mode, const std::string& lock) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return unusable(path, fmt::format("a socket's path has at most {} bytes", sizeof address.sun_path - 1));
  std::memcpy(address.sun_path, path.data(), path.size());

  UnixListener listener;
  const std::string lock_path = lock.empty() ? path + ".lock" : lock;
  listener.lock_ = FileDescriptor(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!listener.lock_) return unusable(path, fmt::format("{}: {}", lock_path, std::strerror(errno)));
  const bool locked = ::flock(listener.lock_.get(), LOCK_EX | LOCK_NB) == 0;
  // Checks even if this process has the lock, because a program that does not use the lock may listen there.
  const auto who = owner_of(address);
  if (!locked || who) return taken(path, lock_path, who);

  struct stat file {};
  if (::lstat(path.c_str(), &file) == 0) {
    if (!S_ISSOCK(file.st_mode))
      return unusable(path, "there is something that is not a socket; it was left alone", "ls -l " + path);
    if (::unlink(path.c_str()) != 0) return unusable(path, std::strerror(errno));
  }
  listener.socket_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Sets the mode before the socket is bound, so that the file is never open to more users than intended.
  if (!listener.socket_ || ::fchmod(listener.socket_.get(), mode) != 0 ||
      ::bind(listener.socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return unusable(path, std::strerror(errno));
  listener.path_ = path;
  // The umask may have removed permissions from the file.
  if (::chmod(path.c_str(), mode) != 0 || ::lstat(path.c_str(), &file) != 0 ||
      ::listen(listener.socket_.get(), kBacklog) != 0)
    return unusable(path, std::strerror(errno));
  listener.inode_ = file.st_ino;
  return listener;
}

bool UnixListener::in_place() const noexcept {
  struct stat file {};
  return inode_ != 0 && socket_ && ::lstat(path_.c_str(), &file) == 0 && S_ISSOCK(file.st_mode) &&
         file.st_ino == inode_;
}

UnixListener::~UnixListener() {
  if (in_place()) ::unlink(path_.c_str());
}

Result<TcpAddress> parse_tcp_address(std::string_view text) {
  const std::string shown(text);
  const std::string example = "Write ADDRESS:PORT, for example 127.0.0.1:8080 or [::1]:8080";
  const std::size_t colon = text.rfind(':');
  const auto host = colon == std::string_view::npos ? std::nullopt : host_name(text.substr(0, colon));
  const auto port = colon == std::string_view::npos ? std::nullopt : parse_number(text.substr(colon + 1));
  if (!host || !port || *port > 65535) return unusable(shown, "this is not an address with a port", example);
  TcpAddress address{*host == "localhost" ? "127.0.0.1" : *host, static_cast<std::uint16_t>(*port), false};
  in_addr four{};
  in6_addr six{};
  if (::inet_pton(AF_INET, address.host.c_str(), &four) == 1)
    address.loopback = (ntohl(four.s_addr) >> 24) == 127;
  else if (::inet_pton(AF_INET6, address.host.c_str(), &six) == 1)
    address.loopback = IN6_IS_ADDR_LOOPBACK(&six);
  else
    return unusable(shown, "a numeric address is needed: a name may mean several", example);
  return address;
}

Result<TcpListener> open_tcp(const TcpAddress& address) {
  const std::string shown = fmt::format("{}:{}", address.host, address.port);
  sockaddr_storage place{};
  auto* four = reinterpret_cast<sockaddr_in*>(&place);
  auto* six = reinterpret_cast<sockaddr_in6*>(&place);
  if (::inet_pton(AF_INET, address.host.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(address.port);
  } else if (::inet_pton(AF_INET6, address.host.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(address.port);
  } else {
    return unusable(shown, "this is not a numeric address");
  }
  TcpListener listener;
  listener.socket = FileDescriptor(::socket(place.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int socket = listener.socket.get(), one = 1;
  // Lets a restarted daemon take its port again while connections of the old daemon linger.
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  // Makes [::] accept only IPv6, so that no client appears with an IPv4-mapped address.
  if (place.ss_family == AF_INET6) ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
  socklen_t size = place.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (!listener.socket || ::bind(socket, reinterpret_cast<sockaddr*>(&place), size) != 0 ||
      ::listen(socket, kBacklog) != 0 || ::getsockname(socket, reinterpret_cast<sockaddr*>(&place), &size) != 0)
    return unusable(
        shown, std::strerror(errno),
        errno == EADDRINUSE
            ? fmt::format("ration serve --listen {}:0    (any free port; who has this one: ss -ltnp "
                          "'sport = :{}')",
                          place.ss_family == AF_INET6 ? "[" + address.host + "]" : address.host, address.port)
            : "");
  listener.port = ntohs(place.ss_family == AF_INET ? four->sin_port : six->sin6_port);
  return listener;
}

Result<std::string> read_token(const std::string& path) {
  const auto wrong = [&](const std::string& why, const std::string& fix) {
    return fail("E1506", fmt::format("the token file {} cannot be used: {}", path, why), fix);
  };
  const std::string recipe = fmt::format("umask 077; head -c 32 /dev/urandom | base64 > {}", path);
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return wrong(std::strerror(errno), recipe);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return wrong("it is not a plain file", recipe);
  if (status.st_uid != 0 && status.st_uid != ::geteuid())
    return wrong(fmt::format("it belongs to user {}, who could change it", user_name(status.st_uid)),
                 "chown root " + path);
  const auto mode = status.st_mode & 07777;
  if (mode != 0600 && mode != 0400)
    return wrong(fmt::format("its mode is {:04o}, others may read it", mode), "chmod 600 " + path);
  std::array<char, 4096> buffer{};
  const auto size = ::read(file.get(), buffer.data(), buffer.size());
  if (size < 0) return wrong(std::strerror(errno), recipe);
  const std::string_view token = trimmed({buffer.data(), static_cast<std::size_t>(size)});
  if (token.size() < 16 || token.find_first_of(" \t\r\n") != std::string_view::npos)
    return wrong("it is not one word of at least 16 characters", recipe);
  return std::string(token);
}

Result<Places> take_places(const PlaceOptions& options) {
  Places places;
  // Takes the socket first, because the error that a daemon runs already is more useful than an error about a taken
  // port.
  if (!options.socket_path.empty()) {
    RATION_TRY(auto socket, UnixListener::open(options.socket_path, options.socket_mode));
    places.socket = std::move(socket);
  }
  if (!options.containers_socket.empty()) {
    auto socket =
        UnixListener::open(options.containers_socket, options.socket_mode, containers_lock(options.containers_socket));
    if (!socket) return tl::unexpected(socket.error());
    places.containers = std::move(*socket);
  }
  if (!options.tcp_address.empty()) RATION_TRY(take_port(options, places));
  return places;
}

struct Acceptor::Callbacks {
  template <Entrance kEntrance>
  static void on_accept(evconnlistener*, int socket, sockaddr*, int, void* acceptor) {
    static_cast<Acceptor*>(acceptor)->on_accept(socket, kEntrance);
  }
  static void on_error(evconnlistener*, void* acceptor) { static_cast<Acceptor*>(acceptor)->on_accept_failed(); }
};

void Acceptor::FreeListener::operator()(evconnlistener* listener) const noexcept { evconnlistener_free(listener); }

void Acceptor::listen(Places places) {
  places_ = std::move(places);
  if (places_.socket) accept_on(places_.socket->get(), Entrance::kSocket);
  if (places_.containers) accept_on(places_.containers->get(), Entrance::kContainers);
  if (places_.tcp) accept_on(places_.tcp->socket.get(), Entrance::kTcp);
}

void Acceptor::accept_on(int socket, Entrance entrance) {
  const auto accepted = entrance == Entrance::kTcp          ? Callbacks::on_accept<Entrance::kTcp>
                        : entrance == Entrance::kContainers ? Callbacks::on_accept<Entrance::kContainers>
                                                            : Callbacks::on_accept<Entrance::kSocket>;
  evconnlistener* listener = evconnlistener_new(loop_.base(), accepted, this, LEV_OPT_CLOSE_ON_EXEC, 0, socket);
  if (listener == nullptr) throw std::bad_alloc();
  evconnlistener_set_error_cb(listener, Callbacks::on_error);
  listeners_[entrance].reset(listener);
}

Result<void> Acceptor::keep_sockets(const PlaceOptions& options) {
  RATION_TRY(keep(places_.socket, options.socket_path, options.socket_mode, Entrance::kSocket));
  return keep(places_.containers, options.containers_socket, options.socket_mode, Entrance::kContainers);
}

Result<void> Acceptor::keep(std::optional<UnixListener>& socket, const std::string& path, mode_t mode,
                            Entrance entrance) {
  if (path.empty() || (socket && socket->in_place())) return {};
  listeners_.erase(entrance);
  socket.reset();  // also releases the lock, even if the socket's file is still there
  RATION_TRY(auto place,
             UnixListener::open(path, mode, entrance == Entrance::kContainers ? containers_lock(path) : ""));
  socket = std::move(place);
  accept_on(socket->get(), entrance);
  return {};
}

void Acceptor::stop() {
  accept_again_.cancel();
  listeners_.clear();
  places_.socket.reset();
  places_.containers.reset();
  places_.tcp.reset();
}

void Acceptor::on_accept_failed() {
  for (const auto& [entrance, listener] : listeners_) evconnlistener_disable(listener.get());
  accept_again_ = loop_.after(kAcceptPause, [this] {
    for (const auto& [entrance, listener] : listeners_) evconnlistener_enable(listener.get());
  });
}

void Acceptor::on_accept(int socket, Entrance entrance) {
  Arrival arrival;
  arrival.socket = FileDescriptor(socket);
  const bool known = entrance == Entrance::kTcp ? describe_remote(arrival)
                                                : describe_local(arrival, entrance == Entrance::kContainers);
  if (known) arrived_(std::move(arrival));
}

}  // namespace ration::http
