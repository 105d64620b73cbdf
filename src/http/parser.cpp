#include "http/parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/strings.hpp"

namespace ration::http {
namespace {

RequestParser& self(http_parser* parser) { return *static_cast<RequestParser*>(parser->data); }

}  // namespace

const http_parser_settings RequestParser::kSettings = [] {
  http_parser_settings settings{};
  settings.on_url = [](http_parser* parser, const char* at, std::size_t size) {
    return self(parser).on_url({at, size});
  };
  settings.on_header_field = [](http_parser* parser, const char* at, std::size_t size) {
    return self(parser).on_name({at, size});
  };
  settings.on_header_value = [](http_parser* parser, const char* at, std::size_t size) {
    return self(parser).on_value({at, size});
  };
  settings.on_headers_complete = [](http_parser* parser) { return self(parser).on_head_end(); };
  settings.on_body = [](http_parser* parser, const char* at, std::size_t size) {
    return self(parser).on_body({at, size});
  };
  settings.on_message_complete = [](http_parser* parser) { return self(parser).on_end(); };
  return settings;
}();

RequestParser::RequestParser(ParseLimits limits) : limits_(limits) { reset(); }

void RequestParser::reset() {
  http_parser_init(&parser_, HTTP_REQUEST);
  parser_.data = this;
  state_ = State::kHead;
  failure_ = {};
  head_seen_ = 0;
  request_ = {};
  header_ = {};
}

std::size_t RequestParser::feed(std::string_view bytes) {
  std::size_t taken = 0;
  while (taken < bytes.size() && (state_ == State::kHead || state_ == State::kBody)) {
    std::string_view piece = bytes.substr(taken);
    const bool head = state_ == State::kHead;
    // Passes on only as many bytes of the head as its limit allows.
    if (head) piece = piece.substr(0, limits_.head_bytes - head_seen_);
    const std::size_t used = http_parser_execute(&parser_, &kSettings, piece.data(), piece.size());
    taken += used;
    if (head) head_seen_ += used;
    const auto problem = HTTP_PARSER_ERRNO(&parser_);
    if (state_ == State::kFailed || state_ == State::kComplete) break;
    if (problem != HPE_OK) {
      refuse(400, "E1510", fmt::format("this is not an HTTP request: {}", http_errno_description(problem)));
    } else if (state_ == State::kHead && head_seen_ >= limits_.head_bytes) {
      const bool only_target = request_.headers.lines().empty() && header_.name.empty();
      refuse(only_target ? 414 : 431, "E1516",
             fmt::format("request line and headers are more than {} bytes", limits_.head_bytes));
    }
  }
  return taken;
}

int RequestParser::refuse(int status, std::string id, std::string what, std::string fix) {
  state_ = State::kFailed;
  failure_ = {status, {std::move(id), std::move(what), std::move(fix), 2}};
  return -1;
}

int RequestParser::on_url(std::string_view part) {
  request_.target += part;
  return 0;
}

bool RequestParser::finish_header() {
  if (header_.name.empty()) return true;
  // Debian builds the library without its strict mode, so names with blanks get here. A line such as "Host : x" must
  // not count as a header.
  if (header_.name.find(' ') != std::string::npos) {
    refuse(400, "E1510", "a blank in a header's name");
    return false;
  }
  request_.headers.add(lower(header_.name), std::string(trimmed(header_.value)));
  header_ = {};
  if (request_.headers.lines().size() <= limits_.headers) return true;
  refuse(431, "E1516", fmt::format("more than {} headers", limits_.headers));
  return false;
}

int RequestParser::on_name(std::string_view part) {
  if (state_ != State::kHead) return refuse(400, "E1510", "headers after the body are not taken");
  if (header_.value_begun && !finish_header()) return -1;
  header_.name += part;
  return 0;
}

int RequestParser::on_value(std::string_view part) {
  if (state_ != State::kHead) return refuse(400, "E1510", "headers after the body are not taken");
  header_.value_begun = true;
  header_.value += part;
  return 0;
}

int RequestParser::on_head_end() {
  if (!finish_header()) return -1;
  if (parser_.http_major != 1)
    return refuse(505, "E1510", fmt::format("HTTP {}.{} is not spoken here", parser_.http_major, parser_.http_minor),
                  "Use HTTP/1.1");
  if (request_.headers.count("host") > 1) return refuse(400, "E1510", "more than one Host header");
  if (parser_.http_minor >= 1 && request_.headers.count("host") == 0) return refuse(400, "E1510", "no Host header");
  const bool encoded = parser_.uses_transfer_encoding != 0;
  if (encoded && parser_.http_minor == 0) return refuse(400, "E1510", "HTTP/1.0 has no transfer encodings");
  // Accepts only 'chunked' alone: the library decodes only 'chunked', as the last of several codings, and would pass on
  // a body in another coding as it is.
  const bool chunked =
      request_.headers.count("transfer-encoding") == 1 && lower(request_.headers.get("transfer-encoding")) == "chunked";
  if (encoded && !chunked) return refuse(501, "E1510", "of transfer encodings only 'chunked' is taken");
  if (!chunked && (parser_.flags & F_CONTENTLENGTH) != 0 && parser_.content_length > limits_.body_bytes)
    return refuse(413, "E1516",
                  fmt::format("a body of {} bytes; the most is {}", parser_.content_length, limits_.body_bytes));
  request_.method = http_method_str(static_cast<http_method>(parser_.method));
  request_.keep_alive = http_should_keep_alive(&parser_) != 0;
  request_.expects_continue = lower(request_.headers.get("expect")) == "100-continue";
  // The server never upgrades, and continues in HTTP/1.1 as RFC 9110 §7.8 allows; CONNECT is rejected as a method.
  parser_.upgrade = 0;
  state_ = State::kBody;
  return 0;
}

int RequestParser::on_body(std::string_view part) {
  if (part.size() > limits_.body_bytes - request_.body.size())
    return refuse(413, "E1516", fmt::format("a body of more than {} bytes", limits_.body_bytes));
  request_.body += part;
  return 0;
}

int RequestParser::on_end() {
  state_ = State::kComplete;
  // Stops, because the next request follows.
  http_parser_pause(&parser_, 1);
  return 0;
}

}  // namespace ration::http
