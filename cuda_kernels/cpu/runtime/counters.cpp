#include <runtime/counters.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>

#include <runtime/execution.h>
#include <runtime/memory.h>

namespace cpu {
namespace {

constexpr int BANKS = 32, BANK_BYTES = 4, SECTOR_BYTES = 32;
constexpr const char* PATH_NAMES[] = {"none",
                                      "shared_to_registers",
                                      "registers_to_shared",
                                      "global_to_registers",
                                      "registers_to_global",
                                      "global_to_shared",
                                      "shared_to_global"};

constexpr uint32_t WIDEST_LANE = 16;  // bytes; anything wider is a bulk copy or a fragment, which no lane addresses

bool lanes_touch_shared(Path path, uint32_t width) {
  if (width > WIDEST_LANE) return false;
  return path == Path::shared_to_registers || path == Path::registers_to_shared || path == Path::global_to_shared;
}
bool lanes_touch_global(Path path, uint32_t width) {
  if (width > WIDEST_LANE) return false;
  return path == Path::global_to_registers || path == Path::registers_to_global || path == Path::global_to_shared;
}

// Does every lane of this half warp need the same as lane ^ 1, or every lane the same as lane ^ 2?
bool neighbours_share(const WarpAccess& access, int first) {
  const auto share = [&](int distance) {
    for (int lane = first; lane < first + LANES / 2; ++lane) {
      const int other = lane ^ distance;
      if ((access.mask >> lane & 1) != (access.mask >> other & 1) || access.shared[lane] != access.shared[other])
        return false;
    }
    return true;
  };
  return share(1) || share(2);
}

// An access of up to 4 bytes per lane takes one pass if no two lanes of the warp need different words of one bank. 8
// bytes per lane go by half warps, 16 bytes by quarter warps; the two quarters of a half take one pass if neighbours
// share: that is how an H200 counts them. Returns {passes, passes without a conflict}.
std::pair<int, int> wavefronts(const WarpAccess& access, uint32_t width) {
  int passes = 0, least = 0;
  for (int first = 0, group; first < LANES; first += group) {
    group = width <= BANK_BYTES ? LANES : LANES * BANK_BYTES / static_cast<int>(width);
    if (width == WIDEST_LANE && first % (LANES / 2) == 0 && neighbours_share(access, first)) group = LANES / 2;
    std::vector<uint32_t> words[BANKS];
    size_t most = 0;
    for (int lane = first; lane < first + group; ++lane) {
      if (!(access.mask >> lane & 1)) continue;
      for (uint32_t byte = 0; byte < width; byte += BANK_BYTES) {
        const uint32_t word = (access.shared[lane] + byte) / BANK_BYTES;
        auto& bank = words[word % BANKS];
        if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
        most = std::max(most, bank.size());
      }
    }
    passes += static_cast<int>(most);
    least += most > 0;
  }
  return {passes, least};
}

// 32-byte sectors that the warp touches, and how many its distinct bytes would fill.
std::pair<int, int> sectors(const WarpAccess& access, uint32_t width) {
  std::set<uint64_t> touched, chunks;
  for (int lane = 0; lane < LANES; ++lane) {
    if (!(access.mask >> lane & 1)) continue;
    chunks.insert(access.global[lane]);
    for (uint64_t byte = 0; byte < width; byte += std::min<uint64_t>(width, SECTOR_BYTES))
      touched.insert((access.global[lane] + byte) / SECTOR_BYTES);
  }
  const size_t bytes = chunks.size() * width;
  return {static_cast<int>(touched.size()), static_cast<int>((bytes + SECTOR_BYTES - 1) / SECTOR_BYTES)};
}

InFlight most(InFlight a, InFlight b) { return {std::max(a.bytes, b.bytes), std::max(a.groups, b.groups)}; }
// The lanes of a warp have the same groups, so groups do not add up.
InFlight sum(InFlight a, InFlight b) { return {a.bytes + b.bytes, std::max(a.groups, b.groups)}; }

}  // namespace

void SiteCounts::add(const WarpAccess& access, int warp) {
  ++executions;
  lanes += std::popcount(access.mask);
  waits |= access.waits;
  before = most(before, access.before);
  left = most(left, access.left);
  if (path == Path::none) return;
  bytes += static_cast<uint64_t>(width) * std::popcount(access.mask);
  uint64_t conflicts = 0;
  if (lanes_touch_shared(path, width)) {
    const auto [passes, least] = cpu::wavefronts(access, width);
    wavefronts += passes;
    least_wavefronts += least;
    conflicts = passes - least;
  }
  if (lanes_touch_global(path, width)) {
    const auto [touched, least] = cpu::sectors(access, width);
    sectors += touched;
    least_sectors += least;
  }
  if (executions == 1 || conflicts > example_conflicts) {
    example = access;
    example_conflicts = conflicts;
    example_warp = warp;
  }
}

void SiteCounts::add(const SiteCounts& other) {
  if (!executions || other.example_conflicts > example_conflicts) {
    example = other.example;
    example_conflicts = other.example_conflicts;
    example_warp = other.example_warp;
  }
  waits |= other.waits;
  before = most(before, other.before);
  left = most(left, other.left);
  executions += other.executions;
  lanes += other.lanes;
  bytes += other.bytes;
  wavefronts += other.wavefronts;
  least_wavefronts += other.least_wavefronts;
  sectors += other.sectors;
  least_sectors += other.least_sectors;
}

SiteCounts& Counters::site(const char* mnemonic, Where where, Path path, uint32_t width) {
  SiteCounts& counts = sites_[static_cast<uint64_t>(pack(where)) << 32 | pack_name(mnemonic)];
  if (!counts.mnemonic) {
    counts.mnemonic = mnemonic;
    counts.where = where;
    counts.path = path;
    counts.width = width;
  }
  return counts;
}

void Counters::count(const char* mnemonic, Where where, Path path, uint32_t width, const WarpAccess& access,
                     const Warp& warp) {
  site(mnemonic, where, path, width).add(access, warp.index);
}

void Counters::count_lane(const Thread& self, const char* mnemonic, Where where, Path path, uint32_t width,
                          uint32_t shared, const void* global) {
  WarpAccess& access = next(self, site(mnemonic, where, path, width));
  access.shared[self.lane] = shared;
  access.global[self.lane] = reinterpret_cast<uint64_t>(global);
}

void Counters::count_wait(const Thread& self, const char* mnemonic, Where where, InFlight before, InFlight left,
                          Whose whose) {
  WarpAccess& access = next(self, site(mnemonic, where, Path::none, 0));
  const auto join = whose == Whose::block ? most : sum;
  access.waits = true;
  access.before = join(access.before, before);
  access.left = join(access.left, left);
}

WarpAccess& Counters::next(const Thread& self, SiteCounts& site) {
  if (pending_.size() <= static_cast<size_t>(self.cluster_warp)) pending_.resize(self.cluster_warp + 1);
  Pending& pending = pending_[self.cluster_warp][&site];
  const uint32_t turn = pending.next[self.lane]++;
  if (turn == pending.accesses.size()) pending.accesses.emplace_back();
  WarpAccess& access = pending.accesses[turn];
  access.mask |= 1u << self.lane;
  return access;
}

void Counters::converge(const Warp& warp) {
  const size_t number = warp.threads[0]->cluster_warp;
  if (number >= pending_.size()) return;
  for (auto& [site, pending] : pending_[number])
    for (const WarpAccess& access : pending.accesses) site->add(access, warp.index);
  pending_[number].clear();
}

void Counters::collect_into(Counters& total) {
  for (auto& [key, counts] : sites_) {
    SiteCounts& sum = total.site(counts.mnemonic, counts.where, counts.path, counts.width);
    sum.add(counts);
  }
  clear();
}

void Counters::clear() {
  sites_.clear();
  pending_.clear();
}

std::string Counters::json() const {
  // Instances of one template share their sites.
  std::map<std::tuple<std::string, unsigned, unsigned, std::string>, SiteCounts> sorted;
  for (const auto& [key, counts] : sites_) {
    std::string file = counts.where.file_name();
    file = file.substr(file.rfind('/') + 1);
    auto [at, fresh] = sorted.try_emplace({file, counts.where.line(), counts.where.column(), counts.mnemonic}, counts);
    if (!fresh) at->second.add(counts);
  }
  std::string out = "[";
  for (const auto& [at, site] : sorted) {
    const SiteCounts* counts = &site;
    const auto field = [&](const char* name, uint64_t value) {
      out += std::string(", \"") + name + "\": " + std::to_string(value);
    };
    out += std::string(out.size() > 1 ? ",\n " : "") + "{\"mnemonic\": \"" + counts->mnemonic + "\", \"file\": \"" +
           std::get<0>(at) + "\", \"path\": \"" + PATH_NAMES[static_cast<int>(counts->path)] + "\"";
    field("line", counts->where.line());
    field("column", counts->where.column());
    field("executions", counts->executions);
    field("lanes", counts->lanes);
    if (counts->path != Path::none) {
      field("width", counts->width);
      field("bytes", counts->bytes);
    }
    if (counts->waits) {
      field("bytes_in_flight", counts->before.bytes);
      field("groups_in_flight", counts->before.groups);
      field("bytes_left", counts->left.bytes);
      field("groups_left", counts->left.groups);
    }
    if (lanes_touch_global(counts->path, counts->width)) {
      field("sectors", counts->sectors);
      field("least_sectors", counts->least_sectors);
    }
    if (lanes_touch_shared(counts->path, counts->width)) {
      field("wavefronts", counts->wavefronts);
      field("bank_conflicts", counts->wavefronts - counts->least_wavefronts);
      field("example_conflicts", counts->example_conflicts);
      field("example_warp", counts->example_warp);
      out += ", \"example_addresses\": [";
      for (int lane = 0; lane < LANES; ++lane) {
        const bool active = counts->example.mask >> lane & 1;
        out += (lane ? ", " : "") + (active ? std::to_string(counts->example.shared[lane] - SHARED_BASE) : "null");
      }
      out += "]";
    }
    out += "}";
  }
  return out + "]";
}

Counters& all_counters() {
  static Counters counters;
  return counters;
}

}  // namespace cpu
