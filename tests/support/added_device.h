// A kind of device for the life of an object: tests that share a process leave none behind.
#pragma once

#include <string>
#include <utility>

#include "runtime/device/device.h"

namespace meshwork::test {

class AddedDevice {
 public:
  AddedDevice(DeviceTraits traits, DeviceFactory make) : kind_(traits.kind) {
    add_device_kind(std::move(traits), std::move(make));
  }
  ~AddedDevice() { remove_device_kind(kind_); }
  AddedDevice(const AddedDevice&) = delete;
  AddedDevice& operator=(const AddedDevice&) = delete;

 private:
  std::string kind_;
};

}  // namespace meshwork::test
