#include "adapters/containers/compose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "base/printable.hpp"

namespace ration::adapters {
namespace {

constexpr const char* kExample = "ration inject compose --limit 4GiB -- -f compose.yaml up";

/// The options of `docker compose` itself that take the next word as their value (by the reference of release 2).
constexpr const char* kWithValue[] = {"-f",     "--file",     "-p",         "--project-name", "--profile",
                                      "--ansi", "--progress", "--parallel", "--env-file",     "--project-directory"};

/// Returns true if Compose accepts the name: letters, digits and `._-`.
bool is_service_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char letter) {
    return letter < 0x80 && (std::isalnum(letter) != 0 || std::strchr("._-", letter) != nullptr);
  });
}

bool names_file(const std::string& word) {
  return word == "--file" || word.starts_with("--file=") || (word.starts_with("-f") && !word.starts_with("--"));
}

}  // namespace

std::string compose_devices(const std::vector<std::string>& devices) {
  std::string lines = "    devices:\n";
  for (const std::string& device : devices) lines += fmt::format("      - {}\n", device);
  return lines;
}

Result<std::string> compose_override(const std::vector<std::string>& services, const std::string& device) {
  if (services.empty()) return fail("E1711", "the compose file has no service.", kExample, 2);
  std::string text = "services:\n";
  for (const std::string& service : services) {
    if (!is_service_name(service))
      return fail("E1711", fmt::format("'{}' is not the name of a service.", printable(service)), kExample, 2);
    text += fmt::format("  \"{}\":\n{}", service, compose_devices({device}));  // quoted: YAML reads a bare `on` as true
  }
  return text;
}

Result<ComposeWords> read_compose_words(const std::vector<std::string>& words) {
  auto at = words.begin();
  bool has_file = false;
  for (; at != words.end() && at->size() > 1 && at->front() == '-'; ++at) {
    has_file = has_file || names_file(*at);
    const bool takes_next = std::find(std::begin(kWithValue), std::end(kWithValue), *at) != std::end(kWithValue);
    if (takes_next && at + 1 != words.end()) ++at;
  }
  if (!has_file)
    return fail("E1711",
                "no compose file is given. docker compose needs your file in addition to the file that ration adds.",
                kExample, 2);
  if (at == words.end()) return fail("E1711", "the command of docker compose is missing after --.", kExample, 2);
  return ComposeWords{{words.begin(), at}, {at, words.end()}};
}

}  // namespace ration::adapters
