// Keeps the clients that are connected to a server, and chooses which of them leave when there is no room. Internal to
// src/http. Promises: connections never exceed the bounds, in total and per key; a client that waits for an answer is
// never dismissed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/connection.hpp"

namespace ration::http {

/// The bounds on connections. If a key has no room, the longest idle client of that key leaves. If the server has no
/// room, the longest idle client of the key with the most idle clients leaves. A client with an unfinished request
/// counts as idle.
struct ClientBounds {
  std::size_t all = 512;
  std::size_t each = 256;       ///< per user, or per remote host (IPv6: per /64 network)
  std::size_t kept = 16;        ///< part of `all` that is kept for root and the daemon's own user, on the socket
  std::size_t with_token = 64;  ///< beyond `all`, on the port, for clients that have shown the token
};

class Clients {
 public:
  explicit Clients(const ClientBounds& bounds) : bounds_(bounds) {}

  /// Makes room for one more client of `key`. Dismisses other clients if necessary, and counts them in `dismissed`.
  /// Returns false if there is no room. `favoured` is true for root and the daemon's own user, on the socket.
  [[nodiscard]] bool make_room(const std::string& key, bool favoured, std::uint64_t& dismissed);
  void add(std::unique_ptr<Connection> connection, std::string key, bool favoured);
  /// Notes that the client has sent a complete request.
  void note_request(Connection& connection) { clients_.at(&connection).active = ++activity_; }
  /// Notes that the client has shown the token on the port. From now on it counts among the clients with the token, if
  /// their bound leaves room.
  void note_token(Connection& connection);
  /// Notes the end of the client, which is freed by free_ended().
  void note_ended(Connection& connection);
  void free_ended() { ended_.clear(); }

  [[nodiscard]] std::size_t size() const noexcept { return clients_.size(); }
  /// Ends every client after the answer that it waits for.
  void finish();
  /// Ends every client now.
  void abandon();

 private:
  struct Client {
    std::unique_ptr<Connection> connection;
    std::string key;           ///< the key under which it is counted
    std::uint64_t active = 0;  ///< number of its latest activity; a smaller number means idle for longer
    bool favoured = false;
  };

  [[nodiscard]] std::size_t count_of(std::string_view key) const;
  void leave(const std::string& key);
  /// Ends the key's connection that has been idle longest. Returns false if all are busy.
  [[nodiscard]] bool dismiss_idle(const std::string& key);
  /// Returns the key with the most idle connections; empty if no client can be dismissed.
  [[nodiscard]] std::string most_crowded() const;

  ClientBounds bounds_;
  std::map<Connection*, Client> clients_;
  std::map<std::string, std::size_t, std::less<>> counts_;
  std::uint64_t activity_ = 0;
  std::vector<Client> ended_;
};

}  // namespace ration::http
