// A server with its loop in a thread of its own, and clients that say exactly the bytes they are told to.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <string>
#include <thread>

#include "base/strings.hpp"
#include "http/grammar.hpp"
#include "http/server.hpp"
#include "http/stream.hpp"

namespace ration::http {

/// A folder of its own for one test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "ration-http-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct Reply {
  int status = 0;
  Headers headers;
  std::string body;
};

/// A client's end of a connection. Reading blocks; a test that waits for ever is ended by its runner.
class Wire {
 public:
  static Wire to_socket(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    Wire wire(AF_UNIX);
    wire.connected_ = ::connect(wire.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    return wire;
  }
  static Wire to_port(std::uint16_t port, in_addr_t host = INADDR_LOOPBACK) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(host);
    Wire wire(AF_INET);
    wire.connected_ = ::connect(wire.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    return wire;
  }

  [[nodiscard]] int get() const { return socket_.get(); }
  [[nodiscard]] bool connected() const { return connected_; }

  /// False when the other end has gone.
  bool say(std::string_view text) const {
    while (!text.empty()) {
      const auto sent = ::send(get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent < 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void say_no_more() const { ::shutdown(get(), SHUT_WR); }

  /// More bytes into the buffer; false at the end.
  bool more() {
    std::array<char, 16384> piece{};
    const auto size = ::recv(get(), piece.data(), piece.size(), 0);
    if (size > 0) buffer_.append(piece.data(), static_cast<std::size_t>(size));
    return size > 0;
  }
  /// Up to and with `mark`; empty at the end.
  std::string until(std::string_view mark) {
    std::size_t at = 0;
    while ((at = buffer_.find(mark)) == std::string::npos)
      if (!more()) return {};
    std::string text = buffer_.substr(0, at + mark.size());
    buffer_.erase(0, at + mark.size());
    return text;
  }
  std::string everything() {
    while (more()) {
    }
    return std::exchange(buffer_, {});
  }
  /// Status and headers; the body is still to be read.
  Reply head() {
    Reply reply;
    std::string text = until("\r\n\r\n");
    if (text.size() < 12) return reply;
    reply.status = std::atoi(text.c_str() + 9);
    for (std::size_t at = text.find("\r\n") + 2; at + 2 < text.size();) {
      const std::size_t end = text.find("\r\n", at), colon = text.find(':', at);
      reply.headers.add(lower(text.substr(at, colon - at)),
                        std::string(trimmed(text.substr(colon + 1, end - colon - 1))));
      at = end + 2;
    }
    return reply;
  }
  Reply reply(bool with_body = true) {
    Reply reply = head();
    const auto size = parse_number(reply.headers.get("content-length")).value_or(0);
    while (with_body && buffer_.size() < size && more()) {
    }
    if (with_body) {
      reply.body = buffer_.substr(0, size);
      buffer_.erase(0, size);
    }
    return reply;
  }
  Reply ask(std::string_view text) {
    say(text);
    return reply(text.substr(0, 5) != "HEAD ");
  }

 private:
  explicit Wire(int family) : socket_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  FileDescriptor socket_;
  bool connected_ = false;
  std::string buffer_;
};

class HttpTest : public ::testing::Test {
 protected:
  HttpTest() {
    options.socket_path = folder.file("socket");
    options.tcp_address = "127.0.0.1:0";
  }
  ~HttpTest() override { end(); }

  /// Starts what `options` and `stream_options` say. `routes` adds handlers.
  void start(const std::function<void(Server&)>& routes = {}) {
    loop.emplace();
    server.emplace(*loop, options);
    stream.emplace(*loop, stream_options);
    server->route("GET", "/hello",
                  [](const Request&) { return Response{.content_type = "text/plain", .body = "hello\n"}; });
    server->route("POST", "/echo", [](const Request& request) { return Response{.body = request.body}; });
    server->route_deferred(
        "GET", "/stream",
        [this](const Request& request, const Responder& responder) { stream->subscribe(request, responder); },
        Access::kSameOriginOnly);
    if (routes) routes(*server);
    const auto listening = server->listen();
    ASSERT_TRUE(listening) << listening.error().what;
    thread = std::thread([this] { loop->run(); });
  }

  void end() {
    if (!loop) return;
    if (thread.joinable()) {
      loop->stop();
      thread.join();
    }
    stream.reset();
    server.reset();
    loop.reset();
  }

  /// `work` in the loop's thread, and its result.
  template <typename Work>
  auto in_loop(Work work) -> decltype(work()) {
    std::packaged_task<decltype(work())()> task(std::move(work));
    auto result = task.get_future();
    loop->post([&task] { task(); });
    return result.get();
  }

  [[nodiscard]] Wire by_socket() const { return Wire::to_socket(options.socket_path); }
  [[nodiscard]] Wire by_tcp() const { return Wire::to_port(server->tcp_port()); }

  Folder folder;
  ServerOptions options;
  StreamOptions stream_options;
  std::optional<EventLoop> loop;
  std::optional<Server> server;
  std::optional<EventStream> stream;
  std::thread thread;
};

}  // namespace ration::http
