#!/usr/bin/env bash
# What the program does with checkpoint files: inspect, verify, diff, export, import, and weights for
# train, evaluate and predict.
#
#   checkpoint_files.sh MESHWORK CONFIG LAUNCHER...     e.g. LAUNCHER is mpiexec -n 2
# shellcheck source=tests/support/drill.sh
. "$MESHWORK_SOURCE_DIR/tests/support/drill.sh"

on_ranks() {
  local name=$1 expected=$2
  shift 2
  runs "$name" "$expected" "${launcher[@]}" "$meshwork" "$@"
}

alone() {
  local name=$1 expected=$2
  shift 2
  runs "$name" "$expected" "$meshwork" "$@"
}

rm -rf checkpoints on_one imported empty ./*.txt ./*.csv ./*.h5
mkdir empty
on_ranks train 0 train "$config" --set checkpoint.directory=checkpoints --predict trained.csv
first=checkpoints/step-000000008.h5
last=checkpoints/step-000000024.h5

# Alone and on ranks, where it is said once.
for how in alone on_ranks; do
  $how inspect 0 inspect checkpoints
  says inspect "checkpoints: 3 checkpoints"
  says inspect "step 24, 3 of 3 epochs done"
  says inspect "d1"
  says inspect "(784, 200)"
  [ "$(grep -c "stands at" inspect.txt)" = 1 ] || { echo "said twice"; failures=$((failures + 1)); }
  $how verify 0 verify checkpoints "$first"
  [ "$(grep -c ": ok: " verify.txt)" = 4 ] || { cat verify.txt; failures=$((failures + 1)); }
  $how diff_equal 0 diff checkpoints "$last"
  says diff_equal "0 differ"
  $how diff_different 1 diff "$first" "$last"
  says diff_different "params/d1/kernel"
  says diff_different "step: 8 in A, 24 in B"
done

# A run on one rank differs by rounding, in arrays and in losses.
alone train_on_one 0 train "$config" --set checkpoint.directory=on_one
alone diff_rounding 0 diff checkpoints on_one --tolerance 1e-4
if [ ${#launcher[@]} -gt 0 ] && ! "$meshwork" diff checkpoints on_one >exactly.txt 2>&1; then
  says exactly "history: loss: value"
fi
alone json 0 inspect "$last" --json
says json '"name": "params/d1/kernel", "path": "d1/kernel", "shape": [784, 200], "dtype": "float32"'
says json '"step": 24'
alone again 0 inspect checkpoints --configuration
on_ranks dry 0 evaluate again.txt --dry-run

on_ranks export 0 export checkpoints --keras model.weights.h5
says export "3 variables of $last, step 24"
alone diff_keras 0 diff model.weights.h5 checkpoints
alone inspect_keras 0 inspect model.weights.h5
says inspect_keras "layers/dense_1/vars/0"
for weights in checkpoints "$last" model.weights.h5; do
  rm -f again.csv
  on_ranks predict 0 predict "$config" --weights "$weights" --output again.csv
  says predict "step 24"
  cmp trained.csv again.csv || failures=$((failures + 1))
done
on_ranks import 0 import "$config" model.weights.h5 --output imported
alone diff_imported 0 diff imported checkpoints --weights-only
says import "imported/step-000000024.h5"
on_ranks begin 0 train "$config" --weights "$first" --set fit.epochs=1
says begin "weights: 3 variables of $first; not its optimizer's state (RMSprop, 8 steps), which --resume takes"
on_ranks begin_keras 0 train "$config" --weights model.weights.h5 --set fit.epochs=1
says begin_keras "3 variables of model.weights.h5; not its optimizer's state (24 steps), which"

# What cannot be: one message, and its status.
alone nothing 2 inspect nowhere.h5
says nothing "nowhere.h5: there is no such file"
alone bare 2 inspect empty
says bare "empty: there are no checkpoints in this directory"
alone one 2 diff "$first"
alone text 2 diff "$first" "$config"
says text "is no HDF5 file"
alone unverified 2 verify nowhere.h5 "$first"
says unverified "nowhere.h5: there is no such file"
says unverified "$first: ok"
alone wrong_name 2 export checkpoints --keras model.h5
says wrong_name "names that end with .weights.h5"
if [ ${#launcher[@]} -gt 0 ]; then
  # A rank that cannot see what the first one sees, as when a run has just removed it.
  runs parted 2 "${launcher[@]}" -wdir . "$meshwork" verify "$first" : \
    -n 1 -wdir empty "$meshwork" verify "$first"
  says parted "there is no such file"
  ! grep -q DAMAGED parted.txt || { cat parted.txt; failures=$((failures + 1)); }
fi
# Open MPI's files of a run without a launcher stay when another process of this user ends.
rm -rf sessions && mkdir sessions
TMPDIR=$PWD/sessions "$meshwork" train "$config" --set fit.epochs=100000 >training.txt 2>&1 &
training=$!
until grep -q Epoch training.txt || ! kill -0 "$training"; do sleep 0.1; done
TMPDIR=$PWD/sessions alone devices 0 devices
if ! kill -0 "$training" || [ -z "$(ls sessions)" ]; then
  echo "another process removed the session of a run"
  failures=$((failures + 1))
fi
kill "$training"
wait "$training"
if [ -n "$(ls sessions)" ]; then
  echo "sessions are left behind: $(ls sessions)"
  failures=$((failures + 1))
fi
for unusable in /proc "$config" nowhere/at/all; do
  TMPDIR=$unusable alone devices 0 devices
done
on_ranks other_model 2 evaluate "$config" --set model.layers[1].Dense.units=100 --weights "$first"
cp "$last" cut.h5 && truncate -s -100 cut.h5
on_ranks cut 1 verify cut.h5
says cut "cut.h5: DAMAGED"
printf 'x' | dd of="$last" bs=1 seek="$(($(stat -c %s "$last") / 2))" conv=notrunc 2>/dev/null
for how in alone on_ranks; do
  $how damaged 1 verify checkpoints
  says damaged "$last: DAMAGED"
  says damaged "$first: ok"
done

exit $((failures > 0))
