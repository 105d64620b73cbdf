// Writes the overview as JSON and reads it. Rows are numbers in a fixed order without names, as there may be many.
#include <nlohmann/json.hpp>

#include "trace/overview.hpp"

namespace ration::trace {
namespace {

using nlohmann::json;

constexpr const char* kSchema = "ration.recording.overview/1";

/// The error for a number that is too large for any recording, so that sums of such numbers could overflow.
struct BadNumber : std::exception {};

template <typename Number>
Number checked(const json& value, std::uint64_t most) {
  const auto number = value.get<std::uint64_t>();
  if (!value.is_number_unsigned() || number > most) throw BadNumber();
  return static_cast<Number>(number);
}

/// Reads the numbers of a row one after the other.
class Row {
 public:
  Row(const json& row, const Header& header) : row_(row), header_(header) {}

  std::uint64_t number() { return row_.at(next_++).get<std::uint64_t>(); }
  std::int64_t signed_number() { return row_.at(next_++).get<std::int64_t>(); }
  std::int64_t time() { return checked<std::int64_t>(row_.at(next_++), kLatest); }
  std::uint32_t process() { return index<std::uint32_t>(header_.processes.size()); }
  std::uint32_t site() { return index<std::uint32_t>(std::max<std::size_t>(1, header_.sites.size())); }
  Place place() {
    if (row_.at(next_).is_null()) {
      ++next_;
      return {true, 0};
    }
    return {false, index<std::uint16_t>(header_.devices.size())};
  }

 private:
  template <typename Index>
  Index index(std::size_t size) {
    if (size == 0) throw BadNumber();
    return checked<Index>(row_.at(next_++), size - 1);
  }
  const json& row_;
  const Header& header_;
  std::size_t next_ = 0;
};

json number_of(const Place& place) { return place.is_host ? json() : json(place.device); }

template <typename Item, typename Make>
json rows_of(const std::vector<Item>& items, Make&& make) {
  json rows = json::array();
  for (const Item& item : items) rows.push_back(make(item));
  return rows;
}

template <typename Item, typename Make>
void take_rows(const json& rows, const Header& header, std::vector<Item>& out, Make&& make) {
  out.reserve(rows.size());
  for (const json& row : rows) {
    Row numbers(row, header);
    out.push_back(make(numbers));
  }
}

}  // namespace

std::string text_of(const Overview& overview) {
  return json{
      {"schema", kSchema},
      {"events", overview.events},
      {"length_ns", overview.length},
      {"denial_count", overview.denial_count},
      {"places", rows_of(overview.totals,
                         [](const Total& of) {
                           return json{number_of(of.place), of.peak,          of.peak_time,
                                       of.at_end,           of.timeline.span, of.timeline.most};
                         })},
      {"never_freed", rows_of(overview.never_freed,
                              [](const Group& of) {
                                return json{of.process, of.site, of.bytes, of.count, of.first, of.last, of.marks};
                              })},
      {"sizes", rows_of(overview.sizes,
                        [](const SizeClass& of) {
                          return json{of.upto, of.count, of.freed, of.bytes, of.middle_lifetime};
                        })},
      {"asked", rows_of(overview.asked,
                        [](const Asking& of) {
                          return json{of.process, static_cast<std::uint32_t>(of.function), of.times, of.least, of.most};
                        })},
      {"denials",
       rows_of(overview.denials,
               [](const Denial& of) {
                 return json{
                     of.time, static_cast<int>(of.kind), number_of(of.place), of.process, of.site, of.bytes, of.detail,
                     of.held};
               })},
      {"marks", rows_of(overview.marks,
                        [](const Mark& of) {
                          return json{of.time, of.site};
                        })}}
      .dump();
}

std::optional<Overview> parse_overview(std::string_view text, const Header& header) {
  try {
    const json content = json::parse(text);
    if (content.at("schema") != kSchema) return std::nullopt;
    Overview overview;
    overview.events = content.at("events").get<std::uint64_t>();
    overview.length = checked<std::int64_t>(content.at("length_ns"), kLatest);
    overview.denial_count = content.at("denial_count").get<std::uint64_t>();
    for (const json& row : content.at("places")) {
      Row numbers(row, header);
      Total total{numbers.place(), numbers.signed_number(), numbers.time(), numbers.signed_number(), {}};
      total.timeline.span = checked<std::int64_t>(row.at(4), kLatest);
      total.timeline.most = row.at(5).get<std::vector<std::int64_t>>();
      if (total.timeline.span == 0 || total.timeline.most.size() > Timeline::kMostSpans) return std::nullopt;
      overview.totals.push_back(std::move(total));
      if (overview.totals.size() > header.devices.size() + 1) return std::nullopt;
    }
    // C++ evaluates the members of a braced list in order.
    take_rows(content.at("never_freed"), header, overview.never_freed, [](Row& of) {
      return Group{of.process(), of.site(), of.number(), of.number(), of.time(), of.time(), of.number()};
    });
    take_rows(content.at("sizes"), header, overview.sizes, [](Row& of) {
      return SizeClass{of.number(), of.number(), of.number(), of.number(), of.time()};
    });
    take_rows(content.at("asked"), header, overview.asked, [](Row& of) {
      return Asking{of.process(), static_cast<Asked>(of.number()), of.number(), of.number(), of.number()};
    });
    take_rows(content.at("denials"), header, overview.denials, [](Row& of) {
      return Denial{of.time(),   static_cast<Kind>(of.number()),          of.place(),        of.process(), of.site(),
                    of.number(), static_cast<std::uint32_t>(of.number()), of.signed_number()};
    });
    take_rows(content.at("marks"), header, overview.marks, [](Row& of) { return Mark{of.time(), of.site()}; });
    return overview;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace ration::trace
