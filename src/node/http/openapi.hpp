// The description of the HTTP interface (OpenAPI 3.1), built into the program: share/ration/openapi.json with its
// schemas put inside (openapi.py makes it, target ration_openapi). Used by GET /openapi.json.
// Promises: it names every route that the daemon has and no other (tests/unit/contract); what the daemon answers is as
// it says (tests/system/contract).
#pragma once

#include <string_view>

namespace ration::node {

/// The document as a gzip file. The same sources give the same bytes.
[[nodiscard]] std::string_view openapi_gzip() noexcept;

}  // namespace ration::node
