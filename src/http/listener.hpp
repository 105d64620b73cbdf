// The places where the daemon listens: one Unix socket, one TCP address. Used by the server.
// Promises: a stale socket file is replaced, one that somebody answers on never is; nothing but a socket is removed; an
// address that others can reach needs a token.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.hpp"
#include "base/result.hpp"

namespace ration::http {

/// A bound and listening Unix socket. Its file goes when this does, if it is still ours.
class UnixListener {
 public:
  /// E1504: a daemon answers there already, with its pid and user; E1507: the place cannot be used.
  /// `lock`: a file that nobody else may be able to open; empty: PATH.lock.
  [[nodiscard]] static Result<UnixListener> open(const std::string& path, mode_t mode, const std::string& lock = {});

  UnixListener(UnixListener&&) noexcept = default;
  UnixListener& operator=(UnixListener&&) noexcept = default;
  ~UnixListener();
  [[nodiscard]] int get() const noexcept { return socket_.get(); }
  /// Whether who opens the path finds this socket: somebody may have removed it, or put another one there.
  [[nodiscard]] bool in_place() const noexcept;

 private:
  UnixListener() = default;
  std::string path_;
  // Held as long as this lives: of two daemons that start at once only one takes the place.
  FileDescriptor lock_;
  FileDescriptor socket_;
  ino_t inode_ = 0;
};

struct TcpAddress {
  std::string host;  ///< numeric
  std::uint16_t port = 0;
  bool loopback = false;
};

/// `127.0.0.1:8080`, `[::1]:8080`, `localhost:0`, `0.0.0.0:8080`. E1507.
[[nodiscard]] Result<TcpAddress> parse_tcp_address(std::string_view text);

struct TcpListener {
  FileDescriptor socket;
  std::uint16_t port = 0;  ///< the one that was picked, for port 0
};

/// E1507.
[[nodiscard]] Result<TcpListener> open_tcp(const TcpAddress& address);

/// The secret in a token file: at least 16 characters without blanks. E1506 unless it is a plain file with mode 0600 or
/// 0400 of root or of the daemon's user.
[[nodiscard]] Result<std::string> read_token(const std::string& path);

/// Who connected to a Unix socket.
struct Credentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};
[[nodiscard]] std::optional<Credentials> credentials_of(int socket) noexcept;

}  // namespace ration::http
