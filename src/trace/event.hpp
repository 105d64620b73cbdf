#pragma once
// What a recording consists of, whoever reads or writes it: events in order of time, and what their numbers stand for.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "guard/recorder/event_kind.hpp"

namespace ration::trace {

/// Returns true for an event that only says how a request was answered: it has a detail, and no memory.
[[nodiscard]] constexpr bool is_answer(Kind kind) {
  return kind == Kind::kDenied || kind == Kind::kWaited || kind == Kind::kRefused || kind == Kind::kAsked;
}

/// One event. Times are nanoseconds since the recording began; addresses are those of the program, unique per process
/// and device.
struct Event {
  std::int64_t time = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  ///< as the program requested them, before any rounding
  std::int64_t charged =
      0;  ///< by how much this event changed the account in the book: the sum over all events is what is held
  std::uint64_t stream = 0;   ///< of the driver; 0: the default one, or none
  std::uint32_t process = 0;  ///< index in Header::processes
  std::uint32_t thread = 0;   ///< of the kernel
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
  std::optional<Bytes> limit;  ///< of the workload when the recording began; nullopt: none
};

struct Process {
  int pid = 0;
  int parent = 0;
  std::string command;
};

/// The largest charge and the latest time that a reader takes for true, so that no sum of a damaged file overflows.
inline constexpr std::int64_t kMostCharge = std::int64_t{1} << 50, kLatest = std::int64_t{1} << 62;

/// What the numbers of events stand for. Grows while a recording is written.
struct Header {
  std::string workload;
  std::vector<std::string> command;  ///< the words that started the program; empty if they are not known
  std::string folder;                ///< where it started
  std::int64_t began = 0;            ///< nanoseconds since 1970
  bool deep = false;   ///< frameworks took each tensor from the driver (`--deep`): the events are tensors, not segments
  bool booked = true;  ///< false: an imported history without a book; `charged` is then what was requested
  bool complete = false;      ///< the program ended, and nothing was lost
  std::uint64_t lost = 0;     ///< events that could not be written
  bool lacks_ranges = false;  ///< NVTX gave its ranges to another program's library
  std::vector<Device> devices;
  std::vector<Process> processes;
  std::vector<std::string>
      sites;  ///< a call stack with newlines, innermost first, the text of a mark, or the name of a range; [0] is empty
};

struct Overview;

/// A recording that can be read more than once. Not thread-safe.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual const Header& header() const = 0;
  /// Calls `take` for each event in order of time, until it returns false. Memory: a block of events, however long the
  /// recording is.
  virtual void read(const std::function<bool(const Event&)>& take) const = 0;
  /// As read(), but may begin shortly before the first event of `time`: first calls `restore` for each event that
  /// Live::restore takes to come to what was live there.
  virtual void read_near([[maybe_unused]] std::int64_t time,
                         [[maybe_unused]] const std::function<void(const Event&)>& restore,
                         const std::function<bool(const Event&)>& take) const {
    read(take);
  }
  /// Returns the time from which on read_near() reads the events.
  virtual std::int64_t begins_near([[maybe_unused]] std::int64_t time) const { return 0; }
  /// Returns the overview that the recording keeps, if it does; read_near() then reads little.
  virtual const Overview* overview() const { return nullptr; }
};

}  // namespace ration::trace
