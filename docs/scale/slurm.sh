#!/bin/sh
# A decision graph and the coverage of a suite as a Slurm array. All tasks see one folder.
#
#     job=$(sbatch --parsable --array=1-16 --cpus-per-task=4 slurm.sh build)
#     job=$(sbatch --parsable --dependency=afterok:$job --array=1-4 --cpus-per-task=4 slurm.sh classes)
#     job=$(sbatch --parsable --dependency=afterok:$job slurm.sh join)
#     job=$(sbatch --parsable --dependency=afterok:$job --array=1-16 --cpus-per-task=4 slurm.sh cover)
#     sbatch --dependency=afterok:$job slurm.sh merge
#
# The second of these may be left out: `join` clusters classes that nobody has.
#
# A task that fails is submitted again by its number (`--array=7`), but of as many shards as before:
# set SHARDS=16.
set -eu

# What is built and measured; options are part of `train`, so that all steps have the same.
model=${MODEL:-model.onnx}
train="--data ${TRAIN:-train.npz} ${OPTIONS:---divide 255}"
suite=${SUITE:-test.npz}
threads=${SLURM_CPUS_PER_TASK:-1}

case $1 in
build | classes | cover)
    shards=${SHARDS:-$SLURM_ARRAY_TASK_COUNT}
    shard=$SLURM_ARRAY_TASK_ID/$shards
    ;;
esac

case $1 in
build)
    npcov build "$model" $train --shard "$shard" --threads "$threads" -o graph.npcov
    ;;
classes)
    npcov build "$model" $train --shard-classes "$shard" --threads "$threads" -o graph.npcov
    ;;
join)
    npcov build "$model" $train --join --threads "$threads" -o graph.npcov
    ;;
cover)
    mkdir -p states
    npcov cover graph.npcov --data "$suite" --shard "$shard" --threads "$threads" \
        -o "states/$SLURM_ARRAY_TASK_ID.npcov"
    ;;
merge)
    npcov merge states/*.npcov -o state.npcov
    ;;
*)
    echo "usage: $0 build|classes|join|cover|merge" >&2
    exit 2
    ;;
esac
