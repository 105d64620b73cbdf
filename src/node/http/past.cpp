// Serves paths about the past: events, series, recommendations. The worker's thread queries the database.
#include <fmt/format.h>

#include <charconv>
#include <ctime>

#include "base/strings.hpp"
#include "base/time.hpp"
#include "http/problem.hpp"
#include "machine/user_names.hpp"
#include "node/events/causes.hpp"
#include "node/http/api.hpp"

namespace ration::node {
namespace {

using history::Reader;
using history::TimeMs;
using http::Request;
using http::Responder;
using http::Response;
using nlohmann::json;

Result<std::int64_t> number(const Request& request, const std::string& name, std::int64_t standard, std::int64_t most) {
  const std::string* text = request.parameter(name);
  if (text == nullptr || text->empty()) return standard;
  std::int64_t value = 0;
  const auto read = std::from_chars(text->data(), text->data() + text->size(), value);
  if (read.ec != std::errc{} || read.ptr != text->data() + text->size() || value < 0 || value > most)
    return bad_parameter(name, *text, fmt::format("{}=0 to {}", name, most));
  return value;
}

/// Parses a time: `2026-01-14T12:03:58Z`, `2026-01-14`, `-6h` (before now) or `now`.
Result<TimeMs> moment(const Request& request, const std::string& name, TimeMs standard) {
  const std::string* text = request.parameter(name);
  if (text == nullptr || text->empty()) return standard;
  if (*text == "now") return history::now_ms();
  if (text->front() == '-') {
    const auto span = config::parse_span(text->substr(1));
    if (!span) return bad_parameter(name, *text, name + "=-6h, or 2026-01-14T12:00:00Z");
    return history::now_ms() - std::chrono::duration_cast<std::chrono::milliseconds>(*span).count();
  }
  const auto time = parse_time(*text);
  if (!time) return bad_parameter(name, *text, name + "=-6h, or 2026-01-14T12:00:00Z");
  return *time;
}

std::vector<std::string> words(const std::string* text) {
  std::vector<std::string> list;
  if (text == nullptr) return list;
  for (const std::string_view part : split(*text, ','))
    if (!part.empty()) list.emplace_back(part);
  return list;
}

json values(const std::vector<std::optional<std::int64_t>>& numbers) {
  json list = json::array();
  for (const auto& number : numbers) list.push_back(number ? json(*number) : json(nullptr));
  return list;
}

json gaps_json(const std::vector<history::Gap>& gaps) {
  json list = json::array();
  for (const auto& gap : gaps) list.push_back({{"from", history::rfc3339(gap.from)}, {"to", history::rfc3339(gap.to)}});
  return list;
}

/// Renders a series. With `bare`, names each line by the workload without its tenant, because only one workload is
/// requested.
json series_json(const history::Series& series, const json& gpu, const std::string& by, bool bare) {
  const auto name_of = [bare](const std::string& name) { return bare ? name.substr(name.rfind('/') + 1) : name; };
  json lines = json::array(), limits = json::array(), denials = json::array();
  for (const auto& line : series.lines) {
    lines.push_back(
        {{"name", name_of(line.name)}, {"maximum", values(line.maximum)}, {"average", values(line.average)}});
    limits.push_back({{"name", name_of(line.name)}, {"values", values(line.limit)}});
  }
  for (const auto& mark : series.denials)
    denials.push_back({{"time", history::rfc3339(mark.time)}, {"event", mark.event}, {"name", name_of(mark.name)}});
  return {{"metric", "used_bytes"},
          {"by", by},
          {"gpu", gpu},
          {"from", history::rfc3339(series.from)},
          {"to", history::rfc3339(series.to)},
          {"step_seconds", static_cast<double>(series.step) / history::kSecondMs},
          {"lines", lines},
          {"limits", limits},
          {"denials", denials},
          {"gaps", gaps_json(series.gaps)},
          {"capacity_bytes", series.capacity}};
}

Result<std::int64_t> event_number(const std::string& text) {
  std::int64_t id = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), id);
  if (read.ec == std::errc{} && read.ptr == text.data() + text.size()) return id;
  return fail("E1527", fmt::format("'{}' is not the number of an event.", text), "ration events", 2);
}

