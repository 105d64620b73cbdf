// Writes the JSON of speedscope (https://www.speedscope.app/file-format-schema.json): a flame graph of each place at
// its peak, by process and call site.
#include <fmt/format.h>

#include <map>
#include <tuple>

#include "trace/export/exporter.hpp"
#include "trace/export/holdings.hpp"
#include "trace/export/json_text.hpp"
#include "trace/export/names.hpp"

namespace ration::trace {

void write_speedscope(const Recording& recording, std::ostream& out) {
  const Header& header = recording.header();
  std::map<std::tuple<std::string, std::string, int>, std::size_t> numbers;
  std::string frames, profiles;
  const auto number_of = [&](const Frame& frame) {
    const auto [found, is_new] = numbers.try_emplace({frame.function, frame.file, frame.line}, numbers.size());
    if (is_new) {
      frames += fmt::format("{}{{\"name\":{}", frames.empty() ? "" : ",\n", quoted(frame.function));
      if (!frame.file.empty()) frames += fmt::format(",\"file\":{},\"line\":{}", quoted(frame.file), frame.line);
      frames += '}';
    }
    return found->second;
  };
  const std::vector<Peak> peaks = peaks_of(recording);
  for (Place place = 0; place < peaks.size(); ++place) {
    if (peaks[place].bytes == 0) continue;
    std::map<std::vector<std::size_t>, std::uint64_t> stacks;  // bytes by stack, outermost call first
    for (const Holding& holding : held_at(recording, place, peaks[place])) {
      const std::vector<Frame> calls = frames_of(header, holding);
      std::vector<std::size_t> stack;
      for (auto call = calls.rbegin(); call != calls.rend(); ++call) stack.push_back(number_of(*call));
      stacks[stack] += holding.bytes;
    }
    std::string samples, weights;
    for (const auto& [stack, bytes] : stacks) {
      samples += fmt::format("{}[{}]", samples.empty() ? "" : ",", fmt::join(stack, ","));
      weights += fmt::format("{}{}", weights.empty() ? "" : ",", bytes);
    }
    profiles += fmt::format(
        "{}{{\"type\":\"sampled\",\"name\":{},\"unit\":\"bytes\",\"startValue\":0,\"endValue\":{},\n"
        "\"samples\":[{}],\n\"weights\":[{}]}}",
        profiles.empty() ? "" : ",\n", quoted(name_of_place(header, place) + " at its peak"), peaks[place].bytes,
        samples, weights);
  }
  out << "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"ration\",\"name\":"
      << quoted(cleaned(header.workload)) << ",\n\"shared\":{\"frames\":[" << frames << "]},\n\"profiles\":["
      << profiles << "]}\n";
}

}  // namespace ration::trace
