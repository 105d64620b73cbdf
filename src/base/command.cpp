#include "base/command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/printable.hpp"

namespace ration {
namespace {

// Returns true if a shell reads the letter as it is, as it reads every letter beyond ASCII.
bool needs_no_quotes(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
         (letter & 0x80) != 0 || std::string_view("-_./:=+,@%").find(letter) != std::string_view::npos;
}

constexpr std::string_view kProgram = "ration ";

/// Returns true if a command may begin at this position: at the start of the text, or after a character that ends a
/// word.
bool begins_command(std::string_view text, std::size_t at) {
  return at == 0 || std::string_view(" \n(;|&$").find(text[at - 1]) != std::string_view::npos;
}

}  // namespace

std::string shell_word(std::string_view word) {
  std::string shown = printable(std::string(word));  // may put in `?`, which a shell takes for a pattern; quoted below
  if (!shown.empty() && std::all_of(shown.begin(), shown.end(), needs_no_quotes)) return shown;
  std::string quoted = "'";
  for (const char letter : shown) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

std::string script_word(std::string_view word) {
  if (is_printable(word)) return shell_word(word);
  // The shell strips trailing newlines from the output of printf.
  const std::size_t end = word.find_last_not_of('\n') + 1;
  std::string format;
  for (const char letter : word.substr(0, end)) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool plain = needs_no_quotes(letter) && byte < 0x80 && letter != '%';
    format += plain || letter == ' ' ? std::string(1, letter) : fmt::format("\\{:03o}", byte);
  }
  return fmt::format("\"$(printf -- '{}'){}\"", format, word.substr(end));
}

std::string command(std::initializer_list<std::string_view> words) {
  std::string text = "ration";
  for (const std::string_view word : words)
    if (!word.empty()) text += " " + shell_word(word);
  return text;
}

namespace {

/// Splits a line into words; absent if a quote is not closed.
std::optional<std::vector<std::string>> words_of(std::string_view line, bool has_quotes) {
  std::vector<std::string> words;
  std::string word;
  bool begun = false, quoted = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char letter = line[at];
    if (has_quotes && letter == '\'') {
      quoted = !quoted;
      begun = true;
    } else if (has_quotes && !quoted && line.substr(at, 2) == "\\'") {
      word += line[++at];
    } else if (letter != ' ' || quoted) {
      word += letter;
      begun = true;
    } else if (std::exchange(begun, false)) {
      words.push_back(std::exchange(word, {}));
    }
  }
  if (quoted) return std::nullopt;
  if (begun) words.push_back(std::move(word));
  return words;
}

}  // namespace

std::string quoted_words(std::string_view command_line) {
  auto words = words_of(command_line, true);
  if (!words) words = words_of(command_line, false);
  std::string text;
  for (const std::string& word : *words) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

std::string exact_size(Bytes size) {
  if (size >= kUnlimited) return "unlimited";
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20, kGiB = std::uint64_t{1} << 30;
  const std::uint64_t bytes = size.count();
  if (bytes % kMiB != 0) return fmt::format("{}B", bytes);
  // Only quarters are written in GiB: they have at most two decimals, and smaller parts are easier to read in MiB.
  if (bytes >= kGiB && bytes % (kGiB / 4) == 0)
    return fmt::format("{}GiB", static_cast<double>(bytes / (kGiB / 4)) / 4);
  return fmt::format("{}MiB", bytes / kMiB);
}

std::string with_command_options(std::string_view text, const CommandOptions& options) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(kProgram); at != std::string_view::npos; at = text.find(kProgram, at + 1)) {
    const std::size_t word = at + kProgram.size();
    const std::size_t behind = std::min(text.find_first_of(" \n,;:.)'`", word), text.size());
    const auto verb = options.find(text.substr(word, behind - word));
    if (verb == options.end() || !begins_command(text, at)) continue;
    const std::size_t end = std::min(text.find(kProgram, behind), text.find('\n', behind));
    const std::string_view rest = text.substr(behind, end == std::string_view::npos ? end : end - behind);
    out += text.substr(done, behind - done);
    for (const auto& [name, value] : verb->second)
      if (rest.find(name) == std::string_view::npos) out += " " + name + "=" + shell_word(value);
    done = behind;
  }
  return out + std::string(text.substr(done));
}

}  // namespace ration
