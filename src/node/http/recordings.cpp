// Serves the list of recordings, and the views of a recording that the dashboard shows. A separate thread reads
// recordings, so that a long file delays no question about the past.
#include <fmt/format.h>

#include <cmath>

#include "base/strings.hpp"
#include "base/time.hpp"
#include "machine/user_names.hpp"
#include "node/http/api.hpp"
#include "node/http/recording_folder.hpp"
#include "trace/view/bounded_recording.hpp"
#include "trace/view/view.hpp"

namespace ration::node {
namespace {

using http::Request;
using http::Responder;
using nlohmann::json;
using trace::PackedRecording;

/// The most events that are read for one answer. Each live block takes about 80 bytes of memory meanwhile.
constexpr std::uint64_t kMostEvents = 16'000'000;
constexpr std::uint64_t kMostColumns = 4096;
constexpr std::size_t kMostListedEvents = 500;
constexpr int kUnreadable = 422;

/// Parses a time given in seconds since the recording began. Returns nanoseconds.
Result<std::optional<std::int64_t>> seconds_parameter(const Request& request, const std::string& name) {
  const std::string* text = request.parameter(name);
  if (text == nullptr || text->empty()) return std::optional<std::int64_t>();
  const auto seconds = parse_number<double>(*text);
  constexpr double kMost = static_cast<double>(trace::kLatest) / 1e9;
  if (!seconds || !(*seconds >= 0 && *seconds <= kMost)) return bad_parameter(name, *text, name + "=0.25 (seconds)");
  return std::optional(static_cast<std::int64_t>(std::llround(*seconds * 1e9)));
}

Result<trace::Range> range_of(const Request& request) {
  trace::Range range;
  range.most_listed = kMostListedEvents;
  RATION_TRY(const auto from, seconds_parameter(request, "from"));
  RATION_TRY(const auto to, seconds_parameter(request, "to"));
  range.from = from.value_or(0);
  range.to = to.value_or(trace::kLatest);
  if (range.to < range.from) return bad_parameter("to", *request.parameter("to"), "to=1.5, later than from");
  const std::string* columns = request.parameter("columns");
  if (columns == nullptr || columns->empty()) return range;
  const auto number = parse_number<std::uint64_t>(*columns);
  if (!number || *number == 0 || *number > kMostColumns)
    return bad_parameter("columns", *columns, fmt::format("columns=1 to {}", kMostColumns));
  range.columns = *number;
  return range;
}

json list_json(const std::vector<RecordingFolder::Entry>& entries, const std::string& folder) {
  json rows = json::array();
  for (const RecordingFolder::Entry& entry : entries)
    rows.push_back({{"name", entry.name},
                    {"bytes", entry.bytes},
                    {"modified", utc(static_cast<std::uint64_t>(std::max<std::int64_t>(0, entry.modified)))},
                    {"user", machine::user_name(entry.owner)}});
  return {{"recordings", std::move(rows)}, {"folder", folder}};
}

/// A function that makes an answer from the recording that the request names.
using Answering = std::function<json(const trace::Recording&)>;

}  // namespace

void Api::install_recordings() {
  const RecordingFolder folder(host_.engine().options().state_folder);
  const auto later = [this](const Responder& responder, std::function<Result<http::Response>()> make) {
    const auto job = [responder, make = std::move(make)] {
      auto response = make();
      if (response) return responder.respond(std::move(*response));
      const bool is_unreadable = response.error().id == "E1811" || response.error().id == "E1816";
      responder.fail(response.error(), is_unreadable ? kUnreadable : 0);
    };
    if (!recording_worker_.post(job))
      responder.fail(
          {"E1517", "too many requests for recordings are already waiting.", "Try again in a few seconds.", 1}, 503);
  };
  // Answers with what `make` returns for the recording, and rejects a recording with too many blocks at one moment.
  const auto answer_from = [this, folder, later](const Request& request, const Responder& responder, const char* schema,
                                                 Answering make) {
    later(responder,
          [this, folder, schema, make = std::move(make), name = request.captures.at("name"),
           viewer = viewer_of(request.peer)]() -> Result<http::Response> {
            RATION_TRY(const auto recording, folder.open(name, viewer));
            const trace::BoundedRecording bounded(*recording, kMostEvents);
            const json document = make(bounded);
            if (bounded.is_exceeded())
              return fail("E1811", fmt::format("{} has too many blocks at one moment for the daemon to read it.", name),
                          fmt::format("ration inspect {}/{}", folder.path(), name));
            return answer(schema, document);
          });
  };

  server_.route_deferred("GET", "/api/v1/recordings", [=, this](const Request& request, const Responder& responder) {
    later(responder, [this, folder, viewer = viewer_of(request.peer)]() -> Result<http::Response> {
      return answer("recordings", list_json(folder.list(viewer), folder.path()));
    });
  });
  server_.route_deferred("GET", "/api/v1/recordings/{name}", [=](const Request& request, const Responder& responder) {
    const auto range = range_of(request);
    if (!range) return responder.fail(range.error());
    answer_from(request, responder, "recording",
                [range = *range](const trace::Recording& recording) { return trace::view_of(recording, range); });
  });
  server_.route_deferred(
      "GET", "/api/v1/recordings/{name}/moment", [=](const Request& request, const Responder& responder) {
        const auto at = seconds_parameter(request, "at");
        if (!at) return responder.fail(at.error());
        answer_from(request, responder, "recording_moment",
                    [at = *at](const trace::Recording& recording) { return trace::moment_view(recording, at); });
      });
  server_.route_deferred(
      "GET", "/api/v1/recordings/{name}/usage", [=](const Request& request, const Responder& responder) {
        const auto range = range_of(request);
        if (!range) return responder.fail(range.error());
        answer_from(request, responder, "recording_usage", [range = *range](const trace::Recording& recording) {
          return trace::usage_view(recording, range);
        });
      });
  server_.route_deferred(
      "GET", "/api/v1/recordings/{name}/changes", [=, this](const Request& request, const Responder& responder) {
        const std::string* other = request.parameter("to");
        later(responder,
              [this, folder, name = request.captures.at("name"), other = other == nullptr ? "" : *other,
               viewer = viewer_of(request.peer)]() -> Result<http::Response> {
                RATION_TRY(const auto before, folder.open(name, viewer));
                RATION_TRY(const auto after, folder.open(other, viewer));
                const trace::BoundedRecording old(*before, kMostEvents), now(*after, kMostEvents);
                const json changes = trace::changes_view(old, now);
                if (old.is_exceeded() || now.is_exceeded())
                  return fail(
                      "E1811",
                      fmt::format("{} or {} has too many blocks at one moment for the daemon to read it.", name, other),
                      fmt::format("ration inspect {0}/{1} --diff {0}/{2}", folder.path(), name, other));
                return answer("recording_changes", changes);
              });
      });
}

}  // namespace ration::node
