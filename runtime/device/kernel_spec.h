// KernelSpec: what one kernel computes, as a value that holds any specification.
//
// Specifications stand on the pages of kernels/ (kernels/page.h says what one is), or wherever an
// extension has its own; this header names none. `Device::compile` turns one into something that
// runs.
//
// Tensors are float32 and row-major unless said otherwise, also where products are computed in
// another precision (kernels/precision.h). "rows" are all leading dimensions taken together,
// "columns" the last one. Operand order stands with each specification: inputs, then outputs. Any
// count may be 0. Outputs do not overlap inputs but as `in_place` says. Sums that stand
// for the whole batch are float64 scalars and are *written*, not added to. Every kernel gives the
// same bits for the same inputs.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "runtime/device/kernels/page.h"

namespace meshwork {

template <class Spec>
concept KernelSpecification = requires(const Spec& spec) {
  { spec.text() } -> std::same_as<std::string>;
  { spec.work() } -> std::same_as<KernelWork>;
};

class KernelSpec {
 public:
  template <KernelSpecification Spec>
  KernelSpec(Spec spec)  // NOLINT(google-explicit-constructor): it is one
      // make_shared would compile a control block for each type. A pointer to the base needs one.
      : held_(static_cast<const AnyHeld*>(new Held<Spec>(std::move(spec)))) {}

  /// The type of what it holds.
  [[nodiscard]] std::type_index type() const { return held_->type(); }
  /// What it holds, if that is a `Spec`; else null.
  template <class Spec>
  [[nodiscard]] const Spec* get_if() const {
    return type() == typeid(Spec) ? &static_cast<const Held<Spec>&>(*held_).spec : nullptr;
  }

  /// "matmul 64x256x784" and so on, for tables and messages.
  [[nodiscard]] std::string text() const { return held_->text(); }
  [[nodiscard]] KernelWork work() const { return held_->work(); }
  [[nodiscard]] InPlace in_place() const { return held_->in_place(); }
  /// Throws `Error` for what no device computes.
  void check() const { held_->check(); }
  /// The text by which records know it: equal for equal specifications alone, of those that may
  /// have candidates.
  [[nodiscard]] std::string key() const { return held_->text() + held_->details(); }
  /// Float32 elements of the operands, the result last; none where there is but one kernel.
  [[nodiscard]] std::vector<std::int64_t> operand_counts() const { return held_->counts(); }
  /// Of a product, in other numbers; of all else, the same.
  [[nodiscard]] KernelSpec in(Precision precision) const {
    return held_->in(precision).value_or(*this);
  }

 private:
  struct AnyHeld {
    AnyHeld() = default;
    AnyHeld(const AnyHeld&) = delete;
    AnyHeld& operator=(const AnyHeld&) = delete;
    virtual ~AnyHeld() = default;
    [[nodiscard]] virtual std::type_index type() const = 0;
    [[nodiscard]] virtual std::string text() const = 0;
    [[nodiscard]] virtual KernelWork work() const = 0;
    [[nodiscard]] virtual InPlace in_place() const = 0;
    virtual void check() const = 0;
    [[nodiscard]] virtual std::string details() const = 0;
    [[nodiscard]] virtual std::vector<std::int64_t> counts() const = 0;
    [[nodiscard]] virtual std::optional<KernelSpec> in(Precision precision) const = 0;
  };
  template <class Spec>
  struct Held final : AnyHeld {
    explicit Held(Spec given) : spec(std::move(given)) {}
    [[nodiscard]] std::type_index type() const override { return typeid(Spec); }
    [[nodiscard]] std::string text() const override { return spec.text(); }
    [[nodiscard]] KernelWork work() const override { return spec.work(); }
    [[nodiscard]] InPlace in_place() const override {
      if constexpr (requires { spec.in_place(); }) return spec.in_place();
      return {};
    }
    void check() const override {
      if constexpr (requires { spec.check(); }) spec.check();
    }
    [[nodiscard]] std::string details() const override {
      if constexpr (requires { spec.details(); }) return spec.details();
      return {};
    }
    [[nodiscard]] std::vector<std::int64_t> counts() const override {
      if constexpr (requires { spec.operand_counts(); }) return spec.operand_counts();
      return {};
    }
    [[nodiscard]] std::optional<KernelSpec> in(Precision precision) const override {
      if constexpr (requires { spec.precision; }) {
        Spec other = spec;
        other.precision = precision;
        return other;
      }
      return std::nullopt;
    }
    Spec spec;
  };

  std::shared_ptr<const AnyHeld> held_;
};

}  // namespace meshwork
