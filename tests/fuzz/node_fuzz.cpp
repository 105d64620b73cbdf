// The description of a simulated node: any text at all.
#include <cstdint>
#include <string>

#include "sim/node.hpp"
#include "sim/node_spec.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  if (text.ends_with(".toml")) return 0;  // would name a file
  ration::sim::NodeSpec spec;
  std::string problem;
  const bool good = ration::sim::read_node(text, spec, problem);
  if (good ? spec.devices.empty() || spec.devices.size() > ration::sim::kMaxDevices : problem.empty()) __builtin_trap();
  return 0;
}
