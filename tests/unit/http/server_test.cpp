// What handlers and well-behaved clients may rely on: http/server.hpp, with real sockets.
#include <nlohmann/json.hpp>

#include "http/asset.hpp"
#include "http/problem.hpp"
#include "http_fixture.hpp"

namespace ration::http {
namespace {

using nlohmann::json;

TEST_F(HttpTest, AnswersOnBothPlacesAndKeepsTheConnection) {
  start();
  const auto answers_thrice = [](Wire wire) {
    for (int i = 0; i < 3; ++i) {
      const Reply reply = wire.ask("GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
      EXPECT_EQ(reply.status, 200);
      EXPECT_EQ(reply.body, "hello\n");
      EXPECT_EQ(reply.headers.get("content-type"), "text/plain");
      EXPECT_EQ(reply.headers.get("cache-control"), "no-store");
      EXPECT_EQ(reply.headers.get("connection"), "keep-alive");
      EXPECT_EQ(reply.headers.get("x-content-type-options"), "nosniff");
      EXPECT_EQ(reply.headers.find("access-control-allow-origin"), nullptr);
    }
  };
  answers_thrice(by_socket());
  answers_thrice(by_tcp());
}

TEST_F(HttpTest, ClosesWhenAskedToAndAnswersAHalfClosedClient) {
  start();
  Wire wire = by_socket();
  wire.say("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_NE(wire.everything().find("Connection: close\r\n\r\nhello\n"), std::string::npos);
  Wire half = by_socket();
  half.say("GET /hello HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  half.say_no_more();
  EXPECT_EQ(half.reply().body, "hello\n");
  EXPECT_EQ(half.reply().body, "hello\n");
  EXPECT_EQ(half.everything(), "");
}

TEST_F(HttpTest, PipelinedRequestsAreAnsweredInOrder) {
  start();
  Wire wire = by_socket();
  std::string text;
  for (int i = 0; i < 100; ++i)
    text += "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n" + std::to_string(100 + i);
  std::thread speaker([&] { wire.say(text); });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(wire.reply().body, std::to_string(100 + i));
  speaker.join();
}

TEST_F(HttpTest, ARequestInPiecesAndInChunksIsWhole) {
  start();
  Wire wire = by_socket();
  for (const char letter : std::string(
           "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"))
    wire.say({&letter, 1});
  EXPECT_EQ(wire.reply().body, "abc");
  wire.say("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(wire.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  wire.say("o");
  in_loop([] {});
  wire.say("k");
  EXPECT_EQ(wire.until("\r\n"), "HTTP/1.1 200 OK\r\n") << "that it may go on is said once";
}

TEST_F(HttpTest, HeadIsGetWithoutTheBody) {
  start();
  Wire wire = by_socket();
  const Reply reply = wire.ask("HEAD /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.get("content-length"), "6");
  EXPECT_EQ(wire.ask("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n").body, "hello\n") << "nothing stands between the two";
}

TEST_F(HttpTest, ThePeerOfASocketIsKnownByItsCredentials) {
  std::optional<Peer> seen;
  start([&](Server& routes) {
    routes.route("GET", "/who", [&](const Request& request) {
      seen = request.peer;
      return Response{};
    });
  });
  EXPECT_EQ(by_socket().ask("GET /who HTTP/1.1\r\nHost: x\r\n\r\n").status, 200);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->kind, Peer::Kind::kUnix);
  EXPECT_EQ(seen->uid, ::getuid());
  EXPECT_EQ(seen->gid, ::getgid());
  EXPECT_EQ(seen->pid, ::getpid());
  EXPECT_EQ(by_tcp().ask("GET /who HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 200);
  EXPECT_EQ(seen->kind, Peer::Kind::kTcp);
  EXPECT_EQ(seen->address, "127.0.0.1");
  EXPECT_FALSE(seen->uid || seen->gid || seen->pid);
}

TEST_F(HttpTest, RoutesGetTheirCapturesAndQuery) {
  start([](Server& routes) {
    routes.route("GET", "/workloads/{name}/explain", [](const Request& request) {
      const std::string* at = request.parameter("at");
      return Response{.body = request.captures.at("name") + "|" + (at == nullptr ? "-" : *at)};
    });
  });
  EXPECT_EQ(by_socket().ask("GET /workloads/a%2Fb%20c/explain?at=x%3dy HTTP/1.1\r\nHost: x\r\n\r\n").body, "a/b c|x=y");
}

TEST_F(HttpTest, UnknownPathsAndMethodsAreProblems) {
  start();
  Wire wire = by_socket();
  const Reply missing = wire.ask("GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.headers.get("content-type"), "application/problem+json");
  EXPECT_EQ(json::parse(missing.body, nullptr, false)["id"], "E1511");
  EXPECT_EQ(json::parse(missing.body, nullptr, false)["type"], "https://ration.invalid/errors/E1511");
  EXPECT_EQ(json::parse(missing.body, nullptr, false)["title"], "Not Found");
  EXPECT_EQ(json::parse(missing.body, nullptr, false)["status"], 404);
  const Reply wrong = wire.ask("DELETE /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.get("allow"), "GET, HEAD");
  EXPECT_EQ(wire.ask("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").status, 400);
}

TEST_F(HttpTest, AHandlerThatThrowsIsA500AndNothingElse) {
  start([](Server& routes) {
    routes.route("GET", "/throws", [](const Request&) -> Response { throw std::runtime_error("no such thing"); });
    routes.route("GET", "/odd", [](const Request&) -> Response { throw 5; });
    routes.route_deferred("GET", "/later", [](const Request&, const Responder&) { throw std::runtime_error("late"); });
    routes.route("GET", "/split", [](const Request& request) {
      return Response{.headers = {{"X-Name", *request.parameter("name")}}};
    });
    routes.route("GET", "/bytes", [](const Request&) { return problem({"E1801", "no \xff here", "", 3}); });
  });
  Wire wire = by_socket();
  const Reply reply = wire.ask("GET /throws HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(reply.status, 500);
  EXPECT_EQ(json::parse(reply.body, nullptr, false)["id"], "E1500");
  EXPECT_NE(reply.body.find("no such thing"), std::string::npos);
  EXPECT_EQ(wire.ask("GET /odd HTTP/1.1\r\nHost: x\r\n\r\n").status, 500);
  EXPECT_EQ(wire.ask("GET /later HTTP/1.1\r\nHost: x\r\n\r\n").status, 500);
  const Reply split = wire.ask("GET /split?name=a%0d%0aSet-Cookie:%20b HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(split.status, 500) << "a line break in a header is not sent";
  EXPECT_EQ(split.headers.find("set-cookie"), nullptr);
  EXPECT_EQ(wire.ask("GET /bytes HTTP/1.1\r\nHost: x\r\n\r\n").status, 404);
  EXPECT_EQ(wire.ask("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n").status, 200);
  EXPECT_EQ(in_loop([&] { return server->counters().handler_failures; }), 3u);
}

TEST(HttpProblem, TheStatusFollowsTheExitCode) {
  const std::pair<int, int> table[] = {{1, 500}, {2, 400}, {3, 404}, {4, 409}, {5, 403}, {6, 500}};
  for (const auto& [exit_code, status] : table) EXPECT_EQ(problem({"E1", "w", "f", exit_code}).status, status);
  EXPECT_EQ(problem({"E1503", "w", "f", 1}, 412).status, 412);
  EXPECT_EQ(json::parse(problem({"E1801", "tenant 'x' is not known", "ration ps", 3}).body)["fix"], "ration ps");
}

TEST_F(HttpTest, AnAnswerMayComeLaterAndFromAnotherThread) {
  std::promise<Responder> kept;
  start([&](Server& routes) {
    routes.route_deferred("GET", "/report",
                          [&](const Request&, Responder responder) { kept.set_value(std::move(responder)); });
  });
  Wire wire = by_socket();
  wire.say("GET /report HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  const Responder responder = kept.get_future().get();
  EXPECT_EQ(by_socket().ask("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n").status, 200) << "others are served meanwhile";
  std::thread worker([&] { responder.respond({.body = "report"}); });
  worker.join();
  responder.respond({.body = "a second one is ignored"});
  EXPECT_EQ(wire.reply().body, "report");
  EXPECT_EQ(wire.reply().body, "hello\n") << "what was asked meanwhile comes after it";
}

TEST_F(HttpTest, AnAnswerForAClientThatHasGoneIsDropped) {
  std::promise<Responder> kept;
  start([&](Server& routes) {
    routes.route_deferred("GET", "/report",
                          [&](const Request&, Responder responder) { kept.set_value(std::move(responder)); });
  });
  std::unique_ptr<Responder> responder;  // gcc 12 takes an optional one for uninitialised
  {
    Wire wire = by_tcp();
    wire.say("GET /report HTTP/1.1\r\nHost: localhost\r\n\r\n");
    responder = std::make_unique<Responder>(kept.get_future().get());
    const linger at_once{1, 0};
    ::setsockopt(wire.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  while (in_loop([&] { return server->connections(); }) > 0) std::this_thread::yield();
  responder->respond({.body = std::string(1 << 20, 'x')});
  EXPECT_EQ(by_socket().ask("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n").status, 200);
  end();
  responder->fail({"E1", "after the server's end", "", 1});
  responder.reset();
}

TEST_F(HttpTest, AResponderThatIsForgottenIsA500) {
  start([](Server& routes) { routes.route_deferred("GET", "/lost", [](const Request&, const Responder&) {}); });
  const Reply reply = by_socket().ask("GET /lost HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(reply.status, 500);
  EXPECT_EQ(json::parse(reply.body, nullptr, false)["id"], "E1500");
}

/// "hello, dashboard\n", by gzip -n.
constexpr unsigned char kGzip[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xcb, 0x48, 0xcd,
                                   0xc9, 0xc9, 0xd7, 0x51, 0x48, 0x49, 0x2c, 0xce, 0x48, 0xca, 0x4f, 0x2c, 0x4a,
                                   0xe1, 0x02, 0x00, 0x4e, 0xdd, 0xa2, 0x6e, 0x11, 0x00, 0x00, 0x00};

TEST_F(HttpTest, AssetsAreSentCompressedInflatedOrNotAtAll) {
  const std::string_view file(reinterpret_cast<const char*>(kGzip), sizeof kGzip);
  const Asset packed = make_asset("text/plain", file, true),
              damaged = make_asset("text/plain", file.substr(0, 20), true);
  start([&](Server& routes) {
    routes.route("GET", "/packed", [&](const Request& request) { return serve(packed, request); });
    routes.route("GET", "/damaged", [&](const Request& request) { return serve(damaged, request); });
  });
  Wire wire = by_socket();
  const Reply small = wire.ask("GET /packed HTTP/1.1\r\nHost: x\r\nAccept-Encoding: br, gzip\r\n\r\n");
  EXPECT_EQ(small.headers.get("content-encoding"), "gzip");
  EXPECT_EQ(small.headers.get("vary"), "Accept-Encoding");
  EXPECT_EQ(small.body, file);
  const Reply plain = wire.ask("GET /packed HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(plain.headers.find("content-encoding"), nullptr);
  EXPECT_EQ(plain.body, "hello, dashboard\n");
  EXPECT_EQ(plain.headers.get("cache-control"), "no-cache");
  const std::string tag(plain.headers.get("etag"));
  const Reply unchanged = wire.ask("GET /packed HTTP/1.1\r\nHost: x\r\nIf-None-Match: " + tag + "\r\n\r\n");
  EXPECT_EQ(unchanged.status, 304);
  EXPECT_EQ(unchanged.headers.find("content-length"), nullptr);
  EXPECT_EQ(unchanged.headers.get("etag"), tag);
  EXPECT_EQ(wire.ask("GET /packed HTTP/1.1\r\nHost: x\r\nAccept-Encoding: identity;q=0\r\n\r\n").status, 406);
  EXPECT_EQ(wire.ask("GET /damaged HTTP/1.1\r\nHost: x\r\n\r\n").status, 500);
}

TEST_F(HttpTest, StoppingFinishesWhatIsBeingAnsweredAndEndsTheRest) {
  std::promise<Responder> kept;
  start([&](Server& routes) {
    routes.route_deferred("GET", "/report",
                          [&](const Request&, Responder responder) { kept.set_value(std::move(responder)); });
  });
  Wire busy = by_socket(), idle = by_socket(), half = by_socket(), follower = by_socket();
  idle.ask("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  half.say("GET /hel");
  follower.say("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(follower.head().status, 200);
  busy.say("GET /report HTTP/1.1\r\nHost: x\r\n\r\n");
  const Responder responder = kept.get_future().get();
  std::promise<void> stopped;
  loop->post([&] { server->stop(std::chrono::hours(1), [&] { stopped.set_value(); }); });
  EXPECT_EQ(idle.everything(), "");
  EXPECT_EQ(half.everything(), "");
  follower.everything();
  EXPECT_FALSE(by_socket().connected());
  EXPECT_TRUE(in_loop([&] { return server->keep_sockets().has_value(); }));
  EXPECT_FALSE(std::filesystem::exists(options.socket_path));
  responder.respond({.body = "done"});
  EXPECT_EQ(busy.reply().body, "done");
  stopped.get_future().get();
}

TEST_F(HttpTest, StoppingDoesNotWaitForEver) {
  std::promise<Responder> kept;
  start([&](Server& routes) {
    routes.route_deferred("GET", "/report",
                          [&](const Request&, Responder responder) { kept.set_value(std::move(responder)); });
  });
  Wire busy = by_socket();
  busy.say("GET /report HTTP/1.1\r\nHost: x\r\n\r\n");
  const Responder responder = kept.get_future().get();
  std::promise<void> stopped;
  loop->post([&] { server->stop(milliseconds{1}, [&] { stopped.set_value(); }); });
  stopped.get_future().get();
  EXPECT_EQ(busy.everything(), "");
}

TEST(HttpLoop, TimersSignalsAndPostedWorkRunInTheLoop) {
  EventLoop loop;
  std::vector<std::string> order;
  Watch repeating, once = loop.after(std::chrono::hours(1), [&] { order.push_back("never"); });
  int ticks = 0;
  repeating = loop.every(milliseconds{1}, [&] {
    if (++ticks < 3) return;
    repeating.cancel();
    ::raise(SIGUSR1);
  });
  const Watch signal = loop.on_signal(SIGUSR1, [&] {
    order.push_back("signal after " + std::to_string(ticks));
    std::thread([&] {
      loop.post([&] { order.push_back("posted"); });
      loop.stop();
    }).join();
  });
  loop.run();
  EXPECT_EQ(order, (std::vector<std::string>{"signal after 3", "posted"}));
}

TEST(HttpLoop, AStopBeforeTheRunIsNotLostAndPostsAfterTheEndAreDropped) {
  std::shared_ptr<Mailbox> mailbox;
  auto owned = std::make_shared<int>(1);
  {
    EventLoop loop;
    mailbox = loop.mailbox();
    loop.stop();
    loop.run();
    loop.post([owned] {});
  }
  mailbox->post([owned] {});
  EXPECT_EQ(owned.use_count(), 1) << "what posted work owned has been let go";
}

TEST_F(HttpTest, ASocketThatWasRemovedIsMadeAgain) {
  start();
  const std::string hello = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
  Wire before = by_socket();
  ASSERT_EQ(before.ask(hello).status, 200);
  const auto keep = [&] { return in_loop([&] { return server->keep_sockets().has_value(); }); };
  for (const char* removed : {"", ".lock"}) {
    std::filesystem::remove(options.socket_path);
    std::filesystem::remove(options.socket_path + removed);
    EXPECT_FALSE(by_socket().connected());
    EXPECT_TRUE(keep());
    EXPECT_EQ(by_socket().ask(hello).status, 200);
  }
  EXPECT_EQ(before.ask(hello).status, 200) << "whoever is connected stays so";
  std::filesystem::remove(options.socket_path);
  std::filesystem::create_directory(options.socket_path);
  EXPECT_FALSE(keep()) << "what somebody else put there is left alone";
  std::filesystem::remove(options.socket_path);
  EXPECT_TRUE(keep());
  EXPECT_EQ(by_socket().ask(hello).status, 200);
}

}  // namespace
}  // namespace ration::http
