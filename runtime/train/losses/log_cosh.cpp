#include "runtime/train/losses/log_cosh.h"

#include "runtime/train/from_config.h"
#include "runtime/train/losses/function_loss.h"

namespace meshwork {

SharedLoss LogCosh(const LogCoshOptions& options) {
  return make_function_loss(options.name, "log_cosh", LogCoshFunction{});
}

void add_log_cosh(Catalog& catalog) {
  catalog.add<SharedLoss, LogCoshOptions>("LogCosh", {"log_cosh", "logcosh"}, LogCosh);
}

}  // namespace meshwork
