// Named shares of devices, kept in the runtime directory. Used by `ration split`, `ration run --slice` and the
// promises.
#pragma once

#include <string>
#include <vector>

#include "ledger/store.hpp"
#include "machine/devices.hpp"

namespace ration::policy {

struct Slice {
  std::string name;  ///< `0.2`, or what the person called it
  std::string uuid;  ///< of its device
  Bytes size;
  bool configured = false;  ///< made from the configuration, not by a person
};

/// Every slice of this user's machine. E1606: the file is damaged.
[[nodiscard]] Result<std::vector<Slice>> read_slices(const ledger::Store& store);
/// Replaces the slices of the device; none removes them. Atomic: a reader sees the old ones or the new ones;
/// the caller holds the store's lock.
[[nodiscard]] Result<void> write_slices(const ledger::Store& store, const machine::Device& device,
                                        const std::vector<Slice>& slices);

/// The running workload in the slice, or null.
[[nodiscard]] const ledger::StoredBook* occupant(const std::vector<ledger::StoredBook>& books,
                                                 const std::string& slice);

/// `6GiB,6GiB,rest` against the device: sizes in whole granules. E1602: more than it has.
[[nodiscard]] Result<std::vector<Bytes>> parse_shares(const machine::Device& device, const std::string& text);
/// `into` equal shares, in whole granules.
[[nodiscard]] Result<std::vector<Bytes>> equal_shares(const machine::Device& device, int into);
/// `40:60` of the device.
[[nodiscard]] Result<std::vector<Bytes>> ratio_shares(const machine::Device& device, const std::string& text);

}  // namespace ration::policy
