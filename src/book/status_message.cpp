#include "book/status_message.hpp"

#include "book/status_ids.hpp"

namespace ration::book {

Message message_of(BookStatus status) {
  return known_message(describe(status), kStatusIds[static_cast<std::size_t>(status)], "{}");
}

}  // namespace ration::book
