#!/bin/sh
# The jobs of a CI matrix, each on a machine of its own. What a job makes is a folder, which it uploads;
# the job behind them downloads all folders beside each other.
#
#     SHARD=3 SHARDS=16 ci.sh build out        uploads out/
#     ci.sh join in                            with in/*/ from all jobs, writes graph.npcov
#     SHARD=3 SHARDS=16 ci.sh cover out        uploads out/
#     ci.sh merge in                           with in/*/ from all jobs, writes state.npcov
set -eu

model=${MODEL:-model.onnx}
train="--data ${TRAIN:-train.npz} ${OPTIONS:---divide 255}"
suite=${SUITE:-test.npz}
folder=$2

case $1 in
build)
    mkdir -p "$folder"
    npcov build "$model" $train --shard "$SHARD/$SHARDS" -o "$folder/graph.npcov"
    ;;
join)
    # Parts have names of their own wherever they were made, so that folders can be copied together.
    mkdir -p graph.npcov.parts
    for part in "$folder"/*/graph.npcov.parts; do
        cp "$part"/*.* graph.npcov.parts/
    done
    npcov build "$model" $train --join -o graph.npcov
    ;;
cover)
    mkdir -p "$folder"
    npcov cover graph.npcov --data "$suite" --shard "$SHARD/$SHARDS" -o "$folder/state.npcov"
    ;;
merge)
    npcov merge "$folder"/*/state.npcov -o state.npcov
    ;;
*)
    echo "usage: $0 build|join|cover|merge FOLDER" >&2
    exit 2
    ;;
esac
