// The formats of other programs that a recording can be written in, one a file. Used by `ration export`. Promises: what
// is held at each moment, and at the peak, is what the recording has, to the byte; names that programs chose are valid
// UTF-8 in every format; memory is that of the live blocks, however long the recording is, unless a format says
// otherwise.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "trace/event.hpp"

namespace ration::trace {

struct Exporter {
  const char* name;
  const char* ending;  ///< of the file's name, with the dot
  const char* opened_by;
  /// Writes the recording. The stream's state says whether that succeeded.
  void (*write)(const Recording& recording, std::ostream& out);
};

/// Returns all of them, in the order of the help.
[[nodiscard]] const std::vector<Exporter>& exporters();
/// Returns the one with that name, or null.
[[nodiscard]] const Exporter* exporter_of(const std::string& name);

void write_xspace(const Recording& recording, std::ostream& out);
void write_perfetto(const Recording& recording, std::ostream& out);
void write_chrome(const Recording& recording, std::ostream& out);
void write_pprof(const Recording& recording, std::ostream& out);
void write_memory_viz(const Recording& recording, std::ostream& out);
void write_heaptrack(const Recording& recording, std::ostream& out);
void write_speedscope(const Recording& recording, std::ostream& out);
void write_html(const Recording& recording, std::ostream& out);
void write_csv(const Recording& recording, std::ostream& out);

}  // namespace ration::trace
