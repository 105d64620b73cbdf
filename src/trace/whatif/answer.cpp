#include "trace/whatif/answer.hpp"

#include <fmt/format.h>

#include "base/units.hpp"
#include "trace/whatif/replay.hpp"

namespace ration::trace {

namespace {

/// Returns the row of a device under another allocator.
Answer try_allocator(const Header& header, const Steps& steps, const NamedAllocator& allocator,
                     const std::optional<Bytes>& limit) {
  Answer row;
  row.allocator = allocator.name;
  row.judgement = allocator.judgement;
  row.smallest = smallest_limit(steps, allocator.make);
  if (!row.smallest)
    row.judgement = {Grade::kUnknown, "no limit is enough, because the allocator's settings make a request impossible"};
  if (header.lost > 0) {
    row.judgement = {Grade::kUnknown, fmt::format("{} events were lost", header.lost)};
    row.is_bound = true;
  }
  if (!limit) return row;
  const Replayed replayed = replay(steps, allocator.make, *limit);
  if (!replayed.denied) return row;
  const std::size_t index = *replayed.denied;
  const Step& step = steps.steps[index];
  row.denied = {steps.events[index], steps.times[index], Bytes{step.bytes},
                Bytes{step.bytes},   replayed.held,      step.kind == StepKind::kTaken ? Kind::kCode : Kind::kAllocate,
                step.process};
  return row;
}

}  // namespace

Result<Answers> answer(const Recording& recording, const Question& question) {
  const Header& header = recording.header();
  Charges charges = add_up(recording, question.limit);
  Answers result;
  result.circumstances = charges.circumstances;
  for (std::size_t device = 0; device < charges.devices.size(); ++device) {
    const DeviceCharges& sums = charges.devices[device];
    Answer row;
    row.allocator = "as recorded";
    row.device = device;
    row.judgement = judge(header, sums);
    row.smallest = sums.peak;
    row.is_bound = row.judgement.grade == Grade::kUnknown;
    row.denied = sums.denied;
    result.rows.push_back(std::move(row));
    if (question.allocators.empty()) continue;
    std::optional<Steps> steps;
    if (header.deep) {
      RATION_TRY(steps, steps_of(recording, device));
    }
    for (const NamedAllocator& allocator : question.allocators) {
      Answer tried;
      if (steps) {
        tried = try_allocator(header, *steps, allocator, question.limit);
      } else {
        tried.allocator = allocator.name;
        tried.judgement = {
            Grade::kUnknown,
            "the recording has the program's requests to the driver, but no tensors: record with --deep"};
      }
      tried.device = device;
      result.rows.push_back(std::move(tried));
    }
  }
  return result;
}

std::vector<std::string> doubts(const Header& header, const Circumstances& circumstances) {
  std::vector<std::string> texts;
  if (circumstances.asked > 0)
    texts.push_back(
        fmt::format("the program asked how much memory there is ({}), and might plan differently with another limit",
                    counted(circumstances.asked, "time")));
  if (circumstances.waited > 0)
    texts.push_back(fmt::format("{} waited for memory, which delayed all later requests",
                                counted(circumstances.waited, "request")));
  if (circumstances.refused > 0)
    texts.push_back(fmt::format("{} failed in the driver itself", counted(circumstances.refused, "request")));
  if (header.exit_code.value_or(0) != 0)
    texts.push_back(fmt::format(
        "the recorded program ended with {}, so a run that does all of its work might need more", *header.exit_code));
  if (!header.complete && header.lost == 0)
    texts.emplace_back("the recording has no end: the program was still running, or was killed");
  return texts;
}

}  // namespace ration::trace
