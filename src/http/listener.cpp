#include "http/listener.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file_lock.hpp"
#include "base/strings.hpp"
#include "http/grammar.hpp"

namespace ration::http {
namespace {

/// As many connections may wait to be accepted; the kernel cuts it to net.core.somaxconn.
constexpr int kBacklog = 512;

tl::unexpected<Error> unusable(const std::string& where, const std::string& why, const std::string& fix = {}) {
  return fail("E1507", fmt::format("cannot listen on {}: {}", where, why), fix);
}

std::string user_name(uid_t uid) {
  std::array<char, 4096> buffer{};
  passwd entry{}, *found = nullptr;
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) return entry.pw_name;
  return fmt::format("uid {}", uid);
}

/// Somebody who answers on that socket, or nothing.
std::optional<std::string> owner_of(const sockaddr_un& address) {
  const FileDescriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // EAGAIN: its queue is full, so somebody has it.
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno != EAGAIN)
    return {};
  const auto who = credentials_of(probe.get());
  if (!who || who->pid == 0) return "another process";
  return fmt::format("pid {} of user {}", who->pid, user_name(who->uid));
}

tl::unexpected<Error> taken(const std::string& path, const std::string& lock, std::optional<std::string> who) {
  if (const auto holder = lock_holder(lock); !who && holder)
    who = fmt::format("pid {}, which does not answer there yet", *holder);
  return fail("E1504",
              fmt::format("a daemon answers on {} already: {}", path, who.value_or("one that is just starting")),
              "systemctl status rationd    or start this one with another socket: rationd --socket PATH");
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
  // Without the lock as well: a program that knows nothing of it may listen there.
  const auto who = owner_of(address);
  if (!locked || who) return taken(path, lock_path, who);

  struct stat file {};
  if (::lstat(path.c_str(), &file) == 0) {
    if (!S_ISSOCK(file.st_mode))
      return unusable(path, "there is something that is not a socket; it was left alone", "ls -l " + path);
    if (::unlink(path.c_str()) != 0) return unusable(path, std::strerror(errno));
  }
  listener.socket_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Before it is bound: the file is at no instant open to more people than it shall be.
  if (!listener.socket_ || ::fchmod(listener.socket_.get(), mode) != 0 ||
      ::bind(listener.socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return unusable(path, std::strerror(errno));
  listener.path_ = path;
  // The umask may have taken something away.
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
  // A restarted daemon takes its port again while connections of the old one linger.
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  // [::] means IPv6 alone: an address in the list of allowed ones is then what is written.
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

}  // namespace ration::http
