#include "runtime/config/absent.h"

#include <algorithm>
#include <string>

namespace meshwork {
namespace {

constexpr Absence all[] = {
    {"loss", "Loss", "losses of your own are classes of an extension (--extension)"},
    {"loss", "CTC", "Meshwork does not train on labels without positions"},
    {"loss", ".reduction",
     "a loss is the mean over the rows of the global batch, Keras's "
     "sum_over_batch_size; loss_weights scale it"},
    {"loss", ".dtype",
     "numbers are float32; the key precision says in which products are "
     "computed"},
    {"loss", ".axis", "the last dimension is used; Permute moves another there"},
    {"metric", "Metric MeanMetricWrapper",
     "metrics of your own are classes of an extension (--extension)"},
    {"metric", "Mean Sum",
     "they add up values that a Python loop gives them; losses and metrics "
     "are means over samples already"},
    {"metric", ".dtype", "numbers are float32, and sums float64"},
    {"metric", ".axis", "the last dimension is used; Permute moves another there"},
    {"metric", "AUC.thresholds", "num_thresholds spreads thresholds evenly"},
    {"metric", "AUC.multi_label AUC.num_labels AUC.label_weights",
     "all values count alike, as without multi_label"},
    {"metric", "OneHotIoU.sparse_y_pred OneHotMeanIoU.sparse_y_pred",
     "predictions are a value for each class; IoU and MeanIoU take numbers"},
    {"metric",
     "SensitivityAtSpecificity.class_id SpecificityAtSensitivity.class_id "
     "PrecisionAtRecall.class_id RecallAtPrecision.class_id",
     "all columns count; Precision and Recall take a class_id"},
    {"metric", "SparseTopKCategoricalAccuracy.from_sorted_ids",
     "predictions are a value for each class"},
    {"metric", "R2Score.num_regressors", "the score is not adjusted to the number of inputs"},
    {"optimizer", "Optimizer", "optimizers of your own are classes of an extension (--extension)"},
    {"optimizer", "LossScaleOptimizer .loss_scale_factor",
     "gradients are float32 even where products are bfloat16: they lose "
     "nothing that a factor would save"},
    {"optimizer", "MultiOptimizer OptimizerMap",
     "all variables are updated alike; trainable: false leaves a layer as it "
     "is"},
    {"optimizer", "Adafactor.relative_step",
     "the rate is 1 / sqrt(t) at most, as Keras's with either value"},
    {"optimizer", "Muon.adam_lr_ratio", "one rate is for all variables"},
    {"optimizer", ".gradient_accumulation_steps",
     "fit: {microbatches: N}, and a batch_size N times as large"},
    {"optimizer", ".name", "the class is the name"},
    {"schedule", "LearningRateSchedule", "C++ programs make a Schedule of any function"},
    {"schedule", ".name", "the class is the name"},
    {"callback", "Callback CallbackList LambdaCallback",
     "callbacks of your own are classes of an extension (--extension)"},
    {"callback", "BackupAndRestore", "checkpoint: {directory: backup, resume: auto}"},
    {"callback", "OrbaxCheckpoint", "ModelCheckpoint, which saves in parallel too"},
    {"callback", "History",
     "fit returns it in C++; CSVLogger, JSONLogger and checkpoints keep it in "
     "files"},
    {"callback", "ProgbarLogger", "fit: {verbose: 1} prints progress"},
    {"callback", "RemoteMonitor",
     "JSONLogger or TensorBoard write files, which other programs can send on"},
    {"callback", "ModelCheckpoint.verbose", "each saved checkpoint is printed"},
    {"callback", "ModelCheckpoint.save_weights_only",
     "a checkpoint has the weights beside the state of training; `export --weights-only` writes "
     "them alone"},
    {"callback", "ModelCheckpoint.mode", "each log knows whether lower or higher is better"},
    {"callback", "ModelCheckpoint.initial_value_threshold",
     "the first state is the best so far; EarlyStopping takes a baseline"},
    {"callback", "TensorBoard.write_graph",
     "`meshwork summary` and `meshwork plan` show the model"},
    {"callback",
     "TensorBoard.write_images TensorBoard.embeddings_freq "
     "TensorBoard.embeddings_metadata",
     "weights are written as histograms (histogram_freq)"},
    {"callback", "TensorBoard.write_steps_per_second",
     "samples a second are written with each epoch"},
    {"callback", "TensorBoard.profile_batch",
     "`train --profile` shows where the time of a step goes"},
    {"distribution", "ModelParallel", "the key `layout` says how weights and outputs are split"},
    {"distribution", "Distribution",
     "distributions of your own are classes of an extension (--extension)"},
    {"initializer", "Initializer",
     "initializers of your own are classes of an extension (--extension)"},
    {"initializer", "IdentityInitializer OrthogonalInitializer",
     "Identity and Orthogonal are the same"},
    {"initializer", ".seed", "draws follow from the seed of the run and the variable's path"},
    {"initializer", ".input_axes .output_axes",
     "the last two dimensions are inputs and outputs, as without them"},
    {"initializer", "STFT STFTInitializer", "Meshwork has no audio layers"},
    {"regularizer", "Regularizer",
     "regularizers of your own are classes of an extension (--extension)"},
    {"constraint", "Constraint",
     "constraints of your own are classes of an extension (--extension)"},
    {"layer",
     "RNN SimpleRNN SimpleRNNCell LSTM LSTMCell GRU GRUCell StackedRNNCells "
     "Bidirectional TimeDistributed ConvLSTM1D ConvLSTM2D ConvLSTM3D",
     "Meshwork has no recurrent layers; attention and Conv1D with causal padding read sequences"},
    {"layer", "Attention AdditiveAttention", "MultiHeadAttention"},
    {"layer", "Embedding.input_length", "the input's shape says it"},
    {"layer", "Embedding.weights", "`meshwork import` reads weights of a file"},
    {"layer", ".data_format", "channels are the last dimension; Permute moves another there"},
    {"layer", ".seed", "draws follow from the seed of the run"},
    {"layer", ".dtype .reverse_dtype",
     "numbers are float32; the key precision says in which products are "
     "computed"},
    {"layer", ".activity_regularizer", "ActivityRegularization behind the layer"},
    {"layer", ".lora_rank .lora_alpha",
     "weights are trained whole; trainable: false leaves a layer as it is"},
    {"layer", ".quantization_config EinsumDense.gptq_unpacked_column_size",
     "weights are float32; the key precision says in which products are "
     "computed"},
    {"layer", "Dropout.noise_shape AlphaDropout.noise_shape",
     "each element is drawn; SpatialDropout1D and its like drop whole channels"},
    {"layer",
     "Conv1DTranspose.output_padding Conv2DTranspose.output_padding "
     "Conv3DTranspose.output_padding",
     "padding says how long the output is; ZeroPadding2D and Cropping2D change it"},
    {"layer",
     "BatchNormalization.renorm BatchNormalization.renorm_clipping "
     "BatchNormalization.renorm_momentum",
     "training uses the statistics of the global batch; GroupNormalization needs none of a batch"},
    {"layer", "BatchNormalization.synchronized", "statistics are those of the global batch"},
    {"layer", "CategoryEncoding.sparse", "vectors have all their elements"},
    {"layer", ".flash_attention", "scores are never stored, as without it"},
    {"layer", ".use_gate", "attention is not multiplied by a gate before its output product"},
    {"layer", "Resizing.fill_mode Resizing.fill_value", "pad_to_aspect_ratio adds borders of 0"},
    {"layer", "Resizing.antialias", "AveragePooling2D in front of it blurs what is made smaller"},
    {"layer", "MultiHeadAttention.output_shape", "Dense behind it makes vectors of another length"},
    {"layer", "MultiHeadAttention.attention_axes",
     "the one dimension between batch and features is attended over; Permute and Reshape bring "
     "another there"},
    {"layer", "TextVectorization StringLookup IntegerLookup Hashing HashedCrossing",
     "columns of texts in CSV become numbers by themselves; Embedding takes numbers"},
    {"layer", "Discretization",
     "prepare the data beforehand; CategoryEncoding reads the numbers of categories"},
    {"layer", "MelSpectrogram STFTSpectrogram", "Meshwork has no audio layers"},
    {"layer", "FlaxLayer JaxLayer TorchModuleWrapper TFSMLayer Lambda",
     "a layer of your own is a class of an extension (--extension)"},
    {"layer", "Layer Wrapper Pipeline InputSpec",
     "a layer of your own is a class of an extension (--extension); Sequential "
     "joins layers"},
    {"layer", "InputLayer", "model: {input: [...]}"},
    {"layer",
     "AutoContrast AugMix ContrastLimitedAdaptiveHistogramEqualization "
     "Equalization MaxNumBoundingBoxes RandAugment RandomColorDegeneration "
     "RandomColorJitter RandomElasticTransform RandomErasing "
     "RandomGaussianBlur RandomGrayscale RandomHue RandomInvert "
     "RandomPerspective RandomPosterization RandomSaturation RandomSharpness "
     "RandomShear Solarization",
     "such changes of images are made beforehand; RandomFlip, RandomRotation and their like "
     "act in training only"},
    {"layer", "MixUp CutMix",
     "augment: [{MixUp: {alpha: 0.2}}], a section beside the model: they mix samples and targets"},
    {"augmentation", ".seed", "draws follow from the seed of the run"},
    {"augmentation", ".data_format", "channels are last"},
    {"augmentation",
     "RandomFlip RandomTranslation RandomRotation RandomZoom RandomCrop RandomContrast "
     "RandomBrightness GaussianNoise",
     "it is a layer: one of the model's, which acts in training only"},
    {"layer", "AvgPool1D AvgPool2D AvgPool3D",
     "AveragePooling1D, AveragePooling2D and AveragePooling3D are the same"},
    {"layer", "MaxPool1D MaxPool2D MaxPool3D",
     "MaxPooling1D, MaxPooling2D and MaxPooling3D are the same"},
    {"layer",
     "GlobalAvgPool1D GlobalAvgPool2D GlobalAvgPool3D GlobalMaxPool1D "
     "GlobalMaxPool2D GlobalMaxPool3D",
     "the names with Average and Pooling in full are the same"},
    {"layer",
     "Convolution1D Convolution2D Convolution3D Convolution1DTranspose "
     "Convolution2DTranspose Convolution3DTranspose SeparableConvolution1D "
     "SeparableConvolution2D",
     "the names that begin with Conv or SeparableConv are the same"},
    {"layer", "SpectralNormalization",
     "kernel_constraint: UnitNorm with kernel_regularizer: {OrthogonalRegularizer: {mode: "
     "columns}} brings singular values to 1; with JAX, Keras divides the kernel in training alone, "
     "and evaluates another model",
     true},
};

// Whether `name` stands among names with spaces between them.
bool has(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

}  // namespace

std::span<const Absence> absences() {
  return all;
}

std::string_view instead_of(std::string_view kind, std::string_view name) {
  for (const Absence& one : all) {
    if (one.kind == kind && has(one.names, name)) return one.instead;
  }
  return "";
}

std::string_view instead_of_option(std::string_view kind, std::string_view class_name,
                                   std::string_view option) {
  const std::string any = "." + std::string(option);
  const std::string_view own = instead_of(kind, std::string(class_name) + any);
  return own.empty() ? instead_of(kind, any) : own;
}

}  // namespace meshwork
