// Passes contents between the ranks of one machine, in one process or in several: a memory file that each of them maps.
// Used by the stand-in for NCCL.
//
// Promises: posting never waits, and contents are kept until the receiver comes; the contents of one rank for another
// arrive in order; waiting for a rank whose process has ended returns an error; nothing is left when the last rank
// ends, however it ends, for the file has no name. Every call may come from any thread, for one pair of ranks from one
// thread at a time on each side.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace ration::standin {

class Mailbox {
 public:
  /// The address of a mailbox, valid as long as its maker keeps it: plain bytes, to be sent to other processes.
  struct Address {
    std::int32_t process, descriptor;
    std::uint64_t file;  // its inode, so that another file at that descriptor is not taken for it
    bool operator<(const Address& other) const { return file < other.file; }
  };

  /// Null: no memory, or nothing is there (any more).
  static std::shared_ptr<Mailbox> make();
  static std::shared_ptr<Mailbox> open(const Address& address);
  Mailbox(const Mailbox&) = delete;
  ~Mailbox();

  [[nodiscard]] Address address() const { return address_; }

  /// From now on `rank` of `ranks` is the calling process. The number of ranks is the same for all. False: no memory.
  bool join(int rank, int ranks);
  /// Waits until all have joined. False: `stop` became true.
  bool wait_for_all(const std::atomic<bool>& stop);

  /// `fill` writes the contents. False: no memory, or the receiver has ended, or `stop` became true, while a thousand
  /// that it has not received are waiting.
  bool post(int from, int to, std::size_t bytes, const std::function<void(void*)>& fill, const std::atomic<bool>& stop);
  /// `use` reads the contents. False: none will come, for the sender has ended, or `stop` became true.
  bool receive(int from, int to, const std::function<void(const void*, std::size_t)>& use,
               const std::atomic<bool>& stop);
  /// Makes waiting threads check their `stop` again.
  void ring();

 private:
  struct Bell;
  struct Pair;
  Mailbox(int descriptor, const Address& address) : descriptor_(descriptor), address_(address) {}
  [[nodiscard]] Pair& pair(int from, int to) const;
  [[nodiscard]] bool has_ended(int rank) const;
  template <typename Condition>
  bool wait_until(Condition&& holds, int rank, const std::atomic<bool>& stop);

  int descriptor_;
  Address address_;
  Bell* bell_ = nullptr;
  std::atomic<std::int32_t>* processes_ = nullptr;  // by rank; 0: has not joined
  Pair* pairs_ = nullptr;
  int ranks_ = 0;
};

}  // namespace ration::standin
