// Functions by which a program records itself: marks (`ration.mark("epoch 3")`), and a recording of its own
// (`ration.record("train.rec")`).
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

/// Begins or ends a recording: see record_to().
extern "C" [[gnu::visibility("default")]] int ration_shim_record(const char* folder) { return record_to(folder); }
