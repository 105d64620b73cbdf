// Parses one request from a stream of bytes, with every size bounded. Used by the connections of the server. Promises:
// any bytes may be fed, in any pieces, with the same outcome; the parser never holds more than the limits allow (the
// head's bytes twice, the body once), and leaves the bytes that follow a request.
#pragma once

#include <http_parser.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/result.hpp"
#include "http/message.hpp"

namespace ration::http {

struct ParseLimits {
  std::size_t head_bytes = 16 * 1024;  ///< for the request line and the headers together
  std::size_t headers = 64;
  std::size_t body_bytes = 1024 * 1024;
};

class RequestParser {
 public:
  enum class State { kHead, kBody, kComplete, kFailed };
  struct Failure {
    int status = 400;
    Error error;
  };

  explicit RequestParser(ParseLimits limits = {});
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  /// Reads this request's bytes from the front of `bytes`, and returns their number. If the number is less than the
  /// size of `bytes`, the request is complete or has failed.
  std::size_t feed(std::string_view bytes);

  [[nodiscard]] State state() const noexcept { return state_; }
  /// Returns true once any byte of a request has come.
  [[nodiscard]] bool begun() const noexcept { return head_seen_ > 0; }
  [[nodiscard]] const Failure& failure() const noexcept { return failure_; }

  // The following are valid once the state is kBody or kComplete.
  [[nodiscard]] const std::string& method() const noexcept { return request_.method; }
  [[nodiscard]] const std::string& target() const noexcept { return request_.target; }
  [[nodiscard]] bool keep_alive() const noexcept { return request_.keep_alive; }
  /// Returns true if the client waits for "100 Continue" before it sends the body. Returns true only once for a
  /// request.
  [[nodiscard]] bool take_expectation() noexcept { return std::exchange(request_.expects_continue, false); }
  [[nodiscard]] const Headers& headers() const noexcept { return request_.headers; }
  /// Moves the body out; valid once the request is complete.
  [[nodiscard]] std::string take_body() noexcept { return std::move(request_.body); }

  /// Begins the next request of the same connection.
  void reset();

 private:
  static const http_parser_settings kSettings;
  int on_url(std::string_view part);
  int on_name(std::string_view part);
  int on_value(std::string_view part);
  int on_head_end();
  int on_body(std::string_view part);
  int on_end();
  int refuse(int status, std::string id, std::string what, std::string fix = {});
  bool finish_header();

  ParseLimits limits_;
  http_parser parser_{};
  State state_ = State::kHead;
  Failure failure_;
  std::size_t head_seen_ = 0;
  struct {
    std::string method, target, body;
    bool keep_alive = false, expects_continue = false;
    Headers headers;
  } request_;
  struct {
    std::string name, value;
    bool value_begun = false;
  } header_;  // the header that is being read
};

}  // namespace ration::http
