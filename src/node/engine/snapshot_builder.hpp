// Builds the snapshot of one tick: books against driver, what is promised, and the forecasts. Changes nothing else.
#pragma once

#include "node/engine/subjects.hpp"
#include "node/watch/forecast.hpp"

namespace ration::node {

class SnapshotBuilder {
 public:
  /// Replaces the snapshot of `moment`. Unchecked guarantees do not count in it yet.
  void build(Moment& moment, const Subjects& subjects);

 private:
  Forecast forecast_;
};

}  // namespace ration::node
