// Layer: what users build models of; and the symbolic tensors that calling a layer makes.
//
// A `Layer` knows its options and how to build itself: which variables it has and which operations
// it consists of, given its inputs. It knows nothing of meshes. A `SharedLayer` is what a user
// holds: layers are called like functions on symbolic tensors, and a layer that is called twice
// shares its variables.
//
//     auto images = Input({28, 28, 1});
//     auto x = Flatten()(images);
//     x = Dense({.name = "d1", .units = 200})(x);
//
// A symbolic tensor remembers the call that makes it. `make_graph` walks back from the outputs and
// builds every layer in order. Layers without a name are numbered by class in order of appearance
// ("dense", "dense_1"), per model; two layers of one name in one scope are an error. A `LayerBlock`
// is a layer made of layers, which gives its name to their paths ("block/d1/kernel"); a model
// written as a class is one. A layer that is called in several scopes keeps the path of its first
// call.
//
// A layer that is not trainable is frozen, and so are the layers in it: a step leaves their
// variables as they are, no gradient of them is computed or reduced, their penalties are not in the
// loss, and optimizers keep no state for them. A frozen BatchNormalization uses its moving
// statistics.
//
// A model has the variables of its layers for itself: another model of the same layer object would
// have others, under the same name. So a layer with variables is of one model at a time. Making a
// second one of it is an error for as long as the first is there; layers without variables, such as
// Flatten, may be in any number of models.
//
// A tensor may have a mask, which says what of it counts (operations/mask.h). Some layers make one;
// it goes along by the letters of operations, so that no layer needs to hand it on. So it is with
// documents, which say what of a sequence belongs together (operations/document_starts.h).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/graph/graph.h"

namespace meshwork {

class LayerBuilder;

class Layer {
 public:
  explicit Layer(std::string name = "") : name_(std::move(name)) {}
  virtual ~Layer() = default;

  /// Keras's class name: "Dense".
  [[nodiscard]] virtual std::string class_name() const = 0;
  /// The name the user gave, or "".
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Gives a name to a layer that has none.
  void set_name(std::string name) { name_ = std::move(name); }

  /// Whether a step trains its variables and those of the layers in it. Models keep what was so
  /// when they were made.
  [[nodiscard]] bool trainable() const { return trainable_; }
  void set_trainable(bool trainable) { trainable_ = trainable; }

  /// Makes the layer's variables and operations for inputs with the shapes that `builder` tells;
  /// gives the output. Throws `Error` for inputs that do not fit, saying what was expected.
  [[nodiscard]] virtual TensorId build(LayerBuilder& builder,
                                       std::span<const TensorId> inputs) const = 0;

  /// What Keras calls the part of the layer that variables of the name "part/kernel" belong to. The
  /// same, unless a layer says otherwise.
  [[nodiscard]] virtual std::string part_in_keras(const std::string& part) const { return part; }

  /// Which model has the layer's variables, in words; null if none has, or that one is gone.
  [[nodiscard]] std::shared_ptr<const std::string> model() const { return model_.lock(); }
  /// The variables are those of `model`, as long as that is there.
  void join(const std::shared_ptr<const std::string>& model) { model_ = model; }

 private:
  std::string name_;
  bool trainable_ = true;
  std::weak_ptr<const std::string> model_;
};

/// A value of a model that is being written down. A cheap handle.
class SymbolicTensor {
 public:
  /// Global shape; dimension 0 is the batch, -1.
  [[nodiscard]] const Shape& shape() const;
  [[nodiscard]] ElementType type() const;

  struct Call;  // the layer call that makes it
  explicit SymbolicTensor(std::shared_ptr<const Call> call) : call_(std::move(call)) {}
  [[nodiscard]] const std::shared_ptr<const Call>& call() const { return call_; }

 private:
  std::shared_ptr<const Call> call_;
};

/// A layer that can be called, any number of times, always with the same variables.
class SharedLayer {
 public:
  explicit SharedLayer(std::shared_ptr<Layer> layer) : layer_(std::move(layer)) {}
  /// Throws `Error` prefixed by the layer's name (or class) if the inputs do not fit.
  SymbolicTensor operator()(const SymbolicTensor& input) const;
  SymbolicTensor operator()(const std::vector<SymbolicTensor>& inputs) const;
  [[nodiscard]] Layer& layer() const { return *layer_; }
  [[nodiscard]] const std::shared_ptr<Layer>& pointer() const { return layer_; }
  [[nodiscard]] bool operator==(std::nullptr_t) const { return layer_ == nullptr; }

 private:
  std::shared_ptr<Layer> layer_;
};

struct SymbolicTensor::Call {
  std::shared_ptr<Layer> layer;  // null for an input
  std::string input_name;
  std::vector<SymbolicTensor> inputs;
  Shape shape;
  ElementType type = ElementType::float32;
};

/// An input of a model: samples of `shape`, without the batch, of float32, or of int32, which are
/// numbers of things. Without a name it is "input", "input_1".
[[nodiscard]] SymbolicTensor Input(Shape shape, std::string name = "",
                                   ElementType dtype = ElementType::float32);

/// A layer made of layers. A model written as a class derives from it, adds its sub-layers by name
/// and says in `call` how they are joined.
class LayerBlock : public Layer {
 public:
  using Layer::Layer;
  [[nodiscard]] std::string class_name() const override { return "Block"; }
  /// Joins the sub-layers. Must not depend on anything but the inputs and the members.
  [[nodiscard]] virtual SymbolicTensor call(const std::vector<SymbolicTensor>& inputs) const = 0;
  [[nodiscard]] TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const final;

