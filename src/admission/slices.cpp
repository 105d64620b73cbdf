#include "admission/slices.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/command.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "base/whole_file.hpp"

namespace ration::admission {
namespace {

std::string slices_file(const book::Store& store) { return store.folder() + "/slices.json"; }

/// Adds a share without overflow, since each share may be unlimited.
Bytes add(Bytes sum, Bytes share) { return std::min(sum + share, kUnlimited); }

Result<std::vector<Bytes>> fitting(const machine::Device& device, std::vector<Bytes> shares) {
  Bytes before, sum;
  for (Bytes& share : shares) {
    share = round_down(share, kGranule);
    if (share == Bytes{0})
      return fail("E1602", "a slice would have no memory.",
                  "Give each slice more than a CUDA context needs, such as 1GiB, or make fewer slices.", 2);
    before = sum;
    sum = add(sum, share);
  }
  if (sum > device.total) {
    return fail("E1602",
                fmt::format("the slices need {}, but GPU {} has {}.", format_size(sum), device.index,
                            format_size(device.total)),
                before < device.total
                    ? fmt::format("Make the last slice {}, or 'rest'.", exact_size(device.total - before))
                    : std::string("Make the slices smaller; --into makes slices of equal size."),
                4);
  }
  return shares;
}

}  // namespace

Result<std::vector<Slice>> read_slices(const book::Store& store) {
  std::vector<Slice> slices;
  const std::string path = slices_file(store);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return slices;
  const auto all = nlohmann::json::parse(read_whole(path).value_or(""), nullptr, false);
  const auto damaged = [&] {
    return fail("E1606", fmt::format("the file of the slices, {}, is damaged.", slices_file(store)),
                fmt::format("rm {}   and split again", slices_file(store)), 2);
  };
  if (!all.is_array()) return damaged();
  for (const auto& entry : all) {
    if (!entry.is_object() || !entry.contains("slice") || !entry["slice"].is_string() || !entry.contains("uuid") ||
        !entry["uuid"].is_string() || !entry.contains("limit_bytes") || !entry["limit_bytes"].is_number_unsigned()) {
      return damaged();
    }
    const auto from = entry.find("from");
    slices.push_back({entry["slice"], entry["uuid"], Bytes{entry["limit_bytes"].get<std::uint64_t>()},
                      from != entry.end() && *from == "configuration"});
  }
  return slices;
}

Result<void> write_slices(const book::Store& store, const machine::Device& device, const std::vector<Slice>& slices) {
  const std::string path = slices_file(store);
  RATION_TRY(auto present, read_slices(store));
  std::erase_if(present, [&](const Slice& slice) { return slice.uuid == device.uuid; });
  for (const Slice& slice : slices) {
    const auto taken =
        std::find_if(present.begin(), present.end(), [&](const Slice& other) { return other.name == slice.name; });
    if (taken != present.end()) {
      return fail("E1607", fmt::format("another slice has the name '{}' already.", slice.name), "Choose other --names.",
                  2);
    }
    present.push_back(slice);
  }
  auto all = nlohmann::json::array();
  for (const Slice& slice : present) {
    all.push_back({{"slice", slice.name}, {"uuid", slice.uuid}, {"limit_bytes", slice.size.count()}});
    if (slice.configured) all.back()["from"] = "configuration";
  }
  const std::string fresh = path + ".new";
  std::ofstream file(fresh);
  file << all.dump(1) << "\n";
  file.close();
  if (!file || std::rename(fresh.c_str(), path.c_str()) != 0) {
    ::unlink(fresh.c_str());
    return fail("E1405", fmt::format("{} cannot be written.", path),
                "Free some space there, or export RATION_RUNTIME_DIR=<another folder>", 1);
  }
  return {};
}

const book::StoredBook* occupant(const std::vector<book::StoredBook>& books, const std::string& slice) {
  for (const auto& book : books) {
    if (book.live && book.contents.slice == slice) return &book;
  }
  return nullptr;
}

Result<std::vector<Bytes>> parse_shares(const machine::Device& device, const std::string& text) {
  std::vector<Bytes> shares;
  Bytes sum;
  for (const std::string_view entry : split(text, ',')) {
    const bool rest = entry == "rest";
    if (rest && entry.end() != std::string_view(text).end())
      return fail("E1602", "'rest' can only be the last slice.", "--sizes 6GiB,6GiB,rest", 2);
    if (rest && sum >= device.total)
      return fail("E1602",
                  fmt::format("no memory is left for 'rest': the slices before it need {}, and GPU {} has {}.",
                              format_size(sum), device.index, format_size(device.total)),
                  "Make them smaller, or leave 'rest' out.", 2);
    const Result<Bytes> share =
        rest ? Result<Bytes>(device.total - sum) : parse_size(entry, device.total, device.room());
    if (!share) return tl::unexpected(share.error());
    shares.push_back(*share);
    sum = add(sum, round_down(*share, kGranule));
  }
  return fitting(device, shares);
}

Result<std::vector<Bytes>> equal_shares(const machine::Device& device, int into) {
  if (into < 1 || into > 64)
    return fail("E1602", fmt::format("a GPU cannot be cut into {} slices.", into),
                "--into 4, or another number from 1 to 64", 2);
  return fitting(device, std::vector<Bytes>(static_cast<std::size_t>(into),
                                            Bytes{device.total.count() / static_cast<unsigned>(into)}));
}

Result<std::vector<Bytes>> ratio_shares(const machine::Device& device, const std::string& text) {
  std::vector<std::uint64_t> parts;
  std::uint64_t sum = 0;
  for (const std::string_view entry : split(text, ':')) {
    if (entry.empty() || entry.size() > 6 || entry.find_first_not_of("0123456789") != std::string_view::npos) {
      return fail("E1602", fmt::format("'{}' is not a ratio.", text), "--ratio 40:60", 2);
    }
    parts.push_back(std::stoull(std::string(entry)));
    sum += parts.back();
  }
  if (sum == 0) return fail("E1602", fmt::format("'{}' is not a ratio.", text), "--ratio 40:60", 2);
  std::vector<Bytes> shares;
  for (const std::uint64_t part : parts) shares.emplace_back(device.total.count() / sum * part);
  return fitting(device, shares);
}

}  // namespace ration::admission
