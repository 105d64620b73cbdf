#include "cli/context.hpp"

#include <algorithm>

#include "base/command.hpp"
#include "cli/reference.hpp"

namespace ration::cli {
namespace {

constexpr std::string_view kProgram = "ration ";

/// What stands before a command: nothing, or what ends a word. In quotes it is not meant to be typed.
bool begins_command(std::string_view text, std::size_t at) {
  return at == 0 || std::string_view(" \n(;|&$").find(text[at - 1]) != std::string_view::npos;
}

const VerbText* verb_at(std::string_view text, std::size_t at) {
  const std::size_t end = std::min(text.find_first_of(" \n,;:.)'`", at), text.size());
  const auto& all = verb_texts();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const VerbText& verb) { return text.substr(at, end - at) == verb.name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

std::string in_context(std::string_view text, const Context& context) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(kProgram); at != std::string_view::npos; at = text.find(kProgram, at + 1)) {
    const std::size_t word = at + kProgram.size();
    const VerbText* verb = begins_command(text, at) ? verb_at(text, word) : nullptr;
    if (verb == nullptr) continue;
    const std::size_t behind = word + std::string_view(verb->name).size();
    const std::size_t end = std::min(text.find(kProgram, behind), text.find('\n', behind));
    const std::string_view rest = text.substr(behind, end == std::string_view::npos ? end : end - behind);
    const auto add = [&](NodeOption option, std::string_view name, const std::string& value) {
      const bool wanted = (verb->node & option) != 0 && !value.empty() && rest.find(name) == std::string_view::npos;
      return wanted ? " " + std::string(name) + "=" + shell_word(value) : std::string();
    };
    out += text.substr(done, behind - done);
    out += add(kSim, "--sim", context.simulated) + add(kSocket, "--socket", context.socket);
    done = behind;
  }
  return out + std::string(text.substr(done));
}

}  // namespace ration::cli
