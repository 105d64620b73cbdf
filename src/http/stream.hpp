// Sends server-sent events from one publisher to many clients. No client can slow another client or the daemon. Used by
// `rationd` for GET /api/v1/stream. Promises: publishing never blocks; the buffer of each client is bounded; numbered
// events reach every client in order and without a hole, or a `gap` names the missing numbers; each client's view is
// decided for that client.
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
  kLatest,    ///< only the newest event counts, as with snapshots: a slow client skips older events
  kNumbered,  ///< events have ids, are kept in the ring, and can be replayed
};

struct StreamOptions {
  std::map<std::string, TopicKind> topics{{"snapshot", TopicKind::kLatest}, {"events", TopicKind::kNumbered}};
  std::size_t ring = 4096;                 ///< number of kept events
  std::size_t backlog_bytes = 256 * 1024;  ///< per client; a larger event is sent only if the backlog is empty
  std::size_t subscribers = 256;
  milliseconds keep_alive{15'000};
  milliseconds shortest_interval{100};  ///< least value of `every=`
  std::uint64_t newest_id = 0;          ///< number of the newest event before this start
};

class EventStream {
 public:
  /// A function that renders one line of JSON for that client; empty to send nothing. It is called when the event is
  /// published and for later replays, once for each distinct (kind, uid, gid, token_accepted), so it must depend on
  /// nothing else of the peer.
  using View = std::function<std::string(const Peer&)>;

  struct Counters {
    std::uint64_t subscribed = 0;  ///< clients that have come so far
    std::uint64_t turned_away = 0;
    std::uint64_t dropped = 0;  ///< snapshots that a slow client missed
    std::uint64_t gaps = 0;
    std::uint64_t view_failures = 0;  ///< views that threw; their events were not sent
  };

  EventStream(EventLoop& loop, StreamOptions options = {});
  ~EventStream();
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  /// Publishes an event; a kNumbered topic needs an id larger than every earlier one, a kLatest topic takes none.
  /// Throws std::invalid_argument for any other id, which is an error of the program.
  void publish(std::string_view topic, std::string event_name, View view, std::optional<std::uint64_t> id = {});
  void publish(std::string_view topic, std::string event_name, std::string json, std::optional<std::uint64_t> id = {});

  /// Handles the route (with Access::kSameOriginOnly). The query has `topics=a,b`, `every=2s` and `last_event_id=N`;
  /// the header Last-Event-ID takes precedence. Answers 400, or 503 with Retry-After, if it rejects the client.
  void subscribe(const Request& request, const Responder& responder);

  [[nodiscard]] std::size_t subscribers() const noexcept { return clients_.size(); }
  /// Returns the number of the newest published event, even if an earlier daemon published it; 0 if there is none.
  [[nodiscard]] std::uint64_t newest_id() const noexcept { return newest_; }
  /// Returns the number of bytes that wait for the slowest client.
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
    bool numbered = false;     ///< true if it follows a numbered topic
    std::uint64_t cursor = 0;  ///< number of the last event sent to the client, or last number in a gap
    std::map<std::string, Seen, std::less<>> seen;
    std::uint64_t dropped = 0;  ///< missed snapshots that were not reported to it yet
    bool crowded = false;       ///< true while it waits for room
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
  std::uint64_t floor_;  ///< numbers above it are all in the ring
  std::uint64_t newest_;
  std::map<std::string, Latest, std::less<>> latest_;
  std::list<Client> clients_;
  std::function<void(std::size_t)> subscribers_changed_;
  Counters counters_;
  Watch keep_alive_;
};

/// Formats one event for the wire. Keeps line breaks in `data`, and removes them from name and id, where they would end
/// the line.
[[nodiscard]] std::string event_text(std::string_view name, std::string_view data, std::optional<std::uint64_t> id);

}  // namespace ration::http
