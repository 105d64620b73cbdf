// Server-sent events to many clients, some of whom do not read: http/stream.hpp.
#include <poll.h>

#include <random>

#include "http/event_reader.hpp"
#include "http_fixture.hpp"

namespace ration::http {
namespace {

class StreamTest : public HttpTest {
 protected:
  struct Follower {
    Wire wire;
    EventReader reader;
    std::vector<StreamEvent> events;

    /// `name data` of the next event; `end` when the stream has ended.
    std::string next() {
      while (events.empty()) {
        const std::string piece = wire.until("\n\n");
        if (piece.empty()) return "end";
        reader.feed(piece, [&](const StreamEvent& event) {
          events.push_back(event);
          return true;
        });
      }
      const StreamEvent event = events.front();
      events.erase(events.begin());
      return event.name + " " + event.data;
    }
  };

  Follower follow(const std::string& query, const std::string& headers = "") {
    Follower follower{by_socket(), {}, {}};
    follower.wire.say("GET /stream" + query + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n");
    const Reply head = follower.wire.head();
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.headers.get("content-type"), "text/event-stream");
    EXPECT_EQ(head.headers.get("cache-control"), "no-store");
    return follower;
  }

  void publish(std::uint64_t id, const std::string& text = "") {
    in_loop([&] { stream->publish("events", "event", text.empty() ? std::to_string(id) : text, id); });
  }
  void publish_many(std::uint64_t from, std::uint64_t to) {
    in_loop([&] {
      for (std::uint64_t id = from; id <= to; ++id) stream->publish("events", "event", std::to_string(id), id);
    });
  }
  void snapshot(const std::string& text) {
    in_loop([&] { stream->publish("snapshot", "snapshot", text); });
  }
};

TEST_F(StreamTest, ItEndsWithItsClientAndHeadHasNone) {
  start();
  const Follower follower = follow("?topics=events");
  follower.wire.say_no_more();
  while (in_loop([&] { return server->connections(); }) > 0) std::this_thread::yield();
  EXPECT_EQ(in_loop([&] { return stream->subscribers(); }), 0u);
  Wire head = by_socket();
  head.say("HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(head.head().status, 200);
  EXPECT_EQ(head.everything(), "");
  EXPECT_EQ(in_loop([&] { return stream->subscribers(); }), 0u);
}

TEST_F(StreamTest, ClientsGetWhatTheyAskedFor) {
  start();
  snapshot("0");
  Follower both = follow(""), events = follow("?topics=events"), snapshots = follow("?topics=snapshot");
  EXPECT_EQ(both.next(), "snapshot 0") << "who comes gets the newest snapshot at once";
  EXPECT_EQ(snapshots.next(), "snapshot 0");
  publish(1);
  snapshot("1");
  EXPECT_EQ(both.next(), "event 1");
  EXPECT_EQ(both.next(), "snapshot 1");
  EXPECT_EQ(events.next(), "event 1");
  EXPECT_EQ(events.reader.too_large(), false);
  EXPECT_EQ(snapshots.next(), "snapshot 1");
}

TEST_F(StreamTest, WishesThatCannotBeReadAreRefused) {
  start();
  for (const char* query : {"?topics=nothing", "?topics=,", "?every=5", "?every=1ms", "?every=2h", "?every=x",
                            "?last_event_id=-1", "?last_event_id=99999999999999999999"})
    EXPECT_EQ(by_socket().ask("GET /stream" + std::string(query) + " HTTP/1.1\r\nHost: x\r\n\r\n").status, 400)
        << query;
  EXPECT_EQ(by_socket().ask("GET /stream HTTP/1.1\r\nHost: x\r\nLast-Event-ID: a\r\n\r\n").status, 400);
  EXPECT_EQ(by_socket().ask("HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n").status, 200);
  EXPECT_EQ(in_loop([&] { return stream->subscribers(); }), 0u);
}

TEST_F(StreamTest, WhatWasMissedIsReplayed) {
  start();
  publish_many(1, 5);
  Follower header = follow("?topics=events", "Last-Event-ID: 3\r\n"), query = follow("?topics=events&last_event_id=3"),
           both = follow("?topics=events&last_event_id=1", "Last-Event-ID: 4\r\n"),
           current = follow("?topics=events", "Last-Event-ID: 5\r\n"), fresh = follow("?topics=events"),
           all = follow("?topics=events&last_event_id=0");
  publish(6);
  for (Follower* follower : {&header, &query})
    for (const char* expected : {"event 4", "event 5", "event 6"}) EXPECT_EQ(follower->next(), expected);
  EXPECT_EQ(both.next(), "event 5") << "the header goes before the query: it is the newer one";
  EXPECT_EQ(current.next(), "event 6");
  EXPECT_EQ(fresh.next(), "event 6");
  for (int id = 1; id <= 6; ++id) EXPECT_EQ(all.next(), "event " + std::to_string(id));
}

TEST_F(StreamTest, WhatIsNoLongerKeptIsAGap) {
  stream_options.ring = 4;
  stream_options.newest_id = 100;
  start();
  Follower before = follow("?topics=events&last_event_id=90");
  EXPECT_EQ(before.next(), R"(gap {"from":91,"to":100})") << "from before the restart";
  publish_many(101, 110);
  Follower old = follow("?topics=events&last_event_id=104"), edge = follow("?topics=events&last_event_id=106");
  EXPECT_EQ(old.next(), R"(gap {"from":105,"to":106})");
  EXPECT_EQ(old.next(), "event 107");
  EXPECT_EQ(edge.next(), "event 107") << "nothing is missing";
  Follower only_snapshots = follow("?topics=snapshot&last_event_id=1");
  snapshot("s");
  EXPECT_EQ(only_snapshots.next(), "snapshot s") << "who follows no numbers misses none";
}

TEST_F(StreamTest, NumbersFromBeforeALostDatabaseAreAGap) {
  start();
  publish_many(1, 3);
  Follower follower = follow("?topics=events", "Last-Event-ID: 1842\r\n");
  EXPECT_EQ(follower.next(), R"(gap {"from":1,"to":3,"restarted":true})");
  publish(4);
  EXPECT_EQ(follower.next(), "event 4");
}

TEST_F(StreamTest, EveryClientSeesWhatIsForIt) {
  int made = 0;
  start();
  const auto view = [&](const Peer& peer) {
    ++made;
    if (peer.kind == Peer::Kind::kTcp) return std::string();
    return "for " + std::to_string(*peer.uid);
  };
  Follower mine = follow("?topics=events"), mine_too = follow("?topics=events");
  Wire other = by_tcp();
  other.say("GET /stream?topics=events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(other.head().status, 200);
  other.until("\n\n");
  in_loop([&] { stream->publish("events", "event", view, 1); });
  EXPECT_EQ(in_loop([&] { return made; }), 2) << "once for each kind of viewer, not for each client";
  publish(2);
  const std::string expected = "event for " + std::to_string(::getuid());
  EXPECT_EQ(mine.next(), expected);
  EXPECT_EQ(mine_too.next(), expected);
  EXPECT_EQ(other.until("\n\n"), "event: event\nid: 2\ndata: 2\n\n") << "an empty view is not sent";
  Follower replayed = follow("?topics=events&last_event_id=0");
  EXPECT_EQ(replayed.next(), expected) << "also when it is replayed";
}

TEST_F(StreamTest, AViewThatThrowsCostsOneEvent) {
  start();
  Follower follower = follow("?topics=events");
  in_loop([&] {
    stream->publish(
        "events", "event", [](const Peer&) -> std::string { throw std::runtime_error("no text"); }, 1);
  });
  publish(2);
  EXPECT_EQ(follower.next(), "event 2");
  EXPECT_EQ(in_loop([&] { return stream->counters().view_failures; }), 1u);
}

TEST_F(StreamTest, MisusedTopicsAreTheProgramsMistake) {
  start();
  in_loop([&] {
    EXPECT_THROW(stream->publish("other", "x", "1"), std::invalid_argument);
    EXPECT_THROW(stream->publish("events", "x", "1"), std::invalid_argument);
    EXPECT_THROW(stream->publish("snapshot", "x", "1", 1), std::invalid_argument);
    stream->publish("events", "x", "1", 5);
    EXPECT_THROW(stream->publish("events", "x", "1", 5), std::invalid_argument);
  });
}

TEST_F(StreamTest, SnapshotsComeNoMoreOftenThanAskedForAndTheNewestWins) {
  start();
  Follower slow = follow("?every=1h"), soon = follow("?topics=snapshot&every=200ms");
  in_loop([&] {
    for (int i = 1; i <= 5; ++i) stream->publish("snapshot", "snapshot", std::to_string(i));
  });
  publish(1);
  EXPECT_EQ(slow.next(), "snapshot 1");
  EXPECT_EQ(slow.next(), "event 1") << "events are not held back";
  EXPECT_EQ(soon.next(), "snapshot 1");
  EXPECT_EQ(soon.next(), "snapshot 5");
  EXPECT_EQ(in_loop([&] { return stream->counters().dropped; }), 0u) << "nobody was too slow";
}

TEST_F(StreamTest, PastTheCapClientsAreToldWhenToComeBack) {
  stream_options.subscribers = 2;
  start();
  std::vector<std::size_t> told;
  in_loop([&] { stream->on_subscribers([&](std::size_t count) { told.push_back(count); }); });
  Follower one = follow("");
  {
    Follower two = follow("");
    const Reply reply = by_socket().ask("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(reply.headers.get("retry-after"), "5");
  }
  while (in_loop([&] { return stream->subscribers(); }) > 1) std::this_thread::yield();
  Follower three = follow("");
  EXPECT_EQ(in_loop([&] { return told; }), (std::vector<std::size_t>{1, 2, 1, 2}));
  // Before `told` goes: the clients leave while the loop still runs.
  end();
}

TEST_F(StreamTest, ASilentStreamIsKeptOpen) {
  stream_options.keep_alive = milliseconds{20};
  start();
  Follower follower = follow("");
  EXPECT_EQ(follower.wire.until("\n\n"), "retry: 3000\n\n");
  EXPECT_EQ(follower.wire.until("\n\n"), ": \n\n");
  EXPECT_EQ(follower.wire.until("\n\n"), ": \n\n");
}

TEST_F(StreamTest, AClientThatDoesNotReadIsTheOnlyOneToMissSomething) {
  stream_options.backlog_bytes = 64 * 1024;
  stream_options.ring = 20;
  start();
  Follower stalled = follow(""), reading = follow("");
  const std::string text(8000, 'x');
  std::uint64_t id = 0;
  for (int round = 0; round < 200; ++round) {
    ++id;
    publish(id, std::to_string(id) + text);
    snapshot(std::to_string(round) + text);
    EXPECT_EQ(reading.next(), "event " + std::to_string(id) + text);
    EXPECT_EQ(reading.next(), "snapshot " + std::to_string(round) + text);
  }
  EXPECT_GT(in_loop([&] { return stream->counters().dropped; }), 100u);
  // Now it reads: each number once and in order, or named by a gap; then it is where the others are.
  std::uint64_t expected = 1, gaps = 0, dropped = 0;
  for (std::string event; expected <= id || event.substr(0, 12) != "snapshot 199";) {
    event = stalled.next();
    ASSERT_NE(event, "end");
    unsigned long long from = 0, to = 0;
    if (std::sscanf(event.c_str(), "gap {\"from\":%llu,\"to\":%llu}", &from, &to) == 2) {
      EXPECT_EQ(from, expected);
      EXPECT_GE(to, from);
      expected = to + 1;
      ++gaps;
    } else if (std::sscanf(event.c_str(), "lag {\"dropped\":%llu}", &from) == 1) {
      dropped += from;
    } else if (event.substr(0, 6) == "event ") {
      EXPECT_EQ(event, "event " + std::to_string(expected) + text);
      ++expected;
    }
  }
  EXPECT_GE(gaps, 1u);
  EXPECT_EQ(dropped, in_loop([&] { return stream->counters().dropped; }));
  publish(++id);
  EXPECT_EQ(stalled.next(), "event " + std::to_string(id));
}

TEST_F(StreamTest, WhatIsKeptForAClientIsBounded) {
  stream_options.backlog_bytes = 64 * 1024;
  start();
  Follower stalled = follow("?topics=events"), reading = follow("?topics=events");
  const std::string text(1000, 'x');
  // A replay of all of it is longer than the bound as well.
  for (std::uint64_t id = 1; id <= 1000; ++id) {
    publish(id, text);
    EXPECT_EQ(reading.next(), "event " + text);
  }
  Follower late = follow("?topics=events&last_event_id=0");
  EXPECT_LE(in_loop([&] { return stream->largest_backlog(); }), std::size_t{64 * 1024});
  for (Follower* follower : {&stalled, &late})
    for (int id = 1; id <= 1000; ++id)
      ASSERT_EQ(follower->next(), "event " + text) << id << ": in the ring still, so no gap";
}

TEST_F(StreamTest, AnEventLargerThanTheBoundComesToAClientThatReads) {
  stream_options.backlog_bytes = 1000;
  start();
  Follower follower = follow("?topics=events");
  const std::string large(100'000, 'x');
  for (std::uint64_t id = 1; id <= 20; ++id) publish(id, large);
  for (int id = 1; id <= 20; ++id) EXPECT_EQ(follower.next(), "event " + large);
}

TEST_F(StreamTest, TwoHundredClientsATenthOfThemStalledHoldNobodyUp) {
  start();
  std::vector<Follower> reading, stalled;
  for (int i = 0; i < 200; ++i) (i % 10 == 0 ? stalled : reading).push_back(follow(""));
  EXPECT_EQ(in_loop([&] { return stream->subscribers(); }), 200u);
  const std::string text(20'000, 'x');
  for (std::uint64_t id = 1; id <= 40; ++id) {
    // The loop does this at once, whoever reads or does not: were one client waited for, this would never return.
    publish(id);
    snapshot(text);
    for (Follower& follower : reading) {
      ASSERT_EQ(follower.next(), "event " + std::to_string(id));
      ASSERT_EQ(follower.next(), "snapshot " + text);
    }
  }
  EXPECT_LE(in_loop([&] { return stream->largest_backlog(); }), stream_options.backlog_bytes);
  EXPECT_GT(in_loop([&] { return stream->counters().dropped; }), 0u);
  for (Follower& follower : stalled) {
    bool lag = false;
    for (std::string event; event != "event 40" && event != "end";)
      lag = (event = follower.next()).substr(0, 3) == "lag" || lag;
    EXPECT_TRUE(lag);
  }
}

TEST_F(StreamTest, RandomClientsComeAndGoAndMissNothingUntold) {
  stream_options.ring = 50;
  stream_options.backlog_bytes = 16 * 1024;
  start();
  std::mt19937 random(9);
  struct Reader {
    Follower follower;
    std::uint64_t expected;
  };
  std::vector<Reader> readers;
  std::uint64_t id = 0;
  const std::string filler(700, 'x');
  const auto read_one = [&](Reader& reader) {
    const std::string event = reader.follower.next();
    unsigned long long from = 0, to = 0;
    if (std::sscanf(event.c_str(), "gap {\"from\":%llu,\"to\":%llu}", &from, &to) == 2) {
      ASSERT_EQ(from, reader.expected);
      reader.expected = to + 1;
    } else {
      ASSERT_EQ(event, "event " + std::to_string(reader.expected) + filler);
      ++reader.expected;
    }
  };
  for (int step = 0; step < 3000; ++step) {
    const auto what = random() % 10;
    if (what < 5) {
      ++id;
      publish(id, std::to_string(id) + filler);
    } else if (what == 5 && readers.size() < 10) {
      const std::uint64_t last = random() % (id + 1);
      readers.push_back({follow("?topics=events&last_event_id=" + std::to_string(last)), last + 1});
    } else if (what == 6 && !readers.empty() && random() % 4 == 0) {
      readers.erase(readers.begin() + static_cast<std::ptrdiff_t>(random() % readers.size()));
    } else if (!readers.empty()) {
      Reader& reader = readers[random() % readers.size()];
      for (std::uint64_t count = random() % 60; count > 0 && reader.expected <= id; --count) {
        read_one(reader);
        if (HasFatalFailure()) return;
      }
    }
  }
  for (Reader& reader : readers)
    while (reader.expected <= id) {
      read_one(reader);
      if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace ration::http
