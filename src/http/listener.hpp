// Opens the addresses on which the daemon listens, Unix sockets and a TCP address, and accepts the clients that connect
// there. Used by the server. Promises: a stale socket file is replaced, but never a file at which a process listens;
// only sockets are removed; an address that other machines can reach requires a token.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.hpp"
#include "base/result.hpp"
#include "http/event_loop.hpp"
#include "http/message.hpp"

struct evconnlistener;

namespace ration::http {

/// A bound and listening Unix socket. The destructor removes the file if the path still leads to this socket.
class UnixListener {
 public:
  /// Opens the socket. `lock` is the path of a lock file that no other user may be able to open; empty for PATH.lock.
  /// If a daemon answers there already, fails with E1504, which names the daemon's pid and user. Fails with E1507 if
  /// the path cannot be used.
  [[nodiscard]] static Result<UnixListener> open(const std::string& path, mode_t mode, const std::string& lock = {});

  UnixListener(UnixListener&&) noexcept = default;
  UnixListener& operator=(UnixListener&&) noexcept = default;
  ~UnixListener();
  [[nodiscard]] int get() const noexcept { return socket_.get(); }
  /// Returns true while the path leads to this socket.
  [[nodiscard]] bool in_place() const noexcept;

 private:
  UnixListener() = default;
  std::string path_;
  // Held as long as this object lives, so that only one of two daemons that start at once gets the path.
  FileDescriptor lock_;
  FileDescriptor socket_;
  ino_t inode_ = 0;
};

struct TcpAddress {
  std::string host;  ///< as a number
  std::uint16_t port = 0;
  bool loopback = false;
};

/// Parses `127.0.0.1:8080`, `[::1]:8080`, `localhost:0` or `0.0.0.0:8080`. Fails with E1507.
[[nodiscard]] Result<TcpAddress> parse_tcp_address(std::string_view text);

struct TcpListener {
  FileDescriptor socket;
  std::uint16_t port = 0;  ///< the chosen port, if 0 was requested
};

/// Opens the address. Fails with E1507.
[[nodiscard]] Result<TcpListener> open_tcp(const TcpAddress& address);

/// Returns the secret in a token file: at least 16 characters without blanks. Fails with E1506 unless the file is a
/// plain file of root or of the daemon's user with mode 0600 or 0400.
[[nodiscard]] Result<std::string> read_token(const std::string& path);

/// The process that connected to a Unix socket.
struct Credentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};
[[nodiscard]] std::optional<Credentials> credentials_of(int socket) noexcept;

/// The addresses on which a daemon listens.
struct PlaceOptions {
  std::string socket_path;    ///< "" for none
  mode_t socket_mode = 0666;  ///< lets any user connect; the kernel identifies the user
  /// A second socket, for programs in containers; "" for none. Its clients have no user, because an image may choose
  /// any. Its lock is FOLDER.lock, beside its folder.
  std::string containers_socket;
  std::string tcp_address;  ///< `127.0.0.1:8080`; "" for none; port 0 takes any free one
  /// The number of further ports to try if the requested port is taken. If all ports are taken, the server runs without
  /// a port. With 0, a taken port is an error.
  std::uint16_t further_ports = 0;
  std::string token_file;  ///< "" for none
};

/// The addresses that were taken. Their sockets are bound, and clients wait for an Acceptor.
struct Places {
  std::optional<UnixListener> socket, containers;
  std::optional<TcpListener> tcp;
  std::string tcp_host;
  std::string tcp_problem;  ///< why the port is not the requested one; empty if it is
};
/// Takes the addresses and changes nothing else. Fails with E1504 if another daemon has an address, E1505 if there is
/// no token for an address that other machines can reach, E1507 if an address cannot be used.
[[nodiscard]] Result<Places> take_places(const PlaceOptions& options);

/// A client that has just connected.
struct Arrival {
  FileDescriptor socket;
  Peer peer;
  std::string key;        ///< the key under which it is counted: its user or its network
  bool favoured = false;  ///< true for root and the daemon's own user, on the socket
};

/// Accepts clients. Belongs to the loop's thread.
class Acceptor {
 public:
  Acceptor(EventLoop& loop, std::function<void(Arrival)> arrived) : loop_(loop), arrived_(std::move(arrived)) {}

  void listen(Places places);
  [[nodiscard]] const Places& places() const noexcept { return places_; }
  /// Makes a socket again if its path no longer leads to it. Fails as take_places() does.
  [[nodiscard]] Result<void> keep_sockets(const PlaceOptions& options);
  /// Stops accepting clients and gives up the addresses.
  void stop();

 private:
  enum class Entrance { kSocket, kContainers, kTcp };
  struct Callbacks;
  struct FreeListener {
    void operator()(evconnlistener* listener) const noexcept;
  };

  void accept_on(int socket, Entrance entrance);
  void on_accept(int socket, Entrance entrance);
  void on_accept_failed();
  [[nodiscard]] Result<void> keep(std::optional<UnixListener>& socket, const std::string& path, mode_t mode,
                                  Entrance entrance);

  EventLoop& loop_;
  std::function<void(Arrival)> arrived_;
  Places places_;
  std::map<Entrance, std::unique_ptr<evconnlistener, FreeListener>> listeners_;
  Watch accept_again_;
};

}  // namespace ration::http
