#include "trace/packed_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.hpp"
#include "base/whole_file.hpp"
#include "trace/event_block.hpp"

namespace ration::trace {
namespace {

constexpr std::string_view kMagic = "rationR1", kEnd = "rationRE";
constexpr std::size_t kMostOfSection = std::size_t{256} << 20;
constexpr int kCompression = 1;  // Z_BEST_SPEED

/// The head of a section, little-endian as on every machine that has a driver.
struct SectionHead {
  std::array<char, 4> tag;
  std::uint32_t stored;  ///< bytes behind the head
  std::uint32_t plain;   ///< bytes of the content, which is compressed
  std::uint32_t crc;     ///< CRC-32 of the stored bytes
};
static_assert(sizeof(SectionHead) == 16);
constexpr std::array<char, 4> kHeader{'H', 'E', 'A', 'D'}, kSummary{'S', 'U', 'M', 'M'}, kEvents{'E', 'V', 'N', 'T'},
    kIndex{'I', 'N', 'D', 'X'};

struct Trailer {
  std::uint64_t index;
  std::array<char, 8> magic;
};

std::uint32_t crc_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

std::string compressed(std::string_view plain) {
  uLongf size = ::compressBound(static_cast<uLong>(plain.size()));
  std::string stored(size, '\0');
  ::compress2(reinterpret_cast<Bytef*>(stored.data()), &size, reinterpret_cast<const Bytef*>(plain.data()),
              static_cast<uLong>(plain.size()), kCompression);
  stored.resize(size);
  return stored;
}

std::string dumped(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json to_json(const Header& header) {
  nlohmann::json devices = nlohmann::json::array(), processes = nlohmann::json::array();
  for (const Device& device : header.devices) {
    nlohmann::json row{{"uuid", device.uuid}, {"name", device.name}, {"total_bytes", device.total.count()}};
    if (device.limit) row["limit_bytes"] = device.limit->count();
    devices.push_back(std::move(row));
  }
  for (const Process& process : header.processes)
    processes.push_back({{"pid", process.pid}, {"parent", process.parent}, {"command", process.command}});
  return {{"schema", "ration.recording/1"},
          {"workload", header.workload},
          {"began_unix_ns", header.began},
          {"deep", header.deep},
          {"booked", header.booked},
          {"complete", header.complete},
          {"lost", header.lost},
          {"devices", devices},
          {"processes", processes},
          {"sites", header.sites}};
}

Header header_of(const nlohmann::json& json) {
  Header header;
  header.workload = json.at("workload").get<std::string>();
  header.began = json.at("began_unix_ns").get<std::int64_t>();
  header.deep = json.at("deep").get<bool>();
  header.booked = json.at("booked").get<bool>();
  header.complete = json.at("complete").get<bool>();
  header.lost = json.at("lost").get<std::uint64_t>();
  header.sites = json.at("sites").get<std::vector<std::string>>();
  for (const auto& row : json.at("devices")) {
    Device device{row.at("uuid"), row.at("name"), Bytes{row.at("total_bytes").get<std::uint64_t>()}, {}};
    if (row.contains("limit_bytes")) device.limit = Bytes{row.at("limit_bytes").get<std::uint64_t>()};
    header.devices.push_back(std::move(device));
  }
  for (const auto& row : json.at("processes"))
    header.processes.push_back({row.at("pid"), row.at("parent"), row.at("command")});
  return header;
}

nlohmann::json to_json(const Summary& summary) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Summary::Row& row : summary.rows)
    rows.push_back({row.device, static_cast<int>(row.account), row.before, row.peak, row.after});
  return {{"from_ns", summary.from}, {"to_ns", summary.to}, {"events", summary.events}, {"accounts", rows}};
}

Summary summary_of(const nlohmann::json& json) {
  Summary summary;
  summary.from = json.at("from_ns").get<std::int64_t>();
  summary.to = json.at("to_ns").get<std::int64_t>();
  summary.events = json.at("events").get<std::uint64_t>();
  for (const auto& row : json.at("accounts"))
    summary.rows.push_back({row.at(0).get<std::uint16_t>(), static_cast<Account>(row.at(1).get<int>()),
                            row.at(2).get<std::int64_t>(), row.at(3).get<std::int64_t>(),
                            row.at(4).get<std::int64_t>()});
  return summary;
}

// ------------------------------------------------------------------------------------------------------------ writing

/// Sums what is held of every account, and what a block changes.
class Sums {
 public:
  void begin_block() {
    for (auto& [key, row] : rows_) row.before = row.peak = row.after;
  }
  void add(const Event& event) {
    if (event.charged == 0) return;
    Summary::Row& row = rows_[{event.device, event.account}];
    row.device = event.device;
    row.account = event.account;
    row.after += event.charged;
    row.peak = std::max(row.peak, row.after);
  }
  [[nodiscard]] std::vector<Summary::Row> rows() const {
    std::vector<Summary::Row> all;
    for (const auto& [key, row] : rows_) all.push_back(row);
    return all;
  }

