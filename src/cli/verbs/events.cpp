// `ration events`: prints the events of the node, and with -f further events as they happen.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/command.hpp"
#include "base/command_json.hpp"
#include "base/strings.hpp"
#include "base/time.hpp"
#include "cli/session/node_client.hpp"
#include "cli/verbs/verbs.hpp"
#include "node/events/event.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

void print_event(const Session& session, const json& event) {
  if (session.format() == Format::kJson) {  // one line an event, so that a program can read each as it comes
    json line = event;
    add_command_options(line, command_options(session.context));
    fmt::print("{}\n", one_line(line));
  } else {
    const std::string type = event.at("type");
    const int colour = type == "denied" || type == "violation" || type == "guard_lost" ? 31 : type == "alert" ? 33 : 0;
    fmt::print(
        "{}  {:<6} {}  {}{}\n", event.at("time").get<std::string>(), event.at("id").get<std::int64_t>(),
        colour == 0 ? fmt::format("{:<10}", type) : session.painted(fmt::format("{:<10}", type), colour),
        event.at("text").get<std::string>(),
        event.at("denial").is_string()
            ? session.hint(fmt::format("  ({})", command({"why", std::to_string(event.at("id").get<std::int64_t>())})))
            : "");
  }
  std::fflush(stdout);
}

Result<void> check_types(const std::vector<std::string>& typed) {
  for (const std::string& type : typed) {
    if (node::event_type(type)) continue;
    const std::vector<std::string> known = node::event_type_names();
    return fail("E1001", fmt::format("there is no type of event '{}'.{}", type, suggestion(type, known)),
                fmt::format("ration events --type {}", fmt::join(known, ",")), 2);
  }
  return {};
}

std::string text_in(const json& event, const char* field) {
  return event.at(field).is_string() ? event[field].get<std::string>() : std::string();
}

/// Returns true if the event is about one of the workloads, named by NAME, TENANT/NAME or USER/NAME.
bool is_about(const json& event, const std::vector<std::string>& workloads) {
  if (workloads.empty()) return true;
  const std::string name = text_in(event, "workload");
  if (name.empty()) return false;
  return std::any_of(workloads.begin(), workloads.end(), [&](const std::string& each) {
    return each == name || each == text_in(event, "tenant") + "/" + name || each == text_in(event, "user") + "/" + name;
  });
}

bool wanted(const EventsOptions& options, const json& event) {
  const auto matches = [&](const std::vector<std::string>& list, const char* field) {
    return list.empty() || (event.at(field).is_string() &&
                            std::find(list.begin(), list.end(), event[field].get<std::string>()) != list.end());
  };
  return matches(options.types, "type") && matches(options.tenants, "tenant") && is_about(event, options.workloads);
}

struct Since {
  std::int64_t number = 0;  ///< number of the last event to leave out
  std::string time;         ///< earliest time, in the form that events have; empty for any
};

/// Parses the number of an event, or a time before now such as 10m. Fails with E1106.
Result<Since> since_of(const std::string& text) {
  Since since;
  if (text.empty()) return since;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, since.number);
  if (read.ec == std::errc{} && read.ptr == end && since.number >= 0) return since;
  since.number = 0;
  RATION_TRY(const auto ago, parse_duration(text));
  const std::uint64_t now = unix_time_ns();
  since.time = utc(now - std::min(now, ago));
  return since;
}

}  // namespace

Result<int> events(const Session& session, const EventsOptions& options) {
  RATION_TRY(check_types(options.types));
  RATION_TRY(auto daemon, NodeClient::require(session));
  RATION_TRY(const auto since, since_of(options.since));
  const int lines = options.lines.value_or(since.time.empty() ? 50 : 10'000);
  std::string query = fmt::format("/api/v1/events?limit={}", lines);
  if (since.number > 0) query += fmt::format("&since={}", since.number);
  if (!options.types.empty()) query += "&type=" + percent_encoded(fmt::format("{}", fmt::join(options.types, ",")));
  // If the query names one workload, the daemon also finds events older than the newest events of all workloads.
  if (options.workloads.size() == 1)
    query += "&workload=" + percent_encoded(options.workloads.front().substr(options.workloads.front().rfind('/') + 1));
  RATION_TRY(auto past, daemon.get(query));
  std::erase_if(past.get_ref<json::array_t&>(),
                [&](const json& event) { return event.at("time").get<std::string>() < since.time; });
  std::int64_t last = since.number;
  if (session.format() == Format::kJson && !options.follow) {
    json rows = json::array();
    for (const json& event : past)
      if (wanted(options, event)) rows.push_back(event);
    session.print_json("events", rows, {{"source", "daemon"}});
    return 0;
  }
  // Numbers follow the order in which the daemon learnt of the events: after a restart, it learns of earlier ones.
  std::stable_sort(past.begin(), past.end(),
                   [](const json& a, const json& b) { return text_in(a, "time") < text_in(b, "time"); });
  for (const json& event : past) {
    last = std::max(last, event.at("id").get<std::int64_t>());
    if (wanted(options, event)) print_event(session, event);
  }
  if (!options.follow) return 0;
  const auto take = [&](const http::StreamEvent& received) {
    const json event = json::parse(received.data, nullptr, false);
    if (received.name == "event" && event.is_object()) last = std::max(last, event.value("id", std::int64_t{0}));
    if (received.name == "event" && event.is_object() && wanted(options, event)) print_event(session, event);
    if (received.name == "gap")
      fmt::print(stderr, "ration: events {} to {} are too old for -f; to show these events: {}\n",
                 event.value("from", 0), event.value("to", 0),
                 session.hint(command({"events", "--since", std::to_string(event.value("from", 1) - 1)})));
    return std::ferror(stdout) == 0;
  };
  for (bool announced = false;;) {
    const auto followed = daemon.stream(
        fmt::format("/api/v1/stream?topics=events{}", last > 0 ? fmt::format("&last_event_id={}", last) : ""),
        [&](const http::StreamEvent& received) {
          announced = false;
          return take(received);
        });
    if (std::ferror(stdout) != 0) return 0;
    const bool gone = followed || followed.error().id == "E1501" || followed.error().id == "E1508";
    if (!gone) return tl::unexpected(followed.error());
    if (!std::exchange(announced, true)) fmt::print(stderr, "ration: the daemon ended; waiting for its next start\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

}  // namespace ration::cli
