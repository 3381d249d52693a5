#include <runtime/global.h>

#include <atomic>
#include <cstdlib>

#include <runtime/diagnosis.h>
#include <runtime/options.h>

namespace cpu {
namespace {

constexpr uint8_t OUTSIDE = 0xff;  // an element of the span outside the tensor: padding between rows

struct Tensor {
  std::string name;
  const std::byte* base;
  int64_t element_bytes;
  std::vector<int64_t> sizes, strides;
  Access access;
  int64_t span;                 // elements from the first to the last
  std::vector<uint8_t> writes;  // by element of the span: how often this grid wrote it, or OUTSIDE
  std::vector<Site> sites;      // of the first write
  std::vector<bool> earlier;    // by element of the span: whether an earlier grid of the launch wrote it

  bool has(int64_t element) const { return element >= 0 && element < span && writes[element] != OUTSIDE; }

  // Calls f(offset, index) for every element.
  template <class F>
  void for_each(F f) const {
    std::vector<int64_t> index(sizes.size());
    for (bool more = true; more;) {
      int64_t offset = 0;
      for (size_t d = 0; d < sizes.size(); ++d) offset += index[d] * strides[d];
      f(offset, index);
      more = false;
      for (size_t d = sizes.size(); d-- > 0 && !more; index[d] = more ? index[d] : 0) more = ++index[d] < sizes[d];
    }
  }
};

std::vector<Tensor> tensors;
bool launched = false;  // a grid, since the tensors are watched

std::string element_name(const Tensor& tensor, const std::vector<int64_t>& index) {
  std::string name = tensor.name + "[";
  for (size_t d = 0; d < index.size(); ++d) name += (d ? ", " : "") + std::to_string(index[d]);
  return name + "]";
}

void end_outputs() {
  for (const Tensor& tensor : tensors) {
    if (tensor.access != Access::write_once) continue;
    int64_t unwritten = 0, all = 0;
    std::string first;
    tensor.for_each([&](int64_t offset, const auto& index) {
      ++all;
      if (!tensor.writes[offset] && !tensor.earlier[offset] && !unwritten++) first = element_name(tensor, index);
    });
    if (unwritten)
      report("output_unwritten",
             text("%lld of %lld elements of %s were not written, the first is %s", static_cast<long long>(unwritten),
                  static_cast<long long>(all), tensor.name.c_str(), first.c_str()));
  }
}

}  // namespace

void watch_tensor(std::string name, const void* base, int element_bytes, std::vector<int64_t> sizes,
                  std::vector<int64_t> strides, Access access) {
  Tensor tensor{std::move(name),
                static_cast<const std::byte*>(base),
                element_bytes,
                std::move(sizes),
                std::move(strides),
                access,
                1,
                {},
                {},
                {}};
  for (size_t d = 0; d < tensor.sizes.size(); ++d) {
    if (!tensor.sizes[d]) return;
    tensor.span += (tensor.sizes[d] - 1) * tensor.strides[d];
  }
  tensor.writes.assign(tensor.span, OUTSIDE);
  tensor.sites.resize(access == Access::write_once ? tensor.span : 0);
  tensor.earlier.resize(tensor.sites.size());
  tensor.for_each([&](int64_t offset, const auto&) { tensor.writes[offset] = 0; });
  tensors.push_back(std::move(tensor));
}

void forget_tensors() {
  if (options().checks && launched && !diagnosed()) end_outputs();
  launched = false;
  tensors.clear();
}

std::string nearest_tensor(const std::byte* pointer) {
  if (tensors.empty()) return "no tensor is watched";
  const Tensor* best = nullptr;
  int64_t distance = 0;
  for (const Tensor& tensor : tensors) {
    const int64_t offset = pointer - tensor.base, end = tensor.span * tensor.element_bytes;
    const int64_t off = offset < 0 ? -offset : offset >= end ? offset - end + 1 : 0;
    if (!best || off < distance) best = &tensor, distance = off;
  }
  const int64_t offset = pointer - best->base;
  return text("element %lld from the start of %s, which spans %lld elements",
              static_cast<long long>(offset / best->element_bytes), best->name.c_str(),
              static_cast<long long>(best->span));
}

bool check_global(Thread& self, const void* pointer, uint32_t bytes, bool is_store, const char* mnemonic, Where where) {
  if (tensors.empty()) return true;
  const auto* address = static_cast<const std::byte*>(pointer);
  for (Tensor& tensor : tensors) {
    const int64_t offset = address - tensor.base;
    if (offset < 0 || offset % tensor.element_bytes) continue;
    const int64_t first = offset / tensor.element_bytes;
    const int64_t count = bytes < tensor.element_bytes ? 1 : bytes / tensor.element_bytes;
    bool inside = true;
    for (int64_t i = 0; i < count && inside; ++i) inside = tensor.has(first + i);
    if (!inside) continue;
    if (is_store && tensor.access == Access::read) {
      report("input_written", self, mnemonic, where, "writes to " + tensor.name + ", which is an input");
      return false;
    }
    if (!is_store || tensor.access != Access::write_once) return true;
    for (int64_t i = first; i < first + count; ++i) {
      const uint8_t before = std::atomic_ref(tensor.writes[i]).fetch_add(1, std::memory_order_relaxed);
      if (!before) {
        std::atomic_ref(tensor.sites[i]).store(pack(where), std::memory_order_relaxed);
      } else {
        std::atomic_ref(tensor.writes[i]).store(1, std::memory_order_relaxed);
        report("output_written_twice", self, mnemonic, where,
               text("element %lld of %s's memory was written before, at ", static_cast<long long>(i),
                    tensor.name.c_str()) +
                   place("", unpack(std::atomic_ref(tensor.sites[i]).load(std::memory_order_relaxed))));
      }
    }
    return true;
  }
  report("global_out_of_range", self, mnemonic, where,
         text("%s %u bytes outside every tensor: ", is_store ? "writes" : "reads", bytes) + nearest_tensor(address));
  return false;
}

void begin_outputs() {
  launched = true;
  for (Tensor& tensor : tensors) {
    if (tensor.access != Access::write_once) continue;
    for (int64_t i = 0; i < tensor.span; ++i) {
      if (tensor.writes[i] == OUTSIDE || !tensor.writes[i]) continue;
      tensor.earlier[i] = true;
      tensor.writes[i] = 0;
    }
  }
}

}  // namespace cpu
