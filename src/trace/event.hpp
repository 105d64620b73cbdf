#pragma once
// The content of a recording: events in order of time, and the header, which says what the numbers in events stand for.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "guard/recorder/event_kind.hpp"

namespace ration::trace {

/// Returns true for an event that only says how a request was answered. Such an event has a detail, but no memory.
[[nodiscard]] constexpr bool is_answer(Kind kind) {
  return kind == Kind::kDenied || kind == Kind::kWaited || kind == Kind::kRefused || kind == Kind::kAsked;
}

/// One event. Times are nanoseconds since the recording began; addresses are those of the program, unique per process
/// and device.
struct Event {
  std::int64_t time = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;    ///< as the program requested them, before any rounding
  std::int64_t charged = 0;   ///< change of the account in the book; the changes of all events add up to the bytes held
  std::uint64_t stream = 0;   ///< the driver's stream; 0: the default stream, or none
  std::uint32_t process = 0;  ///< index in Header::processes
  std::uint32_t thread = 0;   ///< the kernel's number of the thread
  std::uint32_t site = 0;     ///< index in Header::sites; 0: not recorded
  std::uint32_t detail = 0;   ///< see Kind
  std::uint16_t device = 0;   ///< index in Header::devices
  Kind kind = Kind::kAllocate;
  Account account = Account::kDevice;
};

struct Device {
  std::string uuid;
  std::string name;
  Bytes total{0};
  std::optional<Bytes> limit;  ///< limit of the workload when the recording began; nullopt: none
};

struct Process {
  int pid = 0;
  int parent = 0;
  std::string command;
};

/// The largest charge and the latest time that a reader accepts, so that no sum over a damaged file overflows.
inline constexpr std::int64_t kMostCharge = std::int64_t{1} << 50, kLatest = std::int64_t{1} << 62;

/// The things that the numbers in events stand for. Grows while a recording is written.
struct Header {
  std::string workload;
  std::vector<std::string> command;  ///< the words that started the program; empty if unknown
  std::string folder;                ///< folder in which the program started
  std::int64_t began = 0;            ///< nanoseconds since 1970
  std::optional<int> exit_code;      ///< of the program; 128 plus the number of the signal that ended it
  bool deep = false;   ///< frameworks took each tensor from the driver (`--deep`): the events are tensors, not segments
  bool booked = true;  ///< false for an imported history, which has no book; `charged` is then the requested bytes
  bool complete = false;      ///< true if the program ended and no event was lost
  std::uint64_t lost = 0;     ///< events that could not be written
  bool lacks_ranges = false;  ///< true if NVTX gave the ranges to another program's library
  std::vector<Device> devices;
  std::vector<Process> processes;
  /// Call stacks (one call per line, innermost first), texts of marks, and names of ranges; [0] is empty.
  std::vector<std::string> sites;
};

struct Overview;

/// A recording that can be read more than once. Not thread-safe.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual const Header& header() const = 0;
  /// Calls `take` for each event in order of time, until `take` returns false. Needs memory for one block of events,
  /// however long the recording is.
  virtual void read(const std::function<bool(const Event&)>& take) const = 0;
  /// Like read(), but may begin shortly before the first event of `time`. In that case, first calls `restore` for the
  /// events from which Live::restore() rebuilds the state at the beginning.
  virtual void read_near([[maybe_unused]] std::int64_t time,
                         [[maybe_unused]] const std::function<void(const Event&)>& restore,
                         const std::function<bool(const Event&)>& take) const {
    read(take);
  }
  /// Returns the time at which read_near() begins to read events.
  virtual std::int64_t begins_near([[maybe_unused]] std::int64_t time) const { return 0; }
  /// Returns the overview that the recording keeps; null if it keeps none. With an overview, read_near() reads little.
  virtual const Overview* overview() const { return nullptr; }
};

}  // namespace ration::trace
