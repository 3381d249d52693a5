// Where in a kernel an instruction stands: every wrapper takes it as its last, defaulted argument.
#pragma once

#include <source_location>

namespace cpu {

using Where = std::source_location;

}  // namespace cpu
