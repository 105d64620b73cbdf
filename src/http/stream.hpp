// Server-sent events: one publisher, many clients, none of which can slow the others or the daemon. Used by `rationd`
// for GET /api/v1/stream. Promises: publishing never blocks and never waits; the buffer of one client is bounded;
// numbered events reach every client in order and without a hole, or a `gap` names the missing numbers; each client's
// view is decided for that client.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "http/event_loop.hpp"
#include "http/message.hpp"
#include "http/responder.hpp"

namespace ration::http {

enum class TopicKind {
  kLatest,    ///< only the newest counts (snapshots): a slow client skips older ones
  kNumbered,  ///< has ids, is kept in the ring, can be replayed
};

struct StreamOptions {
  std::map<std::string, TopicKind> topics{{"snapshot", TopicKind::kLatest}, {"events", TopicKind::kNumbered}};
  std::size_t ring = 4096;                 ///< number of kept events
  std::size_t backlog_bytes = 256 * 1024;  ///< per client; a larger event is sent to a client with an empty backlog
  std::size_t subscribers = 256;
  milliseconds keep_alive{15'000};
  milliseconds shortest_interval{100};  ///< the shortest interval that `every=` accepts
  std::uint64_t newest_id = 0;          ///< the newest event's number from before this start
};

class EventStream {
 public:
  /// Renders one line of JSON for that client; empty: not for it. Called when the event is published and for later
  /// replays, once for each distinct (kind, uid, gid, token_accepted), so it must depend on nothing else of the peer.
  using View = std::function<std::string(const Peer&)>;

  struct Counters {
    std::uint64_t subscribed = 0;  ///< all clients so far
    std::uint64_t turned_away = 0;
    std::uint64_t dropped = 0;  ///< snapshots that a slow client missed
    std::uint64_t gaps = 0;
    std::uint64_t view_failures = 0;  ///< views that threw; nothing was sent for them
  };

  EventStream(EventLoop& loop, StreamOptions options = {});
  ~EventStream();
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  /// Publishes an event: to a kNumbered topic with an id larger than every earlier one, to a kLatest topic without.
  /// Throws std::invalid_argument otherwise: topics are written in the program.
  void publish(std::string_view topic, std::string event_name, View view, std::optional<std::uint64_t> id = {});
  void publish(std::string_view topic, std::string event_name, std::string json, std::optional<std::uint64_t> id = {});

  /// Handles the route (with Access::kSameOriginOnly). Query: `topics=a,b`, `every=2s`, `last_event_id=N` (the header
  /// Last-Event-ID takes precedence). 400, or 503 with Retry-After.
  void subscribe(const Request& request, const Responder& responder);

  [[nodiscard]] std::size_t subscribers() const noexcept { return clients_.size(); }
  /// Returns the number of the newest published event, here or before this start; 0: none.
  [[nodiscard]] std::uint64_t newest_id() const noexcept { return newest_; }
  /// Returns the bytes that wait for the slowest client.
  [[nodiscard]] std::size_t largest_backlog() const noexcept;
  /// Sets the callback that gets the number of clients whenever one comes or leaves.
  void on_subscribers(std::function<void(std::size_t)> changed) { subscribers_changed_ = std::move(changed); }
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Viewer = std::tuple<Peer::Kind, std::optional<uid_t>, std::optional<gid_t>, bool>;

  /// A published event with its renderings so far.
  struct Entry {
    std::string topic;
    std::string name;
    View view;
    std::optional<std::uint64_t> id;
    std::map<Viewer, std::string> frames;
  };
  struct Latest {
    Entry entry;
    std::uint64_t serial = 0;
  };
  struct Seen {
    std::uint64_t serial = 0;
    Clock::time_point when{};
  };
  struct Client {
    Peer peer;
    std::shared_ptr<ClientStream> stream;
    std::set<std::string, std::less<>> topics;
    milliseconds every{0};
    bool numbered = false;     ///< subscribed to a numbered topic
    std::uint64_t cursor = 0;  ///< the last number that it was sent, or was reported as missing
    std::map<std::string, Seen, std::less<>> seen;
    std::uint64_t dropped = 0;  ///< not reported to the client yet
    bool crowded = false;       ///< output waits for room
    Watch due;
  };

  const std::string& frame(Entry& entry, const Client& client);
  [[nodiscard]] bool fits(const Client& client, std::size_t bytes) const;
  bool send(Client& client, std::string_view text);
  void pump(Client& client);
  bool pump_numbered(Client& client);
  bool pump_latest(Client& client);
  void remember(Entry entry);
  void keep_alive();
  void left(std::list<Client>::iterator client);

  EventLoop& loop_;
  StreamOptions options_;
  std::deque<Entry> ring_;
  std::uint64_t floor_;  ///< every number above it is in the ring
  std::uint64_t newest_;
  std::map<std::string, Latest, std::less<>> latest_;
  std::list<Client> clients_;
  std::function<void(std::size_t)> subscribers_changed_;
  Counters counters_;
  Watch keep_alive_;
};

/// Formats one event for the wire. Line breaks in `data` are kept; in name and id they would end the line and are
/// removed.
[[nodiscard]] std::string event_text(std::string_view name, std::string_view data, std::optional<std::uint64_t> id);

}  // namespace ration::http
