#include "http/client.hpp"

#include <fmt/format.h>
#include <http_parser.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/message_json.hpp"

namespace ration::http {
namespace {

using Clock = std::chrono::steady_clock;

/// Waits until the socket can be read or written. Returns false if the deadline passes or `interruption` becomes
/// readable first.
bool ready(int socket, short what, Clock::time_point deadline, int interruption) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    std::array<pollfd, 2> both{{{socket, what, 0}, {interruption, POLLIN, 0}}};
    const int found = ::poll(both.data(), both.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    if (found > 0) return both[1].revents == 0;
    if (found < 0 && errno != EINTR) return false;
    if (Clock::now() >= deadline) return false;
  }
}

/// Sends the text. Returns false if the deadline passes. Returns true if the daemon closes the connection early: it has
/// sent its reason, which is read next.
bool send_all(int socket, std::string_view text, Clock::time_point deadline, int interruption) {
  while (!text.empty()) {
    const auto sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0)
      text.remove_prefix(static_cast<std::size_t>(sent));
    else if (errno == EPIPE || errno == ECONNRESET)
      return true;
    else if (errno != EINTR && !(errno == EAGAIN && ready(socket, POLLOUT, deadline, interruption)))
      return false;
  }
  return true;
}

int exit_code_of(int status) {
  switch (status) {
    case 400:
      return 2;
    case 404:
      return 3;
    case 409:
    case 410:
    case 412:
      return 4;
    case 401:
    case 403:
      return 5;
    default:
      return 1;
  }
}

}  // namespace

/// One request with its answer, while the answer is received.
struct Client::Exchange {
  FileDescriptor socket;
  int interruption = -1;
  http_parser parser{};
  Answer answer;
  bool complete = false, stopped = false, too_large = false;
  const std::function<bool(const StreamEvent&)>* taken = nullptr;
  EventReader reader;

  static Exchange& self(http_parser* parser) { return *static_cast<Exchange*>(parser->data); }

  int on_body(std::string_view part) {
    if (taken != nullptr && answer.status == 200) {
      stopped = !reader.feed(part, *taken) && !reader.too_large();
      too_large = reader.too_large();
      return stopped || too_large ? -1 : 0;
    }
    too_large = part.size() > kMaxAnswer - answer.body.size();
    if (too_large) return -1;
    answer.body += part;
    return 0;
  }

  static http_parser_settings settings() {
    http_parser_settings calls{};
    calls.on_headers_complete = [](http_parser* parser) {
      self(parser).answer.status = static_cast<int>(parser->status_code);
      return 0;
    };
    calls.on_body = [](http_parser* parser, const char* at, std::size_t size) {
      return self(parser).on_body({at, size});
    };
    calls.on_message_complete = [](http_parser* parser) {
      // "100 Continue" precedes the answer.
      if (parser->status_code >= 200) self(parser).complete = true;
      return 0;
    };
    return calls;
  }

  /// Reads until the answer is complete or reading is stopped, and then returns an empty text. After a failure, returns
  /// the reason. In a stream each byte moves the deadline to `silence` from now.
  std::string receive(Clock::time_point deadline, std::chrono::milliseconds timeout,
                      std::chrono::milliseconds silence) {
    const auto calls = settings();
    http_parser_init(&parser, HTTP_RESPONSE);
    parser.data = this;
    std::array<char, 64 * 1024> buffer;  // not zeroed, since most answers are small
    while (!complete) {
      if (!ready(socket.get(), POLLIN, deadline, interruption))
        return fmt::format("it said nothing for {} s", static_cast<double>(timeout.count()) / 1000.0);
      const auto size = ::recv(socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (size < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (size < 0) return std::strerror(errno);
      if (taken != nullptr) timeout = silence, deadline = Clock::now() + silence;
      http_parser_execute(&parser, &calls, buffer.data(), static_cast<std::size_t>(size));
      if (stopped) return {};
      if (too_large) return "its answer is too large";
      const auto problem = HTTP_PARSER_ERRNO(&parser);
      if (problem != HPE_OK && !complete)
        return fmt::format("its answer is not HTTP ({})", http_errno_description(problem));
      if (size == 0 && !complete) return "it closed the connection without an answer";
    }
    return {};
  }
};

Error error_of(const Answer& answer) {
  Error error{"E1508", fmt::format("the daemon answered with status {}", answer.status), "",
              exit_code_of(answer.status)};
  const auto body = nlohmann::json::parse(answer.body, nullptr, false);
  if (!body.is_object()) return error;
  const auto text = [&](const char* key, std::string& place) {
    const auto found = body.find(key);
    if (found != body.end() && found->is_string()) place = found->get<std::string>();
  };
  text("id", error.id);
  if (Message what = message_in(body, "detail"); !what.empty()) error.what = std::move(what);
  text("fix", error.fix);
  if (const auto code = body.find("exit_code"); code != body.end() && code->is_number_integer())
    if (const auto value = code->get<std::int64_t>(); value >= 1 && value <= 255)
      error.exit_code = static_cast<int>(value);
  return error;
}

Client::Client(std::string socket_path, std::chrono::milliseconds timeout, std::chrono::milliseconds silence)
    : path_(std::move(socket_path)), timeout_(timeout), silence_(silence) {}

Error Client::silent(const std::string& why) const {
  const std::string service = "for the service: systemctl status rationd    journalctl -u rationd";
  return {"E1508",
          fmt::format("the daemon at {}{} did not answer: {}", path_,
                      daemon_pid_ ? fmt::format(" (pid {})", *daemon_pid_) : "", why),
          daemon_pid_ ? fmt::format("ps -o pid,stat,args -p {}   (T: it is stopped: kill -CONT {})    {}", *daemon_pid_,
                                    *daemon_pid_, service)
                      : "for ration serve: look at its terminal    " + service,
          1};
}

Result<FileDescriptor> Client::connected() {
  daemon_pid_.reset();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.empty() || path_.size() >= sizeof address.sun_path)
    return fail("E1501", fmt::format("'{}' is too long for the path of a socket", path_), "", 3);
  std::memcpy(address.sun_path, path_.data(), path_.size());
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // The timeout also bounds connecting, which waits while the daemon's queue is full.
  const timeval limit{static_cast<time_t>(timeout_.count() / 1000),
                      static_cast<suseconds_t>(timeout_.count() % 1000 * 1000)};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  int outcome = 0;
  do outcome = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  while (outcome != 0 && errno == EINTR);
  if (outcome == 0) {
    ucred who{};
    socklen_t size = sizeof who;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.pid > 0) daemon_pid_ = who.pid;
    return socket;
  }
  const int problem = errno;
  if (problem == EAGAIN) return tl::unexpected(silent("too many others wait for it"));
  if (problem == EACCES || problem == EPERM)
    return fail("E1502", fmt::format("this user may not connect to the daemon at {}", path_),
                "ls -l " + path_ + "    Ask a member of group ration", 5);
  const std::string why = problem == ENOENT         ? fmt::format("no {}", path_)
                          : problem == ECONNREFUSED ? fmt::format("no daemon answers on {}", path_)
                                                    : fmt::format("{}: {}", path_, std::strerror(problem));
  return fail("E1501", fmt::format("the daemon is not running ({})", why),
              "'ration run' works without it; tenants, queue and reports need: sudo ration service install --now", 3);
}

