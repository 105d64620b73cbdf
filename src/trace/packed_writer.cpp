#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <future>
#include <map>
#include <thread>

#include "base/file.hpp"
#include "trace/event_block.hpp"
#include "trace/overview.hpp"
#include "trace/packed_file.hpp"
#include "trace/packed_json.hpp"
#include "trace/sections.hpp"

namespace ration::trace {
namespace {

/// The fewest events between two snapshots: in all, and per live block. A reader that looks for a moment begins at the
/// last snapshot before that moment. With these numbers the reader reads few blocks, and snapshots are a small part of
/// the file.
constexpr std::uint64_t kEventsOfSnapshot = 4 * kEventsOfBlock, kEventsOfLiveBlock = 32;
constexpr std::int64_t kMicrosecond = 1000;

/// The sums of every account, and the changes that a block makes.
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

/// The sections of one block.
struct Sections {
  std::string bytes;
  std::uint64_t events_offset = 0;
};

/// A writer of blocks of events, which separate threads compress. Needs memory for one block of events per thread, and
/// for the live blocks.
class Writer {
 public:
  Writer(int file, const Header& header) : file_(file), overview_(header) {
    put(kFileMagic);
    put(section_of(kHeaderTag, dumped(to_json(header))));
  }

  void add(const Event& event) {
    if (events_.empty()) events_.reserve(kEventsOfBlock);
    events_.push_back(event);
    events_.back().time -= event.time % kMicrosecond;  // the file has whole microseconds
    if (events_.size() == kEventsOfBlock) end_block();
  }
  void finish() {
    end_block();
    while (!pending_.empty()) write_oldest();
    const std::uint64_t overview = offset_;
    put(section_of(kOverviewTag, text_of(overview_.finish())));
    Trailer trailer{offset_, {}};
    std::copy(kFileEnd.begin(), kFileEnd.end(), trailer.magic.begin());
    put(section_of(kIndexTag, dumped({{"events", count_}, {"overview_offset", overview}, {"blocks", blocks_}})));
    put({reinterpret_cast<const char*>(&trailer), sizeof trailer});
  }
  [[nodiscard]] bool good() const { return error_ == 0; }
  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] Packed packed() const { return {count_, offset_}; }

 private:
  struct Pending {
    nlohmann::json row;
    std::future<Sections> sections;
    bool has_snapshot;
  };

  void put(std::string_view bytes) {
    for (std::size_t done = 0; good() && done < bytes.size();) {
      const ssize_t written = ::write(file_, bytes.data() + done, bytes.size() - done);
      if (written < 0 && errno == EINTR) continue;
      error_ = written > 0 ? 0 : errno;
      done += good() ? static_cast<std::size_t>(written) : 0;
    }
    offset_ += bytes.size();
  }
  void end_block() {
    if (events_.empty()) return;
    std::vector<Event> live;
    if (since_snapshot_ >= std::max(kEventsOfSnapshot, kEventsOfLiveBlock * overview_.live().blocks())) {
      live = overview_.live().snapshot();
      since_snapshot_ = 0;
    }
    Summary summary{events_.front().time, events_.back().time, events_.size(), {}};
    sums_.begin_block();
    for (const Event& event : events_) {
      sums_.add(event);
      overview_.add(event);
    }
    summary.rows = sums_.rows();
    count_ += events_.size();
    since_snapshot_ += events_.size();
    if (pending_.size() > std::thread::hardware_concurrency()) write_oldest();
    nlohmann::json row = to_json(summary);
    const bool has_snapshot = !live.empty();
    auto sections = std::async(std::launch::async, [events = std::exchange(events_, {}), live = std::move(live),
                                                    head = dumped(row), from = summary.from] {
      Sections made;
      const std::span<const Event> all(live);
      for (std::size_t at = 0; at < all.size(); at += kEventsOfBlock)
        made.bytes +=
            section_of(kLiveTag, encode_events(all.subspan(at, std::min(kEventsOfBlock, all.size() - at)), 0));
      made.bytes += section_of(kSummaryTag, head);
      made.events_offset = made.bytes.size();
      made.bytes += section_of(kEventsTag, encode_events(events, from));
      return made;
    });
    pending_.push_back({std::move(row), std::move(sections), has_snapshot});
  }
  void write_oldest() {
    Pending& oldest = pending_.front();
    const Sections made = oldest.sections.get();
    if (oldest.has_snapshot) oldest.row["live_offset"] = offset_;
    oldest.row["offset"] = offset_ + made.events_offset;
    blocks_.push_back(std::move(oldest.row));
    put(made.bytes);
    pending_.pop_front();
  }

  const int file_;
  int error_ = 0;  ///< errno of the first failed write, after which nothing more is written; 0: none
  std::uint64_t offset_ = 0, count_ = 0, since_snapshot_ = 0;
  std::vector<Event> events_;  ///< of the block that is not full yet
  Sums sums_;
  OverviewBuilder overview_;
  std::deque<Pending> pending_;
  nlohmann::json blocks_ = nlohmann::json::array();
};

}  // namespace

Result<void> check_place(const std::string& path) {
  constexpr const char* kFix = "Give the path of a file, such as train.rec.";
  if (path == "-") return fail("E1815", "a recording is a file, and is not written to standard output.", kFix, 125);
  // A file must not take the place of a device or a pipe.
  struct stat status {};
  if (path.empty() || (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)))
    return fail("E1815", fmt::format("'{}' is not a file that a recording can be written to.", path), kFix, 125);
  return {};
}

Result<Packed> write_packed(const std::string& path, const Recording& recording) {
  const std::string fresh = path + ".new";
  const auto bad = [&](int error) {
    ::unlink(fresh.c_str());
    return fail("E1815", fmt::format("the recording cannot be written to {}: {}.", path, std::strerror(error)),
                "Free some space there, or give another path.");
  };
  RATION_TRY(check_place(path));
  ::unlink(fresh.c_str());
  const FileDescriptor file{::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (!file) return bad(errno);
  Writer writer(file.get(), recording.header());
  recording.read([&](const Event& event) {
    writer.add(event);
    return writer.good();
  });
  writer.finish();
  if (!writer.good()) return bad(writer.error());
  if (::rename(fresh.c_str(), path.c_str()) != 0) return bad(errno);
  return writer.packed();
}

}  // namespace ration::trace
