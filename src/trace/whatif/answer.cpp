#include "trace/whatif/answer.hpp"

#include <fmt/format.h>

#include "base/units.hpp"

namespace ration::trace {

Answers answer(const Recording& recording, const Question& question) {
  Charges charges = add_up(recording, question.limit);
  Answers result;
  result.circumstances = charges.circumstances;
  for (std::size_t device = 0; device < charges.devices.size(); ++device) {
    const DeviceCharges& sums = charges.devices[device];
    Answer row;
    row.allocator = "as recorded";
    row.device = device;
    row.judgement = judge(recording.header(), sums);
    row.smallest = sums.peak;
    row.is_bound = row.judgement.grade == Grade::kUnknown;
    row.denied = sums.denied;
    result.rows.push_back(std::move(row));
  }
  return result;
}

std::vector<std::string> doubts(const Header& header, const Circumstances& circumstances) {
  std::vector<std::string> texts;
  if (circumstances.asked > 0)
    texts.push_back(fmt::format("it asked how much memory there is ({}) and may plan differently under another limit",
                                counted(circumstances.asked, "time")));
  if (circumstances.waited > 0)
    texts.push_back(
        fmt::format("{} waited for memory, which moved what came later", counted(circumstances.waited, "request")));
  if (circumstances.refused > 0)
    texts.push_back(fmt::format("the driver itself refused {}", counted(circumstances.refused, "request")));
  if (!header.complete && header.lost == 0)
    texts.emplace_back("the recording has no end: the program ran on, or was killed");
  return texts;
}

}  // namespace ration::trace
