// Writes the data file of heaptrack (https://github.com/KDE/heaptrack), in the form that heaptrack_interpret writes and
// heaptrack_gui and heaptrack_print read. Numbers are hexadecimal, times are milliseconds, and indices begin at 1,
// except those of allocations, which begin at 0.
#include <fmt/format.h>

#include <map>
#include <tuple>

#include "trace/export/exporter.hpp"
#include "trace/export/holdings.hpp"
#include "trace/export/names.hpp"

namespace ration::trace {
namespace {

class HeaptrackWriter {
 public:
  HeaptrackWriter(const Recording& recording, std::ostream& out) : header_(recording.header()), out_(out) {
    out_ << "v 10400 2\nX " << name_of_process(header_, 0) << "\nI 1000 0\n";
    Holdings holdings(header_);
    read_unended(recording, Ends::kTogether, [&](const Event& event) {
      const auto& changes = holdings.apply(event);
      if (!changes.empty() && event.time / 1'000'000 != time_ms_) {
        time_ms_ = event.time / 1'000'000;
        out_ << fmt::format("c {:x}\n", time_ms_);
      }
      for (const Change& change : changes) {
        if (change.holding.bytes == 0) continue;
        const std::size_t allocation = allocation_of(change.holding);
        out_ << fmt::format("{} {:x}\n", change.came ? '+' : '-', allocation);
      }
      return out_.good();
    });
  }

 private:
  std::size_t string_of(const std::string& text) {
    if (text.empty()) return 0;
    const auto [found, is_new] = strings_.try_emplace(text, strings_.size() + 1);
    if (is_new) out_ << "s " << text << '\n';
    return found->second;
  }

  std::size_t instruction_of(const Frame& frame) {
    const auto [found, is_new] =
        instructions_.try_emplace({frame.function, frame.file, frame.line}, instructions_.size() + 1);
    if (is_new) {
      const std::size_t module = string_of("ration"), function = string_of(frame.function),
                        file = string_of(frame.file);
      out_ << fmt::format("i {:x} {:x} {:x} {:x} {:x}\n", found->second, module, function, file, frame.line);
    }
    return found->second;
  }

  /// Returns the index of the trace of a holding. From the root, a trace has the process, the place, and then the
  /// calls.
  std::size_t trace_of(const Holding& holding) {
    const auto [known, is_unknown] =
        known_.try_emplace({holding.process, holding.place, holding.part, holding.site}, 0);
    if (!is_unknown) return known->second;
    std::vector<Frame> frames = frames_of(header_, holding);
    frames.push_back({name_of_place(header_, holding.place), "", 0});
    std::size_t trace = 0;
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
      const std::size_t instruction = instruction_of(*frame);
      const auto [found, is_new] = traces_.try_emplace({instruction, trace}, traces_.size() + 1);
      if (is_new) out_ << fmt::format("t {:x} {:x}\n", instruction, trace);
      trace = found->second;
    }
    return known->second = trace;
  }

  std::size_t allocation_of(const Holding& holding) {
    const std::size_t trace = trace_of(holding);
    const auto [found, is_new] = allocations_.try_emplace({holding.bytes, trace}, allocations_.size());
    if (is_new) out_ << fmt::format("a {:x} {:x}\n", holding.bytes, trace);
    return found->second;
  }

  const Header& header_;
  std::ostream& out_;
  std::int64_t time_ms_ = -1;
  std::map<std::string, std::size_t> strings_;
  std::map<std::tuple<std::string, std::string, int>, std::size_t> instructions_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> traces_;  // by instruction and parent
  std::map<std::tuple<std::uint32_t, Place, Part, std::uint32_t>, std::size_t> known_;
  std::map<std::pair<std::uint64_t, std::size_t>, std::size_t> allocations_;  // by size and trace
};

}  // namespace

void write_heaptrack(const Recording& recording, std::ostream& out) { HeaptrackWriter(recording, out); }

}  // namespace ration::trace
