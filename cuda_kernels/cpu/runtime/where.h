// Where in a kernel an instruction is: every wrapper takes it as its last, defaulted argument.
#pragma once

#include <bit>
#include <cstdint>
#include <source_location>

namespace cpu {

using Where = std::source_location;

// A place in 32 bits, for tables with an entry per byte or two of memory. The compiler keeps what a source_location
// refers to in static memory of this library, so its distance from another static object is enough. 0 means none.
using Site = uint32_t;
inline constexpr char SITE_ANCHOR = 0;

inline Site pack(Where where) {
  static_assert(sizeof(Where) == sizeof(intptr_t), "a source_location is expected to be one pointer");
  return static_cast<Site>(std::bit_cast<intptr_t>(where) - reinterpret_cast<intptr_t>(&SITE_ANCHOR));
}

// A mnemonic, likewise: it is a literal of this library.
inline uint32_t pack_name(const char* literal) { return static_cast<uint32_t>(literal - &SITE_ANCHOR); }

inline Where unpack(Site site) {
  return std::bit_cast<Where>(reinterpret_cast<intptr_t>(&SITE_ANCHOR) + static_cast<int32_t>(site));
}

}  // namespace cpu
