// Catalog: the classes that a configuration can name, of every kind: layers, losses, metrics,
// optimizers, schedules, callbacks.
//
// A set is open. A class is a page: a file of its own with a function that enters it, under the
// name of the file. Nothing else names the page; the build finds these functions and writes the one
// that calls them all, for each room (launch/cmake/pages.cmake).
//
//     void add_sgd(Catalog& catalog) {
//       catalog.add<Optimizer, SGDOptions>("SGD", {"sgd"}, SGD);
//     }
//
// A program makes a catalog, lets the rooms enter their pages, and extensions theirs, and hands it
// on; there is no global one. In a configuration an object is a class name with its options, or
// that name alone:
//
//     optimizer: {SGD: {momentum: 0.9}}
//     optimizer: sgd
#pragma once

#include <any>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

#include "collectives/joined_text.h"
#include "runtime/config/node.h"
#include "runtime/config/options.h"
#include "runtime/config/tree.h"

namespace meshwork {

/// How messages speak of a kind, next to whose declaration it is specialised:
///
///     template <>
///     struct KindOf<Optimizer> {
///       static constexpr const char* word = "optimizer";      // unknown optimizer "Adem"
///       static constexpr const char* article = "an optimizer"; // expected an optimizer
///       static std::vector<std::string> other_keys();           // optional: keys that are no options
///       static OptionText common_key();       // optional: what the reference says of one of these
///       static constexpr const char* key = "kind"; // optional: {kind: idx, ...}, not Class: {...}
///     };
template <class Value>
struct KindOf;

/// One class of a kind.
template <class Value>
struct CatalogEntry {
  std::string class_name;
  std::vector<std::string> short_names;
  std::function<Value(const ConfigNode& options, const Catalog& catalog)> make;
  std::function<Explained()> explain;  // null: it reads its options in a way of its own
  std::string library{};               // the extension that it is of; "" for none
};

class Catalog {
 public:
  template <class Value>
  using Entries = std::map<std::string, CatalogEntry<Value>>;

  /// Throws `Error` if another class of the kind has this name or one of the short names. The name
  /// has to begin with a capital letter, by which configurations tell classes from options, unless
  /// a key gives it. No option has the name of a key that all classes of the kind have.
  template <class Value>
  void enter(CatalogEntry<Value> entry) {
    if constexpr (!named_by_key<Value>) check_class_name(KindOf<Value>::word, entry.class_name);
    std::vector<std::string> names = entry.short_names;
    names.push_back(entry.class_name);
    for (const std::string& name : names) {
      if (const CatalogEntry<Value>* const other = find<Value>(name)) {
        fail("there are two {} classes \"{}\"{}{}", KindOf<Value>::word, name,
             other->class_name == entry.class_name
                 ? ""
                 : fmt::format(": {} and {}", other->class_name, entry.class_name),
             other->library.empty() ? "" : "; the other is of " + other->library);
      }
    }
    if constexpr (requires { KindOf<Value>::other_keys(); }) {
      if (entry.explain) {
        check_options_of(KindOf<Value>::word, entry.class_name, entry.explain(),
                         KindOf<Value>::other_keys());
      }
    }
    entry.library = library_;
    const std::string name = entry.class_name;
    Described described{entry.short_names, entry.explain};
    if constexpr (requires { KindOf<Value>::common_key(); }) {
      if (entry.explain) {
        described.explain = [explain = entry.explain] {
          Explained all = explain();
          all.options.insert(all.options.begin(), KindOf<Value>::common_key());
          return all;
        };
      }
    }
    described_[KindOf<Value>::word][name] = std::move(described);
    entries_of<Value>().emplace(name, std::move(entry));
  }

  /// A class that `make` makes of its described options (options.h), which are `initial` where
  /// nothing else is given. Classes that share their options say `about` what they compute.
  template <class Value, class Options, class Make>
  void add(const std::string& class_name, std::vector<std::string> short_names, Make make,
           Options initial = {}, const std::string& about = "") {
    enter_class<Value>(
        class_name, std::move(short_names), about,
        std::unique_ptr<const AnyClass<Value>>(
            new ClassWithOptions<Value, Options, Make>(std::move(make), std::move(initial))));
  }

  /// Describes a part of a class that has options of its own, such as "synthetic/normal".
  template <class Value>
  void explain_part(const std::string& name, std::function<Explained()> explain) {
    described_[KindOf<Value>::word][name] = {{}, std::move(explain)};
  }

  /// The shared libraries that it has classes of (extension.h), by their absolute paths.
  [[nodiscard]] const std::set<std::string>& extensions() const { return extensions_; }
  void add_extension(const std::string& path) { extensions_.insert(path); }
  /// What is entered from now on is of the extension that the user calls `library`; of none if "".
  void enter_for(std::string library) { library_ = std::move(library); }

  /// What `meshwork reference` takes to explain the class `name` that is being entered.
  [[nodiscard]] std::string reference_of(const std::string& name) const {
    return library_.empty() ? name : name + " --extension " + library_;
  }

  /// What `meshwork reference` says of a class.
  struct Described {
    std::vector<std::string> short_names;
    std::function<Explained()> explain;  // null: it reads its options in a way of its own
  };
  /// All classes, by the word for their kind and by their name.
  [[nodiscard]] const std::map<std::string, std::map<std::string, Described>>& described() const {
    return described_;
  }

  /// By class name.
  template <class Value>
  [[nodiscard]] const Entries<Value>& all() const {
    static const Entries<Value> none;
    const auto found = kinds_.find(typeid(Value));
    return found == kinds_.end() ? none : *std::any_cast<Entries<Value>>(&found->second);
  }

