#include "trace/export/exporter.hpp"

namespace ration::trace {

const std::vector<Exporter>& exporters() {
  static const std::vector<Exporter> all{
      {"xspace", ".xplane.pb", "TensorBoard's profile plugin, page memory_profile", write_xspace},
      {"perfetto", ".pftrace", "ui.perfetto.dev", write_perfetto},
      {"chrome", ".trace.json", "chrome://tracing, ui.perfetto.dev", write_chrome},
      {"pprof", ".pb.gz", "go tool pprof", write_pprof},
      {"memory_viz", ".pickle", "pytorch.org/memory_viz", write_memory_viz},
      {"heaptrack", ".heaptrack", "heaptrack_gui, heaptrack_print", write_heaptrack},
      {"speedscope", ".speedscope.json", "speedscope.app", write_speedscope},
      {"html", ".html", "any browser, without a network", write_html},
      {"csv", ".csv", "spreadsheets, pandas, ration", write_csv},
  };
  return all;
}

const Exporter* exporter_of(const std::string& name) {
  for (const Exporter& each : exporters())
    if (each.name == name) return &each;
  return nullptr;
}

}  // namespace ration::trace
