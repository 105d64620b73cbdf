// The clients connected to a server, and which of them leave when there is no room. Internal to src/http. Promises:
// connections never exceed the bounds, in total and per key; a client that waits for an answer is never dismissed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/connection.hpp"

namespace ration::http {

/// The bounds on connections. If none is free, the client that has been idle longest leaves; one with an unfinished
/// request counts as idle.
struct ClientBounds {
  std::size_t all = 512;
  std::size_t each = 256;       ///< per user, per remote host (IPv6: per /64 network)
  std::size_t kept = 16;        ///< part of `all`: for root and the daemon's own user, on the socket
  std::size_t with_token = 64;  ///< in addition, on the port: for clients that have shown the token
};

class Clients {
 public:
  explicit Clients(const ClientBounds& bounds) : bounds_(bounds) {}

  /// Makes room for one more client of `key`; a client that had to leave is gone then, and counted in `dismissed`.
  /// Returns false if there is no room. `favoured`: root or the daemon's own user, on the socket.
  [[nodiscard]] bool make_room(const std::string& key, bool favoured, std::uint64_t& dismissed);
  void add(std::unique_ptr<Connection> connection, std::string key, bool favoured);
  /// Notes a complete request.
  void note_request(Connection& connection) { clients_.at(&connection).active = ++activity_; }
  /// Notes that it has shown the token, on the port: from now on it counts among those with the token, if they have
  /// room.
  void note_token(Connection& connection);
  /// Notes its end; it lives until free_ended().
  void note_ended(Connection& connection);
  void free_ended() { ended_.clear(); }

  [[nodiscard]] std::size_t size() const noexcept { return clients_.size(); }
  /// Ends every client after the answer in progress.
  void finish();
  /// Ends every client now.
  void abandon();

 private:
  struct Client {
    std::unique_ptr<Connection> connection;
    std::string key;           ///< the key that counts it
    std::uint64_t active = 0;  ///< grows with each complete request of any client
    bool favoured = false;
  };

  [[nodiscard]] std::size_t count_of(std::string_view key) const;
  void leave(const std::string& key);
  /// Ends the connection that has been idle longest among those of the key. Returns false if all are busy.
  [[nodiscard]] bool dismiss_idle(const std::string& key);
  /// Returns the key with the most connections; empty: no client can be dismissed.
  [[nodiscard]] std::string most_crowded() const;

  ClientBounds bounds_;
  std::map<Connection*, Client> clients_;
  std::map<std::string, std::size_t, std::less<>> counts_;
  std::uint64_t activity_ = 0;
  std::vector<Client> ended_;
};

}  // namespace ration::http
