#include "http/connection.hpp"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <new>
#include <utility>

#include "base/strings.hpp"
#include "http/grammar.hpp"
#include "http/problem.hpp"

namespace ration::http {
namespace {

/// Input that waits for an answer to go out first.
constexpr std::size_t kMaxWaitingInput = 64 * 1024;
/// How long a refused client may go on sending before it is cut off: closing at once would make its kernel throw the
/// refusal away unread.
constexpr milliseconds kLinger{2'000};

bool printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char letter) {
    return (static_cast<unsigned char>(letter) >= 0x20 && letter != 0x7f) || letter == '\t';
  });
}

bool sendable(const Response& response) {
  return printable(response.content_type) &&
         std::all_of(response.headers.begin(), response.headers.end(),
                     [](auto& line) { return !line.first.empty() && printable(line.first) && printable(line.second); });
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
  // No type is guessed from content that a tenant may have chosen, and no other page frames the dashboard.
  head += "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n";
  if (!endless && has_body(response.status))
    fmt::format_to(std::back_inserter(head), "Content-Length: {}\r\n", response.body.size());
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

}  // namespace

/// The C functions that libevent calls.
struct ConnectionCallbacks {
  static Connection& self(void* argument) { return *static_cast<Connection*>(argument); }
  static void readable(bufferevent*, void* argument) { self(argument).on_readable(); }
  static void drained(bufferevent*, void* argument) { self(argument).on_drained(); }
  static void happened(bufferevent*, short what, void* argument) {
    if ((what & BEV_EVENT_EOF) != 0)
      self(argument).on_end_of_input();
    else
      self(argument).abandon();
  }
};

Connection::Connection(ConnectionOwner& owner, EventLoop& loop, FileDescriptor socket, Peer peer,
                       std::string local_address, const ConnectionLimits& limits)
    : owner_(owner),
      loop_(loop),
      limits_(limits),
      socket_(std::move(socket)),
      buffers_(bufferevent_socket_new(loop.base(), socket_.get(), 0)),
      peer_(std::move(peer)),
      local_address_(std::move(local_address)),
      parser_(limits.parse),
      exchange_(std::make_shared<Exchange>()) {
  if (buffers_ == nullptr) throw std::bad_alloc();
  bufferevent_setcb(buffers_, ConnectionCallbacks::readable, ConnectionCallbacks::drained,
                    ConnectionCallbacks::happened, this);
  bufferevent_setwatermark(buffers_, EV_READ, 0, kMaxWaitingInput);
  const timeval write = as_timeval(limits_.write);
  bufferevent_set_timeouts(buffers_, nullptr, &write);
  bufferevent_enable(buffers_, EV_READ | EV_WRITE);
  deadline_ = loop_.after(limits_.idle, [this] { on_late(); });
}

Connection::~Connection() {
  exchange_->connection = nullptr;
  if (stream_) stream_->connection_ = nullptr;
  bufferevent_free(buffers_);
}

Responder Connection::responder() { return {loop_.mailbox(), exchange_}; }

std::size_t Connection::backlog() const noexcept { return evbuffer_get_length(bufferevent_get_output(buffers_)); }

void Connection::write(std::string_view bytes) {
  if (state_ == State::kStreaming) bufferevent_write(buffers_, bytes.data(), bytes.size());
}

void Connection::on_readable() {
  if (state_ == State::kReading) return process();
  if (state_ == State::kHandling) return;
  evbuffer* input = bufferevent_get_input(buffers_);
  evbuffer_drain(input, evbuffer_get_length(input));
}

void Connection::process() {
  // A handler that answers at once comes back here through the output being drained, never through recursion.
  if (processing_) return;
  processing_ = true;
  evbuffer* input = bufferevent_get_input(buffers_);
  while (state_ == State::kReading && evbuffer_get_length(input) > 0) {
    // The answer before goes out first: what is kept for a client that only asks is one answer.
    if (!parser_.begun() && backlog() > 0) break;
    evbuffer_iovec piece{};
    evbuffer_peek(input, -1, nullptr, &piece, 1);
    const std::size_t taken = parser_.feed({static_cast<const char*>(piece.iov_base), piece.iov_len});
    evbuffer_drain(input, taken);
    if (parser_.state() == RequestParser::State::kFailed) {
      refuse(parser_.failure().status, parser_.failure().error);
    } else if (parser_.state() == RequestParser::State::kComplete) {
      dispatch();
    } else if (parser_.state() == RequestParser::State::kBody && parser_.expects_continue() && !continue_sent_) {
      continue_sent_ = true;
      static constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
      bufferevent_write(buffers_, kGoOn.data(), kGoOn.size());
    }
  }
  processing_ = false;
  if (state_ == State::kReading && input_ended_ && evbuffer_get_length(input) == 0) flush_and_end(false);
}

