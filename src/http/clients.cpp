#include "http/clients.hpp"

#include <algorithm>
#include <utility>

namespace ration::http {
namespace {

/// The key under which clients with the token are counted.
constexpr const char* kWithToken = "token";

}  // namespace

bool Clients::make_room(const std::string& key, bool favoured, std::uint64_t& dismissed) {
  const auto dismiss = [&](const std::string& of) {
    const bool gone = dismiss_idle(of);
    dismissed += gone ? 1 : 0;
    return gone;
  };
  const std::size_t most = favoured ? bounds_.all : bounds_.all - std::min(bounds_.all, bounds_.kept);
  return (count_of(key) < bounds_.each || dismiss(key)) &&
         (clients_.size() - count_of(kWithToken) < most || dismiss(most_crowded()));
}

void Clients::add(std::unique_ptr<Connection> connection, std::string key, bool favoured) {
  ++counts_[key];
  Connection* place = connection.get();
  clients_.emplace(place, Client{std::move(connection), std::move(key), ++activity_, favoured});
}

void Clients::note_token(Connection& connection) {
  Client& client = clients_.at(&connection);
  if (client.key == kWithToken || count_of(kWithToken) >= bounds_.with_token) return;
  leave(client.key);
  client.key = kWithToken;
  ++counts_[client.key];
}

void Clients::note_ended(Connection& connection) {
  const auto found = clients_.find(&connection);
  leave(found->second.key);
  ended_.push_back(std::move(found->second));
  clients_.erase(found);
}

void Clients::finish() {
  std::vector<Connection*> open;
  for (const auto& [connection, client] : clients_) open.push_back(connection);
  for (Connection* connection : open) connection->finish();
}

void Clients::abandon() {
  while (!clients_.empty()) clients_.begin()->first->abandon();
}

std::size_t Clients::count_of(std::string_view key) const {
  const auto count = counts_.find(key);
  return count == counts_.end() ? 0 : count->second;
}

void Clients::leave(const std::string& key) {
  const auto count = counts_.find(key);
  if (--count->second == 0) counts_.erase(count);
}

bool Clients::dismiss_idle(const std::string& key) {
  auto longest = clients_.end();
  for (auto each = clients_.begin(); each != clients_.end(); ++each) {
    if (each->second.key != key || !each->first->idle()) continue;
    if (longest == clients_.end() || each->second.active < longest->second.active) longest = each;
  }
  if (longest == clients_.end()) return false;
  longest->first->abandon();
  return true;
}

std::string Clients::most_crowded() const {
  std::map<std::string, std::size_t> idle;
  for (const auto& [connection, client] : clients_)
    if (!client.favoured && client.key != kWithToken && connection->idle()) ++idle[client.key];
  const auto most = std::max_element(idle.begin(), idle.end(),
                                     [](const auto& one, const auto& other) { return one.second < other.second; });
  return most == idle.end() ? "" : most->first;
}

}  // namespace ration::http