  /// The class that is called so, or has this short name; null if there is none.
  template <class Value>
  [[nodiscard]] const CatalogEntry<Value>* find(const std::string& name) const {
    for (const auto& [class_name, entry] : all<Value>()) {
      if (class_name == name) return &entry;
      for (const std::string& other : entry.short_names) {
        if (other == name) return &entry;
      }
    }
    return nullptr;
  }

  /// One name of each class, as `written` is one: with a capital letter or else a short one, if it
  /// has any. Of several the nearest to `written`, if one is near, or the first.
  template <class Value>
  [[nodiscard]] std::vector<std::string> names_like(const std::string& written) const {
    std::vector<std::string> names;
    for (const auto& [name, entry] : all<Value>()) {
      names.push_back(name_like(written, name, entry.short_names));
    }
    return names;
  }

  /// The object written as `Dense: {units: 10}`, `Flatten:` or `Flatten`, or as `{kind: idx, ...}`.
  /// Throws `ConfigError`: a class that there is not, with the nearest name; options that are wrong.
  template <class Value>
  [[nodiscard]] Value make(const ConfigNode& node) const {
    const ConfigEntry written = entry_of<Value>(node);
    const CatalogEntry<Value>* const entry = find<Value>(written.name);
    if (entry == nullptr) {
      throw written.key.unknown(KindOf<Value>::word, names_like<Value>(written.name));
    }
    return written.value.located(
        [&] {
          Value value = entry->make(written.value, *this);
          if constexpr (requires { value == nullptr; }) {
            if (value == nullptr) {
              fail("the {0} class {1} made no {0}", KindOf<Value>::word, entry->class_name);
            }
          }
          return value;
        },
        named_by_key<Value> ? "" : entry->class_name + ": ");
  }

 private:
  // A class and its options, for `add`. What does not depend on the options is in `enter_class`,
  // which compiles once for each kind.
  template <class Value>
  struct AnyClass {
    virtual ~AnyClass() = default;
    [[nodiscard]] virtual Value make(const ConfigNode& node, const Catalog& catalog,
                                     const std::string& reference,
                                     const std::vector<std::string>& others) const = 0;
    [[nodiscard]] virtual Explained explain() const = 0;
  };
  template <class Value, class Options, class Make>
  struct ClassWithOptions final : AnyClass<Value> {
    ClassWithOptions(Make given, Options options)
        : make_(std::move(given)), initial_(std::move(options)) {}
    [[nodiscard]] Value make(const ConfigNode& node, const Catalog& catalog,
                             const std::string& reference,
                             const std::vector<std::string>& others) const override {
      return make_(
          read_options<Options>(node, catalog, reference, others, initial_, KindOf<Value>::word));
    }
    [[nodiscard]] Explained explain() const override { return explained<Options>(initial_); }

   private:
    Make make_;
    Options initial_;
  };
  template <class Value>
  void enter_class(const std::string& class_name, std::vector<std::string> short_names,
                   const std::string& about, std::shared_ptr<const AnyClass<Value>> entered) {
    enter<Value>({class_name, std::move(short_names),
                  [entered, reference = reference_of(class_name)](const ConfigNode& node,
                                                                  const Catalog& catalog) {
                    std::vector<std::string> others;
                    if constexpr (requires { KindOf<Value>::other_keys(); }) {
                      others = KindOf<Value>::other_keys();
                    }
                    return entered->make(node, catalog, reference, others);
                  },
                  [entered, about] {
                    Explained all = entered->explain();
                    if (!about.empty()) all.about = about;
                    return all;
                  }});
  }

  template <class Value>
  static constexpr bool named_by_key = requires {
    KindOf<Value>::key;
  };

  template <class Value>
  [[nodiscard]] ConfigEntry entry_of(const ConfigNode& node) const {
    if constexpr (named_by_key<Value>) {
      const ConfigNode name = ConfigReader(node).required_node(
          KindOf<Value>::key, fmt::format("one of {}", joined_text(names_like<Value>(""), ", ")));
      return {name.as<std::string>(), name, node};
    } else {
      return node.single_entry(KindOf<Value>::article);
    }
  }

  template <class Value>
  Entries<Value>& entries_of() {
    std::any& kind = kinds_[typeid(Value)];
    if (!kind.has_value()) kind = Entries<Value>();
    return *std::any_cast<Entries<Value>>(&kind);
  }
  static void check_class_name(const char* kind, const std::string& name);
  static void check_options_of(const char* kind, const std::string& name,
                               const Explained& explained,
                               const std::vector<std::string>& other_keys);
  static std::string name_like(const std::string& written, const std::string& class_name,
                               const std::vector<std::string>& short_names);

  std::map<std::type_index, std::any> kinds_;  // Entries of each, by the type
  std::map<std::string, std::map<std::string, Described>> described_;
  std::set<std::string> extensions_;
  std::string library_;  // of which classes are entered now
};

/// Makes an object of a kind an option.
template <class Value>
requires requires {
  KindOf<Value>::article;
}
void from_config(const ConfigNode& node, Value& value, const Catalog& catalog) {
  value = catalog.make<Value>(node);
}

/// Makes a list of objects of a kind an option; null is an empty one.
template <class Value>
requires requires {
  KindOf<Value>::article;
}
void from_config(const ConfigNode& node, std::vector<Value>& values, const Catalog& catalog) {
  values.clear();
  ConfigErrors errors;
  if (!node.is_null()) {
    for (const ConfigNode& element : node.elements()) {
      errors.check([&] { values.push_back(catalog.make<Value>(element)); });
    }
  }
  errors.raise();
}

}  // namespace meshwork
