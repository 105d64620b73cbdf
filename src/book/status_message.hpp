// The reason why a book was not opened, as a message. Used by the daemon; code inside programs uses describe().
#pragma once

#include "base/message.hpp"
#include "book/book_status.hpp"

namespace ration::book {

/// Returns the sentence of describe(), with its id.
[[nodiscard]] Message message_of(BookStatus status);

}  // namespace ration::book
