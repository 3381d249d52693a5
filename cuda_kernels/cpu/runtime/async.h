// Copies in flight. Adversarial: bytes land when a wait demands them and no earlier; until then the destination holds
// poison.
#pragma once

#include <runtime/execution.h>

namespace cpu {

void cp_async(uint32_t shared, const void* global, uint32_t bytes, const char* mnemonic, Where where);
void cp_async_commit_group(const char* mnemonic, Where where);
// Lands this thread's copies up to all but the newest `pending` committed groups.
void cp_async_wait_group(int pending, const char* mnemonic, Where where);

}  // namespace cpu
