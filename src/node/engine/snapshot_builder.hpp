// Builds the snapshot of one tick: the books compared with the driver, the promises, and the forecasts. Changes nothing
// else.
#pragma once

#include "node/engine/subjects.hpp"
#include "node/watch/forecast.hpp"

namespace ration::node {

class SnapshotBuilder {
 public:
  /// Replaces the snapshot of `moment`. Unchecked guarantees do not count in the new snapshot yet.
  void build(Moment& moment, const Subjects& subjects);

 private:
  Forecast forecast_;
};

}  // namespace ration::node
