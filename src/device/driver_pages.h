// SPDX-License-Identifier: Apache-2.0
// PoCL brings LLVM and Clang into the process: some 60 MiB of their files are touched while it starts and compiles, and
// count as this process's memory from then on, although what runs afterwards is compiled machine code.
#pragma once

namespace inflight {

// Gives the untouched pages of these libraries' files, and what the allocator holds free, back to the system; who needs
// them later reads them from the file again.   COST: about a millisecond; on systems other than Linux nothing.
// THREAD: any.
void give_back_driver_pages();

}  // namespace inflight
