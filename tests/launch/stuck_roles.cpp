// An extension with roles that go wrong: `Deaf` never asks for the end of training, and `Endless` goes
// on after it; `Thrower` throws; `Hanging` has a function that does not return, which `AskHanging`, a
// callback, calls on rank 0.
#include <meshwork/extension.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "runtime/train/callbacks/callback.h"
#include "runtime/train/from_config.h"
#include "runtime/train/roles/role.h"
#include "runtime/train/roles/role_map.h"

namespace {

using namespace meshwork;

class Stuck final : public Role {
 public:
  explicit Stuck(bool asks) : asks_(asks) {}
  void run(RoleRun& run) const override {
    if (asks_) run.end.wait();
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  }

 private:
  bool asks_;
};

class Thrower final : public Role {
 public:
  void run(RoleRun& run) const override {
    run.rpc.open();
    // Not before the others train, and wait for it.
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    throw std::runtime_error("it has no hands");
  }
};

class Hanging final : public Role {
 public:
  void run(RoleRun& run) const override {
    run.rpc.define("hang", [] {
      for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
    });
    run.end.wait();
  }
};

class AskHanging final : public Callback {
 public:
  std::string class_name() const override { return "AskHanging"; }
  bool waits_for_validation() const override { return false; }
  void on_epoch_end(Training& training) override {
    if (!training.is_root()) return;
    training.rpc()->call(training.roles()->ranks_of("hanging").front(), "hang").get();
  }
};
struct AskHangingOptions {};
template <class Visitor>
void describe(AskHangingOptions&, Visitor& option) {
  option.about("waits for what does not come");
}

}  // namespace

MESHWORK_EXTENSION(catalog) {
  catalog.add<SharedRole, NoRoleOptions>(
      "Deaf", {"deaf"}, [](const NoRoleOptions&) { return std::make_shared<const Stuck>(false); });
  catalog.add<SharedRole, NoRoleOptions>("Endless", {"endless"}, [](const NoRoleOptions&) {
    return std::make_shared<const Stuck>(true);
  });
  catalog.add<SharedRole, NoRoleOptions>("Thrower", {"thrower"}, [](const NoRoleOptions&) {
    return std::make_shared<const Thrower>();
  });
  catalog.add<SharedRole, NoRoleOptions>("Hanging", {"hanging"}, [](const NoRoleOptions&) {
    return std::make_shared<const Hanging>();
  });
  catalog.add<SharedCallback, AskHangingOptions>(
      "AskHanging", {}, [](const AskHangingOptions&) { return std::make_shared<AskHanging>(); });
}
