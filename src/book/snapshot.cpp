// The holdings of a workload on its devices, computed for programs that watch. The workload's own processes settle
// their book only when they take or give back memory (shared_memory.cpp), so the figures in the book may be out of
// date. The computation counts no ended process and leaves the book unchanged.
#include "book/snapshot.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "book/descriptor_label.hpp"
#include "book/layout.hpp"

namespace ration::book {

namespace {

/// Returns, for each account, the bytes that are held beyond the charges of living processes: memory that they gave up,
/// or that ended processes left, while others hold it. A negative value means that living processes are charged for
/// memory that is no longer held.
std::map<std::uint32_t, std::int64_t> held_besides(const BookSnapshot& book) {
  std::map<std::uint32_t, std::int64_t> besides;
  SharedSnapshot::Holders living;
  for (const ProcessSnapshot& process : book.processes) living.set(process.slot);
  LabelSearch labels(book.control_path.c_str());
  const auto has_descriptor = [&](const SharedSnapshot& shared) {
    // If it is unknown whether the memory has an open descriptor, it counts as having one while any process lives.
    if (shared.control_inode == kUnknownFile) return living.any();
    const ControlFile file{shared.control_device, shared.control_inode};
    return shared.control_inode != 0 && (labels.can_tell(file) ? labels.lives(shared.number, file) : living.any());
  };
  const auto lives_by_itself = [&](const SharedSnapshot& shared) {
    return (shared.holders & living).any() || has_descriptor(shared);
  };
  std::set<std::uint64_t> with_held_pieces;
  for (const SharedSnapshot& piece : book.shared_memory) {
    if (piece.part_of == 0 || (piece.holders & living).none()) continue;
    // A held piece keeps its memory held. The exception is a piece that its own maker holds: the maker has not given
    // that part up.
    const bool of_maker = piece.maker && living[*piece.maker] && piece.holders[*piece.maker];
    if (!of_maker) with_held_pieces.insert(piece.part_of);
  }
  for (const SharedSnapshot& shared : book.shared_memory) {
    const bool charged_to_living = shared.maker && living[*shared.maker];
    const bool held = lives_by_itself(shared) || with_held_pieces.count(shared.number) != 0;
    std::int64_t& sum = besides[shared.account];
    if (held) sum += static_cast<std::int64_t>((shared.kept + (charged_to_living ? Bytes{0} : shared.lent)).count());
    if (!held && charged_to_living) sum -= static_cast<std::int64_t>(shared.given_up.count());
  }
  return besides;
}

/// Returns the sum of `besides` and the charges of living processes, but no more than `used`.
template <typename HeldBy>
Bytes held_in_all(const BookSnapshot& book, std::int64_t besides, Bytes used, HeldBy&& held_by) {
  for (const ProcessSnapshot& process : book.processes) besides += static_cast<std::int64_t>(held_by(process).count());
  return std::min(Bytes{static_cast<std::uint64_t>(std::max<std::int64_t>(besides, 0))}, used);
}

}  // namespace

std::vector<Bytes> held_by_living(const BookSnapshot& book) {
  auto besides = held_besides(book);
  std::vector<Bytes> held;
  for (std::uint32_t account = 0; account < book.accounts.size(); ++account)
    held.push_back(held_in_all(book, besides[account], book.accounts[account].used,
                               [&](const ProcessSnapshot& process) { return process.held[account]; }));
  return held;
}

Bytes host_held_by_living(const BookSnapshot& book) {
  return held_in_all(book, held_besides(book)[kHostAccount], book.host.used,
                     [](const ProcessSnapshot& process) { return process.host; });
}

}  // namespace ration::book
