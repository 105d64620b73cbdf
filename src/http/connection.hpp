// One client's conversation with the server: requests in, answers out, one at a time. Internal to src/http.
// Promises: a request has to be complete within the idle timeout, however slowly it trickles; input that waits is
// bounded; every answer has been handed over before the connection ends, unless the client stops taking it.
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

struct bufferevent;

namespace ration::http {

/// The server, as its connections see it.
class ConnectionOwner {
 public:
  /// A complete request. The answer goes to `connection.answer()` at once or to its responder() later.
  virtual void handle(Connection& connection, Request request) = 0;
  /// The connection has ended and is not used any more; it may be destroyed once the callback has returned.
  virtual void ended(Connection& connection) = 0;
  /// Every answer, before it goes.
  virtual void complete(Response& response) = 0;

 protected:
  ~ConnectionOwner() = default;
};

struct ConnectionLimits {
  ParseLimits parse;
  milliseconds idle{30'000};           ///< for a request to become complete, and between two
  milliseconds write{30'000};          ///< for a client to take any byte of an answer
  milliseconds stalled{600'000};       ///< the same for a stream
  int stream_send_buffer = 64 * 1024;  ///< SO_SNDBUF of a stream, so that the kernel's share is bounded too
};

class Connection {
 public:
  Connection(ConnectionOwner& owner, EventLoop& loop, FileDescriptor socket, Peer peer, std::string local_address,
             const ConnectionLimits& limits);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Whether no whole request waits for its answer, and no stream goes to it.
  [[nodiscard]] bool idle() const noexcept { return state_ != State::kHandling && state_ != State::kStreaming; }
  [[nodiscard]] const std::string& local_address() const noexcept { return local_address_; }

  /// For the request that is being handled; ignored where there is none.
  void answer(Response response);
  [[nodiscard]] std::shared_ptr<ClientStream> begin_stream(Response response);
  [[nodiscard]] Responder responder();

  [[nodiscard]] std::size_t backlog() const noexcept;
  void write(std::string_view bytes);
  /// Ends after the answer to the request that is being handled; at once where there is none.
  void finish();
  /// Ends now.
  void abandon();

 private:
  friend struct ConnectionCallbacks;
  enum class State {
    kReading,    ///< waits for a request
    kHandling,   ///< somebody is working on the answer
    kStreaming,  ///< sends events
    kFlushing,   ///< ends when the output has gone
    kLingering,  ///< takes what the client still sends, so that it gets to read the refusal
    kEnded,
  };

  void process();
  void on_readable();
  void on_drained();
  void on_end_of_input();
  void on_late();
  void dispatch();
  void refuse(int status, const Error& error);
  void send(Response response);
  void flush_and_end(bool linger);
  void end_if_flushed();

  ConnectionOwner& owner_;
  EventLoop& loop_;
  const ConnectionLimits& limits_;
  FileDescriptor socket_;
  bufferevent* buffers_;
  Peer peer_;
  std::string local_address_;
  RequestParser parser_;
  State state_ = State::kReading;
  bool processing_ = false;
  bool continue_sent_ = false;
  bool head_only_ = false;
  bool keep_alive_ = true;
  bool linger_ = false;
  bool input_ended_ = false;
  Watch deadline_;
  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<ClientStream> stream_;
};

}  // namespace ration::http