 protected:
  /// `layer`, named `name` inside this block.
  static SharedLayer add(const std::string& name, SharedLayer layer);
};

/// Layers one after the other, as one block.
[[nodiscard]] SharedLayer Sequential(std::vector<SharedLayer> layers, std::string name = "");

/// Where a layer builds itself: the graph so far, and the scope it is in.
class LayerBuilder {
 public:
  LayerBuilder(Graph& graph) : graph_(&graph) {}

  /// Global shape; dimension 0 is the batch, -1, for everything that depends on an input.
  [[nodiscard]] const Shape& shape(TensorId tensor) const { return graph_->tensors[tensor].shape; }
  [[nodiscard]] ElementType type(TensorId tensor) const { return graph_->tensors[tensor].type; }
  /// The path of the layer being built.
  [[nodiscard]] const std::string& path() const;
  /// Whether it is trainable, and all that it is in.
  [[nodiscard]] bool trainable() const;
  /// The variable `name` of the layer being built, frozen if the layer is; made at the layer's
  /// first call, shared by later ones. A layer of several parts names them: "query/kernel".
  [[nodiscard]] TensorId variable(const std::string& name, VariableOptions options);
  /// Appends an operation of the layer being built. The output has the mask of the inputs, if each
  /// has one of dimensions that the output begins with: by the same letters, which are neither whole
  /// nor windows. Of masks that differ, what one counts counts, as in Keras's merging layers.
  [[nodiscard]] TensorId apply(std::unique_ptr<Operation> operation, std::vector<TensorId> inputs);
  /// The mask of a tensor (operations/mask.h), or -1.
  [[nodiscard]] TensorId mask(TensorId tensor) const { return graph_->tensors[tensor].mask; }
  /// Gives `tensor` another mask; -1: none.
  void set_mask(TensorId tensor, TensorId mask) { graph_->tensors[tensor].mask = mask; }
  /// Where the documents of a tensor's places begin (operations/document_starts.h), or -1. An output
  /// has those of its inputs, if these that have some have the same, and it begins with the same
  /// letters, which are neither whole nor windows; else they are lost.
  [[nodiscard]] TensorId documents(TensorId tensor) const {
    return graph_->tensors[tensor].documents;
  }
  void set_documents(TensorId tensor, TensorId starts) {
    graph_->tensors[tensor].documents = starts;
  }
  /// Where documents begin in `numbers`, each of which ends with the number `end`. Once for all that
  /// ask.
  [[nodiscard]] TensorId document_starts(TensorId numbers, std::int32_t end);
  /// Builds `layer` in the scope of the one being built.
  [[nodiscard]] TensorId call(const std::shared_ptr<Layer>& layer,
                              std::span<const TensorId> inputs);
  /// Builds what lies between `inputs` and `output`, with `values` as the inputs.
  [[nodiscard]] TensorId expand(const SymbolicTensor& output,
                                std::span<const SymbolicTensor> inputs,
                                std::span<const TensorId> values);

 private:
  friend class SharedLayer;
  friend Graph make_graph(const std::vector<SymbolicTensor>& inputs,
                          const std::vector<SymbolicTensor>& outputs);
  using Calls = std::vector<std::shared_ptr<const SymbolicTensor::Call>>;

  // Names given out in a scope, which is "" or "block/". A null layer stands for an input.
  struct Scope {
    std::map<std::string, const Layer*> taken;
    std::map<std::string, int> unnamed;  // how many of a class
  };

  std::map<std::pair<TensorId, std::int32_t>, TensorId> starts_;
  TensorId documents_of_output(const Operation& operation,
                               const std::vector<TensorId>& inputs) const;
  TensorId mask_of_output(const Operation& operation, const std::vector<TensorId>& inputs);
  std::string current_scope() const;
  std::string free_name(Scope& scope, const std::string& stem) const;
  void claim_name(Scope& scope, const std::shared_ptr<Layer>& layer);
  const std::string& path_of(const std::shared_ptr<Layer>& layer);
  void reserve_names(const Calls& calls);
  std::vector<TensorId> build_calls(const Calls& calls, std::span<const SymbolicTensor> outputs,
                                    std::span<const SymbolicTensor> inputs,
                                    std::span<const TensorId> values);

  Graph* graph_;
  std::vector<int> layer_stack_;               // graph layers being built
  std::map<std::string, Scope> scopes_;        // by scope
  std::map<const Layer*, std::string> paths_;  // of the layers met so far
  std::vector<std::shared_ptr<Layer>> held_;   // the same: no address comes back for another
  std::map<std::string, TensorId> variables_;  // by path
  std::map<std::string, int> uses_;            // calls by layer path
};

/// The class name as Keras writes it in paths: "MaxPooling2D" becomes "max_pooling2d", "ReLU"
/// "re_lu".
[[nodiscard]] std::string snake_case(const std::string& class_name);

/// The graph between `inputs` and `outputs`. Operations stand in the order of a walk back from the
/// outputs that takes the inputs of each call in turn. The path of an input is its name. Throws
/// `Error`: an output that depends on an input that is not listed, two layers or inputs of one
/// name, a listed input that nothing uses or that is listed twice.
[[nodiscard]] Graph make_graph(const std::vector<SymbolicTensor>& inputs,
                               const std::vector<SymbolicTensor>& outputs);

}  // namespace meshwork
