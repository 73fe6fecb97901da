// Meshwork for C++ programs: one header for everything that a user writes.
//
//     #include <meshwork/meshwork.h>
//
// The page of each thing is its own header: runtime/train/model.h for fit, evaluate and predict,
// runtime/mesh/layout_map.h for layouts, runtime/graph/layer.h for models and layers of one's own,
// runtime/data/source.h for data. Programs of a page each are in launch/examples.
#pragma once

// Every layer, and every loss, metric, optimizer and callback: made by the build of their pages.
#include <meshwork/pages/layers.h>
#include <meshwork/pages/runtime.h>

#include "collectives/communicator.h"
#include "collectives/error.h"
#include "layers/initializers/listed.h"
#include "layers/pages.h"
#include "runtime/checkpoint/options.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/config/catalog.h"
#include "runtime/config/extension.h"
#include "runtime/data/array.h"
#include "runtime/data/hdf5.h"
#include "runtime/data/idx.h"
#include "runtime/data/source.h"
#include "runtime/data/synthetic.h"
#include "runtime/data/views.h"
#include "runtime/device/list_devices.h"
#include "runtime/graph/layer.h"
#include "runtime/graph/plan_report.h"
#include "runtime/mesh/device_mesh.h"
#include "runtime/mesh/layout_map.h"
#include "runtime/mesh/picture.h"
#include "runtime/mesh/sharded_tensor.h"
#include "runtime/pages.h"
#include "runtime/rpc/rpc.h"
#include "runtime/train/layer_cases.h"
#include "runtime/train/layer_check.h"
#include "runtime/train/model.h"
#include "runtime/train/run_config.h"
#include "runtime/train/runtime.h"