void Connection::dispatch() {
  deadline_.cancel();
  auto target = parse_target(parser_.target());
  if (!target)
    return refuse(
        400, {"E1510", "the address of this request cannot be read", "Write /PATH?NAME=VALUE, percent-encoded", 2});
  Request request{.method = parser_.method(),
                  .path = std::move(target->path),
                  .query = std::move(target->query),
                  .captures = {},
                  .headers = parser_.headers(),
                  .body = parser_.take_body(),
                  .peer = peer_};
  keep_alive_ = keep_alive_ && parser_.keep_alive();
  head_only_ = request.method == "HEAD";
  state_ = State::kHandling;
  parser_.reset();
  continue_sent_ = false;
  exchange_->connection = nullptr;
  exchange_ = std::make_shared<Exchange>(Exchange{this});
  owner_.handle(*this, std::move(request));
}

void Connection::send(Response response) {
  owner_.complete(response);
  if (!sendable(response))
    response = problem({"E1500", "the daemon made a header that cannot be sent", "ration doctor", 1});
  const std::string head = head_of(response, keep_alive_, false);
  bufferevent_write(buffers_, head.data(), head.size());
  if (!head_only_ && has_body(response.status)) bufferevent_write(buffers_, response.body.data(), response.body.size());
}

void Connection::answer(Response response) {
  if (state_ != State::kHandling) return;
  exchange_->connection = nullptr;
  send(std::move(response));
  state_ = State::kReading;
  if (!keep_alive_) flush_and_end(false);
}

std::shared_ptr<ClientStream> Connection::begin_stream(Response response) {
  if (state_ != State::kHandling) return nullptr;
  exchange_->connection = nullptr;
  keep_alive_ = false;
  if (!sendable(response) || head_only_ || input_ended_) {
    send(std::move(response));
    flush_and_end(false);
    return nullptr;
  }
  const std::string head = head_of(response, false, true);
  bufferevent_write(buffers_, head.data(), head.size());
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, &limits_.stream_send_buffer, sizeof(int));
  const timeval write = as_timeval(limits_.stalled);
  bufferevent_set_timeouts(buffers_, nullptr, &write);
  state_ = State::kStreaming;
  stream_ = std::make_shared<ClientStream>(this);
  return stream_;
}

void Connection::refuse(int status, const Error& error) {
  deadline_.cancel();
  keep_alive_ = head_only_ = false;
  send(problem(error, status));
  flush_and_end(true);
}

void Connection::on_late() {
  if (state_ != State::kReading) return abandon();
  if (!parser_.begun()) return flush_and_end(false);
  refuse(408,
         {"E1519",
          fmt::format("the request was not complete after {} s", static_cast<double>(limits_.idle.count()) / 1000.0),
          "", 2});
}

void Connection::on_drained() {
  if (state_ == State::kFlushing) return end_if_flushed();
  if (state_ == State::kStreaming && stream_->drained) return stream_->drained();
  // Not after a mere "100 Continue": the time of a request that has begun goes on.
  if (state_ == State::kReading && !parser_.begun()) {
    deadline_ = loop_.after(limits_.idle, [this] { on_late(); });
    process();
  }
}

void Connection::on_end_of_input() {
  input_ended_ = true;
  // A program may close its half after the request (`nc -N`) and wait: it is answered. Nobody does so with a stream.
  if (state_ == State::kReading) return process();
  if (state_ == State::kStreaming || state_ == State::kLingering) abandon();
}

void Connection::finish() {
  keep_alive_ = false;
  if (state_ == State::kReading || state_ == State::kStreaming) flush_and_end(false);
}

void Connection::flush_and_end(bool linger) {
  state_ = State::kFlushing;
  linger_ = linger;
  end_if_flushed();
}

void Connection::end_if_flushed() {
  if (backlog() > 0) return;
  if (!linger_) return abandon();
  state_ = State::kLingering;
  ::shutdown(socket_.get(), SHUT_WR);
  deadline_ = loop_.after(kLinger, [this] { on_late(); });
}

void Connection::abandon() {
  if (state_ == State::kEnded) return;
  state_ = State::kEnded;
  deadline_.cancel();
  bufferevent_disable(buffers_, EV_READ | EV_WRITE);
  bufferevent_setcb(buffers_, nullptr, nullptr, nullptr, nullptr);
  exchange_->connection = nullptr;
  if (stream_) {
    stream_->connection_ = nullptr;
    // Taken out first: whoever is told may let go of the stream.
    const auto closed = std::move(stream_->closed);
    stream_->drained = nullptr;
    if (closed) closed();
  }
  owner_.ended(*this);
}

}  // namespace ration::http
