#include "trace/packed_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/file.hpp"
#include "base/whole_file.hpp"
#include "trace/event_block.hpp"
#include "trace/overview.hpp"
#include "trace/packed_json.hpp"
#include "trace/sections.hpp"

namespace ration::trace {
namespace {

class Packs final : public PackedRecording {
 public:
  explicit Packs(SectionFile file) : file_(std::move(file)) {}

  /// Reads header, index and overview. Returns false if the header is damaged.
  bool open() {
    const auto head = file_.section(kFileMagic.size());
    if (!head || head->tag != kHeaderTag) return false;
    try {
      header_ = header_of(nlohmann::json::parse(head->content));
      if (!read_index()) scan(head->end);
    } catch (const nlohmann::json::exception&) {
      return false;
    }
    return true;
  }
  /// Returns the number of damaged blocks in the index.
  [[nodiscard]] std::size_t damaged() const {
    return static_cast<std::size_t>(std::count_if(places_.begin(), places_.end(), [&](const BlockPlace& place) {
      if (const auto events = file_.checked(place.events); !events || events->tag != kEventsTag) return true;
      if (place.live == 0) return false;
      auto section = file_.checked(place.live);
      while (section && section->tag == kLiveTag) section = file_.checked(section->end);
      return !section;
    }));
  }
  const Header& header() const override { return header_; }
  const std::vector<Summary>& blocks() const override { return blocks_; }
  const Overview* overview() const override { return overview_ ? &*overview_ : nullptr; }
  void read(const std::function<bool(const Event&)>& take) const override { read_from(0, take); }
  void read_from(std::size_t first, const std::function<bool(const Event&)>& take) const override {
    std::vector<Event> events;
    for (std::size_t block = first; block < blocks_.size(); ++block) {
      const auto section = file_.section(places_[block].events);
      const bool whole = section && section->tag == kEventsTag && take_events(*section, blocks_[block].from, events);
      for (const Event& event : events)
        if (!take(event)) return;
      if (!whole) return;
    }
  }
  std::int64_t begins_near(std::int64_t time) const override {
    const auto block = block_near(time);
    return block ? blocks_[*block].from : 0;
  }
  void read_near(std::int64_t time, const std::function<void(const Event&)>& restore,
                 const std::function<bool(const Event&)>& take) const override {
    const auto block = block_near(time);
    if (!block) return read(take);
    std::vector<Event> events;
    for (auto section = file_.section(places_[*block].live); section && section->tag == kLiveTag;
         section = file_.section(section->end)) {
      (void)take_events(*section, 0, events);
      for (const Event& event : events) restore(event);
    }
    read_from(*block, take);
  }

 private:
  struct BlockPlace {
    std::uint64_t events;  ///< offset of its events
    std::uint64_t live;    ///< offset of the first section with the state before the block; 0: the block has none
  };

  /// Returns the last block that begins before `time` and for which the file has the state before the block; nullopt if
  /// there is none.
  [[nodiscard]] std::optional<std::size_t> block_near(std::int64_t time) const {
    for (std::size_t block = blocks_.size(); block-- > 0;)
      if (places_[block].live != 0 && blocks_[block].from < time) return block;
    return std::nullopt;
  }
  /// Replaces `events` by the events of a section. Returns false if the section is damaged.
  [[nodiscard]] bool take_events(const Section& section, std::int64_t from, std::vector<Event>& events) const {
    events.clear();
    const bool whole = decode_events(section.content, from, events);
    std::erase_if(events, [&](const Event& event) { return !is_known(event); });
    return whole;
  }
  /// Returns true if the header resolves the event's numbers, and its time and charge are within bounds.
  [[nodiscard]] bool is_known(const Event& event) const {
    return event.process < header_.processes.size() && event.device < header_.devices.size() &&
           (event.site == 0 || event.site < header_.sites.size()) && event.account <= Account::kPinnedHost &&
           event.time >= 0 && event.time <= kLatest && event.charged <= kMostCharge && event.charged >= -kMostCharge;
  }
  bool read_index() {
    const auto trailer = file_.trailer();
    const auto index = trailer ? file_.section(trailer->index) : std::nullopt;
    if (!index || index->tag != kIndexTag) return false;
    const nlohmann::json content = nlohmann::json::parse(index->content);
    for (const auto& row : content.at("blocks")) {
      blocks_.push_back(summary_of(row));
      places_.push_back({row.at("offset").get<std::uint64_t>(), row.value("live_offset", std::uint64_t{0})});
    }
    if (const auto offset = content.value("overview_offset", std::uint64_t{0}); offset != 0)
      if (const auto overview = file_.section(offset); overview && overview->tag == kOverviewTag)
        overview_ = parse_overview(overview->content, header_);
    return true;
  }
  /// Finds the blocks of a file without an index, up to the place where the file was cut off.
  void scan(std::uint64_t offset) {
    header_.complete = false;
    blocks_.clear();
    places_.clear();
    std::optional<Summary> summary;
    std::uint64_t live = 0;
    for (auto section = file_.section(offset); section; section = file_.section(offset)) {
      if (section->tag == kLiveTag && live == 0) live = offset;
      if (section->tag == kSummaryTag) summary = summary_of(nlohmann::json::parse(section->content));
      if (section->tag == kEventsTag && summary) {
        blocks_.push_back(*std::exchange(summary, std::nullopt));
        places_.push_back({offset, std::exchange(live, 0)});
      }
      offset = section->end;
    }
  }

  SectionFile file_;
  Header header_;
  std::vector<Summary> blocks_;
  std::vector<BlockPlace> places_;
  std::optional<Overview> overview_;
};

std::optional<std::string> beginning(const std::string& path) {
  const auto file = open_regular(path);
  std::string bytes(kFileMagic.size(), '\0');
  if (!file || ::pread(file->get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return std::nullopt;
  return bytes;
}

}  // namespace

bool is_packed(const std::string& path) {
  const auto bytes = beginning(path);
  return bytes && bytes->starts_with(kFileMagic.substr(0, kFileMagic.size() - 1));
}

Result<std::unique_ptr<PackedRecording>> open_packed(const std::string& path) {
  if (const auto bytes = beginning(path); bytes && *bytes != kFileMagic)
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

}  // namespace ration::trace
