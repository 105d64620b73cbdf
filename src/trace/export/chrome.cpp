// Writes the JSON of Chrome's trace viewer (Trace Event Format), which Perfetto opens as well: counters for what each
// place holds, for its limit and for its parts, and events for marks, denials and ranges. For files beyond 50 MB the
// format `perfetto` is better.
#include <fmt/format.h>

#include "trace/export/exporter.hpp"
#include "trace/export/json_text.hpp"
#include "trace/export/moments.hpp"
#include "trace/export/names.hpp"
#include "trace/export/part_sums.hpp"
#include "trace/export/range_threads.hpp"

namespace ration::trace {
namespace {

/// The process that the counters belong to; no process of a program has this number.
constexpr int kWorkload = 0;

class ChromeWriter {
 public:
  ChromeWriter(const Recording& recording, std::ostream& out)
      : header_(recording.header()), out_(out), holdings_(header_), parts_(header_), sums_(header_) {
    out_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    name_process(kWorkload, "workload " + cleaned(header_.workload));
    for (std::uint32_t process = 0; process < header_.processes.size(); ++process)
      name_process(header_.processes[process].pid, name_of_process(header_, process));
    for (Place place = 0; place < places(header_); ++place)
      if (sums_.limit(place)) counter(0, place, "limit", *sums_.limit(place));
    recording.read([&](const Event& event) {
      take(event);
      return out_.good();
    });
    out_ << "\n]}\n";
  }

 private:
  void take(const Event& event) {
    for (const Change& change : holdings_.apply(event)) parts_.apply(change);
    if (const auto place = sums_.apply(event)) {
      if (event.kind == Kind::kLimitChanged && sums_.limit(*place))
        counter(event.time, *place, "limit", *sums_.limit(*place));
      if (event.charged != 0) {
        counter(event.time, *place, "held", sums_.held(*place));
        by_use(event.time, *place);
      }
    }
    if (is_instant(event.kind)) {
      begin("i", event.time, process_of(event), text_of(header_, event));
      out_ << fmt::format(",\"tid\":{},\"s\":\"p\"}}", event.thread);
    } else if (event.kind == Kind::kRangeBegan || event.kind == Kind::kRangeEnded) {
      const auto thread = ranges_.thread_of(event);
      if (!thread) return;
      begin(event.kind == Kind::kRangeBegan ? "B" : "E", event.time, process_of(event), text_of(header_, event.site));
      out_ << fmt::format(",\"tid\":{}}}", *thread);
    }
  }

  void name_process(int pid, const std::string& name) {
    begin("M", 0, pid, "process_name");
    out_ << ",\"args\":{\"name\":" << quoted(name) << "}}";
  }

  void counter(std::int64_t time, Place place, const char* what, std::uint64_t bytes) {
    begin("C", time, kWorkload, name_of_place(header_, place) + ' ' + what);
    out_ << fmt::format(",\"args\":{{\"bytes\":{}}}}}", bytes);
  }

  void by_use(std::int64_t time, Place place) {
    begin("C", time, kWorkload, name_of_place(header_, place) + " by use");
    out_ << ",\"args\":{";
    for (std::size_t part = 0; part < kParts; ++part)
      out_ << (part == 0 ? "" : ",") << quoted(name_of(static_cast<Part>(part))) << ':'
           << parts_.of(place, static_cast<Part>(part));
    out_ << "}}";
  }

  void begin(const char* phase, std::int64_t time, int pid, const std::string& name) {
    out_ << fmt::format("{}{{\"ph\":\"{}\",\"ts\":{}.{:03},\"pid\":{},\"name\":{}", is_first_ ? "" : ",\n", phase,
                        time / 1000, time % 1000, pid, quoted(name));
    is_first_ = false;
  }

  int process_of(const Event& event) const {
    return event.process < header_.processes.size() ? header_.processes[event.process].pid : kWorkload;
  }

  const Header& header_;
  std::ostream& out_;
  Holdings holdings_;
  PartSums parts_;
  Sums sums_;
  RangeThreads ranges_;
  bool is_first_ = true;
};

}  // namespace

void write_chrome(const Recording& recording, std::ostream& out) { ChromeWriter(recording, out); }

}  // namespace ration::trace
