#include "trace/export/exporter.hpp"

namespace ration::trace {

const std::vector<Exporter>& exporters() {
  static const std::vector<Exporter> all{
      {"xspace", ".xplane.pb", "TensorBoard's profile plugin, page memory_profile", write_xspace},
      {"perfetto", ".pftrace", "ui.perfetto.dev", write_perfetto},
      {"chrome", ".trace.json", "chrome://tracing, ui.perfetto.dev", write_chrome},
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
