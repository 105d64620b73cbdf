// Computes what a workload holds on its devices without changing the book, also if processes of it have ended; for
// programs that watch. Its own processes settle that as they go (shared_memory.cpp), but only when they take or give
// back memory.
#include "book/snapshot.hpp"

#include <algorithm>
#include <set>

#include "book/descriptor_label.hpp"
#include "book/layout.hpp"

namespace ration::book {

namespace {

/// Returns the bytes held beyond what living processes are charged: memory that those gave up, or that ended processes
/// left, and that others hold. Negative if living processes are charged for memory that is not held any more.
std::vector<std::int64_t> held_besides(const BookSnapshot& book) {
  std::vector<std::int64_t> besides(book.accounts.size(), 0);
  SharedSnapshot::Holders living;
  for (const ProcessSnapshot& process : book.processes) living.set(process.slot);
  LabelSearch labels(book.control_path.c_str());
  const auto has_descriptor = [&](const SharedSnapshot& shared) {
    // If this cannot be determined, any living process may have a descriptor; without one, none is assumed.
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
    // A piece that its maker holds itself is not part of the memory that was given up.
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

}  // namespace

std::vector<Bytes> held_by_living(const BookSnapshot& book) {
  const std::vector<std::int64_t> besides = held_besides(book);
  std::vector<Bytes> held;
  for (std::size_t account = 0; account < besides.size(); ++account) {
    std::int64_t sum = besides[account];
    for (const ProcessSnapshot& process : book.processes)
      sum += static_cast<std::int64_t>(process.held[account].count());
    held.push_back(
        std::min(Bytes{static_cast<std::uint64_t>(std::max<std::int64_t>(sum, 0))}, book.accounts[account].used));
  }
  return held;
}

}  // namespace ration::book
