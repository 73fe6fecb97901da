#!/usr/bin/env bash
# `meshwork generate`: a model of bytes that learned a line by heart says it on, the same on every mesh; and
# models and prompts that are wrong. Training shows what the model says so far.
#
#   generate.sh MESHWORK LAUNCHER...     e.g. LAUNCHER is mpiexec -n 2
set -u
meshwork=$1
shift
fail() { echo "FAILED: $*"; exit 1; }

rm -rf ./*
for _ in $(seq 200); do printf 'the quick brown fox jumps over the lazy dog; '; done >text
cat >model.yaml <<'END'
seed: 5
data:
  train: {kind: text, file: text, length: 16, stride: 1}
  batch_size: 32
mesh: {data: -1, model: 1}
layout: {attention/(query|key|value)/kernel: [~, model, ~]}
model:
  input: {shape: [16], dtype: int32}
  layers:
    - Embedding: {name: tokens, input_dim: 256, output_dim: 24}
    - PositionEmbedding: {name: places, sequence_length: 16}
    - Add: {name: both, inputs: [tokens, places]}
    - MultiHeadAttention: {name: attention, num_heads: 2, key_dim: 12, use_causal_mask: true}
    - Add: {inputs: [both, attention]}
    - Dense: {units: 64, activation: relu}
    - Dense: {units: 256}
loss: {SparseCategoricalCrossentropy: {from_logits: true}}
optimizer: {Adam: {learning_rate: 0.01}}
fit: {epochs: 3, callbacks: [{SampleText: {prompt: 'the ', tokens: 60, temperature: 0.5, every_epochs: 3}}]}
checkpoint: {directory: checkpoints}
END
"$@" "$meshwork" train model.yaml >train.txt 2>&1 || fail "train: $(cat train.txt)"
rm text  # which is not needed any more

say() { # FILE ARGUMENTS...
  local file=$1
  shift
  "${launcher[@]}" "$meshwork" generate model.yaml --checkpoint checkpoints "$@" >"$file" 2>errors.txt
}
launcher=("$@")
say likeliest --prompt 'the quick bro' --tokens 41 --temperature 0 || fail "generate: $(cat errors.txt)"
[ "$(cat likeliest)" = 'the quick brown fox jumps over the lazy dog; the quick' ] || fail "it says: $(cat likeliest)"
grep -qFx 'note: each token behind the first 16 takes a pass over all 16 places: it moves all others' errors.txt ||
  fail "it does not say which tokens are slow: $(cat errors.txt)"
say begun --prompt 'the quick bro' --tokens 4 --temperature 0 || fail "generate: $(cat errors.txt)"
[ "$(cat begun)" = 'the quick brown f' ] || fail "it says: $(cat begun)"
grep -q note: errors.txt && fail "it says that tokens are slow: $(cat errors.txt)"
say drawn --prompt 'the ' --tokens 60 --seed 3 --top-k 40 || fail "generate: $(cat errors.txt)"
say other --prompt 'the ' --tokens 60 --seed 4 --temperature 3 || fail "generate: $(cat errors.txt)"
cmp -s drawn other && fail "another seed gives the same text"
say sample --prompt 'the ' --tokens 60 --temperature 0.5 || fail "generate: $(cat errors.txt)"
[[ $(cat train.txt) == *"$(cat sample)"* ]] || fail "training shows no sample, $(cat sample): $(cat train.txt)"
[ "$(grep -c '^the ' train.txt)" = 1 ] || fail "training does not show one sample: $(cat train.txt)"
say none --prompt 'the' --tokens 0 || fail "no tokens: $(cat errors.txt)"
[ "$(cat none)" = the ] || fail "no tokens: $(cat none)"
launcher=()
say alone --prompt 'the ' --tokens 60 --seed 3 --top-k 40 || fail "alone: $(cat errors.txt)"
cmp drawn alone || fail "one rank says: $(cat alone)"

refused() { # WHAT ARGUMENTS...
  local what=$1 status
  shift
  "$meshwork" generate model.yaml --checkpoint checkpoints "$@" >refused.txt 2>&1
  status=$?
  [ $status = 2 ] || fail "status $status for $*: $(cat refused.txt)"
  grep -qF -- "$what" refused.txt || fail "$* says: $(cat refused.txt)"
}
refused '--prompt: expected a TEXT' --prompt ''
refused '--prompt is required'
refused 'expected a number of at least 0' --prompt a --temperature -1
refused 'expected a whole number' --prompt a --tokens -1
refused 'expected a whole number' --prompt a --top-k few
sed 's/input_dim: 256/input_dim: 100/' model.yaml >fewer_inputs.yaml
"$meshwork" generate fewer_inputs.yaml --prompt 'a jug' >said.txt 2>errors.txt && fail "generates: $(cat said.txt)"
[ ! -s said.txt ] || fail "a prompt that the model refused is printed: $(cat said.txt)"
grep -qF 'expected whole numbers from 0 to 99' errors.txt || fail "it says: $(cat errors.txt)"
sed -i 's/units: 256/units: 300/; s/input_dim: 256/input_dim: 300/' model.yaml
refused '--prompt: the prompt has the token 300; the model has 300 tokens, from 0 on' --prompt '1 300'
untrained=$("$meshwork" generate model.yaml --prompt '1 2' --tokens 3 2>errors.txt) || fail "numbers: $(cat errors.txt)"
[[ $untrained =~ ^1\ 2(\ [0-9]+){3}$ ]] || fail "a model of numbers says: $untrained"
refused 'the model has 300 tokens, so a prompt is token numbers with spaces between them; found "word"' --prompt 'word'
trains_not() { # WHAT
  "$meshwork" train model.yaml >refused.txt 2>&1
  [ $? = 2 ] || fail "train: $(cat refused.txt)"
  grep -qF -- "$1" refused.txt || fail "train says: $(cat refused.txt)"
}
for _ in $(seq 20); do printf 'the quick brown fox jumps over the lazy dog; '; done >text
trains_not 'SampleText: the model has 300 tokens, so a prompt is token numbers with spaces between them; found "the"'
# Before an epoch is lost.
sed "s/prompt: 'the '/prompt: '1 2'/; s/, use_causal_mask: true//" model.yaml >looks_ahead.yaml
"$meshwork" train looks_ahead.yaml --set checkpoint= >refused.txt 2>&1 && fail "trains: $(cat refused.txt)"
grep -q 'SampleText: .*later' refused.txt || fail "train says: $(cat refused.txt)"
grep -qi 'epoch 1' refused.txt && fail "an epoch was trained: $(cat refused.txt)"
sed -i 's/- Dense: {units: 300}/- Flatten:/' model.yaml
refused 'expected a language model' --prompt '1 2'
