#include "collectives/transport.h"

#include <exception>
#include <utility>

#include "collectives/error.h"
#include "collectives/mpi_transport.h"

namespace meshwork {

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this == &other) return *this;
  if (active()) {
    abort_job(1, "a started collective was replaced before it was waited for");
  }
  request_ = std::move(other.request_);
  return *this;
}

Pending::~Pending() {
  if (!active()) return;
  abort_job(1, std::uncaught_exceptions() > 0
                   ? "an error ended the work between the start of a collective and its end"
                   : "a started collective was destroyed before it was waited for");
}

void Pending::wait() {
  // Whether it succeeds or throws, it is over.
  if (const std::shared_ptr<Request> request = std::move(request_)) request->wait();
}

std::unique_ptr<Transport> make_transport(std::string_view name) {
  if (name == "auto" || name == "mpi") return make_mpi_transport();
  fail("there is no transport \"{}\"; there are \"auto\" and \"mpi\"", name);
}

}  // namespace meshwork
