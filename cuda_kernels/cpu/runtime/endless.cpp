#include <runtime/endless.h>

#include <csignal>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <runtime/diagnosis.h>
#include <runtime/execution.h>
#include <runtime/options.h>

extern "C" const char __ehdr_start;  // the linker's: where this library begins in memory

namespace cpu {
namespace {

constexpr int ALLOWED = 10;  // ticks
constexpr int GRACE = 2;     // more ticks: by then a loop with an instruction of ptx/ has reached it

int signal_number() { return SIGRTMIN + 4; }

const void* interrupted_at(void* context) {
  const auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return reinterpret_cast<const void*>(machine.gregs[REG_RIP]);
#else
  return reinterpret_cast<const void*>(machine.pc);
#endif
}

// Runs on the stack that it interrupts. An instruction of ptx/ diagnoses itself, where the runtime holds no lock.
void tick(int, siginfo_t* info, void* context) {
  Cluster& cluster = *static_cast<Cluster*>(info->si_value.sival_ptr);
  cluster.ticks = cluster.ticks + 1;
  if (cluster.ticks < ALLOWED) return;
  cluster.is_endless = true;
  if (cluster.ticks < ALLOWED + GRACE || !cluster.stacks || !cluster.stacks->hold(context)) return;
  cluster.stopped = &current();
  cluster.stopped_at = interrupted_at(context);
  abandon(current());
}

std::string what() {
  return text("goes on for ever: in %g s of processor time it reached no global memory that is new to its block",
              options().patience_ms / 1e3);
}

}  // namespace

Patience::Patience(Cluster& cluster) {
  struct sigaction action = {};
  action.sa_sigaction = tick;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER;  // not deferred: a stopped thread never returns from it
  sigaction(signal_number(), &action, nullptr);
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = signal_number();
  event.sigev_value.sival_ptr = &cluster;
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  is_set_ = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) == 0;
  const int tick_ms = options().patience_ms / ALLOWED;
  const timespec every{tick_ms / 1000, tick_ms % 1000 * 1'000'000};
  const itimerspec times{every, every};
  if (is_set_) timer_settime(timer_, 0, &times, nullptr);
}

Patience::~Patience() {
  if (is_set_) timer_delete(timer_);
}

void report_endless(Thread& self, const char* mnemonic, Where where) {
  fail("endless_loop", self, mnemonic, where, what() + "; " + who_waits(*self.cluster));
}

void report_stopped(Cluster& cluster) {
  const Thread& self = *cluster.stopped;
  const Dim& block = self.block->ctaid;
  report("endless_loop", what() + ", in a loop without an instruction of ptx/; " + who_waits(cluster) +
                             text(" [+0x%tx, block (%d, %d, %d), warp %d, lane %d]",
                                  static_cast<const char*>(cluster.stopped_at) - &__ehdr_start, block.x, block.y,
                                  block.z, self.warp->index, self.lane));
}

}  // namespace cpu
