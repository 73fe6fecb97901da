// F scores: one number for precision and recall of each class
// (keras.io/api/metrics/classification_metrics).
//
//     (1 + beta^2) precision recall / (beta^2 precision + recall)
//
// What is predicted is what is above the threshold, or without one the largest value of each row,
// unless that is 0. F1Score has a beta of 1. `average` says how the classes become one number: as
// one class of all values (micro), by their mean (macro), or by that weighted by how often they
// are right (weighted). Without, each class has its own score, "f1_score_0" and so on in the logs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

enum class ClassAverage : std::uint8_t { none, micro, macro, weighted };
struct F1ScoreOptions {
  ClassAverage average = ClassAverage::none;
  std::optional<double> threshold;  // above 0, to 1
  std::string name = "f1_score";
};
struct FBetaScoreOptions {
  ClassAverage average = ClassAverage::none;
  double beta = 1;                  // above 0
  std::optional<double> threshold;  // above 0, to 1
  std::string name = "fbeta_score";
};

/// Both throw `Error` for options out of range.
[[nodiscard]] SharedMetric F1Score(const F1ScoreOptions& options = {});
[[nodiscard]] SharedMetric FBetaScore(const FBetaScoreOptions& options = {});

}  // namespace meshwork
