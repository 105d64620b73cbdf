// The formats of other programs to which a recording can be exported; each has its own source file. Used by `ration
// export`. Promises: the bytes held at each moment, and at the peak, are exactly those of the recording; names that
// programs chose are valid UTF-8 in every format; unless a format says otherwise, an export needs memory for the live
// blocks only, however long the recording is.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "trace/event.hpp"

namespace ration::trace {

struct Exporter {
  const char* name;
  const char* ending;  ///< ending of the file's name, with the dot
  const char* opened_by;
  /// Writes the recording. The stream's state shows whether the export succeeded.
  void (*write)(const Recording& recording, std::ostream& out);
};

/// Returns all formats, in the order of the help text.
[[nodiscard]] const std::vector<Exporter>& exporters();
/// Returns the format with that name, or null.
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
