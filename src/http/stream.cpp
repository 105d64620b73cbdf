#include "http/stream.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/strings.hpp"
#include "base/units.hpp"
#include "http/grammar.hpp"
#include "http/problem.hpp"

namespace ration::http {
namespace {

constexpr milliseconds kMaxInterval{3'600'000};

struct Subscription {
  std::set<std::string, std::less<>> topics;
  milliseconds every{0};
  std::optional<std::uint64_t> last_id;
};

tl::unexpected<Error> not_understood(const std::string& what, const std::string& fix) {
  return fail("E1510", what, fix, 2);
}

Result<Subscription> read_subscription(const Request& request, const StreamOptions& options) {
  Subscription subscription;
  std::string known;
  for (const auto& [topic, kind] : options.topics) known += (known.empty() ? "" : ",") + topic;
  const std::string* topics = request.parameter("topics");
  for (const std::string_view part : split(topics == nullptr ? known : *topics, ',')) {
    if (part.empty()) continue;
    const std::string topic(part);
    if (options.topics.count(topic) == 0)
      return not_understood(fmt::format("there is no topic '{}'", topic), "topics=" + known);
    subscription.topics.insert(topic);
  }
  if (subscription.topics.empty()) return not_understood("no topic was named", "topics=" + known);

  if (const std::string* every = request.parameter("every")) {
    RATION_TRY(const auto interval, parse_duration(*every));
    const std::uint64_t asked = interval / 1'000'000;
    if (asked < static_cast<std::uint64_t>(options.shortest_interval.count()) ||
        asked > static_cast<std::uint64_t>(kMaxInterval.count()))
      return not_understood(
          fmt::format("every={} is not between {} ms and 1 h", *every, options.shortest_interval.count()), "every=1s");
    subscription.every = milliseconds(static_cast<std::int64_t>(asked));
  }

  const std::string* last = request.headers.find("last-event-id");
  // A browser that has seen no event yet sends an empty header.
  if (last == nullptr || last->empty()) last = request.parameter("last_event_id");
  if (last != nullptr && !last->empty()) {
    subscription.last_id = parse_number(*last);
    if (!subscription.last_id)
      return not_understood(fmt::format("'{}' is not an event's number", *last), "last_event_id=1842");
  }
  return subscription;
}

}  // namespace

std::string event_text(std::string_view name, std::string_view data, std::optional<std::uint64_t> id) {
  const auto breaks = [](char letter) { return letter == '\n' || letter == '\r'; };
  std::string text = "event: ";
  std::copy_if(name.begin(), name.end(), std::back_inserter(text), [&](char letter) { return !breaks(letter); });
  text += '\n';
  if (id) fmt::format_to(std::back_inserter(text), "id: {}\n", *id);
  for (;;) {
    const auto end = static_cast<std::size_t>(std::find_if(data.begin(), data.end(), breaks) - data.begin());
    text += "data: ";
    text += data.substr(0, end);
    text += '\n';
    if (end == data.size()) break;
    data.remove_prefix(end + (data.substr(end, 2) == "\r\n" ? 2 : 1));
  }
  return text += '\n';
}

EventStream::EventStream(EventLoop& loop, StreamOptions options)
    : loop_(loop), options_(std::move(options)), floor_(options_.newest_id), newest_(options_.newest_id) {
  keep_alive_ = loop_.every(options_.keep_alive, [this] { keep_alive(); });
}

EventStream::~EventStream() {
  for (Client& client : clients_) {
    client.stream->drained = client.stream->closed = nullptr;
    client.stream->close();
  }
}

void EventStream::publish(std::string_view topic, std::string event_name, std::string json,
                          std::optional<std::uint64_t> id) {
  publish(
      topic, std::move(event_name), [json = std::move(json)](const Peer&) { return json; }, id);
}

void EventStream::publish(std::string_view topic, std::string event_name, View view, std::optional<std::uint64_t> id) {
  const auto found = options_.topics.find(std::string(topic));
  if (found == options_.topics.end()) throw std::invalid_argument("no such topic: " + std::string(topic));
  Entry entry{found->first, std::move(event_name), std::move(view), id, {}};
  if (found->second == TopicKind::kNumbered) {
    if (!id || *id <= newest_)
      throw std::invalid_argument("a numbered event needs a number larger than the one before");
    remember(std::move(entry));
  } else {
    if (id) throw std::invalid_argument("topic " + entry.topic + " has no numbers");
    Latest& latest = latest_[found->first];
    for (Client& client : clients_) {
      if (client.topics.count(topic) == 0 || !client.crowded || client.seen[found->first].serial == latest.serial)
        continue;
      ++client.dropped;
      ++counters_.dropped;
    }
    latest.entry = std::move(entry);
    ++latest.serial;
  }
  for (Client& client : clients_)
    if (client.topics.count(topic) != 0) pump(client);
}

void EventStream::remember(Entry entry) {
  newest_ = *entry.id;
  // Drops the renderings of an older event, which are made again for a replay.
  if (!ring_.empty()) ring_.back().frames.clear();
  ring_.push_back(std::move(entry));
  if (ring_.size() <= options_.ring) return;
  floor_ = *ring_.front().id;
  ring_.pop_front();
}

const std::string& EventStream::frame(Entry& entry, const Client& client) {
  const Viewer viewer{client.peer.kind, client.peer.uid, client.peer.gid, client.peer.token_accepted};
  const auto found = entry.frames.find(viewer);
  if (found != entry.frames.end()) return found->second;
  std::string json;
  try {
    json = entry.view(client.peer);
  } catch (const std::exception&) {
    // An event that cannot be rendered (a label that is not text) must end neither the stream nor the daemon.
    ++counters_.view_failures;
  }
  return entry.frames.emplace(viewer, json.empty() ? "" : event_text(entry.name, json, entry.id)).first->second;
}

bool EventStream::fits(const Client& client, std::size_t bytes) const {
  const std::size_t waiting = client.stream->backlog();
  return waiting == 0 || waiting + bytes <= options_.backlog_bytes;
}

/// Sends the text. Returns false if there is no room; the client is then crowded until its backlog is gone.
bool EventStream::send(Client& client, std::string_view text) {
  client.crowded = client.crowded || !fits(client, text.size());
  if (client.crowded) return false;
  client.stream->write(text);
  return true;
}

void EventStream::pump(Client& client) {
  if (!client.stream->open() || client.crowded) return;
  if (pump_numbered(client)) pump_latest(client);
}

bool EventStream::pump_numbered(Client& client) {
  if (!client.numbered || client.cursor >= newest_) return true;
  if (client.cursor < floor_) {
    if (!send(client, event_text("gap", fmt::format(R"({{"from":{},"to":{}}})", client.cursor + 1, floor_), {})))
      return false;
    ++counters_.gaps;
    client.cursor = floor_;
  }
  auto next = std::upper_bound(ring_.begin(), ring_.end(), client.cursor,
                               [](std::uint64_t id, const Entry& entry) { return id < *entry.id; });
  for (; next != ring_.end(); ++next) {
    if (client.topics.count(next->topic) != 0 && !send(client, frame(*next, client))) return false;
    client.cursor = *next->id;
    if (client.cursor != newest_) next->frames.clear();
  }
  return true;
}

bool EventStream::pump_latest(Client& client) {
  std::optional<milliseconds> wait;
  for (auto& [topic, latest] : latest_) {
    if (client.topics.count(topic) == 0) continue;
    Seen& seen = client.seen[topic];
    if (seen.serial == latest.serial) continue;
    const auto now = Clock::now();
    if (seen.serial != 0 && now - seen.when < client.every) {
      const auto left = std::chrono::ceil<milliseconds>(client.every - (now - seen.when));
      wait = std::min(wait.value_or(left), left);
      continue;
    }
    if (!send(client, frame(latest.entry, client))) return false;
    seen = {latest.serial, now};
  }
  if (wait) client.due = loop_.after(*wait, [this, &client] { pump(client); });
  return true;
}

void EventStream::subscribe(const Request& request, const Responder& responder) {
  const auto subscription = read_subscription(request, options_);
  if (!subscription) return responder.fail(subscription.error(), 400);
  // Gives each user only a share of the places, so that no user keeps others out. This share does not apply to root,
  // the daemon's user and clients with the token.
  const Peer& peer = request.peer;
  const bool trusted = peer.token_accepted || (peer.uid && (*peer.uid == 0 || *peer.uid == ::geteuid()));
  const auto same = [&](const Client& each) { return each.peer.kind == peer.kind && each.peer.uid == peer.uid; };
  const auto of_peer = static_cast<std::size_t>(std::count_if(clients_.begin(), clients_.end(), same));
  if (clients_.size() >= options_.subscribers || (!trusted && of_peer >= options_.subscribers / 4)) {
    ++counters_.turned_away;
    auto full =
        problem({"E1517", fmt::format("{} clients follow the stream already", trusted ? clients_.size() : of_peer),
                 "Retry in 5 s, or send GET /api/v1/snapshot at an interval", 1},
                503);
    full.headers.emplace_back("Retry-After", "5");
    return responder.respond(std::move(full));
  }
  // The header forbids proxies to buffer the stream.
  auto stream = responder.begin_stream({.content_type = "text/event-stream", .headers = {{"X-Accel-Buffering", "no"}}});
  if (!stream) return;
  ++counters_.subscribed;
  const auto place = clients_.emplace(clients_.end());
  Client& client = *place;
  client.peer = request.peer;
  client.stream = std::move(stream);
  client.topics = subscription->topics;
  client.every = subscription->every;
  client.numbered =
      std::any_of(subscription->topics.begin(), subscription->topics.end(),
                  [&](const std::string& topic) { return options_.topics.at(topic) == TopicKind::kNumbered; });
  client.cursor = subscription->last_id.value_or(newest_);
  client.stream->closed = [this, place] { left(place); };
  client.stream->drained = [this, &client] {
    client.crowded = false;
    if (client.dropped > 0 && send(client, event_text("lag", fmt::format(R"({{"dropped":{}}})", client.dropped), {})))
      client.dropped = 0;
    pump(client);
  };
  client.stream->write("retry: 3000\n\n");
  if (client.numbered && client.cursor > newest_) {
    // The numbers began again because the daemon's database was lost. The client gets a gap that covers all numbers,
    // and then fetches the events itself.
    client.stream->write(event_text("gap", fmt::format(R"({{"from":1,"to":{},"restarted":true}})", newest_), {}));
    ++counters_.gaps;
    client.cursor = newest_;
  }
  pump(client);
  if (subscribers_changed_) subscribers_changed_(clients_.size());
}

void EventStream::left(std::list<Client>::iterator client) {
  clients_.erase(client);
  if (subscribers_changed_) subscribers_changed_(clients_.size());
}

std::size_t EventStream::largest_backlog() const noexcept {
  std::size_t most = 0;
  for (const Client& client : clients_) most = std::max(most, client.stream->backlog());
  return most;
}

void EventStream::keep_alive() {
  for (Client& client : clients_)
    if (client.stream->backlog() == 0) client.stream->write(": \n\n");
}

}  // namespace ration::http
