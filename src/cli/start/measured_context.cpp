#include "cli/start/measured_context.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "cli/start/launch.hpp"

namespace ration::cli {

std::optional<Bytes> measured_context(const Session& session, const machine::Device& device) {
  auto words = with_sim(session, {"measure-context", device.uuid});
  words.insert(words.begin(), companion("ration"));
  const auto done = output_of(words);
  if (done.exit_code != 0) return std::nullopt;
  return Bytes{std::strtoull(done.text.c_str(), nullptr, 10)};
}

Result<int> measure_context(const Session& session, const std::string& uuid) {
  RATION_TRY(const auto folder, session.driver_folder());
  const auto cost = machine::measure_context(folder, uuid);
  if (!cost) return 3;
  fmt::print("{}\n", cost->count());
  return 0;
}

}  // namespace ration::cli
