// The command line's client, against the real server and against daemons that misbehave: http/client.hpp.
#include "http/client.hpp"

#include <sys/stat.h>

#include <future>

#include "http/problem.hpp"
#include "http_fixture.hpp"

namespace ration::http {
namespace {

/// Takes one connection, says `text` and, unless told to stay, closes.
class OddDaemon {
 public:
  OddDaemon(const std::string& path, std::string text, bool stays = false)
      : listener_(UnixListener::open(path, 0600).value()), thread_([this, text = std::move(text), stays] {
          pollfd_wait();
          const FileDescriptor client(::accept(listener_.get(), nullptr, nullptr));
          std::array<char, 4096> request{};
          [[maybe_unused]] const auto got = ::recv(client.get(), request.data(), request.size(), 0);
          ::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL);
          // Until the client gives up.
          while (stays && ::recv(client.get(), request.data(), request.size(), 0) > 0) {
          }
        }) {}
  ~OddDaemon() { thread_.join(); }

 private:
  void pollfd_wait() const {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(listener_.get(), &set);
    ::select(listener_.get() + 1, &set, nullptr, nullptr, nullptr);
  }
  UnixListener listener_;
  std::thread thread_;
};

TEST_F(HttpTest, AClientThatFoundNoPlaceComesAgain) {
  options.clients.each = 1;
  std::optional<Responder> unanswered;
  start([&](Server& routes) {
    routes.route_deferred("GET", "/later", [&](const Request&, const Responder& responder) { unanswered = responder; });
  });
  const Wire before = by_socket();
  before.say("GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n");
  while (!in_loop([&] { return unanswered.has_value(); })) std::this_thread::yield();
  auto answer = std::async(std::launch::async, [&] { return Client(options.socket_path).get("/hello"); });
  while (in_loop([&] { return server->counters().turned_away; }) == 0) std::this_thread::yield();
  unanswered->respond(Response{.body = "at last"});
  const auto got = answer.get();
  ASSERT_TRUE(got) << got.error().what;
  EXPECT_EQ(got->status, 200);
}

TEST_F(HttpTest, TheClientAsksInEveryWay) {
  start([](Server& routes) {
    for (const char* method : {"GET", "POST", "PATCH", "DELETE"})
      routes.route(method, "/what", [](const Request& request) {
        return Response{.status = request.method == "POST" ? 201 : 200,
                        .body = request.method + " " + request.body + " " +
                                std::string(request.headers.get("content-type")) + " " +
                                std::string(request.headers.get("if-match"))};
      });
    routes.route("GET", "/large", [](const Request&) { return Response{.body = std::string(5'000'000, 'x')}; });
    routes.route("GET", "/none", [](const Request&) {
      return problem({"E1801", "tenant 'nlq' is not known", "ration ps", 3});
    });
    routes.route("GET", "/empty", [](const Request&) { return Response{.status = 204}; });
  });
  Client client(options.socket_path);
  EXPECT_EQ(client.get("/what")->body, "GET   ");
  EXPECT_EQ(client.post("/what", "{}")->body, "POST {} application/json ");
  EXPECT_EQ(client.post("/what", "{}")->status, 201);
  EXPECT_EQ(client.patch("/what", "{\"limit\":1}", {{"If-Match", "\"2\""}})->body,
            "PATCH {\"limit\":1} application/json \"2\"");
  EXPECT_EQ(client.remove("/what")->body, "DELETE   ");
  EXPECT_EQ(client.get("/large")->body.size(), 5'000'000u);
  EXPECT_EQ(client.get("/empty")->status, 204);
  EXPECT_EQ(client.post("/what", std::string(2 << 20, 'x'))->status, 413) << "refused while it was still being sent";

  const auto missing = client.get("/none");
  ASSERT_TRUE(missing);
  EXPECT_FALSE(missing->ok());
  const Error error = error_of(*missing);
  EXPECT_EQ(error.id, "E1801");
  EXPECT_EQ(error.what, "tenant 'nlq' is not known");
  EXPECT_EQ(error.fix, "ration ps");
  EXPECT_EQ(error.exit_code, 3);
}

// Whoever asks the daemon ends as without one: a status tells neither 124 nor 125.
TEST(Problem, AnErrorKeepsItsExitCodeOverHttp) {
  for (const int exit_code : {1, 2, 3, 4, 5, 6, 124, 125}) {
    const Response response = problem({"E1303", "it waited an hour", "ration ps", exit_code});
    EXPECT_EQ(error_of({response.status, response.body}).exit_code, exit_code);
  }
  const Response named = problem({"E1518", "that token is wrong", "ration open"}, 401);
  EXPECT_EQ(error_of({named.status, named.body}).exit_code, 5) << "by its status, where it has none of its own";
  for (const char* strange : {"0", "-1", "256", "1.5", "\"5\"", "null"})
    EXPECT_EQ(error_of({404, std::string(R"({"id":"E1","exit_code":)") + strange + "}"}).exit_code, 3) << strange;
}

TEST_F(HttpTest, WorkIsDoneOnceBetweenARequestAndItsAnswer) {
  std::promise<void> done;
  auto is_done = done.get_future();
  start([&](Server& routes) {
    routes.route("POST", "/waits", [&](const Request&) {
      return Response{.status = is_done.wait_for(std::chrono::seconds(10)) == std::future_status::ready ? 200 : 500};
    });
  });
  int times = 0;
  Client client(options.socket_path);
  EXPECT_EQ(client
                .post_during("/waits", "{}",
                             [&] {
                               ++times;
                               done.set_value();
                             })
                ->status,
            200);
  EXPECT_EQ(client.post("/waits", "{}")->status, 200);
  EXPECT_EQ(times, 1);
  EXPECT_FALSE(Client("").post_during("/waits", "{}", [&] { ++times; }));
  EXPECT_EQ(times, 2) << "without a daemon, too";
}

TEST_F(HttpTest, TheClientFollowsTheStreamUntilItHasEnough) {
  start();
  in_loop([&] {
    for (std::uint64_t id = 1; id <= 3; ++id)
      stream->publish("events", "event", "{\"id\":" + std::to_string(id) + "}", id);
  });
  Client client(options.socket_path);
  std::vector<std::string> got;
  const auto enough = client.stream("/stream?topics=events&last_event_id=1", [&](const StreamEvent& event) {
    got.push_back(event.id + " " + event.name + " " + event.data);
    return got.size() < 2;
  });
  EXPECT_TRUE(enough);
  EXPECT_EQ(got, (std::vector<std::string>{"2 event {\"id\":2}", "3 event {\"id\":3}"}));
  const auto ended = client.stream("/stream?topics=events&last_event_id=2", [&](const StreamEvent&) {
    loop->post([&] { server->stop(milliseconds{0}, [] {}); });
    return true;
  });
  EXPECT_TRUE(ended) << "the daemon's end is not an error";
}

TEST_F(HttpTest, AStreamThatIsRefusedIsAnError) {
  start();
  Client client(options.socket_path);
  const auto refused = client.stream("/stream?topics=nothing", [](const StreamEvent&) { return true; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().id, "E1510");
  EXPECT_EQ(refused.error().exit_code, 2);
  EXPECT_EQ(client.stream("/other", [](const StreamEvent&) { return true; }).error().exit_code, 3);
}

TEST(HttpClient, WithoutADaemonItSaysSo) {
  const Folder folder;
  const auto none = Client(folder.file("s")).get("/");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().id, "E1501");
  EXPECT_EQ(none.error().exit_code, 3);
  EXPECT_EQ(none.error().what, "the daemon is not running (no " + folder.file("s") + ")");
  EXPECT_EQ(none.error().fix,
            "'ration run' works without it; tenants, queue and reports need: sudo ration service install --now");
  {
    const FileDescriptor dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, folder.file("s").data(), folder.file("s").size());
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  EXPECT_EQ(Client(folder.file("s")).get("/").error().id, "E1501");
  EXPECT_EQ(Client("").get("/").error().id, "E1501");
  EXPECT_EQ(Client(std::string(300, 'x')).get("/").error().id, "E1501");
}

TEST(HttpClient, ADaemonThatMisbehavesIsAnErrorAndNeverAWaitForEver) {
  const std::pair<const char*, bool> daemons[] = {
      {"", false},
      {"", true},
      {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", false},
      {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", true},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false},
      {"SSH-2.0-OpenSSH\r\n", false},
      {"HTTP/1.1 100 Continue\r\n\r\n", false},
      {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", false},
  };
  for (const auto& [text, stays] : daemons) {
    const Folder folder;
    const OddDaemon daemon(folder.file("s"), text, stays);
    const auto answer = Client(folder.file("s"), std::chrono::milliseconds(50)).get("/");
    ASSERT_FALSE(answer) << text;
    EXPECT_EQ(answer.error().id, "E1508") << text;
    EXPECT_NE((answer.error().what + answer.error().fix).find(std::to_string(::getpid())), std::string::npos)
        << "whoever listens is named: " << answer.error().what;
    EXPECT_NE(answer.error().fix.find("systemctl status rationd"), std::string::npos);
  }
  const Folder folder;
  const OddDaemon daemon(folder.file("s"), "HTTP/1.1 200 OK\r\n\r\ndata: 1\n\n", true);
  int events = 0;
  const auto stream = Client(folder.file("s"), std::chrono::milliseconds(50), std::chrono::milliseconds(50))
                          .stream("/", [&](const StreamEvent&) { return ++events > 0; });
  ASSERT_FALSE(stream) << "a stream that falls silent is not followed for ever";
  EXPECT_EQ(stream.error().id, "E1508");
  EXPECT_EQ(events, 1);
}

TEST(HttpClient, AnAnswerThatIsNoProblemIsStillAnError) {
  const Error plain = error_of({.status = 502, .body = "<html>"});
  EXPECT_EQ(plain.id, "E1508");
  EXPECT_EQ(plain.exit_code, 1);
  EXPECT_EQ(error_of({.status = 403, .body = R"({"id":5,"detail":["x"]})"}).exit_code, 5);
  const std::pair<int, int> table[] = {{400, 2}, {404, 3}, {409, 4}, {412, 4}, {401, 5}, {403, 5}, {500, 1}, {503, 1}};
  for (const auto& [status, code] : table)
    EXPECT_EQ(error_of({.status = status, .body = ""}).exit_code, code) << status;
}

}  // namespace
}  // namespace ration::http
