#include "trace/whatif/charges.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"

namespace ration::trace {
namespace {

struct Sums {
  std::int64_t held = 0, contexts = 0;
};

Bytes bytes_of(std::int64_t sum) { return Bytes{static_cast<std::uint64_t>(std::max<std::int64_t>(sum, 0))}; }

/// Counts an event that is not a charge, such as a denial.
void note(Circumstances& circumstances, DeviceCharges& device, const Event& event, std::uint64_t number,
          std::int64_t held) {
  switch (event.kind) {
    case Kind::kAsked:
      ++circumstances.asked;
      break;
    case Kind::kWaited:
      ++circumstances.waited;
      break;
    case Kind::kRefused:
      ++circumstances.refused;
      break;
    case Kind::kDenied: {
      ++circumstances.denied;
      ++device.denials;
      const DeniedRequest denied{number,         event.time, Bytes{event.bytes}, Bytes{event.bytes},
                                 bytes_of(held), event.kind, event.process};
      if (!device.first_recorded) device.first_recorded = denied;
      if (!device.greatest_recorded || denied.need() > device.greatest_recorded->need())
        device.greatest_recorded = denied;
      break;
    }
    default:
      break;
  }
}

}  // namespace

Charges add_up(const Recording& recording, std::optional<Bytes> limit) {
  Charges result;
  result.devices.resize(recording.header().devices.size());
  std::vector<Sums> sums(result.devices.size());
  const std::int64_t most = static_cast<std::int64_t>(limit.value_or(kUnlimited).count());
  std::uint64_t number = 0;
  std::int64_t latest = 0;
  recording.read([&](const Event& event) {
    const std::uint64_t index = number++;
    latest = event.time;
    if (event.device >= sums.size() || event.account == Account::kPinnedHost) return true;
    DeviceCharges& device = result.devices[event.device];
    Sums& sum = sums[event.device];
    if (event.charged == 0) {
      note(result.circumstances, device, event, index, sum.held);
      return true;
    }
    const std::int64_t before = sum.held;
    sum.held += event.charged;
    if (sum.held > static_cast<std::int64_t>(device.peak.count())) {
      device.peak = bytes_of(sum.held);
      device.peak_time = event.time;
    }
    if (event.kind == Kind::kContextMade || event.kind == Kind::kContextEnded) {
      sum.contexts += event.charged;
      device.contexts = std::max(device.contexts, bytes_of(sum.contexts));
    }
    if (event.charged > 0 && sum.held > most && !device.denied)
      device.denied = {index,      event.time,   Bytes{event.bytes}, bytes_of(event.charged), bytes_of(before),
                       event.kind, event.process};
    return true;
  });
  result.circumstances.events = number;
  result.circumstances.length = latest;
  return result;
}

Judgement judge(const Header& header, const DeviceCharges& device) {
  if (!header.booked)
    return {Grade::kUnknown, "no book was recorded: contexts and memory of other libraries are needed in addition"};
  if (header.lost > 0)
    return {Grade::kUnknown, fmt::format("{} events were lost, so the run may need more", header.lost)};
  if (device.denials > 0)
    return {Grade::kUnknown,
            fmt::format("{} while the run was recorded: the run asked for at least {}",
                        counted(device.denials, "request") + (device.denials == 1 ? " was denied" : " were denied"),
                        format_size(std::max(device.peak, device.greatest_recorded->need())))};
  if (!header.complete) return {Grade::kExact, "up to the end of the recording"};
  if (header.deep) return {Grade::kExact, "as it ran with --deep"};
  return {};
}

}  // namespace ration::trace
