// SPDX-License-Identifier: Apache-2.0
// The program in a fresh process of the same number, listening where it listened: what is left when a driver hangs,
// whose threads and memory no call can take back (docs/decisions/0042).
#pragma once

namespace inflight::cli {

// The socket that whoever started this program left it to listen on, as systemd does ($LISTEN_PID, $LISTEN_FDS); -1:
// none. Its variables are removed.   ERRORS: InvalidArgument for more than one.
[[nodiscard]] int inherited_listener();

// Starts the program anew with its arguments and `listener` as the inherited one. Nothing is unwound: other threads may
// be stuck. Where the system refuses, the program says so and ends with status 1.
[[noreturn]] void restart_process(int listener);

}  // namespace inflight::cli
