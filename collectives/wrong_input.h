// WrongInput: what a run was given is wrong, such as data that are damaged, or a place for a file
// where there can be none.
//
// It stays so when the run is started again: the program ends with 2, whenever it is found
// (runtime/train/runtime.h).
#pragma once

#include "collectives/error.h"

namespace meshwork {

class WrongInput : public Error {
 public:
  using Error::Error;
};

}  // namespace meshwork
