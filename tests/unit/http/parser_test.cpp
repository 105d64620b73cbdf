// Requests as they come in pieces: http/parser.hpp.
#include "http/parser.hpp"

#include <gtest/gtest.h>

#include <random>

namespace ration::http {
namespace {

/// What one request became, as text, and what was left over.
std::string outcome(std::string_view bytes, std::mt19937* random = nullptr, ParseLimits limits = {}) {
  RequestParser parser(limits);
  std::size_t at = 0;
  while (at < bytes.size() && parser.state() != RequestParser::State::kComplete &&
         parser.state() != RequestParser::State::kFailed) {
    const std::size_t size = random == nullptr ? bytes.size() : 1 + (*random)() % 9;
    at += parser.feed(bytes.substr(at, size));
  }
  if (parser.state() == RequestParser::State::kFailed)
    return std::to_string(parser.failure().status) + " " + parser.failure().error.id;
  if (parser.state() != RequestParser::State::kComplete) return "unfinished";
  std::string text = parser.method() + " " + parser.target() + (parser.keep_alive() ? " keep" : " close");
  for (const auto& [name, value] : parser.headers().lines()) text += " " + name + "=" + value;
  return text + " <" + parser.take_body() + "> left " + std::to_string(bytes.size() - at);
}

TEST(HttpParser, ReadsOneRequestAndLeavesTheNext) {
  EXPECT_EQ(outcome("GET /a?b=c HTTP/1.1\r\nHost: x\r\nX-Two:  2 \r\n\r\nGET"),
            "GET /a?b=c keep host=x x-two=2 <> left 3");
  EXPECT_EQ(outcome("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabcd"),
            "POST / close host=x content-length=3 connection=close <abc> left 1");
  EXPECT_EQ(
      outcome("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n!"),
      "POST / keep host=x transfer-encoding=chunked <abc> left 1");
  EXPECT_EQ(outcome("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n"),
            "POST / keep host=x transfer-encoding=Chunked <> left 0");
  EXPECT_EQ(outcome("GET / HTTP/1.0\r\n\r\n"), "GET / close <> left 0");
}

TEST(HttpParser, AnUpgradeIsIgnored) {
  EXPECT_EQ(outcome("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"),
            "GET / keep host=x connection=Upgrade upgrade=h2c <> left 0");
}

struct Case {
  const char* bytes;
  const char* outcome;
};

TEST(HttpParser, WhatIsNotARequestIsRefused) {
  const Case cases[] = {
      {"hello\r\n\r\n", "400 E1510"},
      {"GET / HTTP/1.1\r\n\r\n", "400 E1510"},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 E1510"},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505 E1510"},
      {"GET /\r\n\r\n", "505 E1510"},
      {"GET / HTTP/1.1\r\nHost: x\r\nContent-Length : 3\r\n\r\n", "400 E1510"},
      {"GET / HTTP/1.1\r\nHost: x\r\n folded: 3\r\n: y\r\n\r\n", "400 E1510"},
      {"GET / HTTP/1.1\r\nHost: a\x01\r\n\r\n", "400 E1510"},
      {"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400 E1510"},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "400 E1510"},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "400 E1510"},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n", "400 E1510"},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", "400 E1510"},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2, 2\r\n\r\n{}", "400 E1510"},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "501 E1510"},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501 E1510"},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       "501 E1510"},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "501 E1510"},
      {"POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 E1510"},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n", "400 E1510"},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "400 E1510"},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", "400 E1510"},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-After: 1\r\n\r\n", "400 E1510"},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n", "413 E1516"},
  };
  for (const auto& [bytes, expected] : cases) EXPECT_EQ(outcome(bytes), expected) << bytes;
}

TEST(HttpParser, EverySizeIsBoundedToTheByte) {
  const ParseLimits limits{.head_bytes = 100, .headers = 3, .body_bytes = 10};
  const auto head_of = [](std::size_t size) {
    const std::string start = "GET / HTTP/1.1\r\nHost: x\r\nX: ", end = "\r\n\r\n";
    return start + std::string(size - start.size() - end.size(), 'a') + end;
  };
  EXPECT_EQ(outcome(head_of(99), nullptr, limits).substr(0, 3), "GET");
  EXPECT_EQ(outcome(head_of(100), nullptr, limits).substr(0, 3), "GET");
  EXPECT_EQ(outcome(head_of(101), nullptr, limits), "431 E1516");
  EXPECT_EQ(outcome("GET /" + std::string(200, 'a'), nullptr, limits), "414 E1516");
  EXPECT_EQ(outcome("GET / HTTP/1.1\r\nHost: x\r\nA: 1\r\nB: 1\r\n\r\n", nullptr, limits).substr(0, 3), "GET");
  EXPECT_EQ(outcome("GET / HTTP/1.1\r\nHost: x\r\nA: 1\r\nB: 1\r\nC: 1\r\n\r\n", nullptr, limits), "431 E1516");
  const std::string chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(outcome(chunked + "a\r\n0123456789\r\n0\r\n\r\n", nullptr, limits).substr(0, 4), "POST");
  EXPECT_EQ(outcome(chunked + "a\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n", nullptr, limits), "413 E1516");
  const std::string plain = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ";
  EXPECT_EQ(outcome(plain + "10\r\n\r\n0123456789", nullptr, limits).substr(0, 4), "POST");
  EXPECT_EQ(outcome(plain + "11\r\n\r\n0123456789a", nullptr, limits), "413 E1516");
}

TEST(HttpParser, TheOutcomeDoesNotDependOnThePieces) {
  std::mt19937 random(11);
  const std::string seeds[] = {
      "GET /a?b=c HTTP/1.1\r\nHost: x\r\nX-Two:  2 \r\n folded\r\nX-Empty:\r\n\r\nGET",
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabcd",
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n!",
      "\r\nGET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
  };
  const ParseLimits limits{.head_bytes = 120, .headers = 5, .body_bytes = 4};
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = seeds[random() % 4];
    for (std::size_t changes = random() % 3; changes > 0; --changes) {
      const std::size_t at = random() % bytes.size();
      if (random() % 2 == 0)
        bytes[at] = "\r\n :;aZ0/%\t\x7f"[random() % 12];
      else
        bytes.insert(at, std::string(random() % 40, "\n:a1"[random() % 4]));
    }
    ASSERT_EQ(outcome(bytes, nullptr, limits), outcome(bytes, &random, limits)) << bytes;
  }
}

}  // namespace
}  // namespace ration::http
