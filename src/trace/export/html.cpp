// Writes one HTML file with the dashboard's page of the recording inside.
#include "trace/view/html.hpp"

#include "trace/export/exporter.hpp"

namespace ration::trace {

void write_html(const Recording& recording, std::ostream& out) {
  const std::string& workload = recording.header().workload;
  write_html_page({&recording, workload.empty() ? "recording" : workload}, {}, std::nullopt, out);
}

}  // namespace ration::trace
