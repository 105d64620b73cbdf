// The way back to a client: one answer, now or later, or a stream of events. Handed to handlers by the server.
// Promises: a client that has gone, a server that has stopped or a loop that has ended make every call here a no-op; a
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
  /// Bytes written here that the kernel has not yet taken.
  [[nodiscard]] std::size_t backlog() const noexcept;
  /// Never blocks and never fails; whoever writes looks at backlog() first.
  void write(std::string_view bytes);
  /// After what was written has been taken.
  void close();

  std::function<void()> drained;  ///< the backlog has become 0
  std::function<void()> closed;   ///< the client has gone; the last call

 private:
  friend class Connection;
  Connection* connection_;
};

/// Which request of which connection an answer is for. The connection clears it when it goes.
struct Exchange {
  Connection* connection = nullptr;
  bool head_only = false;
};

class Responder {
 public:
  Responder(std::shared_ptr<Mailbox> mailbox, std::shared_ptr<Exchange> exchange);

  /// Any thread; the first call counts.
  void respond(Response response) const;
  void fail(const Error& error, int status = 0) const;

  /// Loop's thread only. `response` gives status, type and headers; nullptr where the client has gone, a HEAD was asked
  /// for or an answer was given already.
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
