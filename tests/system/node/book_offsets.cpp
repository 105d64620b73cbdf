// Where the fields lie that tests change in a book's file behind its back, as one JSON object. Used by book_layout.py.
#include <cstdio>
#include <utility>

#include "book/layout.hpp"

#define FIELD(path) \
  std::pair { #path, offsetof(BookLayout, path) }

int main() {
  using namespace ration::book;
  const char* separator = "{";
  for (const auto& [path, offset] : {FIELD(header.run_number),
                                     FIELD(header.creator_pid),
                                     FIELD(header.creator_start_time),
                                     FIELD(header.ended_ns),
                                     FIELD(header.account_count),
                                     FIELD(header.name),
                                     FIELD(header.tenant),
                                     FIELD(header.slice),
                                     FIELD(header.labels),
                                     FIELD(header.waiters),
                                     FIELD(header.unlisted_count),
                                     FIELD(header.unlisted[0]),
                                     FIELD(accounts[0]),
                                     FIELD(accounts[0].limit),
                                     FIELD(accounts[0].usage),
                                     FIELD(accounts[0].context_estimate),
                                     FIELD(accounts[1]),
                                     FIELD(host.limit),
                                     FIELD(slots[0].pid),
                                     FIELD(slots[0].start_time),
                                     FIELD(slots[0].pid_namespace),
                                     FIELD(slots[0].parts[0].all.held)})
    std::printf("%s\"%s\": %zu", std::exchange(separator, ", "), path, offset);
  std::puts("}");
}
