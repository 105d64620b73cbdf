#include "book/book_status.hpp"

#include "base/message_table.hpp"
#include "book/status_ids.hpp"

namespace ration::book {
namespace {

/// The sentences of the statuses, copied out of the table of messages, so that the guard does not contain the rest of
/// that table.
constexpr auto kSentences = [] {
  std::array<const char*, kStatusIds.size()> sentences{};
  for (std::size_t status = 0; status < sentences.size(); ++status)
    sentences[status] = kMessageTable[messages::find_row(kStatusIds[status])].english.data();
  return sentences;
}();

}  // namespace

const char* describe(BookStatus status) noexcept {
  const auto number = static_cast<std::size_t>(status);
  return number < kSentences.size() ? kSentences[number] : "unknown";
}

}  // namespace ration::book
