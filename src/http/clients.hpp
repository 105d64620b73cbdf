// Who is connected to a server, and who has to leave when there is no room. Internal to src/http.
// Promises: no more are connected than the bounds allow, of all and of each; nobody who waits for an answer is
// dismissed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/connection.hpp"

namespace ration::http {

/// Where a place is wanted and none is free, whoever has been idle longest leaves; an unfinished request is idle.
struct ClientBounds {
  std::size_t all = 512;
  std::size_t each = 256;       ///< of one user, of one remote host (IPv6: one /64 network)
  std::size_t kept = 16;        ///< of `all`: for root and the daemon's own user, on the socket
  std::size_t with_token = 64;  ///< beside these, on the port: for who has shown the token
};

class Clients {
 public:
  explicit Clients(const ClientBounds& bounds) : bounds_(bounds) {}

  /// Whether one more of `key` may come; whoever has to leave for that is gone then, and counted in `dismissed`.
  /// `favoured`: root or the daemon's own user, on the socket.
  [[nodiscard]] bool make_room(const std::string& key, bool favoured, std::uint64_t& dismissed);
  void add(std::unique_ptr<Connection> connection, std::string key, bool favoured);
  /// A whole request came.
  void note_request(Connection& connection) { clients_.at(&connection).active = ++activity_; }
  /// It has shown the token, on the port: from now on it is counted among those who have, where they have room.
  void note_token(Connection& connection);
  /// It is gone, and lives until free_ended().
  void note_ended(Connection& connection);
  void free_ended() { ended_.clear(); }

  [[nodiscard]] std::size_t size() const noexcept { return clients_.size(); }
  /// Everybody finishes what is being answered, then leaves.
  void finish();
  /// Everybody leaves now.
  void abandon();

 private:
  struct Client {
    std::unique_ptr<Connection> connection;
    std::string key;           ///< under which it is counted
    std::uint64_t active = 0;  ///< grows with each whole request, of whichever client
    bool favoured = false;
  };

  [[nodiscard]] std::size_t count_of(std::string_view key) const;
  void leave(const std::string& key);
  /// Ends the connection that has been idle longest, of those that are counted under the key. False: all are busy.
  [[nodiscard]] bool dismiss_idle(const std::string& key);
  /// Of which the most are connected; empty: nobody is who could leave.
  [[nodiscard]] std::string most_crowded() const;

  ClientBounds bounds_;
  std::map<Connection*, Client> clients_;
  std::map<std::string, std::size_t, std::less<>> counts_;
  std::uint64_t activity_ = 0;
  std::vector<Client> ended_;
};

}  // namespace ration::http
