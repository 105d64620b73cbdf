#pragma once
// The recorder of a governed process: it appends events to a mapped file of the process's own (record_layout.hpp). Used
// by the hooks. Promises: nothing happens unless RATION_RECORD names a folder; there is no thread, no allocation, no
// output, and no lock except between threads that take a chunk at the same moment; a complete event survives the death
// of every process; on a full disk, events are lost and counted, but no signal is raised. A child has a file of its
// own.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "book/terms.hpp"
#include "guard/recorder/event_kind.hpp"
#include "guard/recorder/record_layout.hpp"

namespace ration::guard {

/// True while this process records.
extern std::atomic<bool> is_recording;
[[gnu::always_inline]] inline bool recording() noexcept { return is_recording.load(std::memory_order_relaxed); }

/// One event as the guard knows it. It has no initialisers, so that an event that is not written costs nothing.
struct RecordedEvent {
  trace::Kind kind;
  trace::Account account;
  bool common;
  std::uint8_t device;  // the account of the device
  std::uint32_t site;
  std::uint64_t address;  // or the detail of a kind without an address
  std::uint64_t bytes;
  std::int64_t charge;
  std::uint64_t stream;
  std::uint64_t ticks;  // 0: now
};

/// Appends an event to the file, or counts it as lost. For all events except ranges of one thread.
void record(const RecordedEvent& event) noexcept;

/// Records that this thread began a range in a domain; `site` is the number of its name.
void begin_range(std::uint32_t site, std::uint64_t domain) noexcept;
/// Records the end of the newest range that this thread began in a domain. If the range was shorter than a millisecond
/// and the process recorded nothing else meanwhile, takes back the record of its beginning instead: XLA has a range for
/// each kernel that it starts.
void end_range(std::uint64_t domain) noexcept;

/// Returns the number of a text of at most kMaxText bytes, and enters the text unless this process has entered it
/// before. Returns 0 if the text cannot be written, or if the process has entered `most` texts already.
[[nodiscard]] std::uint32_t number_of_text(TextKind kind, const void* text, std::size_t length,
                                           std::uint32_t most = kMaxTexts) noexcept;

/// The devices of a workload, by account.
struct RecordedDevices {
  std::uint32_t count = 0;
  book::DeviceUuid uuids[16];
};

/// Begins to record if Environment::record names a folder. Called when the process becomes governed (in a child, after
/// forget_recording()), and when the program asks for a recording. Returns 0, or the errno value if no file could be
/// made; events are then only counted.
int begin_recording(const RecordedDevices& devices, bool of_nvml) noexcept;
/// Ends the recording. An event that another thread is writing at this moment may still come into the file.
void end_recording() noexcept;
/// Forgets the parent's file in a child.
void forget_recording() noexcept;

/// A call of the program, from its beginning to its end. The charges that the call makes belong to one event, which is
/// written at the end. An event that gives memory up has the time at which the call began, since another thread may get
/// the address before the call ends. Costs one branch while nothing is recorded.
class Recorded {
 public:
  explicit Recorded(trace::Kind kind, std::uint64_t bytes = 0, const void* stream = nullptr) noexcept {
    if (recording()) [[unlikely]]
      begin(kind, bytes, reinterpret_cast<std::uint64_t>(stream));
  }
  ~Recorded() {
    if (is_open_) [[unlikely]]
      end();
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

  /// Records that the call succeeded for the memory at `address`. Without this call, only charges are recorded.
  void done(std::uint64_t address, std::uint32_t account) noexcept {
    if (is_open_) [[unlikely]] {
      event_.address = address;
      account_ = account;
      is_done_ = true;
      error_ = 0;  // an earlier attempt may have failed
    }
  }
  void set_bytes(std::uint64_t bytes) noexcept {
    if (is_open_) [[unlikely]]
      event_.bytes = bytes;
  }
  /// Records that the driver failed with `error`. Does nothing if `error` is 0, or if the guard denied the request
  /// itself.
  void failed(int error, std::uint32_t account) noexcept {
    if (is_open_ && error != 0 && !is_denied_) [[unlikely]] {
      error_ = error;
      account_ = account;
    }
  }

  /// Records an event that is not a call. Its kind defines the meaning of `detail`. Does nothing while nothing is
  /// recorded.
  static void note(trace::Kind kind, std::uint32_t account, std::uint64_t bytes, std::uint64_t detail) noexcept {
    if (recording()) [[unlikely]]
      write_note(kind, account, bytes, detail);
  }
  /// Records the bytes of one kind that this process holds on an account when its recording begins.
  static void held_before(std::uint32_t account, std::int64_t bytes, book::Kind kind) noexcept;
  /// Adds a charge to the innermost open call of this thread. Without an open call, records the charge as an event of
  /// its own.
  static void charged(std::uint32_t account, std::int64_t bytes, book::Kind kind, bool common) noexcept;

 private:
  struct Charge {
    std::uint32_t account;
    book::Kind kind;
    bool common;
    std::int64_t bytes;
  };
  static constexpr int kMaxCharges = 6;

  static void write_note(trace::Kind kind, std::uint32_t account, std::uint64_t bytes, std::uint64_t detail) noexcept;
  void begin(trace::Kind kind, std::uint64_t bytes, std::uint64_t stream) noexcept;
  void end() noexcept;

  bool is_open_ = false, is_done_, is_denied_;
  int error_, charge_count_;
  std::uint32_t account_;
  void* thread_;
  Recorded* outer_;
  RecordedEvent event_;
  Charge charges_[kMaxCharges];
};

/// A stand-in for Recorded. A hot path is compiled once with each of the two, so that a call costs one branch while
/// nothing is recorded: `perform.template operator()<Event>()` declares its event as an Event.
struct NotRecorded {
  explicit NotRecorded(trace::Kind, std::uint64_t = 0, const void* = nullptr) noexcept {}
  void done(std::uint64_t, std::uint32_t) noexcept {}
  void failed(int, std::uint32_t) noexcept {}
};
template <typename Perform>
[[gnu::always_inline]] inline auto recorded_or_not(Perform&& perform) noexcept {
  if (recording()) [[unlikely]]
    return perform.template operator()<Recorded>();
  return perform.template operator()<NotRecorded>();
}

}  // namespace ration::guard
