// What clients may not do to the daemon or through it, with real sockets.
#include <fcntl.h>
#include <poll.h>

#include <csignal>
#include <fstream>
#include <random>

#include "http_fixture.hpp"

namespace ration::http {
namespace {

constexpr const char* kStillThere = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";

bool is_problem(const Reply& reply, int status, std::string_view id) {
  return reply.status == status && reply.body.find("\"id\":\"" + std::string(id) + "\"") != std::string::npos &&
         reply.headers.get("content-type") == "application/problem+json";
}

std::string get(const std::string& headers, const std::string& path = "/hello") {
  return "GET " + path + " HTTP/1.1\r\n" + headers + "\r\n";
}

std::string post(const std::string& headers, const std::string& body = "{}") {
  return "POST /echo HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body;
}

TEST_F(HttpTest, AHostThatIsNotOursIsRefusedOnTcp) {
  options.host_names = {"GPU-1.example"};
  start();
  const std::string port = std::to_string(server->tcp_port());
  for (const std::string& ours : {"localhost:" + port, std::string("LOCALHOST"), "127.0.0.1:" + port,
                                  std::string("[::1]:1"), std::string("gpu-1.EXAMPLE:80")})
    EXPECT_EQ(by_tcp().ask(get("Host: " + ours + "\r\n")).status, 200) << ours;
  for (const std::string& other :
       {"evil.example:" + port, std::string("evil.example"), std::string("localhost.evil.example"), std::string(""),
        std::string("localhost@evil"), std::string("10.0.0.1"), "127.0.0.1.nip.io:" + port})
    EXPECT_TRUE(is_problem(by_tcp().ask(get("Host: " + other + "\r\n")), 421, "E1513")) << other;
  EXPECT_EQ(by_tcp().ask("GET /hello HTTP/1.0\r\n\r\n").status, 421) << "also for the version that needs none";
  EXPECT_EQ(by_socket().ask(get("Host: evil.example\r\n")).status, 200) << "no browser comes by the socket";
}

TEST_F(HttpTest, TheAddressThatAClientConnectedToIsOurs) {
  options.tcp_address = "0.0.0.0:0";
  options.token_file = folder.file("token");
  std::ofstream(options.token_file) << std::string(32, 's');
  std::filesystem::permissions(options.token_file, std::filesystem::perms::owner_read);
  start();
  const auto status = [&](const char* host) {
    return Wire::to_port(server->tcp_port(), INADDR_LOOPBACK + 2)
        .ask(get(std::string("Host: ") + host + "\r\n"))
        .status;
  };
  EXPECT_EQ(status("127.0.0.3"), 200);
  EXPECT_EQ(status("127.0.0.4"), 421);
}

TEST_F(HttpTest, APageOfAnotherOriginCanChangeNothingAndFollowNothing) {
  start();
  const std::string port = std::to_string(server->tcp_port()), host = "Host: localhost:" + port + "\r\n",
                    typed = "Content-Type: application/json\r\n";
  EXPECT_EQ(by_tcp().ask(post(host + typed)).status, 200) << "a program names no origin";
  EXPECT_EQ(by_tcp().ask(post(host + typed + "Origin: http://localhost:" + port + "\r\n")).status, 200);
  for (const std::string& other : {std::string("http://evil.example"), std::string("null"),
                                   std::string("http://localhost:1"), "http://127.0.0.1:" + port})
    EXPECT_TRUE(is_problem(by_tcp().ask(post(host + typed + "Origin: " + other + "\r\n")), 403, "E1514")) << other;
  EXPECT_EQ(by_tcp().ask(get(host + "Origin: http://evil.example\r\n")).status, 200) << "it cannot read the answer";
  EXPECT_TRUE(is_problem(by_tcp().ask(get(host + "Origin: http://evil.example\r\n", "/stream")), 403, "E1514"));
}

TEST_F(HttpTest, AFormIsNoWrite) {
  start();
  const std::string host = "Host: localhost\r\n";
  for (const char* type :
       {"application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", "application/jsonx"})
    EXPECT_TRUE(is_problem(by_tcp().ask(post(host + "Content-Type: " + type + "\r\n")), 415, "E1515")) << type;
  EXPECT_TRUE(is_problem(by_tcp().ask(post(host)), 415, "E1515"));
  EXPECT_TRUE(is_problem(by_tcp().ask(post(host + "Content-Type: text/plain\r\n", "")), 415, "E1515"));
  EXPECT_EQ(by_tcp().ask(post(host, "")).status, 200);
  EXPECT_EQ(by_tcp().ask(post(host + "Content-Type: Application/JSON; charset=utf-8\r\n")).status, 200);
  EXPECT_EQ(by_socket().ask(post(host + "Content-Type: text/plain\r\n")).status, 200);
}

TEST_F(HttpTest, ATokenMakesAnOperatorAndAWrongOneIsTold) {
  const std::string secret = "0123456789abcdef0123456789abcdef";
  options.token_file = folder.file("token");
  std::ofstream(options.token_file) << secret << "\n";
  std::filesystem::permissions(options.token_file, std::filesystem::perms::owner_read);
  start([](Server& routes) {
    routes.route("GET", "/role", [](const Request& request) {
      return Response{.body = request.peer.token_accepted ? "operator" : "tenant"};
    });
  });
  const auto role = [&](const std::string& headers) {
    return by_tcp().ask(get("Host: localhost\r\n" + headers, "/role"));
  };
  EXPECT_EQ(role("Authorization: Bearer " + secret + "\r\n").body, "operator");
  EXPECT_EQ(role("").body, "tenant");
  EXPECT_EQ(role("Authorization: Basic " + secret + "\r\n").body, "tenant");
  for (const std::string& wrong : {secret + "0", secret.substr(1), std::string(32, 'x'), std::string("x")}) {
    const Reply reply = role("Authorization: Bearer " + wrong + "\r\n");
    EXPECT_TRUE(is_problem(reply, 401, "E1518")) << wrong;
    EXPECT_EQ(reply.headers.get("www-authenticate").substr(0, 6), "Bearer");
    EXPECT_EQ(reply.body.find(secret), std::string::npos);
  }
  Wire wire = by_tcp();
  EXPECT_EQ(wire.ask(get("Host: localhost\r\nAuthorization: Bearer " + secret + "\r\n", "/role")).body, "operator");
  EXPECT_EQ(wire.ask(get("Host: localhost\r\n", "/role")).body, "tenant")
      << "a token is of one request, not of its connection";
}

TEST_F(HttpTest, SizesPastTheirBoundsAreRefusedAndTheRefusalArrives) {
  start();
  EXPECT_TRUE(is_problem(by_tcp().ask(get("Host: localhost\r\nX: " + std::string(20000, 'a') + "\r\n")), 431, "E1516"));
  EXPECT_TRUE(is_problem(by_tcp().ask("GET /" + std::string(20000, 'a')), 414, "E1516"));
  std::string many = "Host: localhost\r\n";
  for (int i = 0; i < 64; ++i) many += "X: 1\r\n";
  EXPECT_TRUE(is_problem(by_tcp().ask(get(many)), 431, "E1516"));
  EXPECT_TRUE(is_problem(by_socket().ask(post("Host: x\r\n", std::string((1 << 20) + 1, 'x'))), 413, "E1516"));
  EXPECT_TRUE(is_problem(by_tcp().ask(post("Host: x\r\n", std::string(3 << 20, 'x'))), 413, "E1516"))
      << "while the body is still being sent";
  const Wire large = by_tcp();
  EXPECT_TRUE(large.say(post("Host: x\r\n", std::string(2 << 20, 'x')))) << "it is not cut off while it sends";
  EXPECT_EQ(by_socket().ask(post("Host: x\r\n", std::string(1 << 20, 'x'))).body.size(), std::size_t{1} << 20);
  Wire endless = by_socket();
  endless.say("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(0x10000, 'x') + "\r\n";
  for (int i = 0; i < 17; ++i) endless.say(chunk);
  EXPECT_TRUE(is_problem(endless.reply(), 413, "E1516"));
  EXPECT_EQ(by_tcp().ask(kStillThere).status, 200);
}

TEST_F(HttpTest, ARequestThatNeverEndsIsEnded) {
  options.limits.idle = milliseconds{100};
  start();
  Wire half = by_socket(), body = by_socket(), silent = by_socket(), idle = by_socket();
  half.say("GET /hello HTTP/1.1\r\nHos");
  body.say("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(idle.ask(kStillThere).status, 200);
  EXPECT_TRUE(is_problem(half.reply(), 408, "E1519"));
  EXPECT_TRUE(is_problem(body.reply(), 408, "E1519"));
  EXPECT_EQ(silent.everything(), "") << "closed without a word";
  EXPECT_EQ(idle.everything(), "");
  // The time is the whole request's: a byte now and then does not make it longer.
  Wire trickle = by_socket();
  const std::string text = "GET /hello HTTP/1.1\r\n";
  for (std::size_t i = 0; trickle.say(i < text.size() ? text.substr(i, 1) : "X");) {
    ++i;
    pollfd one{trickle.get(), POLLIN, 0};
    if (::poll(&one, 1, 20) > 0) break;
  }
  EXPECT_TRUE(is_problem(trickle.reply(), 408, "E1519"));
}

TEST_F(HttpTest, AClientThatDoesNotTakeItsAnswersIsLetGo) {
  options.limits.write = milliseconds{100};
  start([](Server& routes) {
    routes.route("GET", "/large", [](const Request&) { return Response{.body = std::string(8 << 20, 'x')}; });
  });
  Wire wire = by_socket();
  // A thousand answers of 8 MiB are never made: the next request is read when the answer before has gone.
  for (int i = 0; i < 1000; ++i) wire.say(get("Host: x\r\n", "/large"));
  while (in_loop([&] { return server->connections(); }) > 0) std::this_thread::yield();
  EXPECT_LE(in_loop([&] { return server->counters().requests; }), 2u);
}

TEST_F(HttpTest, WhatIsSentBeforeAnAnswerIsNotCollected) {
  std::vector<Responder> waiting;
  start([&](Server& routes) {
    routes.route_deferred("GET", "/later", [&](const Request&, Responder responder) { waiting.push_back(responder); });
  });
  const Wire wire = by_socket();
  wire.say(get("Host: x\r\n", "/later"));
  ASSERT_EQ(::fcntl(wire.get(), F_SETFL, O_NONBLOCK), 0);
  const std::string piece(64 << 10, 'x');
  std::size_t taken = 0;
  // Each call into the loop lets it read what has come; a client that got rid of nothing in a hundred of them is held.
  for (int tries = 0; tries < 100 && taken < std::size_t{16} << 20; ++tries) {
    for (ssize_t sent = 0; (sent = ::send(wire.get(), piece.data(), piece.size(), MSG_NOSIGNAL)) > 0; tries = 0) {
      taken += static_cast<std::size_t>(sent);
      if (taken >= std::size_t{16} << 20) break;
    }
    in_loop([] {});
  }
  EXPECT_LT(taken, std::size_t{4} << 20);
  EXPECT_EQ(by_tcp().ask(kStillThere).status, 200);
}

TEST_F(HttpTest, WhoHasBeenIdleLongestLeavesForTheNext) {
  options.clients.all = 12;
  options.clients.each = 8;
  options.clients.kept = 2;
  start();
  std::vector<Wire> wires;
  for (int i = 0; i < 8; ++i) {
    wires.push_back(by_tcp());
    ASSERT_EQ(wires.back().ask(kStillThere).status, 200);
  }
  ASSERT_EQ(wires[0].ask(kStillThere).status, 200) << "so the second has been idle longest";
  wires.push_back(by_tcp());
  EXPECT_EQ(wires.back().ask(kStillThere).status, 200) << "one host has 8";
  EXPECT_FALSE(wires[1].more());
  EXPECT_EQ(wires[0].ask(kStillThere).status, 200);
  for (int i = 0; i < 4; ++i) {
    wires.push_back(by_socket());
    ASSERT_EQ(wires.back().ask(kStillThere).status, 200) << "another user is let in, the last places are kept for us";
  }
  wires.push_back(by_socket());
  EXPECT_EQ(wires.back().ask(kStillThere).status, 200) << "whoever has most gives one away";
  EXPECT_FALSE(wires[2].more());
  EXPECT_EQ(in_loop([&] { return server->connections(); }), 12u);
}

TEST_F(HttpTest, WhoseRequestIsAnsweredDoesNotLeave) {
  options.clients.each = 2;
  std::vector<Responder> waiting;
  start([&](Server& routes) {
    routes.route_deferred("GET", "/later", [&](const Request&, Responder responder) { waiting.push_back(responder); });
  });
  std::vector<Wire> wires;
  for (std::size_t i = 0; i < 2; ++i) {
    wires.push_back(by_tcp());
    wires.back().say(get("Host: localhost\r\n", "/later"));
    while (in_loop([&] { return waiting.size(); }) <= i) std::this_thread::yield();
  }
  const Reply third = by_tcp().reply();
  EXPECT_TRUE(third.status == 503 && third.headers.get("retry-after") == "5");
  in_loop([&] {
    for (Responder& each : waiting) each.respond(Response{.body = "here"});
    return 0;
  });
  for (Wire& wire : wires) EXPECT_EQ(wire.reply().status, 200);
}

TEST_F(HttpTest, WhoSendsAWholeRequestGetsInHoweverManySendNone) {
  options.clients.all = 40;
  options.clients.each = 30;
  options.clients.kept = 2;
  start([](Server& routes) {
    routes.route("POST", "/once", [](const Request& request) { return Response{.body = request.body}; });
  });
  std::vector<Wire> slow;
  for (int i = 0; i < 300; ++i) {
    slow.push_back(by_tcp());
    slow.back().say("GET /hel");
    if (i % 30 != 29) continue;
    EXPECT_EQ(by_tcp().ask(kStillThere).status, 200);
    EXPECT_EQ(by_socket().ask(kStillThere).status, 200);
    EXPECT_EQ(by_tcp()
                  .ask("POST /once HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
                       "2\r\n\r\n{}")
                  .body,
              "{}");
  }
  EXPECT_LE(in_loop([&] { return server->connections(); }), 40u);
}

TEST_F(HttpTest, WhoHasShownTheTokenStaysHoweverManyOthersThereAre) {
  options.token_file = folder.file("token");
  const FileDescriptor file(::open(options.token_file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::write(file.get(), "sixteen-letters-and-more", 24), 24);
  options.clients.all = 6;
  options.clients.each = 4;
  options.clients.kept = 2;
  options.clients.with_token = 2;
  start();
  const std::string with_token = get("Host: localhost\r\nAuthorization: Bearer sixteen-letters-and-more\r\n");
  Wire first = by_tcp(), second = by_tcp(), third = by_tcp();
  for (Wire* each : {&first, &second, &third}) EXPECT_EQ(each->ask(with_token).status, 200);
  std::vector<Wire> wires;
  for (int i = 0; i < 9; ++i) {
    wires.push_back(by_tcp());
    ASSERT_EQ(wires.back().ask(kStillThere).status, 200);
  }
  EXPECT_EQ(first.ask(with_token).status, 200);
  EXPECT_EQ(second.ask(with_token).status, 200);
  EXPECT_EQ(in_loop([&] { return server->connections(); }), 2u + 4u);
  EXPECT_FALSE(third.more()) << "the bearers have their bound, and it is a client like others";
}

TEST_F(HttpTest, ThousandsOfConnectionsLeaveTheDaemonAtWork) {
  options.clients.all = 300;
  options.clients.each = 250;
  start();
  for (int round = 0; round < 4; ++round) {
    std::vector<Wire> wires;
    for (int i = 0; i < 400; ++i) {
      wires.push_back(by_tcp());
      wires.back().say("GET /hel");
    }
    EXPECT_EQ(by_socket().ask(kStillThere).status, 200);
    EXPECT_LE(in_loop([&] { return server->connections(); }), 251u);
  }
  while (in_loop([&] { return server->connections(); }) > 0) std::this_thread::yield();
  EXPECT_EQ(by_tcp().ask(kStillThere).status, 200);
  EXPECT_GE(in_loop([&] { return server->counters().turned_away; }), 150u);
}

TEST_F(HttpTest, WithoutDescriptorsTheServerWaitsAndGoesOn) {
  start();
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  Wire wire = by_socket();
  ASSERT_EQ(wire.ask(kStillThere).status, 200);
  // The next descriptor is the client's end; there is none for the server's.
  const int next = ::dup(0);
  ::close(next);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(next) + 1;
  ::setrlimit(RLIMIT_NOFILE, &tight);
  Wire waiting = by_socket();
  ASSERT_TRUE(waiting.connected());
  EXPECT_EQ(wire.ask(kStillThere).status, 200) << "who is in goes on being served";
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(waiting.ask(kStillThere).status, 200);
}

TEST_F(HttpTest, AnyBytesAtAllLeaveTheDaemonAtWork) {
  options.limits.idle = milliseconds{50};
  start();
  std::mt19937 random(3);
  const std::string seeds[] = {kStillThere, post("Host: localhost\r\nContent-Type: application/json\r\n"),
                               get("Host: localhost\r\nLast-Event-ID: 5\r\n", "/stream?topics=events&every=1s")};
  for (int round = 0; round < 400; ++round) {
    std::string bytes = seeds[random() % 3];
    for (std::size_t changes = random() % 6; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    Wire wire = round % 2 == 0 ? by_tcp() : by_socket();
    wire.say(bytes);
    if (round % 3 == 0) wire.say_no_more();
    if (round % 3 == 1) wire.more();
  }
  EXPECT_EQ(by_tcp().ask(kStillThere).status, 200);
}

}  // namespace
}  // namespace ration::http