Result<history::EventQuestion> event_question(const Request& request) {
  history::EventQuestion question;
  RATION_TRY(question.since, number(request, "since", 0, std::numeric_limits<std::int64_t>::max()));
  RATION_TRY(question.limit, number(request, "limit", 200, 10'000));
  question.types = words(request.parameter("type"));
  if (const std::string* workload = request.parameter("workload"); workload != nullptr) question.workload = *workload;
  return question;
}

/// A question for a series, with the parts of the request that the answer repeats.
struct SeriesRequest {
  history::SeriesQuestion question;
  std::string by = "tenant";
  json gpu = nullptr;      ///< index of the GPU; null for every GPU
  bool is_of_one = false;  ///< true if one workload is requested, and lines have its bare name
};

Result<SeriesRequest> series_request(const Request& request, const Engine& engine) {
  SeriesRequest asked;
  history::SeriesQuestion& question = asked.question;
  RATION_TRY(question.from, moment(request, "from", history::now_ms() - history::kHourMs));
  RATION_TRY(question.to, moment(request, "to", history::now_ms()));
  RATION_TRY(question.points, number(request, "points", 600, 5'000));
  if (question.points == 0) return bad_parameter("points", "0", "points=1 to 5000");
  if (const std::string* metric = request.parameter("metric"); metric != nullptr && *metric != "used_bytes")
    return bad_parameter("metric", *metric, "metric=used_bytes");
  using By = history::SeriesQuestion::By;
  static const std::map<std::string, By> kinds{
      {"tenant", By::kTenant}, {"workload", By::kWorkload}, {"device", By::kDevice}};
  if (const std::string* by = request.parameter("by"); by != nullptr) asked.by = *by;
  const auto kind = kinds.find(asked.by);
  if (kind == kinds.end()) return bad_parameter("by", asked.by, "by=tenant, by=workload or by=device");
  question.by = kind->second;
  if (const std::string* name = request.parameter("name"); name != nullptr) question.name = *name;
  if (const std::string* name = request.parameter("workload"); name != nullptr) {
    asked.is_of_one = true;
    question.by = By::kWorkload;
    const auto running = engine.registry().named(*name);
    question.name = running ? (*running)->book.tenant + "/" + (*running)->book.name : *name;
  }
  const std::string* wanted = request.parameter("gpu");
  if (wanted == nullptr || wanted->empty()) return asked;
  for (const DeviceView& device : engine.snapshot().devices) {
    if (!device.device.is_named(*wanted)) continue;
    question.uuid = device.device.uuid;
    asked.gpu = device.device.index;
  }
  if (question.uuid.empty()) return fail("E1407", fmt::format("there is no GPU '{}'.", *wanted), "ration ps", 3);
  return asked;
}

}  // namespace

void Api::install_past() {
  server_.route_deferred("GET", "/api/v1/events", [this](const Request& request, const Responder& responder) {
    host_.tick_if_stale();  // so that the latest events are in the answer
    const auto question = event_question(request);
    if (!question) return responder.fail(question.error());
    ask_history(responder, "events",
                [question = *question, viewer = viewer_of(request.peer)](Reader& reader) -> Result<json> {
                  RATION_TRY(const auto events, reader.events(question));
                  json rows = json::array();
                  for (const auto& event : events) rows.push_back(event_json(event, may_see_details(event, viewer)));
                  return rows;
                });
  });

  server_.route_deferred("GET", "/api/v1/events/{id}", [this](const Request& request, const Responder& responder) {
    const auto id = event_number(request.captures.at("id"));
    if (!id) return responder.fail(id.error());
    ask_history(responder, "event", [id = *id, viewer = viewer_of(request.peer)](Reader& reader) -> Result<json> {
      RATION_TRY(const auto event, reader.event(id));
      return event_json(event, may_see_details(event, viewer));
    });
  });

  server_.route_deferred("GET", "/api/v1/events/{id}/why", [this](const Request& request, const Responder& responder) {
    const auto id = event_number(request.captures.at("id"));
    if (!id) return responder.fail(id.error());
    ask_history(responder, "event_why", [id = *id, viewer = viewer_of(request.peer)](Reader& reader) -> Result<json> {
      RATION_TRY(const auto event, reader.event(id));
      RATION_TRY(const auto causes, causes_of(reader, event));
      json row = event_json(event, may_see_details(event, viewer));
      json before = json::array();
      for (const auto& each : causes) before.push_back(event_json(each, may_see_details(each, viewer)));
      row["before"] = std::move(before);
      address_fix(row, event, viewer);
      return row;
    });
  });

  server_.route_deferred("GET", "/api/v1/denials/{id}", [this](const Request& request, const Responder& responder) {
    host_.tick_if_stale();
    const std::string asker = request.peer.uid ? machine::user_name(*request.peer.uid) : "";
    ask_history(
        responder, "why",
        [id = request.captures.at("id"), viewer = viewer_of(request.peer),
         fix = host_.engine().subjects().limits.denials.fix_now(host_.moment(), request.captures.at("id"), asker),
         asker](Reader& reader) -> Result<json> {
          RATION_TRY(const auto event, reader.denial(id, asker));
          if (!may_see_details(event, viewer))
            return fail("E1502", fmt::format("denial {} belongs to {}.", id, event.user),
                        "Ask root or a member of group ration.", 5);
          // While the workload runs, shows the command that helps now, not the one that helped at the time of the
          // denial.
          return denial_json(event, viewer, event.user == asker ? fix : "");
        });
  });

  server_.route_deferred("GET", "/api/v1/series", [this](const Request& request, const Responder& responder) {
    auto asked = series_request(request, host_.engine());
    if (!asked) return responder.fail(asked.error());
    ask_history(responder, "series", [asked = *std::move(asked)](Reader& reader) -> Result<json> {
      RATION_TRY(const auto series, reader.series(asked.question));
      return series_json(series, asked.gpu, asked.by, asked.is_of_one);
    });
  });

  server_.route_deferred("GET", "/api/v1/recommendations/{workload}",
                         [this](const Request& request, const Responder& responder) {
                           history::RecommendQuestion question;
                           question.workload = request.captures.at("workload");
                           question.now = history::now_ms();
                           ask_history(responder, "recommend", [question](Reader& reader) -> Result<json> {
                             RATION_TRY(const auto found, reader.recommend(question));
                             return history::to_json(found, question.now);
                           });
                         });
}

}  // namespace ration::node