 private:
  std::map<std::pair<std::uint16_t, Account>, Summary::Row> rows_;
};

class Writer {
 public:
  explicit Writer(int file) : file_(file) {}

  void put(std::string_view bytes) {
    for (std::size_t done = 0; good_ && done < bytes.size();) {
      const ssize_t written = ::write(file_, bytes.data() + done, bytes.size() - done);
      if (written < 0 && errno == EINTR) continue;
      good_ = written > 0;
      done += good_ ? static_cast<std::size_t>(written) : 0;
    }
    offset_ += bytes.size();
  }
  void put_section(const std::array<char, 4>& tag, std::string_view content) {
    const std::string stored = compressed(content);
    const SectionHead head{tag, static_cast<std::uint32_t>(stored.size()), static_cast<std::uint32_t>(content.size()),
                           crc_of(stored)};
    put({reinterpret_cast<const char*>(&head), sizeof head});
    put(stored);
  }
  void put_block(std::vector<Event>& events) {
    if (events.empty()) return;
    Summary summary;
    summary.from = events.front().time;
    summary.to = events.back().time;
    summary.events = events.size();
    sums_.begin_block();
    for (const Event& event : events) sums_.add(event);
    summary.rows = sums_.rows();
    nlohmann::json json = to_json(summary);
    put_section(kSummary, dumped(json));
    json["offset"] = offset_;
    blocks_.push_back(std::move(json));
    put_section(kEvents, encode_events(events, summary.from));
    events_ += events.size();
    events.clear();
  }
  void put_end() {
    const Trailer trailer{offset_, {}};
    put_section(kIndex, dumped({{"events", events_}, {"blocks", blocks_}}));
    Trailer whole = trailer;
    std::copy(kEnd.begin(), kEnd.end(), whole.magic.begin());
    put({reinterpret_cast<const char*>(&whole), sizeof whole});
  }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] Packed packed() const { return {events_, offset_}; }

 private:
  const int file_;
  bool good_ = true;
  std::uint64_t offset_ = 0, events_ = 0;
  Sums sums_;
  nlohmann::json blocks_ = nlohmann::json::array();
};

// ------------------------------------------------------------------------------------------------------------ reading

/// A file that is read in sections; another program may cut it off meanwhile.
class SectionFile {
 public:
  explicit SectionFile(FileDescriptor file) : file_(std::move(file)) {}

