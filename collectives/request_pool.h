// Requests of started operations, kept for the next: starting one allocates only when more are
// under way than ever before.
//
// A `Pending` and the pool share a request. It is free again when no `Pending` holds it and its
// operation is over, which its transport knows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace meshwork {

template <class Request>
class RequestPool {
 public:
  /// The first that no `Pending` holds and that `is_free`; else a new one, which `make` gives.
  template <class IsFree, class Make>
  [[nodiscard]] std::shared_ptr<Request> take(const IsFree& is_free, const Make& make) {
    if (const std::shared_ptr<Request> found = find(is_free)) return found;
    return made_.emplace_back(make());
  }

  /// The same where requests differ in size: they lie in the order of `is_smaller`, so that the
  /// smallest is the first.
  template <class IsFree, class Make, class IsSmaller>
  [[nodiscard]] std::shared_ptr<Request> take(const IsFree& is_free, const Make& make,
                                              const IsSmaller& is_smaller) {
    if (const std::shared_ptr<Request> found = find(is_free)) return found;
    const std::shared_ptr<Request> made = make();
    made_.insert(std::upper_bound(made_.begin(), made_.end(), made,
                                  [&](const auto& a, const auto& b) { return is_smaller(*a, *b); }),
                 made);
    return made;
  }

  /// Has `count` of them at least, so that no more is made while so many are under way.
  template <class Make>
  void reserve(std::size_t count, const Make& make) {
    while (made_.size() < count) made_.push_back(make());
  }

  [[nodiscard]] std::size_t size() const { return made_.size(); }

 private:
  template <class IsFree>
  [[nodiscard]] std::shared_ptr<Request> find(const IsFree& is_free) const {
    for (const std::shared_ptr<Request>& request : made_) {
      if (request.use_count() == 1 && is_free(*request)) return request;
    }
    return nullptr;
  }

  std::vector<std::shared_ptr<Request>> made_;
};

}  // namespace meshwork
