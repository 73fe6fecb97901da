#!/usr/bin/env bash
# What a run reads it does not write over, whichever command and option asks for it: status 2, one
# message, and every file as it was.
#
#     outputs.sh MESHWORK LAUNCHER...     e.g. LAUNCHER is mpiexec -n 2
set -uo pipefail
meshwork=$1
shift
launcher=("$@")
export OMPI_MCA_odls_base_sigkill_timeout=0
rm -rf ./*
failures=0

cat > run.yaml <<'YAML'
data:
  train: {kind: synthetic, rows: 40, features: {kind: normal, shape: [6]}, targets: {kind: classes, classes: 4}}
  batch_size: 20
model: {input: [6], layers: [{Dense: {name: d, units: 4}}]}
loss: {SparseCategoricalCrossentropy: {from_logits: true}}
optimizer: SGD
fit: {epochs: 1}
checkpoint: {directory: checkpoints}
YAML

run() {
  said=$("${launcher[@]}" "$meshwork" "$@" 2>&1)
  status=$?
}
wrong() {
  echo "WRONG: $1"
  echo "$said"
  failures=$((failures + 1))
}
# refused TEXT COMMAND...: it ends with 2, says TEXT, and no file is another one than before.
refused() {
  local text=$1 before after
  shift
  before=$(find . -type f | sort | xargs sha256sum)
  run "$@"
  after=$(find . -type f | sort | xargs sha256sum)
  [[ $status -eq 2 ]] || wrong "$*: status $status"
  [[ $said == *"$text"* ]] || wrong "$*: does not say \"$text\""
  [[ $before == "$after" ]] || wrong "$*: files changed"
}
done_with() {
  run "$@"
  [[ $status -eq 0 ]] || wrong "$*: status $status"
}

done_with train run.yaml
checkpoint=$(ls checkpoints/step-*.h5)
refused "is the file of the weights of this run" \
  predict run.yaml --checkpoint "$checkpoint" --output "$checkpoint"
refused "is the file of the weights of this run" \
  predict run.yaml --checkpoint checkpoints --output "$checkpoint" --overwrite
cp "$checkpoint" other.h5
refused "exists and is not predictions" \
  predict run.yaml --checkpoint "$checkpoint" --output other.h5
done_with predict run.yaml --checkpoint "$checkpoint" --output other.h5 --overwrite
done_with predict run.yaml --checkpoint "$checkpoint" --output other.h5
log='fit.callbacks=[{CSVLogger: {filename: run.yaml}}]'
refused "is the configuration of this run; what CSVLogger writes would overwrite it" \
  train run.yaml --set "$log" --set checkpoint.directory=second
refused "is the configuration of this run" \
  train run.yaml --overwrite --set "$log" --set checkpoint.directory=second
log='fit.callbacks=[{CSVLogger: {filename: log.csv}}]'
done_with train run.yaml --set "$log" --set checkpoint.directory=third
done_with train run.yaml --set "$log" --set checkpoint.directory=fourth
echo "precious" > log.csv
refused "log.csv: exists and is not what CSVLogger writes" \
  train run.yaml --set "$log" --set checkpoint.directory=fifth
refused "would both be written to it" \
  train run.yaml --overwrite --set "$log" --predict log.csv --set checkpoint.directory=fifth

twice='fit.callbacks=[{TensorBoard: {log_dir: events}}]'
if ! "$meshwork" train run.yaml --dry-run --set "$twice" 2>&1 | grep -q "without the protobuf"; then
  refused "events: what TensorBoard writes and what TensorBoard writes would both fill it" \
    train run.yaml --set "$twice" --set log.tensorboard=./events/ --set checkpoint.directory=fifth
fi

# A log that cannot be written is found before training; one in the directory of the checkpoints, which
# is not there yet, can be.
ln -s nowhere/log dangling
ln -s loop loop
ln -s sixth/step-000000002.h5 to_checkpoint
logged() { train=(train run.yaml --set checkpoint.directory=sixth --set "log={jsonl: $1}"); }
logged dangling
refused "dangling cannot be written: it is a link to nowhere/log: there is no folder nowhere" "${train[@]}"
logged loop
refused "Too many levels of symbolic links" "${train[@]}"
logged "$(printf 'x%.0s' $(seq 300))"
refused "File name too long" "${train[@]}"
logged sixth
refused "sixth cannot be written: it is a folder, that of the checkpoints" "${train[@]}"
logged to_checkpoint
refused "to_checkpoint: is a link to a name of this run's checkpoints" "${train[@]}"
[[ ! -e sixth ]] || wrong "a directory is there, of a run that did not begin"
logged sixth/log.jsonl
done_with "${train[@]}"
[[ -s sixth/log.jsonl ]] || wrong "there is no log in the directory of the checkpoints"

# Folders that take no files, whoever asks.
if [[ -d /sys ]]; then
  logged /sys/log.jsonl
  refused "/sys/log.jsonl cannot be" "${train[@]}" --set "checkpoint=~"
  refused "/sys/.log.h5.meshwork-lock: cannot be" \
    predict run.yaml --checkpoint "$checkpoint" --output /sys/log.h5
  if ! "$meshwork" train run.yaml --dry-run --set log.tensorboard=events 2>&1 | grep -q "without the protobuf"; then
    refused "/sys" train run.yaml --set "checkpoint=~" --set log.tensorboard=/sys/events
  fi
fi

done_with export "$checkpoint" --keras model.weights.h5
done_with export "$checkpoint" --keras model.weights.h5
cp run.yaml notes.weights.h5
refused "exists and is not Keras's weights" export "$checkpoint" --keras notes.weights.h5
ln model.weights.h5 alias.h5
refused "is the file of the weights of this run" import run.yaml model.weights.h5 --output alias.h5
[[ ! -d /sys ]] || refused "/sys" import run.yaml model.weights.h5 --output /sys/start.h5
mkdir start.h5.meshwork-unfinished
refused "start.h5.meshwork-unfinished is in the way" import run.yaml model.weights.h5 --output start.h5
rmdir start.h5.meshwork-unfinished
done_with predict run.yaml --checkpoint "$checkpoint" --output $'predicted\e[31m.csv'
[[ $said != *$'\e'* && $said == *'predicted\x1b[31m.csv'* ]] || wrong "predict prints a control character"
done_with import run.yaml model.weights.h5 --output start.h5
done_with import run.yaml model.weights.h5 --output start.h5

# What the configuration names as data is read, whichever part of it is opened.
{ echo a,b,c,d,e,f,y; for _ in $(seq 8); do echo 1,2,3,4,5,6,1; done; } > data.csv
cat > named.yaml <<'YAML'
data:
  train: {kind: synthetic, rows: 40, features: {kind: normal, shape: [6]}, targets: {kind: classes, classes: 4}}
  test: {kind: csv, file: data.csv, features: [a, b, c, d, e, f], targets: y}
  batch_size: 20
model: {input: [6], layers: [{Dense: {name: d, units: 4}}]}
loss: {SparseCategoricalCrossentropy: {from_logits: true}}
optimizer: SGD
YAML
# What a launcher names, and a configuration cannot.
export MESHWORK_RUN_DIRECTORY=$'\xff'
refused 'MESHWORK_RUN_DIRECTORY: "\xff" is no UTF-8' train named.yaml
unset MESHWORK_RUN_DIRECTORY
picture=(plan named.yaml --layout d/kernel --svg)
refused "data.csv: is data of this run; the picture would overwrite it" "${picture[@]}" data.csv
refused "is the configuration of this run" "${picture[@]}" named.yaml
done_with "${picture[@]}" picture.svg
cp data.csv data.h5
refused "data.h5: is data of this run; a checkpoint would overwrite it" \
  import named.yaml model.weights.h5 --output data.h5 --overwrite \
  --set 'data.test={kind: hdf5, features: "data.h5:/x", targets: "data.h5:/y"}'
refused "data.csv: is data of this run; predictions would overwrite it" \
  predict named.yaml --checkpoint "$checkpoint" --data train --overwrite --output data.csv
# A stopped import leaves nothing half-written: what has begun is brought to its end.
large=(--set 'model.layers=[{Dense: {units: 2000}}, {Dense: {units: 2000}}, {Dense: {units: 2000}}, {Dense: {units: 4}}]')
done_with train run.yaml "${large[@]}" --set checkpoint.directory=large
done_with export large --keras large.weights.h5
"$meshwork" import run.yaml large.weights.h5 "${large[@]}" --output stopped >stopped.txt 2>&1 &
importing=$!
until compgen -G 'stopped/*.meshwork-unfinished' >/dev/null || ! kill -0 $importing 2>/dev/null; do :; done
kill -TERM $importing
wait $importing
status=$?
said=$(cat stopped.txt)
[[ $status -eq 75 ]] || wrong "a stopped import: status $status"
if compgen -G 'stopped/*.meshwork-unfinished' >/dev/null; then wrong "a stopped import leaves a file"; fi
done_with verify stopped
# And one that reads the weights leaves no session.
rm -rf sessions && mkdir sessions
for wait in 0.05 0.15 0.25; do
  TMPDIR=$PWD/sessions "$meshwork" import run.yaml large.weights.h5 "${large[@]}" --output early.h5 --overwrite >stopped.txt 2>&1 &
  importing=$!
  until compgen -G 'sessions/meshwork-*' >/dev/null || ! kill -0 $importing 2>/dev/null; do :; done
  sleep $wait
  kill -TERM $importing
  wait $importing
  status=$?
  said=$(cat stopped.txt)
  [[ $status -eq 75 && -z $(ls sessions) ]] || wrong "an import that was stopped early: status $status, $(ls sessions)"
done
# Data that one rank alone sees.
if [[ ${launcher[*]} == *" 2" ]]; then
  mkdir -p elsewhere
  {
    echo "data: {train: {kind: csv, file: data.csv, features: [a, b, c, d, e, f], targets: y}, batch_size: 4}"
    grep -v "^data\|^  \|^fit\|^checkpoint" run.yaml
  } >parted.yaml
  for order in ". elsewhere" "elsewhere ."; do
    read -r first second <<<"$order"
    said=$(mpiexec -n 1 -wdir "$first" "$meshwork" train "$PWD/parted.yaml" --dry-run : \
      -n 1 -wdir "$second" "$meshwork" train "$PWD/parted.yaml" --dry-run 2>&1)
    status=$?
    [[ $status -eq 2 && $said == *"does not see the data that others see: "*"data.csv: there is no such file"* ]] ||
      wrong "data that one rank sees, in $order: status $status"
  done
fi
echo "failures: $failures"
exit $((failures > 0))
