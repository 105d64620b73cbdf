// The configuration file: any bytes at all. What is taken has to be printed as a file that says the same.
#include <cstdint>
#include <string>

#include "config/configuration.hpp"
#include "config/printer.hpp"

using namespace ration::config;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Reading reading = parse_configuration({{"fuzz.toml", std::string(reinterpret_cast<const char*>(data), size)}});
  for (const ration::FileProblem& problem : reading.problems) {
    if (problem.what.empty() || problem.fix.empty() || problem.file.empty()) __builtin_trap();
  }
  if (!reading.problems.empty()) return 0;
  const Reading again = parse_configuration({{"fuzz.toml", printed(reading.configuration)}});
  if (!again.problems.empty() || !difference(reading.configuration, again.configuration).empty()) __builtin_trap();
  return 0;
}