namespace {

std::string request_text(std::string_view method, std::string_view path, std::string_view json, std::string_view accept,
                         const ExtraHeaders& headers) {
  std::string text =
      fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\nAccept: {}\r\nConnection: close\r\n", method, path, accept);
  for (const auto& [name, value] : headers) fmt::format_to(std::back_inserter(text), "{}: {}\r\n", name, value);
  if (!json.empty()) text += "Content-Type: application/json\r\n";
  if (method != "GET") fmt::format_to(std::back_inserter(text), "Content-Length: {}\r\n", json.size());
  text += "\r\n";
  return text += json;
}

/// Returns true if the daemon turned the request away before any handler saw it, so that a later attempt may succeed.
bool is_turned_away(const Answer& answer) {
  if (answer.status != 503) return false;
  const std::string id = error_of(answer).id;
  return id == "E1517" || id == "E1522";
}

/// Varies the pause at random from half to one and a half times its length, so that clients turned away together return
/// one by one.
std::chrono::milliseconds spread(std::chrono::milliseconds pause) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return pause / 2 + std::chrono::milliseconds(random() % static_cast<unsigned>(pause.count()));
}

}  // namespace

Result<Answer> Client::request(std::string_view method, std::string_view path, std::string_view json,
                               const ExtraHeaders& headers) {
  constexpr std::chrono::milliseconds kFirstPause{100}, kMaxPause{2'000};
  const auto end = Clock::now() + kPatience;
  for (auto pause = kFirstPause;; pause = std::min(pause * 2, kMaxPause)) {
    auto answer = request_once(method, path, json, headers);
    const auto next = Clock::now() + spread(pause);
    if (!answer || !is_turned_away(*answer) || next > end) return answer;
    if (ready(interruption_, POLLIN, next, -1)) return answer;
  }
}

Result<void> Client::converse(Exchange& exchange, std::string_view request) {
  RATION_TRY(auto socket, connected());
  const auto deadline = Clock::now() + timeout_;
  exchange.socket = std::move(socket);
  exchange.interruption = interruption_;
  if (!send_all(exchange.socket.get(), request, deadline, interruption_))
    return tl::unexpected(silent("it does not take the request"));
  if (const auto* work = std::exchange(work_, nullptr)) (*work)();
  if (const std::string why = exchange.receive(deadline, timeout_, silence_); !why.empty())
    return tl::unexpected(silent(why));
  return {};
}

Result<Answer> Client::request_once(std::string_view method, std::string_view path, std::string_view json,
                                    const ExtraHeaders& headers) {
  Exchange exchange;
  if (auto said = converse(exchange, request_text(method, path, json, "application/json", headers)); !said)
    return tl::unexpected(said.error());
  return std::move(exchange.answer);
}

Result<Answer> Client::get(std::string_view path, const ExtraHeaders& headers) {
  return request("GET", path, {}, headers);
}

Result<Answer> Client::post(std::string_view path, std::string_view json, const ExtraHeaders& headers) {
  return request("POST", path, json, headers);
}

Result<Answer> Client::post_during(std::string_view path, std::string_view json, const std::function<void()>& work) {
  work_ = &work;
  auto answer = post(path, json);
  if (std::exchange(work_, nullptr) != nullptr) work();
  return answer;
}

Result<Answer> Client::patch(std::string_view path, std::string_view json, const ExtraHeaders& headers) {
  return request("PATCH", path, json, headers);
}

Result<Answer> Client::put(std::string_view path, std::string_view json, const ExtraHeaders& headers) {
  return request("PUT", path, json, headers);
}

Result<Answer> Client::remove(std::string_view path, const ExtraHeaders& headers) {
  return request("DELETE", path, {}, headers);
}

Result<void> Client::stream(std::string_view path, const std::function<bool(const StreamEvent&)>& taken,
                            const ExtraHeaders& headers) {
  Exchange exchange;
  exchange.taken = &taken;
  RATION_TRY(converse(exchange, request_text("GET", path, {}, "text/event-stream", headers)));
  if (exchange.answer.status != 200) return tl::unexpected(error_of(exchange.answer));
  return {};
}

}  // namespace ration::http
