#!/usr/bin/env bash
# The program where files may have few bytes (ulimit -f), as on a full disk: what cannot be written is
# said, with the status of a run that failed, and no signal ends anything.
#
#   file_size_limit.sh MESHWORK CONFIG LAUNCHER...     e.g. LAUNCHER is mpiexec -n 1
# shellcheck source=tests/support/drill.sh
. "$MESHWORK_SOURCE_DIR/tests/support/drill.sh"

# limited NAME STATUS KIB ARGUMENTS...: runs it with files of at most KIB, and keeps what it says in
# NAME.txt. The launcher has no limit.
limited() {
  local name=$1 expected=$2 limit=$3
  shift 3
  # shellcheck disable=SC2016 # the inner shell's
  "${launcher[@]}" bash -c 'ulimit -f "$0" && exec "$@"' "$limit" "$meshwork" "$@" 2>&1 |
    cat >"$name.txt"
  ended "$name" "$expected" "${PIPESTATUS[0]}"
}

rm -rf checkpoints stopped whole ./*.txt ./*.h5 ./*.csv ./*.meshwork-unfinished
limited all 0 unlimited train "$config" --set checkpoint.directory=whole --set fit.epochs=1
kib=$(($(stat -c %s whole/step-000000008.h5) / 1024))
for limit in 0 $((kib / 2)) $((kib - 2)); do
  rm -rf checkpoints stopped exported.weights.h5 outputs.csv
  limited goes_on 76 "$limit" train "$config" --set checkpoint.directory=checkpoints \
    --set checkpoint.on_error=continue
  says goes_on "WARNING: the state after step 24 is lost: checkpoints/step-000000024.h5.meshwork-unfinished: there is no"
  says goes_on "File too large"
  says goes_on "; there is no intact checkpoint in checkpoints"
  limited stops 1 "$limit" train "$config" --set checkpoint.directory=stopped
  says stops "the checkpoint of step 8 could not be written: stopped/step-000000008.h5.meshwork-unfinished: there is no"
  rm -rf stopped
  limited last 76 "$limit" train "$config" --set checkpoint.directory=stopped --set fit.epochs=1
  limited exported 1 "$limit" export whole --keras exported.weights.h5
  says exported "exported.weights.h5: there is no room for"
done
limited enough 0 $((kib + 70)) train "$config" --set checkpoint.directory=checkpoints
limited enough 0 $((kib + 70)) export whole --keras exported.weights.h5
limited export 0 unlimited export whole --keras whole.weights.h5
for limit in 0 4; do
  limited csv 1 $limit predict "$config" --output outputs.csv
  says csv "outputs.csv.meshwork-unfinished: cannot be written: File too large"
  limited hdf5 1 $limit predict "$config" --output outputs.h5
  says hdf5 "outputs.h5.meshwork-unfinished: there is no room for"
  limited imported 1 $limit import "$config" whole.weights.h5 --output imported.h5
  limited picture 1 0 plan "$config" --layout d1/kernel --svg picture.svg
  says picture "picture.svg: cannot be written: File too large"
  ls picture.svg 2>/dev/null && failures=$((failures + 1))
  limited logged 1 0 train "$config" --set "fit.callbacks=[{CSVLogger: {filename: log.csv}}]"
  says logged "CSVLogger: log.csv cannot be written: File too large"
done
# Without a launcher no daemon of MPI's starts, which would wait for ever for the files that it cannot write.
if ! (ulimit -f 0 && timeout 20 "$meshwork" devices | cat >/dev/null && exit "${PIPESTATUS[0]}"); then
  echo "a process without a launcher does not end where files may have no bytes"
  failures=$((failures + 1))
fi
ls ./*.meshwork-unfinished >/dev/null 2>&1 && ls ./*.meshwork-unfinished && failures=$((failures + 1))

exit $((failures > 0))
