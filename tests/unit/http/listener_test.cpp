// Where the daemon may listen: http/listener.hpp and Server::listen().
#include "http/listener.hpp"

#include <sys/stat.h>

#include <fstream>

#include "http_fixture.hpp"

namespace ration::http {
namespace {

/// A token file with that mode.
std::string token_file(const Folder& folder, const std::string& text, mode_t mode) {
  const std::string path = folder.file("token");
  std::ofstream(path) << text;
  ::chmod(path.c_str(), mode);
  return path;
}

TEST(HttpListener, TheSocketHasItsModeAndGoesWithItsOwner) {
  const Folder folder;
  for (const mode_t mode : {0666, 0600, 0660}) {
    struct stat status {};
    {
      const auto listener = UnixListener::open(folder.file("s"), mode);
      ASSERT_TRUE(listener) << listener.error().what;
      ASSERT_EQ(::stat(folder.file("s").c_str(), &status), 0);
      EXPECT_EQ(status.st_mode & 0777, mode);
    }
    EXPECT_NE(::stat(folder.file("s").c_str(), &status), 0);
  }
}

TEST(HttpListener, AStaleSocketIsReplacedAndALivingOneIsNot) {
  const Folder folder;
  const std::string path = folder.file("s");
  {
    const FileDescriptor dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  const auto first = UnixListener::open(path, 0600);
  ASSERT_TRUE(first) << first.error().what;
  const auto second = UnixListener::open(path, 0600);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().id, "E1504");
  EXPECT_NE(second.error().what.find("pid " + std::to_string(::getpid())), std::string::npos) << second.error().what;
  EXPECT_TRUE(Wire::to_socket(path).connected());
  std::filesystem::remove(path + ".lock");
  const auto third = UnixListener::open(path, 0600);
  ASSERT_FALSE(third) << "also when the lock's file was removed";
  EXPECT_EQ(third.error().id, "E1504");
}

TEST(HttpListener, OfTwoThatStartAtOnceOneIsRefused) {
  const Folder folder;
  const auto first = UnixListener::open(folder.file("s"), 0600);
  ASSERT_TRUE(first);
  // As if the first one had not yet bound its socket.
  std::filesystem::remove(folder.file("s"));
  const auto second = UnixListener::open(folder.file("s"), 0600);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().id, "E1504");
}

TEST(HttpListener, AnythingButASocketIsLeftAlone) {
  const Folder folder;
  std::ofstream(folder.file("s")) << "precious";
  const auto listener = UnixListener::open(folder.file("s"), 0600);
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().id, "E1507");
  EXPECT_TRUE(std::filesystem::is_regular_file(folder.file("s")));
  EXPECT_EQ(UnixListener::open(folder.file("no/such/folder/s"), 0600).error().id, "E1507");
  EXPECT_EQ(UnixListener::open(folder.file(std::string(200, 'x')), 0600).error().id, "E1507");
}

TEST(HttpListener, AddressesAreNumericWithAPort) {
  EXPECT_TRUE(parse_tcp_address("127.0.0.1:8080")->loopback);
  EXPECT_TRUE(parse_tcp_address("127.9.9.9:8080")->loopback);
  EXPECT_TRUE(parse_tcp_address("[::1]:8080")->loopback);
  EXPECT_TRUE(parse_tcp_address("localhost:0")->loopback);
  EXPECT_FALSE(parse_tcp_address("0.0.0.0:8080")->loopback);
  EXPECT_FALSE(parse_tcp_address("10.0.0.1:8080")->loopback);
  EXPECT_FALSE(parse_tcp_address("[::]:8080")->loopback);
  for (const char* wrong :
       {"", "8080", ":8080", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "example.org:80", "1.2.3:80"}) {
    const auto address = parse_tcp_address(wrong);
    ASSERT_FALSE(address) << wrong;
    EXPECT_EQ(address.error().id, "E1507");
  }
  const auto first = open_tcp(*parse_tcp_address("127.0.0.1:0"));
  ASSERT_TRUE(first);
  EXPECT_EQ(open_tcp({"127.0.0.1", first->port, true}).error().id, "E1507");
}

TEST(HttpListener, AnAddressThatOthersReachNeedsAToken) {
  const Folder folder;
  EventLoop loop;
  ServerOptions options;
  options.tcp_address = "0.0.0.0:0";
  const auto refused = Server(loop, options).listen();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().id, "E1505");
  EXPECT_NE(refused.error().fix.find("umask 077; head -c 32 /dev/urandom | base64 > /etc/ration/token"),
            std::string::npos);
  options.token_file = token_file(folder, "0123456789abcdef0123456789abcdef\n", 0600);
  Server server(loop, options);
  EXPECT_TRUE(server.listen());
  EXPECT_NE(server.tcp_port(), 0);
}

TEST(HttpListener, ATokenThatOthersCouldReadOrWriteIsNotUsed) {
  const Folder folder;
  const std::string secret = "0123456789abcdef0123456789abcdef";
  EXPECT_EQ(read_token(token_file(folder, secret + "\n", 0600)).value(), secret);
  EXPECT_EQ(read_token(token_file(folder, secret, 0400)).value(), secret);
  for (const mode_t mode : {0644, 0640, 0660, 0602, 0700}) {
    const auto token = read_token(token_file(folder, secret, mode));
    ASSERT_FALSE(token) << mode;
    EXPECT_EQ(token.error().id, "E1506");
    EXPECT_NE(token.error().fix.find("chmod 600 "), std::string::npos);
  }
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(token_file(folder, secret, 0600).c_str(), 12345, 12345), 0);
    EXPECT_EQ(read_token(folder.file("token")).error().id, "E1506");
    std::filesystem::remove(folder.file("token"));
  }
  EXPECT_EQ(read_token(token_file(folder, "short", 0600)).error().id, "E1506");
  EXPECT_EQ(read_token(token_file(folder, "two words of a file", 0600)).error().id, "E1506");
  EXPECT_EQ(read_token(folder.file("")).error().id, "E1506");
  EXPECT_EQ(read_token(folder.file("none")).error().id, "E1506");
}

}  // namespace
}  // namespace ration::http
