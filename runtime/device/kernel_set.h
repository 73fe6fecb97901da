// KernelSet: which specifications a device has kernels for, and how it makes them.
//
// A file of the device's folder enters those that it holds; the build finds it and calls it
// (launch/cmake/pages.cmake), so that nothing else names it:
//
//     void add_norms(Kernels& kernels) {
//       kernels.add<PowerSumSpec, ClipFactorSpec>(make);
//     }
//
// `Context` is what the kernels of one device share.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/device/kernel_spec.h"

namespace meshwork {

/// Throws `Error`: a device has no kernel for `spec`.
[[noreturn]] void refuse_kernel(const KernelSpec& spec);
/// Throws `Error`: two shared libraries have specifications of one name.
[[noreturn]] void refuse_types(const std::type_info& one, const std::type_info& other);

template <class Context>
class KernelSet {
 public:
  /// make(spec, context) makes the kernel of each of `Specs`. A later entry takes the place of an
  /// earlier one. Throws `Error` for a type that two shared libraries have by one name: such types
  /// are taken for one.
  template <KernelSpecification... Specs>
  void add(auto make) {
    (add(typeid(Specs),
         [make](const KernelSpec& spec, const Context& context) {
           return make(*spec.get_if<Specs>(), context);
         }),
     ...);
  }
  /// The same of one specification, by its type.
  void add(const std::type_info& type,
           std::function<std::unique_ptr<Kernel>(const KernelSpec&, const Context&)> compile) {
    entry_for(type) = {std::move(compile), {}, &type};
  }
  /// list(spec, context) lists the candidates of each of `Specs`, for which there are kernels.
  template <KernelSpecification... Specs>
  void add_candidates(auto list) {
    ((entries_.at(typeid(Specs)).candidates =
          [list](const KernelSpec& spec, const Context& context) {
            return list(*spec.get_if<Specs>(), context);
          }),
     ...);
  }

  /// Throws `Error` if `spec` is wrong, or there is no kernel for it.
  [[nodiscard]] std::unique_ptr<Kernel> compile(const KernelSpec& spec,
                                                const Context& context) const {
    spec.check();
    auto kernel = find(spec).compile(spec, context);
    if (!kernel) refuse_kernel(spec);
    return kernel;
  }
  /// As Device::candidates.
  [[nodiscard]] std::vector<KernelCandidate> candidates(const KernelSpec& spec,
                                                        const Context& context) const {
    spec.check();
    const Entry& entry = find(spec);
    return entry.candidates ? entry.candidates(spec, context) : std::vector<KernelCandidate>();
  }
  [[nodiscard]] std::set<std::type_index> types() const {
    std::set<std::type_index> types;
    for (const auto& [type, entry] : entries_) types.insert(type);
    return types;
  }

 private:
  struct Entry {
    std::function<std::unique_ptr<Kernel>(const KernelSpec&, const Context&)> compile;
    std::function<std::vector<KernelCandidate>(const KernelSpec&, const Context&)> candidates;
    const std::type_info* type = nullptr;  // of the library that entered it
  };
  Entry& entry_for(const std::type_info& type) {
    Entry& entry = entries_[type];
    if (entry.type != nullptr && entry.type != &type) refuse_types(*entry.type, type);
    return entry;
  }
  const Entry& find(const KernelSpec& spec) const {
    const auto found = entries_.find(spec.type());
    if (found == entries_.end()) refuse_kernel(spec);
    return found->second;
  }

  std::map<std::type_index, Entry> entries_;
};

}  // namespace meshwork
