// What clients send to the daemon, and what a daemon sends to the command line: any bytes at all.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "http/access.hpp"
#include "http/event_reader.hpp"
#include "http/grammar.hpp"
#include "http/parser.hpp"
#include "http/router.hpp"
#include "http/stream.hpp"

namespace {

using namespace ration::http;

void require(bool holds) {
  if (!holds) __builtin_trap();
}

constexpr ParseLimits kLimits{.head_bytes = 400, .headers = 8, .body_bytes = 64};

struct Outcome {
  RequestParser::State state;
  int status;
  std::size_t taken;
  std::string text;
  bool operator==(const Outcome&) const = default;
};

Outcome parse(std::string_view bytes, std::size_t piece) {
  RequestParser parser(kLimits);
  std::size_t taken = 0;
  const auto open = [&] {
    return parser.state() == RequestParser::State::kHead || parser.state() == RequestParser::State::kBody;
  };
  while (taken < bytes.size() && open()) taken += parser.feed(bytes.substr(taken, piece));
  if (parser.state() == RequestParser::State::kFailed) {
    require(parser.failure().status >= 400 && !parser.failure().error.what.empty());
    // How much of it was looked at before it failed is nobody's concern, nor which of its faults was met first: the
    // name of a header comes in one piece or in several, so one header too many is seen before or after a letter that
    // is none.
    return {parser.state(), 0, 0, {}};
  }
  if (parser.state() != RequestParser::State::kComplete) return {parser.state(), 0, taken, {}};
  Outcome outcome{parser.state(), 0, taken, parser.method() + " " + parser.target()};
  require(parser.headers().lines().size() <= kLimits.headers);
  for (const auto& [name, value] : parser.headers().lines()) outcome.text += "\n" + name + "=" + value;
  const std::string body = parser.take_body();
  require(body.size() <= kLimits.body_bytes);
  outcome.text += "\n" + body;
  return outcome;
}

void request(std::string_view bytes) {
  const Outcome whole = parse(bytes, bytes.size());
  require(parse(bytes, 1) == whole);
  require(parse(bytes, 7) == whole);
  if (whole.state != RequestParser::State::kComplete) return;

  RequestParser parser(kLimits);
  parser.feed(bytes);
  const auto target = parse_target(parser.target());
  if (!target) return;
  require(target->path.front() == '/' && target->query.size() <= kMaxParameters);
  static const Router kRouter = [] {
    Router router;
    for (const char* pattern : {"/{file...}", "/api/v1/workloads", "/api/v1/workloads/{name}",
                                "/api/v1/workloads/{name}/explain", "/api/v1/reports/periods/{period}:close"})
      router.add("GET", pattern);
    return router;
  }();
  const auto found = kRouter.find("GET", target->path);
  require(found.route.has_value());
  for (const auto& [name, value] : found.captures) require(value.find('\0') == std::string::npos);

  Request asked{parser.method(), target->path, target->query, found.captures, parser.headers(), parser.take_body(), {}};
  asked.peer.kind = Peer::Kind::kTcp;
  asked.peer.local_address = "10.0.0.1";
  const auto refusal = refused(asked, {{"gpu"}, "0123456789abcdef"}, true);
  const auto host = host_name(asked.headers.get("host"));
  const bool ours =
      host && (*host == "gpu" || *host == "localhost" || *host == "127.0.0.1" || *host == "::1" || *host == "10.0.0.1");
  require(ours || (refusal && refusal->status == 421));
  require(!asked.peer.token_accepted || !refusal);
}

void small_texts(std::string_view text) {
  if (const auto decoded = percent_decode(text))
    require(decoded->size() <= text.size() && decoded->find('\0') == std::string::npos);
  if (const auto number = parse_number(text)) require(parse_number(std::to_string(*number)) == number);
  const std::size_t half = text.size() / 2;
  const std::string_view left = text.substr(0, half), right = text.substr(half);
  if (same_origin(left, right)) require(host_name(right).has_value());
  require(same_secret(left, right) == (left == right));
  (void)accepts_gzip(text);
  (void)accepts_identity(text);
  (void)tag_matches(left, right);
  (void)bearer_token(text);
  require(media_type(text).size() <= text.size());
}

std::vector<std::string> read_events(std::string_view bytes, std::size_t piece) {
  EventReader reader;
  std::vector<std::string> events;
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    reader.feed(bytes.substr(at, piece), [&](const StreamEvent& event) {
      events.push_back(event.name + "\n" + event.id + "\n" + event.data);
      return true;
    });
  return events;
}

void events(std::string_view bytes) {
  require(read_events(bytes, bytes.size() + 1) == read_events(bytes, 1));
  // Whatever is published arrives as one event, its line breaks as line breaks.
  const std::size_t half = bytes.size() / 2;
  const std::string_view name = bytes.substr(0, half), data = bytes.substr(half);
  const auto read = read_events(event_text(name, data, 5), 3);
  require(read.size() == 1);
  require(read.front().substr(read.front().find("\n5\n") + 3).size() <= data.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      request(bytes);
      break;
    case 1:
      small_texts(bytes);
      break;
    default:
      events(bytes);
  }
  return 0;
}
