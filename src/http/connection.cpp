#include "http/connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "base/strings.hpp"
#include "http/grammar.hpp"
#include "http/problem.hpp"

namespace ration::http {
namespace {

bool is_printable_line(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char letter) {
    return (static_cast<unsigned char>(letter) >= 0x20 && letter != 0x7f) || letter == '\t';
  });
}

bool sendable(const Response& response) {
  return is_printable_line(response.content_type) &&
         std::all_of(response.headers.begin(), response.headers.end(), [](auto& line) {
           return !line.first.empty() && is_printable_line(line.first) && is_printable_line(line.second);
         });
}

std::string date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

bool has_body(int status) { return status >= 200 && status != 204 && status != 304; }

std::string head_of(const Response& response, bool keep_alive, bool endless) {
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status, reason_phrase(response.status), date());
  bool cache_said = false;
  for (const auto& [name, value] : response.headers) {
    cache_said = cache_said || lower(name) == "cache-control";
    fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, value);
  }
  if (!cache_said) head += "Cache-Control: no-store\r\n";
  if (!response.content_type.empty() && has_body(response.status))
    fmt::format_to(std::back_inserter(head), "Content-Type: {}\r\n", response.content_type);
  // Prevents browsers from guessing the type of content that a tenant may have chosen, and prevents other pages from
  // framing the dashboard.
  head += "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n";
  if (!endless && has_body(response.status))
    fmt::format_to(std::back_inserter(head), "Content-Length: {}\r\n", response.body.size());
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

}  // namespace

Connection::Connection(ConnectionOwner& owner, EventLoop& loop, FileDescriptor socket, Peer peer,
                       const ConnectionLimits& limits)
    : owner_(owner),
      loop_(loop),
      limits_(limits),
      channel_(*this, loop, std::move(socket), limits.write),
      peer_(std::move(peer)),
      parser_(limits.parse),
      exchange_(std::make_shared<Exchange>()) {
  wait_for_request();
}

Connection::~Connection() {
  exchange_->connection = nullptr;
  if (stream_) stream_->connection_ = nullptr;
}

void Connection::wait_for_request() {
  deadline_ = loop_.after(limits_.idle, [this] { on_late(); });
}

Responder Connection::responder() { return {loop_.mailbox(), exchange_}; }

void Connection::write(std::string_view bytes) {
  if (state_ == State::kStreaming) channel_.write(bytes);
}

void Connection::on_input() {
  if (state_ == State::kReading) return read_requests();
  if (state_ != State::kStreaming) return;
  // A program may close its half after the request (`nc -N`) and wait for the answer. In a stream a closed half means
  // that the client has gone.
  if (channel_.input_ended()) return abandon();
  channel_.drop_input();
}

void Connection::read_requests() {
  while (state_ == State::kReading && !channel_.input().empty()) {
    // The previous answer goes out first, so that at most one is buffered for a client that only sends.
    if (!parser_.begun() && backlog() > 0) break;
    channel_.consume(parser_.feed(channel_.input()));
    if (parser_.state() == RequestParser::State::kFailed)
      refuse(parser_.failure().status, parser_.failure().error);
    else if (parser_.state() == RequestParser::State::kComplete)
      dispatch();
    else if (parser_.take_expectation())
      channel_.write("HTTP/1.1 100 Continue\r\n\r\n");
  }
  if (state_ == State::kReading && channel_.input_ended() && channel_.input().empty())
    finish(Channel::Ending::kFlushed);
}

void Connection::dispatch() {
  deadline_.cancel();
  peer_.token_accepted = false;
  auto target = parse_target(parser_.target());
  if (!target)
    return refuse(400, {"E1510", "the address of this request cannot be understood",
                        "Write /PATH?NAME=VALUE, percent-encoded", 2});
  Request request{.method = parser_.method(),
                  .path = std::move(target->path),
                  .query = std::move(target->query),
                  .captures = {},
                  .headers = parser_.headers(),
                  .body = parser_.take_body(),
                  .peer = peer_};
  keep_alive_ = keep_alive_ && parser_.keep_alive();
  state_ = State::kHandling;
  parser_.reset();
  exchange_->connection = nullptr;
  exchange_ = std::make_shared<Exchange>(Exchange{this, request.method == "HEAD"});
  owner_.handle(*this, std::move(request));
}

void Connection::send(Response response, bool head_only) {
  owner_.complete(response, peer_);
  if (!sendable(response))
    response = problem({"E1500", "the daemon made a header that cannot be sent", "ration doctor", 1});
  channel_.write(head_of(response, keep_alive_, false));
  if (!head_only && has_body(response.status)) channel_.write(response.body);
}

void Connection::answer(Response response) {
  if (state_ != State::kHandling) return;
  exchange_->connection = nullptr;
  send(std::move(response), exchange_->head_only);
  state_ = State::kReading;
  if (!keep_alive_) finish(Channel::Ending::kFlushed);
}

std::shared_ptr<ClientStream> Connection::begin_stream(Response response) {
  if (state_ != State::kHandling) return nullptr;
  keep_alive_ = false;
  if (!sendable(response) || exchange_->head_only || channel_.input_ended()) {
    answer(std::move(response));
    return nullptr;
  }
  exchange_->connection = nullptr;
  channel_.write(head_of(response, false, true));
  channel_.limit_output(limits_.stalled, limits_.stream_send_buffer);
  state_ = State::kStreaming;
  stream_ = std::make_shared<ClientStream>(this);
  return stream_;
}

void Connection::refuse(int status, const Error& error) {
  keep_alive_ = false;
  send(problem(error, status), false);
  finish(Channel::Ending::kLingering);
}

void Connection::on_late() {
  if (!parser_.begun()) return finish(Channel::Ending::kFlushed);
  refuse(408,
         {"E1519",
          fmt::format("the request was not complete after {} s", static_cast<double>(limits_.idle.count()) / 1000.0),
          "", 2});
}

void Connection::on_drained() {
  if (state_ == State::kStreaming && stream_->drained) return stream_->drained();
  // Changes nothing after a "100 Continue" was sent: the deadline of a request that has begun stays.
  if (state_ == State::kReading && !parser_.begun()) {
    wait_for_request();
    read_requests();
  }
}

void Connection::finish() {
  keep_alive_ = false;
  if (state_ == State::kReading || state_ == State::kStreaming) finish(Channel::Ending::kFlushed);
}

void Connection::finish(Channel::Ending ending) {
  deadline_.cancel();
  state_ = State::kEnding;
  channel_.finish(ending);
}

void Connection::on_ended() {
  state_ = State::kEnding;
  deadline_.cancel();
  exchange_->connection = nullptr;
  if (stream_) {
    stream_->connection_ = nullptr;
    // Moves the callback out first, because the callback may release the stream.
    const auto closed = std::move(stream_->closed);
    stream_->drained = nullptr;
    if (closed) closed();
  }
  owner_.ended(*this);
}

}  // namespace ration::http
