// Writes a profile for pprof (https://github.com/google/pprof, proto/profile.proto), gzipped: the bytes that each call
// site holds at the peak of its place and at the end, and all bytes that it ever requested.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "trace/export/exporter.hpp"
#include "trace/export/holdings.hpp"
#include "trace/export/names.hpp"
#include "trace/export/protobuf.hpp"

namespace ration::trace {
namespace {

enum Value { kPeakBytes, kPeakCount, kEndBytes, kEndCount, kAllBytes, kAllCount, kValues };
constexpr std::pair<const char*, const char*> kTypes[kValues] = {
    {"peak_space", "bytes"},    {"peak_objects", "count"}, {"inuse_space", "bytes"},
    {"inuse_objects", "count"}, {"alloc_space", "bytes"},  {"alloc_objects", "count"},
};

/// The key of a sample, which stands for the holdings of one place, process, part and call site.
using Sample = std::tuple<Place, std::uint32_t, Part, std::uint32_t>;
Sample sample_of(const Holding& holding) { return {holding.place, holding.process, holding.part, holding.site}; }

std::string gzipped(const std::string& text) {
  z_stream stream{};
  constexpr int kGzip = 15 + 16;
  if (::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK) return text;
  std::string packed(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ::deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

/// The tables of a profile. Their entries refer to each other by number.
class Tables {
 public:
  std::uint64_t text(const std::string& text) {
    const auto [found, is_new] = texts_.try_emplace(text, texts_.size());
    if (is_new) strings_.text(6, text);
    return found->second;
  }
  std::uint64_t location(const Frame& frame) {
    const auto [found, is_new] =
        locations_.try_emplace({frame.function, frame.file, frame.line}, locations_.size() + 1);
    if (is_new) {
      const std::uint64_t number = found->second, name = text(frame.function), file = text(frame.file);
      rest_.message(5, Message{}.number(1, number).number(2, name).number(3, name).number(4, file));
      const Message line = Message{}.number(1, number).number(2, frame.line);
      rest_.message(4, Message{}.number(1, number).number(2, 1).message(4, line));
    }
    return found->second;
  }
  [[nodiscard]] std::string bytes() const { return rest_.bytes() + strings_.bytes(); }

 private:
  std::map<std::string, std::uint64_t> texts_;
  std::map<std::tuple<std::string, std::string, int>, std::uint64_t> locations_;
  Message strings_, rest_;
};

}  // namespace

void write_pprof(const Recording& recording, std::ostream& out) {
  const Header& header = recording.header();
  std::map<Sample, std::array<std::uint64_t, kValues>> samples;
  const auto count = [&](const Holding& holding, Value bytes, std::uint64_t size) {
    auto& values = samples[sample_of(holding)];
    values[bytes] += size;
    values[bytes + 1] += 1;
  };
  const std::vector<Peak> peaks = peaks_of(recording);
  for (Place place = 0; place < peaks.size(); ++place)
    for (const Holding& holding : held_at(recording, place, peaks[place])) count(holding, kPeakBytes, holding.bytes);
  Holdings holdings(header);
  std::int64_t last = 0;
  std::uint64_t newest = 0;  // the highest number of a block so far
  read_unended(recording, Ends::kEach, [&](const Event& event) {
    last = std::max(last, event.time);
    for (const auto& [holding, came] : holdings.apply(event)) {
      if (!came || holding.part != Part::kBlock || holding.id <= newest) continue;
      newest = holding.id;
      count(holding, kAllBytes, holding.requested);
    }
    return true;
  });
  for (const Holding& holding : holdings.live()) count(holding, kEndBytes, holding.bytes);

  Tables tables;
  (void)tables.text("");
  Message profile;
  for (const auto& [type, unit] : kTypes)
    profile.message(1, Message{}.number(1, tables.text(type)).number(2, tables.text(unit)));
  for (const auto& [sample, values] : samples) {
    Holding holding;
    std::tie(holding.place, holding.process, holding.part, holding.site) = sample;
    Message of_sample;
    for (const Frame& frame : frames_of(header, holding)) of_sample.number(1, tables.location(frame));
    for (const std::uint64_t value : values) of_sample.number(2, value);
    const std::uint64_t place = tables.text(name_of_place(header, holding.place));
    of_sample.message(3, Message{}.number(1, tables.text("place")).number(2, place));
    profile.message(2, of_sample);
  }
  const Message mapping =
      Message{}.number(1, 1).number(5, tables.text(cleaned(header.workload))).number(7, 1).number(8, 1).number(9, 1);
  profile.message(3, mapping);
  profile.number(9, header.began).number(10, last).number(14, tables.text(kTypes[kPeakBytes].first));
  out << gzipped(profile.bytes() + tables.bytes());
}

}  // namespace ration::trace
