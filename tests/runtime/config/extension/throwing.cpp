// A library that cannot enter what it has.
#include <meshwork/extension.h>

#include <stdexcept>

MESHWORK_EXTENSION(catalog) {
  throw std::runtime_error("it lacks " + std::to_string(catalog.extensions().size() + 1) +
                           " files");
}
