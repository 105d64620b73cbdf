// A mailbox passes contents between the ranks of one machine, in one process or several, in a memory file that each of
// them maps. Used by the stand-in for NCCL.
//
// Promises: posting does not wait for the receiver, unless a thousand contents already wait for that receiver; the
// contents of one rank for another arrive in order; waiting for a rank whose process has ended returns an error;
// nothing is left when the last rank ends, however it ends, since the file has no name. Every call may come from any
// thread, but for one pair of ranks only one thread at a time may post and only one may receive.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace ration::standin {

class Mailbox {
 public:
  /// The address of a mailbox: plain bytes that can be sent to other processes. It is valid while the maker keeps the
  /// mailbox.
  struct Address {
    std::int32_t process, descriptor;
    std::uint64_t file;  // its inode, to detect another file at that descriptor
    bool operator<(const Address& other) const { return file < other.file; }
  };

  /// Makes or opens a mailbox. Returns null if there is no memory, or no mailbox at the address.
  static std::shared_ptr<Mailbox> make();
  static std::shared_ptr<Mailbox> open(const Address& address);
  Mailbox(const Mailbox&) = delete;
  ~Mailbox();

  [[nodiscard]] Address address() const { return address_; }

  /// Makes the calling process the rank number `rank` of `ranks` ranks. All ranks must pass the same `ranks`. Returns
  /// false if there is no memory.
  bool join(int rank, int ranks);
  /// Waits until all ranks have joined. Returns false if `stop` became true.
  bool wait_for_all(const std::atomic<bool>& stop);

  /// Posts contents that `fill` writes. If a thousand contents wait for the receiver, waits until it has received some
  /// of them. Returns false if there is no memory, the receiver has ended, or `stop` became true.
  bool post(int from, int to, std::size_t bytes, const std::function<void(void*)>& fill, const std::atomic<bool>& stop);
  /// Waits for contents, which `use` reads. Returns false if there is no memory, the sender has ended, or `stop` became
  /// true.
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
  std::atomic<std::int32_t>* processes_ = nullptr;  // by rank; 0: the rank has not joined
  Pair* pairs_ = nullptr;
  int ranks_ = 0;
};

}  // namespace ration::standin
