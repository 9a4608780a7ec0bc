#!/bin/sh
# What the pods of a Kubernetes Job in Indexed mode run: each knows its index, the first of which is 0.
# All pods see one volume, which is the current folder.
#
#     kubernetes.sh build     completionMode: Indexed, completions: $SHARDS
#     kubernetes.sh classes   the same, when all of these have succeeded; may be left out
#     kubernetes.sh join      one pod, when all of these have succeeded
#     kubernetes.sh cover     completionMode: Indexed, completions: $SHARDS
#     kubernetes.sh merge     one pod
set -eu

model=${MODEL:-model.onnx}
train="--data ${TRAIN:-train.npz} ${OPTIONS:---divide 255}"
suite=${SUITE:-test.npz}
# The limit of the container, by the downward API: `resource: limits.cpu`.
threads=${CPU_LIMIT:-1}

case $1 in
build)
    npcov build "$model" $train --threads "$threads" -o graph.npcov \
        --shard "$((JOB_COMPLETION_INDEX + 1))/$SHARDS"
    ;;
classes)
    npcov build "$model" $train --threads "$threads" -o graph.npcov \
        --shard-classes "$((JOB_COMPLETION_INDEX + 1))/$SHARDS"
    ;;
join)
    npcov build "$model" $train --threads "$threads" -o graph.npcov --join
    ;;
cover)
    mkdir -p states
    npcov cover graph.npcov --data "$suite" --threads "$threads" \
        --shard "$((JOB_COMPLETION_INDEX + 1))/$SHARDS" -o "states/$JOB_COMPLETION_INDEX.npcov"
    ;;
merge)
    npcov merge states/*.npcov -o state.npcov
    ;;
*)
    echo "usage: $0 build|classes|join|cover|merge" >&2
    exit 2
    ;;
esac
