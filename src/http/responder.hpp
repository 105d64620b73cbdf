// The way back to a client: one answer, now or later, or a stream of events. The server passes it to handlers.
// Promises: after the client has gone, the server has stopped or the loop has ended, every call here does nothing; a
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

/// An answer without an end. Belongs to the loop's thread.
class ClientStream {
 public:
  explicit ClientStream(Connection* connection) noexcept : connection_(connection) {}

  [[nodiscard]] bool open() const noexcept { return connection_ != nullptr; }
  /// Returns the bytes written here that the kernel has not taken yet.
  [[nodiscard]] std::size_t backlog() const noexcept;
  /// Writes; never blocks and never fails, so check backlog() first.
  void write(std::string_view bytes);
  /// Closes after the output has been taken.
  void close();

  std::function<void()> drained;  ///< the backlog has become 0
  std::function<void()> closed;   ///< the client has gone; the last call

 private:
  friend class Connection;
  Connection* connection_;
};

/// The request and connection of an answer. The connection clears it when it ends.
struct Exchange {
  Connection* connection = nullptr;
  bool head_only = false;
};

class Responder {
 public:
  Responder(std::shared_ptr<Mailbox> mailbox, std::shared_ptr<Exchange> exchange);

  /// Sends the answer. Any thread; the first call counts.
  void respond(Response response) const;
  void fail(const Error& error, int status = 0) const;

  /// Begins a stream with status, type and headers of `response`. Returns nullptr if the client has gone, the request
  /// is a HEAD, or an answer was given already. Loop's thread only.
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
