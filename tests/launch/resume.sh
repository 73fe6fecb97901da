#!/usr/bin/env bash
# `meshwork train` with checkpoints: a run of one epoch that goes on to three predicts, digit for
# digit, what a run of three does; and what is said when checkpoints are damaged or not wanted.
#
#   resume.sh MESHWORK CONFIG LAUNCHER...     e.g. LAUNCHER is mpiexec -n 2
# shellcheck source=tests/support/drill.sh
. "$MESHWORK_SOURCE_DIR/tests/support/drill.sh"

# train NAME STATUS ARGUMENTS...: runs it and keeps what it says in NAME.txt.
train() {
  runs "$1" "$2" "${launcher[@]}" "$meshwork" train "$config" "${@:3}"
}

rm -rf checkpoints given begun runs elsewhere never ./*.txt ./*.csv

train straight 0 --predict straight.csv
# A part of Open MPI for shared file pointers has room for a name of 256 bytes.
train long 0 --set checkpoint.directory="runs/$(printf 'd%.0s' {1..240})" --set fit.epochs=1
says long "checkpoints: 1 written to runs/ddd"
rm -rf runs
train first 0 --set checkpoint.directory=checkpoints --set fit.epochs=1
says first "checkpoints: 1 written to checkpoints"
says first "training blocked"
train second 0 --set checkpoint.directory=checkpoints --resume --predict resumed.csv
says second "resumed from checkpoints/step-000000008.h5: step 8, 1 epoch done"
says second "fit.epochs: 3, was 1"
says second "Epoch 2/3"
grep -q "Epoch 1/3" second.txt && echo "second trains epoch 1 again" && failures=$((failures + 1))
cmp straight.csv resumed.csv || failures=$((failures + 1))

# The first start takes the weights that are given, and those after it go on.
cp -r checkpoints given
train begins 0 --set checkpoint.directory=begun --resume --weights given --set fit.epochs=1
says begins "weights: 3 variables of given/step-000000024.h5"
train goes_on 0 --set checkpoint.directory=begun --resume --weights given --set fit.epochs=2
says goes_on "weights: given is not read: the run goes on from begun"
says goes_on "resumed from begun/step-000000008.h5"
grep -q "given/step" goes_on.txt && echo "goes_on reads weights" && failures=$((failures + 1))

train third 0 --set checkpoint.directory=checkpoints --set checkpoint.resume=auto
says third "all 3 epochs are done"

train fresh 2 --set checkpoint.directory=checkpoints
says fresh "has checkpoints of an earlier run, up to step 24"
says fresh "--resume"

# A launcher that starts runs again names a directory for one that names none.
says straight "no checkpoints: this run cannot be resumed"
MESHWORK_RUN_DIRECTORY="runs/it's 1" train launched 0 --set fit.epochs=1
says launched "checkpoints go to runs/it's 1"
MESHWORK_RUN_DIRECTORY="runs/it's 1" train again 0 --set checkpoint.keep=2
says again "resumed from runs/it's 1/step-000000008.h5"
MESHWORK_RUN_DIRECTORY=elsewhere train own 0 --set checkpoint.directory=checkpoints
says own "all 3 epochs are done"
MESHWORK_RUN_DIRECTORY="runs/it's 1" train never 2 --set checkpoint.resume=never
says never "has checkpoints of an earlier run, up to step 24"
MESHWORK_RUN_DIRECTORY=elsewhere train without 0 --set 'checkpoint=~'
says without "no checkpoints: this run cannot be resumed"
[ ! -e elsewhere ] || failures=$((failures + 1))

train nothing 2 --resume
says nothing "--resume: $config has no section for checkpoints"
train wrong 2 --set checkpoint.directory=never --set checkpoint.modus=sync
says wrong "did you mean \"mode\""

# The newest is damaged: the one before it does, and what is lost is said.
truncate -s 5000 checkpoints/step-000000024.h5
touch checkpoints/step-000000099.h5.meshwork-unfinished
train damaged 0 --set checkpoint.directory=checkpoints --resume --predict repeated.csv
says damaged "WARNING: damaged checkpoint: checkpoints/step-000000024.h5"
says damaged "the run goes back to step 16: 8 steps are lost"
says damaged "step-000000099.h5.meshwork-unfinished: a checkpoint that was being written"
cmp straight.csv repeated.csv || failures=$((failures + 1))

truncate -s 5000 checkpoints/step-000000024.h5
train strict 2 --set checkpoint.directory=checkpoints --set checkpoint.resume=strict --resume
says strict "checkpoint.resume is strict"
for file in checkpoints/*.h5; do : >"$file"; done
train none 2 --set checkpoint.directory=checkpoints --resume
says none "checkpoints can be read"

# The last state is lost: one line says so, and a status of its own, after the predictions. A run that
# has lost an earlier one only ends well.
continues() { # NAME STATUS STEP...: the checkpoints of these steps cannot be written
  local name=$1 expected=$2
  shift 2
  rm -rf "$name"
  for step in "$@"; do mkdir -p "$name/step-0000000$step.h5.meshwork-unfinished"; done
  train "$name" "$expected" --set "checkpoint.directory=$name" --set checkpoint.on_error=continue \
    --predict "$name.csv"
  cmp straight.csv "$name.csv" || failures=$((failures + 1))
}
continues last_lost 76 16 24
says last_lost "WARNING: the state after step 24 is lost: "
says last_lost "move it elsewhere; the newest intact checkpoint is last_lost/step-000000008.h5"
continues all_lost 76 08 16 24
says all_lost "; there is no intact checkpoint in all_lost"
continues one_lost 0 16
grep -q "is lost" one_lost.txt && echo "one_lost has lost its last state" && failures=$((failures + 1))

exit $((failures > 0))
