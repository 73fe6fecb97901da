// Every update that each device has.
#pragma once

#include "runtime/device/kernels/adadelta.h"
#include "runtime/device/kernels/adafactor.h"
#include "runtime/device/kernels/adagrad.h"
#include "runtime/device/kernels/adam.h"
#include "runtime/device/kernels/adamax.h"
#include "runtime/device/kernels/average.h"
#include "runtime/device/kernels/ftrl.h"
#include "runtime/device/kernels/lamb.h"
#include "runtime/device/kernels/lion.h"
#include "runtime/device/kernels/nadam.h"
#include "runtime/device/kernels/rmsprop.h"
#include "runtime/device/kernels/schedule_free.h"
#include "runtime/device/kernels/sgd.h"

namespace meshwork {

template <class... Specs>
struct Updates {
  /// Enters `compile` for each into a device's set.
  static void enter(auto& kernels, auto compile) { kernels.template add<Specs...>(compile); }
};
using EveryUpdate = Updates<SgdSpec, AdamSpec, RmspropSpec, AdagradSpec, AdadeltaSpec, AdamaxSpec,
                            NadamSpec, FtrlSpec, LionSpec, LambSpec, AdafactorSpec, SlowingSpec,
                            ScheduleFreeSpec, AverageSpec>;

}  // namespace meshwork
