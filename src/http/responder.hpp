// The way back to a client, which the server passes to handlers: one answer, now or later, or a stream of events.
// Promises: once the client has gone, the server has stopped or the loop has ended, every call here does nothing; a
// request whose Responder is dropped without an answer gets a 500, so that no client waits for ever.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>

#include "base/result.hpp"
#include "http/event_loop.hpp"
#include "http/message.hpp"

namespace ration::http {

class Connection;

/// An answer that has no fixed end. Belongs to the loop's thread.
class ClientStream {
 public:
  explicit ClientStream(Connection* connection) noexcept : connection_(connection) {}

  [[nodiscard]] bool open() const noexcept { return connection_ != nullptr; }
  /// Returns the number of written bytes that the kernel has not taken yet.
  [[nodiscard]] std::size_t backlog() const noexcept;
  /// Writes the bytes. Never blocks and never fails, so check backlog() first.
  void write(std::string_view bytes);
  /// Closes the stream once the kernel has taken the output.
  void close();

  std::function<void()> drained;  ///< called when the backlog has become 0
  std::function<void()> closed;   ///< called when the client has gone, as the last call

 private:
  friend class Connection;
  Connection* connection_;
};

/// The request and connection of an answer. `connection` is null after the connection has ended.
struct Exchange {
  Connection* connection = nullptr;
  bool head_only = false;
};

class Responder {
 public:
  Responder(std::shared_ptr<Mailbox> mailbox, std::shared_ptr<Exchange> exchange);

  /// Sends the answer; later calls do nothing. Any thread may call it.
  void respond(Response response) const;
  void fail(const Error& error, int status = 0) const;

  /// Begins a stream with the status, type and headers of `response`. Returns nullptr if the client has gone, the
  /// request is a HEAD, or an answer was given already. Only the loop's thread may call it.
  [[nodiscard]] std::shared_ptr<ClientStream> begin_stream(Response response) const;

 private:
  struct Ticket {
    std::shared_ptr<Mailbox> mailbox;
    std::weak_ptr<Exchange> exchange;
    std::atomic<bool> answered{false};
    ~Ticket();
  };
  std::shared_ptr<Ticket> ticket_;
};

}  // namespace ration::http
