#include "http/responder.hpp"

#include <utility>

#include "http/connection.hpp"
#include "http/problem.hpp"

namespace ration::http {
namespace {

/// Answers through the mailbox, so that the answer is sent after the handler has returned, and in the loop's thread, to
/// which the exchange belongs.
void answer_later(const std::shared_ptr<Mailbox>& mailbox, std::weak_ptr<Exchange> exchange, Response response) {
  mailbox->post([exchange = std::move(exchange), response = std::move(response)]() mutable {
    const auto open = exchange.lock();
    if (open && open->connection != nullptr) open->connection->answer(std::move(response));
  });
}

}  // namespace

std::size_t ClientStream::backlog() const noexcept { return connection_ == nullptr ? 0 : connection_->backlog(); }

void ClientStream::write(std::string_view bytes) {
  if (connection_ != nullptr) connection_->write(bytes);
}

void ClientStream::close() {
  if (connection_ != nullptr) connection_->finish();
}

Responder::Responder(std::shared_ptr<Mailbox> mailbox, std::shared_ptr<Exchange> exchange)
    : ticket_(std::make_shared<Ticket>()) {
  ticket_->mailbox = std::move(mailbox);
  ticket_->exchange = exchange;
}

Responder::Ticket::~Ticket() {
  if (answered) return;
  answer_later(mailbox, exchange, problem({"E1500", "the daemon made no answer to this request", "ration doctor", 1}));
}

void Responder::respond(Response response) const {
  if (ticket_->answered.exchange(true)) return;
  answer_later(ticket_->mailbox, ticket_->exchange, std::move(response));
}

void Responder::fail(const Error& error, int status) const { respond(problem(error, status)); }

std::shared_ptr<ClientStream> Responder::begin_stream(Response response) const {
  if (ticket_->answered.exchange(true)) return nullptr;
  const auto open = ticket_->exchange.lock();
  if (!open || open->connection == nullptr) return nullptr;
  return open->connection->begin_stream(std::move(response));
}

}  // namespace ration::http
