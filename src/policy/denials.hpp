// Why a charge was denied and what to do, in sentences. Used by `ration why`, the daemon's event log and the
// dashboard, which therefore say the same.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/units.hpp"
#include "ledger/snapshot.hpp"
#include "policy/advised_limit.hpp"

namespace ration::policy {

struct DenialExplained {
  std::string id;  ///< `d-17-3`
  std::string because;
  std::string not_because;  ///< what one might think instead; empty: nothing
  Fix fix;                  ///< something to type
};

/// In one word, as JSON and metrics have it: limit, device_full, not_granted, share, book.
[[nodiscard]] const char* name_of(ledger::DenialReason reason);

/// The index of a device as nvidia-smi counts; absent where the machine does not show it.
using DeviceIndex = std::function<std::optional<int>(const ledger::DeviceUuid&)>;

/// `running`: the workload still runs, so that its limit can be changed. `room`: what the workload could be granted on
/// that device now; absent: it has ended, or nobody knows.
[[nodiscard]] DenialExplained explain_denial(const ledger::Denial& denial, const ledger::BookSnapshot& book,
                                             bool running, const std::optional<LimitRoom>& room,
                                             const DeviceIndex& index_of, Units units = Units::kIec);

/// What to type where a limit would do, and was lowered for others' sake. `gpu`: empty where it is not known.
[[nodiscard]] std::string held_back_fix(const std::string& gpu);

struct DenialId {
  std::uint64_t run = 0, number = 0;
};
/// `d-17-3`; absent: it is none.
[[nodiscard]] std::optional<DenialId> parse_denial_id(const std::string& text);

/// What `ration why` takes for a number, and therefore for no workload: `d-17-3`, `q-5`, `e-42`, `42`.
[[nodiscard]] bool is_number_of_something(const std::string& text);

}  // namespace ration::policy
