// Explains in sentences why a request for memory was denied, and what to do. Used by `ration why`, the daemon's event
// log and the dashboard, which therefore agree.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "admission/advised_limit.hpp"
#include "base/message.hpp"
#include "book/snapshot.hpp"

namespace ration::admission {

struct DenialExplained {
  std::string id;  ///< `d-17-3`
  Message because;
  Message not_because;  ///< a likely but wrong guess that the facts rule out; empty if none
  Fix fix;              ///< a command to type
};

/// Returns the reason in one word, as in JSON and metrics: limit, device_full, not_granted, share, table_full,
/// host_limit, book.
[[nodiscard]] const char* name_of(book::DenialReason reason);

/// Returns these words for all reasons that a denial of a governed workload can have.
[[nodiscard]] std::vector<const char*> denial_names();

/// A function that returns the index of a device as nvidia-smi counts; absent if this machine does not show the device.
using DeviceIndex = std::function<std::optional<int>(const book::DeviceUuid&)>;

/// Explains a denial. `running` is true if the workload still runs, so that its limit can be changed. `room` is the
/// limit that the workload could be granted on that device now; absent if the workload has ended or the limit is
/// unknown.
[[nodiscard]] DenialExplained explain_denial(const book::Denial& denial, const book::BookSnapshot& book, bool running,
                                             const std::optional<LimitRoom>& room, const DeviceIndex& index_of);

/// Returns the command for a workload whose configured limit would suffice, but whose limit in force is lower, because
/// other workloads need the room. `gpu` is empty if unknown. Advises a wait, unless the request `has_waited`.
[[nodiscard]] std::string held_back_fix(const std::string& gpu, bool has_waited);

/// Returns true if the program chose to wait for memory, and the request waited before it was denied.
[[nodiscard]] bool has_waited(const book::Denial& denial, const book::BookSnapshot& book);

struct DenialId {
  std::uint64_t run = 0, number = 0;
};
/// Parses `d-17-3`; absent if the text is no denial's number.
[[nodiscard]] std::optional<DenialId> parse_denial_id(const std::string& text);

/// Returns true for a text that `ration why` takes as a number, never as the name of a workload: `d-17-3`, `q-5`,
/// `e-42`, `42`.
[[nodiscard]] bool is_number_of_something(const std::string& text);

}  // namespace ration::admission
