// Who holds what on a device, from the books and the driver together. Used by ps, explain, why, fits and doctor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/session.hpp"
#include "policy/advised_limit.hpp"

namespace ration::cli {

/// A running workload's account on one device, after its dead processes were reaped.
struct Holder {
  std::string path;
  ledger::BookSnapshot book;
  std::size_t account = 0;
  [[nodiscard]] const ledger::AccountSnapshot& entry() const { return book.accounts[account]; }
  [[nodiscard]] bool shrinking() const { return entry().used > entry().limit; }
  [[nodiscard]] bool full() const {
    return entry().limit.count() - std::min(entry().limit, entry().used).count() < kGranule.count();
  }
};

/// Every account of every running workload, oldest run first.
[[nodiscard]] std::vector<Holder> holders(const ledger::Store& store);

/// A process with memory on the device that is in no book.
struct Ungoverned {
  std::int32_t pid = 0;
  std::string command, user;
  std::optional<Bytes> held;
  const char* untold = machine::kUntold;  ///< why `held` is absent
};
[[nodiscard]] std::vector<Ungoverned> ungoverned(const machine::Device& device, const std::vector<Holder>& holders);

/// What somebody has of a device.
struct DeviceShare {
  std::string who;
  Bytes used, guarantee{};
  bool away = false;  ///< suspended: it holds nothing, and is kept nothing
};
/// `vision 10.0 GiB, nlp 3.80 GiB (promised 6.00 GiB)`, or empty.
[[nodiscard]] std::string shares_sentence(const Session& session, const std::vector<DeviceShare>& shares);

/// `vision 10.0 GiB, nlp 3.80 GiB, not governed: pid 6001 python (carol) 1.60 GiB`, or empty.
[[nodiscard]] std::string holders_sentence(const Session& session, const machine::Device& device,
                                           const std::vector<Holder>& holders);

/// What the workload of a denial could be granted where no daemon runs: a limit that is set is in force at once; what
/// is promised to others and not taken is theirs. Absent: the device cannot be asked.
[[nodiscard]] std::optional<policy::LimitRoom> room_for(const Session& session, const ledger::BookSnapshot& book,
                                                        const ledger::Denial& denial);

/// The command line of a process, shortened; empty where it cannot be read.
[[nodiscard]] std::string command_of(std::int32_t pid);

}  // namespace ration::cli
