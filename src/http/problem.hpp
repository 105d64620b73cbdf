// Errors in HTTP (RFC 9457, application/problem+json). Used by every handler and for the server's own rejections.
// Promise: an error has the same id, text, fix and exit code as on the command line without a daemon; an error without
// an exit code of its own (1) gets one from the status.
//
// The status of an error follows from its exit code unless the caller gives one:
//   2 wrong usage -> 400   3 not found -> 404   4 does not fit -> 409   5 permission -> 403   everything else -> 500
//
// Rejections by the server itself:
//   E1500 500 the handler failed           E1514 403 a page of another origin asks
//   E1510 400 not HTTP, or not ours        E1515 415 a write whose body is not application/json
//   E1511 404 no such path                 E1516 413, 414, 431 body, address or headers too large
//   E1512 405 no such method there         E1517 503 too many clients
//   E1513 421 a Host that is not ours      E1518 401 a wrong token     E1519 408 a request that never ended
//   E1520 406 only a gzip body exists, and the client does not accept it
#pragma once

#include "base/result.hpp"
#include "http/message.hpp"

namespace ration::http {

[[nodiscard]] int status_of(const Error& error) noexcept;

/// Returns the answer; `status` 0 stands for status_of(error).
[[nodiscard]] Response problem(const Error& error, int status = 0);

/// Returns the phrase of a status, such as "Not Found" for 404.
[[nodiscard]] const char* reason_phrase(int status) noexcept;

}  // namespace ration::http
