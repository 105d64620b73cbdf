// What the book promises when many processes charge at once and when they are killed: counted, not timed.
#pragma once

#include <string>

namespace ration::bench {

/// Prints one row of the table for each promise. `folder`: for the books.
void print_book_rows(const std::string& folder);

}  // namespace ration::bench
