// ration-sim-truth prints what the processes on the simulated node (RATION_SIM, RATION_SIM_DIR) truly hold, without any
// driver or book.
//   ration-sim-truth          prints a line for pinned host memory and one for each device and process
//   ration-sim-truth --json
//   {"host":{"bytes":…,"peak_bytes":…,"processes":[{"pid":…,"bytes":…}]},
//    "devices":[{"device":0,"total_bytes":…,"free_bytes":…,"peak_bytes":…,"processes":[{"pid":…,"bytes":…,"context_bytes":…,"host_bytes":…}]}]}
#include <cstdio>
#include <cstring>

#include "node.hpp"

using ration::sim::Node;

namespace {

void print_pinned(const ration::sim::PinnedUse& pinned, bool json) {
  std::printf(json ? "{\"host\":{\"bytes\":%lu,\"peak_bytes\":%lu,\"processes\":[" : "host  pinned %lu  peak %lu\n",
              pinned.all.count(), pinned.peak.count());
  const char* separator = "";
  for (const auto& [pid, bytes] : pinned.processes) {
    if (json)
      std::printf("%s{\"pid\":%d,\"bytes\":%lu}", separator, pid, bytes.count());
    else
      std::printf("  pid %d  pinned %lu\n", pid, bytes.count());
    separator = ",";
  }
  if (json) std::printf("]}");
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
  if (argc > 2 || (argc == 2 && !json)) {
    std::fprintf(stderr, "usage: ration-sim-truth [--json]\n");
    return 2;
  }
  Node* node = Node::get();
  if (node == nullptr) {
    std::fprintf(
        stderr,
        "ration-sim-truth: there is no such node; set RATION_SIM and RATION_SIM_DIR as its programs have them\n");
    return 1;
  }
  print_pinned(node->pinned(), json);
  if (json) std::printf(",\"devices\":[");
  for (int device = 0; device < static_cast<int>(node->models().size()); ++device) {
    const auto use_of_device = node->survey(device);
    const auto total = node->models()[static_cast<std::size_t>(device)].total.count(),
               free = use_of_device.free.count(), peak = use_of_device.peak.count();
    if (json)
      std::printf("%s{\"device\":%d,\"total_bytes\":%lu,\"free_bytes\":%lu,\"peak_bytes\":%lu,\"processes\":[",
                  device > 0 ? "," : "", device, total, free, peak);
    else
      std::printf("device %d  %s  total %lu  free %lu  peak %lu\n", device,
                  node->models()[static_cast<std::size_t>(device)].name.c_str(), total, free, peak);
    const char* separator = "";
    for (const auto& use : use_of_device.processes) {
      if (json)
        std::printf("%s{\"pid\":%d,\"bytes\":%lu,\"context_bytes\":%lu,\"host_bytes\":%lu}", separator, use.pid,
                    use.held.count(), use.contexts.count(), use.on_host.count());
      else
        std::printf("  pid %d  holds %lu  of these contexts %lu  on the host %lu\n", use.pid, use.held.count(),
                    use.contexts.count(), use.on_host.count());
      separator = ",";
    }
    if (json) std::printf("]}");
  }
  if (json) std::printf("]}\n");
  return 0;
}
