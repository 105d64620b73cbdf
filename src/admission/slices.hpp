// Stores the slices, which are named shares of devices, in the runtime directory. Used by `ration split`, `ration run
// --slice` and the promises.
#pragma once

#include <string>
#include <vector>

#include "book/store.hpp"
#include "machine/devices.hpp"

namespace ration::admission {

struct Slice {
  std::string name;  ///< `0.2`, or a name given by the user
  std::string uuid;  ///< the UUID of its device
  Bytes size;
  bool configured = false;  ///< true if the slice comes from the configuration, not from a command
};

/// Reads every slice of this user's machine. Fails with E1606 if the file is damaged.
[[nodiscard]] Result<std::vector<Slice>> read_slices(const book::Store& store);
/// Replaces the slices of the device; an empty list removes them. A reader sees the old slices or the new ones.
/// Requires that the caller holds the store's lock.
[[nodiscard]] Result<void> write_slices(const book::Store& store, const machine::Device& device,
                                        const std::vector<Slice>& slices);

/// Returns the running workload in the slice, or null.
[[nodiscard]] const book::StoredBook* occupant(const std::vector<book::StoredBook>& books, const std::string& slice);

/// Parses `6GiB,6GiB,rest` to sizes in whole granules of the device. Fails with E1602 if they exceed the device.
[[nodiscard]] Result<std::vector<Bytes>> parse_shares(const machine::Device& device, const std::string& text);
/// Divides the device into `into` equal shares, in whole granules.
[[nodiscard]] Result<std::vector<Bytes>> equal_shares(const machine::Device& device, int into);
/// Divides the device by a ratio such as `40:60`.
[[nodiscard]] Result<std::vector<Bytes>> ratio_shares(const machine::Device& device, const std::string& text);

}  // namespace ration::admission
