// Texts that put other people's programs under a limit by their own configuration: a file or a command to paste, each
// with a command that checks the result. Used by `ration snippet`. Each text is a row of one table; no file is written.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/command.hpp"
#include "base/result.hpp"

namespace ration::adapters {

/// The values for a text's placeholders.
struct SnippetFacts {
  std::string ration = "ration";     ///< the command of ration where the text is used
  std::string device;                ///< `ration.sh/limit=4GiB-gpu0`
  std::vector<std::string> limit;    ///< as typed: `--limit 4GiB`, `--slice` or `--tenant`
  Bytes bytes;                       ///< the limit; 0 if unknown, since a tenant's limit may change
  Bytes context;                     ///< the cost of one CUDA context on that GPU; 0 if not measured
  int instances = 1;                 ///< instances of a model server that share the limit
  std::string name;                  ///< name of the unit, the user or the image
  std::vector<std::string> command;  ///< the command that the unit starts; may be empty
  CommandOptions options;            ///< options for every `ration VERB` of the text outside `command`
};

struct SnippetKind {
  const char* name;
  const char* summary;
  const char* named;  ///< the kind of `name`: UNIT, USER, IMAGE; empty if the text has no name
};
[[nodiscard]] std::vector<SnippetKind> snippet_kinds();

/// Returns the fraction of the limit that each instance of a model server may take in addition to its context, rounded
/// down to hundredths. A program under a limit sees the limit as the GPU's size, so the server applies its fraction to
/// the limit. Fails with E1708 if nothing is left.
[[nodiscard]] Result<double> instance_fraction(const SnippetFacts& facts);

/// Returns the text of that kind. Fails with E1708 if a fact that it needs is missing.
[[nodiscard]] Result<std::string> snippet(const std::string& kind, const SnippetFacts& facts);

}  // namespace ration::adapters
