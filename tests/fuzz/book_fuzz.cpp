// A ledger file: a sound book with any bytes of it changed, read, opened, charged, reaped.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ledger/book.hpp"
#include "ledger/layout.hpp"

namespace {

using namespace ration;
using namespace ration::ledger;

std::string folder() {
  static const std::string path = [] {
    char name[] = "/dev/shm/ration-fuzz-XXXXXX";
    return std::string(::mkdtemp(name));
  }();
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = folder() + "/one.book";
  ::unlink(path.c_str());
  NewBook contents;
  contents.name = "fuzz";
  NewAccount account;
  account.limit = account.device_total = Bytes{std::uint64_t{1} << 30};
  contents.accounts.push_back(account);
  if (Book::create(path.c_str(), contents) != BookStatus::kOk) std::abort();
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
  (void)Book::read(path.c_str(), snapshot);
  Book book;
  if (Book::open(path.c_str(), book) == BookStatus::kOk && book.attach()) {
    (void)book.charge(0, Bytes{4096});
    book.refund(0, Bytes{4096});
    book.record_denial(0, Bytes{1}, DenialReason::kLimit, "fuzz", 0, 0);
    book.reap();
    (void)book.used(0);
    book.detach();
  }
  return 0;
}
