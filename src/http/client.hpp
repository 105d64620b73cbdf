// A blocking client for the daemon's socket. Used by the command line, one call after the other. Promises: never waits
// longer than its timeout for the next byte, nor longer than that for a whole answer; a request that the daemon turned
// away unread is sent again for a while; answers are bounded; links only the parser.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"
#include "http/event_reader.hpp"

namespace ration::http {

struct Answer {
  int status = 0;
  std::string body;

  [[nodiscard]] bool ok() const noexcept { return status >= 200 && status < 300; }
};

using ExtraHeaders = std::vector<std::pair<std::string, std::string>>;

/// Converts an answer's problem+json to the command line's error: its id, detail and fix; the exit code follows from
/// the status (400 -> 2, 404 -> 3, 409 and 412 -> 4, 401 and 403 -> 5, otherwise 1).
[[nodiscard]] Error error_of(const Answer& answer);

class Client {
 public:
  static constexpr std::chrono::milliseconds kTimeout{10'000};
  /// The longest silence in a stream after its first byte: the daemon sends something every 15 s.
  static constexpr std::chrono::milliseconds kSilence{30'000};
  /// How long to retry while the daemon is full or still starting.
  static constexpr std::chrono::milliseconds kPatience{30'000};
  /// Bounds an answer: 256 MiB.
  static constexpr std::size_t kMaxAnswer = std::size_t{256} << 20;

  explicit Client(std::string socket_path, std::chrono::milliseconds timeout = kTimeout,
                  std::chrono::milliseconds silence = kSilence);

  /// Makes waiting calls end with E1508 once that descriptor is readable: for a thread that has to end now.
  void interrupted_by(int descriptor) { interruption_ = descriptor; }

  /// Returns the process that answered last, by its number in this pid namespace. Absent: none yet, or invisible from
  /// here.
  [[nodiscard]] std::optional<std::int32_t> daemon_pid() const noexcept { return daemon_pid_; }

  /// Sends a request; any status is an answer, but E1517 and E1522 only after kPatience. E1501 (exit code 3): no daemon
  /// is there; E1502 (5): the socket may not be opened; E1508: the daemon did not answer in time, or not intelligibly.
  [[nodiscard]] Result<Answer> get(std::string_view path, const ExtraHeaders& headers = {});
  [[nodiscard]] Result<Answer> post(std::string_view path, std::string_view json, const ExtraHeaders& headers = {});
  /// As post(); `work` is called once meanwhile, even if the request fails.
  [[nodiscard]] Result<Answer> post_during(std::string_view path, std::string_view json,
                                           const std::function<void()>& work);
  [[nodiscard]] Result<Answer> patch(std::string_view path, std::string_view json, const ExtraHeaders& headers = {});
  [[nodiscard]] Result<Answer> put(std::string_view path, std::string_view json, const ExtraHeaders& headers = {});
  [[nodiscard]] Result<Answer> remove(std::string_view path, const ExtraHeaders& headers = {});

  /// Follows server-sent events until `taken` returns false or the daemon ends the stream (neither is an error). The
  /// daemon sends something every 15 s: a silence longer than the timeout is E1508. Any answer other than 200 is
  /// returned as error_of() it.
  [[nodiscard]] Result<void> stream(std::string_view path, const std::function<bool(const StreamEvent&)>& taken,
                                    const ExtraHeaders& headers = {});

 private:
  struct Exchange;
  [[nodiscard]] Result<Answer> request(std::string_view method, std::string_view path, std::string_view json,
                                       const ExtraHeaders& headers);
  /// Sends a request and receives the answer.
  [[nodiscard]] Result<void> converse(Exchange& exchange, std::string_view request);
  [[nodiscard]] Result<Answer> request_once(std::string_view method, std::string_view path, std::string_view json,
                                            const ExtraHeaders& headers);
  [[nodiscard]] Result<FileDescriptor> connected();
  [[nodiscard]] Error silent(const std::string& why) const;

  std::string path_;
  std::chrono::milliseconds timeout_, silence_;
  std::optional<std::int32_t> daemon_pid_;
  int interruption_ = -1;                        // -1: poll() ignores it
  const std::function<void()>* work_ = nullptr;  // called when the next request is sent
};

}  // namespace ration::http
