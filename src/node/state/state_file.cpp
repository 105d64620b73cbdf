#include "node/state/state_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/whole_file.hpp"
#include "history/set_aside.hpp"

namespace ration::node {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxSize = std::size_t{256}
                                 << 20;  // far above what the permitted number of workloads and users needs
constexpr int kMaxDepth = 16;            // reading a file of brackets takes 75 times its size

/// Returns why the file is damaged; empty: it is not.
std::string damage_of(const std::string& path, const std::function<void(const json& document)>& take) {
  const auto content = read_whole(path, kMaxSize, Links::kRejected);
  if (!content) return content.error();
  const auto admit = [](int depth, json::parse_event_t, const json&) {
    return depth <= kMaxDepth ? true : throw std::length_error("it is nested too deeply");
  };
  try {
    const json document = json::parse(*content, admit, false);
    if (document.is_discarded()) return "it is not JSON";
    take(document);
  } catch (const std::exception& wrong) {
    return fmt::format("its content is not the daemon's: {}", wrong.what());
  }
  return {};
}

}  // namespace

void StateFile::read(const std::string& consequence, const std::function<void(const json& document)>& take) {
  if (path_.empty()) return;
  struct stat status {};
  if (::lstat(path_.c_str(), &status) != 0 && errno == ENOENT) return;
  const std::string damage = damage_of(path_, take);
  if (damage.empty()) return;
  const std::string aside = history::set_aside(path_);
  const std::string kept =
      aside.empty() ? fmt::format("It cannot be renamed ({}).", std::strerror(errno)) : "It was kept as " + aside + ".";
  damage_ = fmt::format("{} is damaged ({}): {} {}", path_, damage, consequence, kept);
}

Result<void> StateFile::write(const json& document) {
  if (path_.empty()) return {};
  std::string text = document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  if (text == written_) return {};
  if (!write_whole(path_, text, 0600))
    return fail("E1531", fmt::format("{} cannot be written: {}.", path_, std::strerror(errno)),
                "Free some space there: what was changed would be lost at the daemon's next start.", 1);
  written_ = std::move(text);
  return {};
}

}  // namespace ration::node
