// An extension with roles that do not end: `Deaf` never asks for the end of training, and `Endless` goes
// on after it.
#include <meshwork/extension.h>

#include <chrono>
#include <thread>

#include "runtime/train/roles/role.h"

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

}  // namespace

MESHWORK_EXTENSION(catalog) {
  catalog.add<SharedRole, NoRoleOptions>(
      "Deaf", {"deaf"}, [](const NoRoleOptions&) { return std::make_shared<const Stuck>(false); });
  catalog.add<SharedRole, NoRoleOptions>("Endless", {"endless"}, [](const NoRoleOptions&) {
    return std::make_shared<const Stuck>(true);
  });
}
