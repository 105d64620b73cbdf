#include "trace/view/html.hpp"

#include <zlib.h>

#include <algorithm>

#include "trace/inspection_json.hpp"
#include "trace/view/recording_page.hpp"
#include "trace/view/view.hpp"

namespace ration::trace {
namespace {

using nlohmann::json;

/// The amount of detail of the page. The levels go from the most detail down to a level that always fits.
struct Level {
  std::size_t columns, listed;
  Detail peak, moment;
};
constexpr Level kLevels[] = {
    {16384, 3000, {2000, 2000, 48, 500, 500}, {300, 300, 32, 0, 0}},
    {8192, 500, {1000, 500, 48, 100, 500}, {150, 100, 16, 0, 0}},
    {2048, 100, {300, 100, 32, 20, 200}, {50, 20, 8, 0, 0}},
    {512, 0, {50, 20, 16, 5, 50}, {20, 5, 2, 0, 0}},
};

/// Returns the uncompressed page.
std::string unpacked(const GzippedPage& page) {
  std::string text(page.size, '\0');
  z_stream stream{};
  constexpr int kGzip = 16 + MAX_WBITS;
  if (::inflateInit2(&stream, kGzip) != Z_OK) return {};
  stream.next_in = const_cast<Bytef*>(page.gzip.data());
  stream.avail_in = static_cast<uInt>(page.gzip.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  const bool is_whole = ::inflate(&stream, Z_FINISH) == Z_STREAM_END;
  ::inflateEnd(&stream);
  return is_whole ? text : std::string();
}

/// Moves the texts of call sites from a document to the list of the whole page.
void take_sites(json& document, json& sites) {
  sites.update(document["sites"]);
  document.erase("sites");
}

/// Returns the name and the view of a recording.
json view_json(const NamedRecording& of, const Level& level) {
  const std::size_t lines = std::max<std::size_t>(1, of.recording->header().devices.size());
  json document{{"name", of.name}, {"sites", json::object()}};
  document["view"] = view_of(*of.recording, {0, kLatest, level.columns / lines + 1, level.listed}, level.peak);
  take_sites(document["view"], document["sites"]);
  return document;
}

json document_of(const NamedRecording& one, const NamedRecording& other, std::optional<std::int64_t> at,
                 const Level& level) {
  json document = view_json(one, level);
  const auto length = static_cast<std::int64_t>(document["view"]["inspection"]["seconds"].get<double>() * 1e9);
  std::vector<std::int64_t> times;
  const auto moments = static_cast<std::int64_t>(level.moment.moments);
  for (std::int64_t number = 1; number <= moments; ++number) times.push_back(length / (moments + 1) * number);
  if (at) times.insert(std::upper_bound(times.begin(), times.end(), *at), *at);
  document["version"] = RATION_VERSION;
  document["at_seconds"] = at ? json(seconds_of(*at)) : json();
  document["peak"] = moment_view(*one.recording, std::nullopt, level.peak);
  document["moments"] = moment_views(*one.recording, times, level.moment);
  document["usage"] = usage_view(*one.recording, {}, level.peak);
  take_sites(document["peak"], document["sites"]);
  for (json& moment : document["moments"]) take_sites(moment, document["sites"]);
  if (other.recording != nullptr) {
    document["other"] = view_json(other, level);
    document["changes"] = changes_view(*one.recording, *other.recording, at);
  }
  return document;
}

/// Returns the document as JSON that cannot end the HTML element around it.
std::string in_html(const json& document) {
  const std::string plain = document.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string text;
  text.reserve(plain.size());
  for (const char each : plain) {
    if (each == '<')
      text += "\\u003c";
    else
      text += each;
  }
  return text;
}

}  // namespace

void write_html_page(const NamedRecording& one, const NamedRecording& other, std::optional<std::int64_t> at,
                     std::ostream& out) {
  constexpr std::string_view kMark = "/*RECORDING*/";
  std::string page = unpacked(recording_page());
  std::string text;
  for (const Level& level : kLevels) {
    text = in_html(document_of(one, other, at, level));
    if (page.size() + text.size() <= kMostOfHtml) break;
  }
  if (const std::size_t mark = page.find(kMark); mark != std::string::npos) page.replace(mark, kMark.size(), text);
  out << page;
}

}  // namespace ration::trace
