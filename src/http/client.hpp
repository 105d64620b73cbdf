// A blocking client for the daemon's socket. Used by the command line, one call after the other. Promises: a call fails
// if the whole answer or, in a stream, the next byte does not come within the timeout; for a while the client repeats a
// request that the daemon turned away unread; answers are bounded; only the parser is linked.
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

/// Converts an answer's problem+json to the command line's error with its id, detail and fix. The exit code is that of
/// the answer; if the answer has none, it follows from the status (400 -> 2, 404 -> 3, 409, 410 and 412 -> 4, 401 and
/// 403 -> 5, otherwise 1).
[[nodiscard]] Error error_of(const Answer& answer);

class Client {
 public:
  static constexpr std::chrono::milliseconds kTimeout{10'000};
  /// The longest silence in a stream after its first byte; the daemon sends something every 15 s.
  static constexpr std::chrono::milliseconds kSilence{30'000};
  /// The time for which a request is repeated while the daemon is full or still starting.
  static constexpr std::chrono::milliseconds kPatience{30'000};
  /// The maximum size of an answer: 256 MiB.
  static constexpr std::size_t kMaxAnswer = std::size_t{256} << 20;

  explicit Client(std::string socket_path, std::chrono::milliseconds timeout = kTimeout,
                  std::chrono::milliseconds silence = kSilence);

  /// Ends waiting calls with E1508 once that descriptor is readable. Used in threads that must be able to end at once.
  void interrupted_by(int descriptor) { interruption_ = descriptor; }

  /// Returns the process that answered last, by its number in this pid namespace; absent before the first answer, or if
  /// the process is invisible from here.
  [[nodiscard]] std::optional<std::int32_t> daemon_pid() const noexcept { return daemon_pid_; }

  /// Sends a request. An answer with any status counts as success, except E1517 and E1522, which are repeated for
  /// kPatience. Fails with E1501 (exit code 3) if there is no daemon, E1502 (5) if this user may not open the socket,
  /// E1508 if the daemon did not answer in time, or if its answer cannot be understood.
  [[nodiscard]] Result<Answer> get(std::string_view path, const ExtraHeaders& headers = {});
  [[nodiscard]] Result<Answer> post(std::string_view path, std::string_view json, const ExtraHeaders& headers = {});
  /// Like post(), but calls `work` once while the daemon works, and also if the request fails.
  [[nodiscard]] Result<Answer> post_during(std::string_view path, std::string_view json,
                                           const std::function<void()>& work);
  [[nodiscard]] Result<Answer> patch(std::string_view path, std::string_view json, const ExtraHeaders& headers = {});
  [[nodiscard]] Result<Answer> put(std::string_view path, std::string_view json, const ExtraHeaders& headers = {});
  [[nodiscard]] Result<Answer> remove(std::string_view path, const ExtraHeaders& headers = {});

  /// Follows server-sent events until `taken` returns false or the daemon ends the stream. Both are success. Fails with
  /// E1508 after a silence longer than the timeout; the daemon sends something every 15 s. Converts any answer other
  /// than 200 to an error, as error_of() does.
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
  int interruption_ = -1;                        // -1 lets poll() ignore it
  const std::function<void()>* work_ = nullptr;  // called when the next request is sent
};

}  // namespace ration::http
