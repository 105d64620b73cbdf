#include "trace/event_block.hpp"

#include <array>
#include <map>
#include <tuple>
#include <unordered_map>

namespace ration::trace {
namespace {

constexpr std::int64_t kMicrosecond = 1000;

/// The columns in the order in which they are stored.
enum Column : std::size_t { kNames, kWho, kTime, kAddress, kBytes, kCharged, kDetail, kColumns };

std::uint64_t zigzag(std::int64_t value) {
  return static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
}
std::int64_t unzigzag(std::uint64_t value) { return static_cast<std::int64_t>(value >> 1 ^ (0 - (value & 1))); }

/// Subtracts with wrap-around, because a damaged file may contain any number.
std::int64_t minus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}

void put(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

/// Reads what put() wrote. After an error every value is 0.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : at_(text.data()), end_(at_ + text.size()) {}

  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; at_ < end_ && shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(*at_++);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
    failed_ = true;
    return 0;
  }
  std::string_view text(std::uint64_t size) {
    if (size > static_cast<std::uint64_t>(end_ - at_)) {
      failed_ = true;
      return {};
    }
    const std::string_view taken(at_, size);
    at_ += size;
    return taken;
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  const char *at_, *end_;
  bool failed_ = false;
};

/// The fields in which most events of a thread are equal.
using Who = std::tuple<std::uint8_t, std::uint8_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint16_t,
                       std::uint64_t>;  // kind, account, process, thread, site, device, stream
Who who_of(const Event& event) {
  return {static_cast<std::uint8_t>(event.kind),
          static_cast<std::uint8_t>(event.account),
          event.process,
          event.thread,
          event.site,
          event.device,
          event.stream};
}

void put_who(std::string& out, const Who& who) {
  std::apply([&](auto... part) { (put(out, part), ...); }, who);
}

void take_who(Cursor& cursor, Event& event) {
  event.kind = static_cast<Kind>(cursor.number());
  event.account = static_cast<Account>(cursor.number());
  event.process = static_cast<std::uint32_t>(cursor.number());
  event.thread = static_cast<std::uint32_t>(cursor.number());
  event.site = static_cast<std::uint32_t>(cursor.number());
  event.device = static_cast<std::uint16_t>(cursor.number());
  event.stream = cursor.number();
}

/// The prediction of the next event at an address: the bytes of the last event there, and its charge with the opposite
/// sign. It is often right, because a free undoes its allocation, and programs that repeat themselves take the same
/// amount again.
struct Place {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::int64_t charged = 0;

  void learn(const Event& event) {
    bytes = event.bytes;
    charged = minus(0, event.charged);
  }
};

}  // namespace

std::string encode_events(std::span<const Event> events, std::int64_t from) {
  std::array<std::string, kColumns> columns;
  std::map<Who, std::uint64_t> names;
  std::unordered_map<std::uint64_t, std::uint64_t> places;
  std::vector<Place> known;
  std::uint64_t last_address = 0;
  std::int64_t last_time = from / kMicrosecond;
  for (const Event& event : events) {
    const auto [name, is_new] = names.try_emplace(who_of(event), names.size());
    if (is_new) put_who(columns[kNames], name->first);
    put(columns[kWho], name->second);
    put(columns[kTime], static_cast<std::uint64_t>(event.time / kMicrosecond - last_time));
    last_time = event.time / kMicrosecond;
    const auto [place, is_new_place] = places.try_emplace(event.address, known.size());
    if (is_new_place) {
      put(columns[kAddress], 0);
      put(columns[kAddress], zigzag(static_cast<std::int64_t>(event.address - last_address)));
      last_address = event.address;
      known.push_back({event.address, 0, 0});
    } else {
      put(columns[kAddress], place->second + 1);
    }
    Place& learnt = known[place->second];
    put(columns[kBytes], zigzag(static_cast<std::int64_t>(event.bytes - learnt.bytes)));
    put(columns[kCharged], zigzag(minus(event.charged, learnt.charged)));
    put(columns[kDetail], event.detail);
    learnt.learn(event);
  }
  std::string out;
  put(out, events.size());
  put(out, names.size());
  for (const std::string& column : columns) put(out, column.size());
  for (const std::string& column : columns) out += column;
  return out;
}

bool decode_events(std::string_view text, std::int64_t from, std::vector<Event>& out) {
  Cursor head(text);
  const std::uint64_t count = head.number(), name_count = head.number();
  if (head.failed() || count > kEventsOfBlock || name_count > count) return false;
  std::array<std::uint64_t, kColumns> sizes;
  for (std::uint64_t& size : sizes) size = head.number();
  std::array<std::string_view, kColumns> columns;
  for (std::size_t at = 0; at < kColumns; ++at) columns[at] = head.text(sizes[at]);
  if (head.failed()) return false;
  Cursor name(columns[kNames]), who(columns[kWho]), time(columns[kTime]), address(columns[kAddress]),
      bytes(columns[kBytes]), charged(columns[kCharged]), detail(columns[kDetail]);
  std::vector<Event> names(name_count);
  for (Event& each : names) take_who(name, each);
  if (name.failed()) return false;
  std::vector<Place> known;
  known.reserve(count);
  std::uint64_t last_address = 0;
  std::int64_t now = from / kMicrosecond;
  for (std::uint64_t at = 0; at < count; ++at) {
    const std::uint64_t index = who.number();
    if (index >= names.size()) return false;
    Event event = names[index];
    now += static_cast<std::int64_t>(time.number() & 0xffff'ffff'ffff);
    event.time = static_cast<std::int64_t>(static_cast<std::uint64_t>(now) * kMicrosecond);
    std::uint64_t place = address.number();
    if (place == 0) {
      last_address += static_cast<std::uint64_t>(unzigzag(address.number()));
      known.push_back({last_address, 0, 0});
      place = known.size();
    }
    if (place > known.size()) return false;
    Place& learnt = known[place - 1];
    event.address = learnt.address;
    event.bytes = learnt.bytes + static_cast<std::uint64_t>(unzigzag(bytes.number()));
    event.charged = minus(learnt.charged, minus(0, unzigzag(charged.number())));
    event.detail = static_cast<std::uint32_t>(detail.number());
    learnt.learn(event);
    if (who.failed() || time.failed() || address.failed() || bytes.failed() || charged.failed() || detail.failed())
      return false;
    out.push_back(event);
  }
  return true;
}

}  // namespace ration::trace
