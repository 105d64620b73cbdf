// The small grammars: http/grammar.hpp, router.hpp, event_reader.hpp.
#include "http/grammar.hpp"

#include <gtest/gtest.h>

#include <random>

#include "http/event_reader.hpp"
#include "http/router.hpp"
#include "http/stream.hpp"

namespace ration::http {
namespace {

TEST(HttpText, PercentEncodingIsUndoneAndBrokenOneRefused) {
  EXPECT_EQ(percent_decode("a%20b%2Fc+d"), "a b/c+d");
  EXPECT_EQ(percent_decode("a+b", true), "a b");
  EXPECT_EQ(percent_decode("%e4%BD%A0"), "\xe4\xbd\xa0");
  for (const char* broken : {"%", "%4", "%g0", "%0g", "a%", "%00", "%-1"})
    EXPECT_FALSE(percent_decode(broken)) << broken;
}

TEST(HttpText, EncodedTextOfAnyBytesComesBack) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string text, encoded;
    for (std::size_t size = random() % 20; text.size() < size;) text += static_cast<char>(1 + random() % 255);
    for (const char letter : text) {
      static constexpr char kDigits[] = "0123456789aBcDeF";
      const auto byte = static_cast<unsigned char>(letter);
      if (std::isalnum(byte) != 0 && random() % 2 == 0)
        encoded += letter;
      else
        (encoded += '%', encoded += kDigits[byte / 16]) += kDigits[byte % 16];
    }
    ASSERT_EQ(percent_decode(encoded), text);
  }
}

TEST(HttpText, TargetsAreSplitIntoPathAndQuery) {
  const auto target = parse_target("/api/v1/series?metric=used_bytes&by=a%26b&empty=&alone&&by=last+one#fragment");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/api/v1/series");
  const std::map<std::string, std::string> expected{
      {"metric", "used_bytes"}, {"by", "last one"}, {"empty", ""}, {"alone", ""}};
  EXPECT_EQ(target->query, expected);
  for (const char* wrong : {"", "api", "*", "http://evil/", "/%zz", "/a?b=%1", "/%00", "/a b", "/\xff", "/\t"})
    EXPECT_FALSE(parse_target(wrong)) << wrong;
  std::string many = "/?";
  for (std::size_t i = 0; i < kMaxParameters; ++i) many += "a=1&";
  EXPECT_TRUE(parse_target(many));
  EXPECT_FALSE(parse_target(many + "a=1"));
}

TEST(HttpText, HostsAreNamesOrAddressesWithAPort) {
  EXPECT_EQ(host_name("LocalHost"), "localhost");
  EXPECT_EQ(host_name("gpu-1.example:8080"), "gpu-1.example");
  EXPECT_EQ(host_name("[::1]:80"), "::1");
  EXPECT_EQ(host_name("[FE80::1]"), "fe80::1");
  for (const char* wrong :
       {"", ":80", "a:", "a:99999", "a:b", "[::1", "[::1]80", "[evil]", "::1", "a b", "a/b", "user@host", "a:-1"})
    EXPECT_FALSE(host_name(wrong)) << wrong;
}

TEST(HttpText, AnOriginIsTheSameOnlyWithTheSameNameAndPort) {
  EXPECT_TRUE(same_origin("http://localhost:8080", "localhost:8080"));
  EXPECT_TRUE(same_origin("HTTP://LOCALHOST:8080", "localhost:8080"));
  EXPECT_TRUE(same_origin("http://localhost", "localhost:80"));
  EXPECT_TRUE(same_origin("https://gpu", "gpu:443"));
  EXPECT_TRUE(same_origin("http://[::1]:9", "[::1]:9"));
  for (const char* other :
       {"null", "", "http://", "http://evil:8080", "http://localhost:8081", "http://localhost", "ftp://localhost:8080",
        "localhost:8080", "http://localhost:8080.evil", "http://localhost:8080/", "http://x@localhost:8080"})
    EXPECT_FALSE(same_origin(other, "localhost:8080")) << other;
}

TEST(HttpText, NumbersAreWholeAndFit) {
  EXPECT_EQ(parse_number("0"), 0u);
  EXPECT_EQ(parse_number("18446744073709551615"), ~std::uint64_t{0});
  for (const char* wrong : {"", "-1", "+1", " 1", "1 ", "1x", "0x1", "18446744073709551616"})
    EXPECT_FALSE(parse_number(wrong)) << wrong;
}

TEST(HttpText, EncodingsThatAreAcceptedAreFound) {
  for (const char* yes : {"gzip", "deflate, gzip", "GZIP;q=0.5", "br;q=1.0, *;q=0.1", "*"})
    EXPECT_TRUE(accepts_gzip(yes)) << yes;
  for (const char* no : {"", "br", "gzip;q=0", "gzip; q=0.000", "*;q=0", "gzipped", "gzip;q=0, *"})
    EXPECT_FALSE(accepts_gzip(no)) << no;
  EXPECT_TRUE(accepts_identity(""));
  EXPECT_TRUE(accepts_identity("*;q=0, identity"));
  EXPECT_FALSE(accepts_identity("identity;q=0"));
  EXPECT_FALSE(accepts_identity("gzip, *;q=0"));
}

TEST(HttpText, TagsMatchWeakly) {
  EXPECT_TRUE(tag_matches("\"a\", W/\"b\"", "\"b\""));
  EXPECT_TRUE(tag_matches("\"b\"", "W/\"b\""));
  EXPECT_TRUE(tag_matches("*", "\"b\""));
  EXPECT_FALSE(tag_matches("", "\"b\""));
  EXPECT_FALSE(tag_matches("b", "\"b\""));
}

