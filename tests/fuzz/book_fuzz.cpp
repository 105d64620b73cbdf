// A book file: a container's book with any bytes of it changed, read as the daemon does, opened, charged, reaped, and
// retired.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "book/book.hpp"
#include "book/container_books.hpp"
#include "book/layout.hpp"

namespace {

using namespace ration;
using namespace ration::book;

std::string folder() {
  static const std::string path = [] {
    char name[] = "/dev/shm/ration-fuzz-XXXXXX";
    std::string made(::mkdtemp(name));
    ::mkdir((made + "/books").c_str(), 0700);
    return made;
  }();
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = folder() + "/books/one.book";
  remove_book(path);
  NewBook contents;
  contents.name = "fuzz";
  NewAccount account;
  account.limit = account.device_total = Bytes{std::uint64_t{1} << 30};
  contents.accounts.push_back(account);
  if (create_granted(path, contents, std::nullopt) != BookStatus::kOk) std::abort();
  const int file = ::open(path.c_str(), O_RDWR);
  // Five bytes a change: where (of the first 64 KiB), what. A first byte of 255 cuts the file there.
  for (; size >= 5; data += 5, size -= 5) {
    const std::size_t where = data[1] | data[2] << 8;
    if (data[0] == 255)
      (void)!::ftruncate(file, static_cast<off_t>(where));
    else
      (void)!::pwrite(file, data + 3, 2, static_cast<off_t>(where));
  }
  ::close(file);
  BookSnapshot snapshot;
  if (Book::read(path.c_str(), snapshot) == BookStatus::kOk) (void)held_by_living(snapshot);
  const auto granted = read_granted(path, ::getuid());
  if (!granted || granted->name != "fuzz" || granted->accounts.size() != 1) std::abort();
  Book book;
  if (Book::open(path.c_str(), book) == BookStatus::kOk && book.processes().attach()) {
    (void)book.account(0).charge(Bytes{4096});
    book.account(0).refund(Bytes{4096});
    book.denials().record(0, Bytes{1}, DenialReason::kLimit, "fuzz", 0, 0);
    book.processes().reap();
    (void)book.account(0).used();
    book.processes().detach();
  }
  retire(path);
  if (Book::read(path.c_str(), snapshot) == BookStatus::kOk && snapshot.name != "fuzz") std::abort();
  return 0;
}
