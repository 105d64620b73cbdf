#include "node/state/state_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/say.hpp"
#include "base/whole_file.hpp"
#include "history/set_aside.hpp"

namespace ration::node {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxSize = std::size_t{256}
                                 << 20;  // far above what the permitted number of workloads and users needs
constexpr int kMaxDepth = 16;            // bounds the memory, because a file of nested brackets takes 75 times its size

struct TooDeep {};

/// Returns why the file is damaged; empty if it is not.
Message damage_of(const std::string& path, const std::function<void(const json& document)>& take) {
  const auto content = read_whole(path, kMaxSize, Links::kRejected);
  if (!content) return content.error();
  const auto admit = [](int depth, json::parse_event_t, const json&) {
    return depth <= kMaxDepth ? true : throw TooDeep();
  };
  try {
    const json document = json::parse(*content, admit, false);
    if (document.is_discarded()) return fixed<"state.no_json">();
    take(document);
  } catch (const TooDeep&) {
    return fixed<"state.too_deep">();
  } catch (const std::exception& wrong) {
    return say<"state.foreign">("problem"_is(wrong.what()));
  }
  return {};
}

}  // namespace

void StateFile::read(const Message& consequence, const std::function<void(const json& document)>& take) {
  if (path_.empty()) return;
  struct stat status {};
  if (::lstat(path_.c_str(), &status) != 0 && errno == ENOENT) return;
  const Message damage = damage_of(path_, take);
  if (damage.empty()) return;
  const std::string aside = history::set_aside(path_);
  const Message kept = aside.empty() ? say<"state.not_renamed">("problem"_is(std::strerror(errno)))
                                     : say<"state.kept">("file"_is(aside));
  damage_ = say<"state.damaged">("file"_is(path_), "damage"_is(damage), "lost"_is(consequence), "kept"_is(kept));
}

Result<void> StateFile::write(const json& document) {
  if (path_.empty()) return {};
  std::string text = document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  if (text == written_) return {};
  if (!write_whole(path_, text, 0600))
    return fail("E1531", fmt::format("{} cannot be written: {}.", path_, std::strerror(errno)),
                "Free some space there: otherwise the change is lost at the daemon's next start.", 1);
  written_ = std::move(text);
  return {};
}

}  // namespace ration::node
