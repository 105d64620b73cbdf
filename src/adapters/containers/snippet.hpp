// Texts that put other people's programs under a limit by their own configuration: a file, or a command to paste, each
// with the check that shows that it works. Used by `ration snippet`. One table row a text; nothing is written anywhere.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/command.hpp"
#include "base/result.hpp"

namespace ration::adapters {

/// What the texts are filled with.
struct SnippetFacts {
  std::string ration = "ration";     ///< how the command is called where the text is used
  std::string device;                ///< `ration.sh/limit=4GiB-gpu0`
  std::vector<std::string> limit;    ///< as typed for --limit, --slice or --tenant: `--limit`, `4GiB`
  Bytes bytes;                       ///< the limit; 0: not known (a tenant's may change)
  Bytes context;                     ///< what one CUDA context costs on that GPU; 0: not measured
  int instances = 1;                 ///< of a model server, which share the limit
  std::string name;                  ///< of the unit, the user or the image
  std::vector<std::string> command;  ///< what the unit starts; may be empty
  CommandOptions options;            ///< of every `ration VERB` of the text, and not of what stands in `command`
};

struct SnippetKind {
  const char* name;
  const char* summary;
  const char* named;  ///< what `name` is: UNIT, USER, IMAGE; empty: nothing
};
[[nodiscard]] std::vector<SnippetKind> snippet_kinds();

/// The share of its limit that each of the instances may take for itself, beside a context each, rounded down to
/// hundredths. Inside a limit the device's total is the limit, so a model server's fraction is a fraction of it. E1708:
/// nothing is left.
[[nodiscard]] Result<double> instance_fraction(const SnippetFacts& facts);

/// E1708: something that the text needs is missing.
[[nodiscard]] Result<std::string> snippet(const std::string& kind, const SnippetFacts& facts);

}  // namespace ration::adapters
