// One client's conversation with the server: it sends requests and gets answers, one at a time. Internal to src/http.
// Promises: a request has to be complete within the idle timeout, however slowly its bytes come; waiting input is
// bounded; every answer is sent before the connection ends, unless the client stops reading.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/file.hpp"
#include "http/event_loop.hpp"
#include "http/message.hpp"
#include "http/parser.hpp"
#include "http/responder.hpp"

namespace ration::http {

/// The server, as its connections use it.
class ConnectionOwner {
 public:
  /// Handles a complete request. The answer goes to `connection.answer()` at once, or to its responder() later.
  virtual void handle(Connection& connection, Request request) = 0;
  /// Notes that the connection has ended and is no longer used; it may be destroyed once this callback has returned.
  virtual void ended(Connection& connection) = 0;
  /// Completes every answer before it is sent to that peer.
  virtual void complete(Response& response, const Peer& peer) = 0;

 protected:
  ~ConnectionOwner() = default;
};

struct ConnectionLimits {
  ParseLimits parse;
  milliseconds idle{30'000};           ///< for the rest of a request, and between two requests
  milliseconds write{30'000};          ///< for a client that takes no byte of an answer
  milliseconds stalled{600'000};       ///< for a client that takes no byte of a stream
  int stream_send_buffer = 64 * 1024;  ///< SO_SNDBUF of a stream, which bounds the kernel's share as well
};

class Connection final : private ChannelOwner {
 public:
  Connection(ConnectionOwner& owner, EventLoop& loop, FileDescriptor socket, Peer peer, const ConnectionLimits& limits);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Returns true if no complete request waits for its answer, and no stream is open.
  [[nodiscard]] bool idle() const noexcept { return state_ != State::kHandling && state_ != State::kStreaming; }

  /// Records that the current request has shown the token.
  void accept_token() { peer_.token_accepted = true; }
  /// Answers the current request; ignored if there is none.
  void answer(Response response);
  [[nodiscard]] std::shared_ptr<ClientStream> begin_stream(Response response);
  [[nodiscard]] Responder responder();

  [[nodiscard]] std::size_t backlog() const noexcept { return channel_.backlog(); }
  /// Writes to the stream; does nothing if there is none.
  void write(std::string_view bytes);
  /// Ends the connection after the answer to the current request, or at once if there is none.
  void finish();
  /// Ends the connection now.
  void abandon() { channel_.end(); }

 private:
  enum class State {
    kReading,    ///< waits for a request
    kHandling,   ///< the answer is being made
    kStreaming,  ///< a stream is open
    kEnding,     ///< takes no more requests
  };

  void on_input() override;
  void on_drained() override;
  void on_ended() override;
  void on_late();
  void read_requests();
  void dispatch();
  void refuse(int status, const Error& error);
  void send(Response response, bool head_only);
  void finish(Channel::Ending ending);
  void wait_for_request();

  ConnectionOwner& owner_;
  EventLoop& loop_;
  const ConnectionLimits& limits_;
  Channel channel_;
  Peer peer_;
  RequestParser parser_;
  State state_ = State::kReading;
  bool keep_alive_ = true;
  Watch deadline_;
  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<ClientStream> stream_;
};

}  // namespace ration::http