  [[nodiscard]] std::uint64_t size() const {
    struct stat status {};
    return ::fstat(file_.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  }
  [[nodiscard]] bool read(std::uint64_t offset, void* out, std::size_t size) const {
    for (std::size_t done = 0; done < size;) {
      const ssize_t got =
          ::pread(file_.get(), static_cast<char*>(out) + done, size - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      done += static_cast<std::size_t>(got);
    }
    return true;
  }
  struct Section {
    std::array<char, 4> tag;
    std::string content;
    std::uint64_t end;
  };
  /// Returns the stored bytes of the section at `offset`, or nothing if they are not whole.
  [[nodiscard]] std::optional<std::string> stored(std::uint64_t offset, SectionHead& head) const {
    const std::uint64_t all = size();
    if (offset > all || all - offset < sizeof head || !read(offset, &head, sizeof head)) return std::nullopt;
    if (head.stored > kMostOfSection || head.plain > kMostOfSection || head.stored > all - offset - sizeof head)
      return std::nullopt;
    std::string bytes(head.stored, '\0');
    if (!read(offset + sizeof head, bytes.data(), bytes.size()) || crc_of(bytes) != head.crc) return std::nullopt;
    return bytes;
  }
  /// Returns the section at `offset`, or nothing if it is not whole.
  [[nodiscard]] std::optional<Section> section(std::uint64_t offset) const {
    SectionHead head;
    const auto bytes = stored(offset, head);
    // Deflate makes of a byte at most 1,032.
    if (!bytes || head.plain / 1040 > head.stored) return std::nullopt;
    Section section{head.tag, std::string(head.plain, '\0'), offset + sizeof head + head.stored};
    uLongf plain = head.plain;
    if (::uncompress(reinterpret_cast<Bytef*>(section.content.data()), &plain,
                     reinterpret_cast<const Bytef*>(bytes->data()), static_cast<uLong>(bytes->size())) != Z_OK ||
        plain != head.plain)
      return std::nullopt;
    return section;
  }

 private:
  FileDescriptor file_;
};

class Packs final : public PackedRecording {
 public:
  explicit Packs(SectionFile file) : file_(std::move(file)) {}

  /// Reads header and index. Returns false if the header is damaged.
  bool open() {
    const auto head = file_.section(kMagic.size());
    if (!head || head->tag != kHeader) return false;
    try {
      header_ = header_of(nlohmann::json::parse(head->content));
      if (!read_index()) scan(head->end);
    } catch (const nlohmann::json::exception&) {
      return false;
    }
    return true;
  }
  /// Returns how many blocks of the index are damaged.
  [[nodiscard]] std::size_t damaged() const {
    return static_cast<std::size_t>(std::count_if(offsets_.begin(), offsets_.end(), [&](std::uint64_t offset) {
      SectionHead head;
      return !file_.stored(offset, head) || head.tag != kEvents;
    }));
  }
  const Header& header() const override { return header_; }
  const std::vector<Summary>& blocks() const override { return blocks_; }
  void read(const std::function<bool(const Event&)>& take) const override { read_from(0, take); }
  void read_from(std::size_t first, const std::function<bool(const Event&)>& take) const override {
    std::vector<Event> events;
    for (std::size_t block = first; block < blocks_.size(); ++block) {
      events.clear();
      const auto section = file_.section(offsets_[block]);
      const bool whole =
          section && section->tag == kEvents && decode_events(section->content, blocks_[block].from, events);
      for (Event& event : events)
        if (is_known(event) && !take(event)) return;
      if (!whole) return;
    }
  }

 private:
  /// True if the header has what the event's numbers stand for.
  [[nodiscard]] bool is_known(const Event& event) const {
    return event.process < header_.processes.size() && event.device < header_.devices.size() &&
           (event.site == 0 || event.site < header_.sites.size()) && event.account <= Account::kPinnedHost &&
           event.time >= 0 && event.time <= kLatest && event.charged <= kMostCharge && event.charged >= -kMostCharge;
  }
  bool read_index() {
    Trailer trailer;
    const std::uint64_t size = file_.size();
    if (size < sizeof trailer || !file_.read(size - sizeof trailer, &trailer, sizeof trailer)) return false;
    if (!std::equal(kEnd.begin(), kEnd.end(), trailer.magic.begin())) return false;
    const auto index = file_.section(trailer.index);
    if (!index || index->tag != kIndex) return false;
    const nlohmann::json content = nlohmann::json::parse(index->content);
    for (const auto& row : content.at("blocks")) {
      blocks_.push_back(summary_of(row));
      offsets_.push_back(row.at("offset").get<std::uint64_t>());
    }
    return true;
  }
  /// Finds the blocks of a file without an index, up to where it is whole.
  void scan(std::uint64_t offset) {
    header_.complete = false;
    blocks_.clear();
    offsets_.clear();
    std::optional<Summary> summary;
    for (auto section = file_.section(offset); section; section = file_.section(offset)) {
      if (section->tag == kSummary) summary = summary_of(nlohmann::json::parse(section->content));
      if (section->tag == kEvents && summary) {
        blocks_.push_back(*std::exchange(summary, std::nullopt));
        offsets_.push_back(offset);
      }
      offset = section->end;
    }
  }

  SectionFile file_;
  Header header_;
  std::vector<Summary> blocks_;
  std::vector<std::uint64_t> offsets_;
};

std::optional<std::string> beginning(const std::string& path) {
  const auto file = open_regular(path);
  std::string bytes(kMagic.size(), '\0');
  if (!file || ::pread(file->get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return std::nullopt;
  return bytes;
}

}  // namespace

bool is_packed(const std::string& path) {
  const auto bytes = beginning(path);
  return bytes && bytes->starts_with(kMagic.substr(0, kMagic.size() - 1));
}

Result<std::unique_ptr<PackedRecording>> open_packed(const std::string& path) {
  if (const auto bytes = beginning(path); bytes && *bytes != kMagic)
    return fail("E1816", fmt::format("{} was recorded by another version of ration.", path),
                "Open it with that version.");
  auto file = open_regular(path);
  if (!file)
    return fail("E1811", fmt::format("{} cannot be read: {}.", path, std::string(file.error())), "Check the path.");
  auto packs = std::make_unique<Packs>(SectionFile(std::move(*file)));
  if (!packs->open())
    return fail("E1811", fmt::format("{} is damaged: its header cannot be read.", path), "Record it again.");
  if (const std::size_t damaged = packs->damaged(); damaged > 0)
    return fail("E1811",
                fmt::format("{} is damaged: {} of its {} blocks of events cannot be read.", path, damaged,
                            packs->blocks().size()),
                "Record it again.");
  return std::unique_ptr<PackedRecording>(std::move(packs));
}

Result<Packed> write_packed(const std::string& path, const Recording& recording) {
  const std::string fresh = path + ".new";
  const auto bad = [&] {
    const int error = errno;
    ::unlink(fresh.c_str());
    return fail("E1815", fmt::format("the recording cannot be written to {}: {}.", path, std::strerror(error)),
                "Free some space there; the parts of the recording are kept: ration inspect " + path);
  };
  ::unlink(fresh.c_str());
  const FileDescriptor file{::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (!file) return bad();
  Writer writer(file.get());
  writer.put(kMagic);
  writer.put_section(kHeader, dumped(to_json(recording.header())));
  std::vector<Event> block;
  block.reserve(kEventsOfBlock);
  recording.read([&](const Event& event) {
    block.push_back(event);
    if (block.size() == kEventsOfBlock) writer.put_block(block);
    return writer.good();
  });
  writer.put_block(block);
  writer.put_end();
  if (!writer.good() || ::rename(fresh.c_str(), path.c_str()) != 0) return bad();
  return writer.packed();
}

}  // namespace ration::trace