TEST(HttpText, SecretsAndTheirHeader) {
  EXPECT_EQ(bearer_token("bearer  abc "), "abc");
  EXPECT_FALSE(bearer_token("Basic abc"));
  EXPECT_FALSE(bearer_token("Bearer"));
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("abc", "abd"));
  EXPECT_FALSE(same_secret("abc", "ab"));
  EXPECT_EQ(media_type("Application/JSON ; charset=utf-8"), "application/json");
}

TEST(HttpRouter, TheMostSpecialRouteWinsAndCapturesAreDecoded) {
  Router router;
  const auto page = router.add("GET", "/{file...}"), list = router.add("GET", "/workloads"),
             one = router.add("PATCH", "/workloads/{name}"), explain = router.add("GET", "/workloads/{name}/explain"),
             special = router.add("GET", "/workloads/special/explain"),
             close = router.add("POST", "/periods/{period}:close");
  EXPECT_EQ(router.find("GET", "/workloads").route, list);
  EXPECT_EQ(router.find("HEAD", "/workloads").route, list);
  EXPECT_EQ(router.find("PATCH", "/workloads/a%2Fb%20c").route, one);
  EXPECT_EQ(router.find("PATCH", "/workloads/a%2Fb%20c").captures.at("name"), "a/b c");
  EXPECT_EQ(router.find("GET", "/workloads/x/explain").route, explain);
  EXPECT_EQ(router.find("GET", "/workloads/special/explain").route, special);
  EXPECT_EQ(router.find("POST", "/periods/2026-01:close").captures.at("period"), "2026-01");
  EXPECT_EQ(router.find("POST", "/periods/2026-01:close").route, close);
  EXPECT_EQ(router.find("GET", "/").captures.at("file"), "");
  EXPECT_EQ(router.find("GET", "/assets/app.js").captures.at("file"), "assets/app.js");
  EXPECT_EQ(router.find("GET", "/assets/app.js").route, page);
}

TEST(HttpRouter, AKnownPathWithAnotherMethodIsNotAnUnknownPath) {
  Router router;
  router.add("GET", "/{file...}");
  router.add("POST", "/trim");
  router.add("PATCH", "/tenants/{name}");
  EXPECT_FALSE(router.find("GET", "/trim").route) << "not handed to the route that takes everything";
  EXPECT_EQ(router.find("GET", "/trim").allowed, std::vector<std::string>{"POST"});
  EXPECT_EQ(router.find("DELETE", "/other").allowed, std::vector<std::string>{"GET"});
  EXPECT_FALSE(router.find("PATCH", "/tenants/").route) << "an empty name is none";
  Router bare;
  bare.add("GET", "/a");
  EXPECT_TRUE(bare.find("GET", "/b").allowed.empty());
  EXPECT_TRUE(bare.find("GET", "/a/").allowed.empty());
}

TEST(HttpRouter, PatternsThatAreNoneAreTheProgramsMistake) {
  for (const char* wrong : {"", "a", "/{", "/}", "/{}", "/{a}{b}", "/{a...}/b", "/x{a...}"})
    EXPECT_THROW(Pattern{wrong}, std::invalid_argument) << wrong;
}

TEST(HttpEvents, WhatIsWrittenIsReadBackInAnyPieces) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::string wire = "retry: 3000\n\n";
    std::vector<std::string> sent;
    for (std::size_t count = random() % 5; sent.size() < count;) {
      std::string data;
      for (std::size_t size = random() % 12; data.size() < size;) data += "ab:\n {}"[random() % 7];
      sent.push_back(data);
      wire += ": comment\n\n" + event_text("event", data, 100 + sent.size());
    }
    EventReader reader;
    std::vector<std::string> got;
    std::string last_id;
    for (std::size_t at = 0; at < wire.size();) {
      const std::size_t size = 1 + random() % 7;
      ASSERT_TRUE(reader.feed(std::string_view(wire).substr(at, size), [&](const StreamEvent& event) {
        EXPECT_EQ(event.name, "event");
        got.push_back(event.data);
        last_id = event.id;
        return true;
      }));
      at += size;
    }
    ASSERT_EQ(got, sent);
    ASSERT_EQ(last_id, sent.empty() ? "" : std::to_string(100 + sent.size()));
  }
}

TEST(HttpEvents, LinesEndWithEitherMarkAndNamesCannotBreakThem) {
  EXPECT_EQ(event_text("a\nb", "1\r\n2\r3\n4", {}), "event: ab\ndata: 1\ndata: 2\ndata: 3\ndata: 4\n\n");
  EventReader reader;
  std::vector<std::string> got;
  reader.feed("data:1\r\r\ndata: 2\r\n\r\nevent: x\n\ndata\n\n", [&](const StreamEvent& event) {
    got.push_back(event.name + "=" + event.data);
    return true;
  });
  EXPECT_EQ(got, (std::vector<std::string>{"message=1", "message=2", "message="}));
}

TEST(HttpEvents, AnEventWithoutAnEndIsNotKeptForEver) {
  EventReader reader;
  const std::string piece(1 << 20, 'x');
  int pieces = 0;
  while (reader.feed(piece, [](const StreamEvent&) { return true; })) ASSERT_LT(++pieces, 17);
  EXPECT_TRUE(reader.too_large());
}

}  // namespace
}  // namespace ration::http
