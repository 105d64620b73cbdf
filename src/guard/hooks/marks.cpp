// Marks that a program puts into its recording: `ration.mark("epoch 3")`.
#include <cstring>

#include "guard/hooks/hooks.hpp"
#include "guard/recorder/recorder.hpp"

using namespace ration::guard;

/// Records the text at this moment. Does nothing unless this process is governed and records.
extern "C" [[gnu::visibility("default")]] void ration_shim_mark(const char* text) {
  if (!governed() || !recording() || text == nullptr) return;
  RecordedEvent event{};
  event.kind = ration::trace::Kind::kMark;
  event.site = number_of_text(TextKind::kName, text, ::strnlen(text, kMaxText));
  record(event);
}
