#!/bin/bash
# A Ray cluster inside one Slurm job, and a study on it:
#
#   sbatch --nodes=8 --gpus-per-node=4 deploy/slurm.sh run ood-scale --preset paper --out runs
#
# Killed by its time limit, the job goes on where it was when it is submitted again: results and checkpoints lie below
# --out, which must be on a disk that the first node can write to.
#SBATCH --job-name=posattn
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@60
set -euo pipefail

export RAY_USAGE_STATS_ENABLED=0
PORT=6379
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=$(head -n 1 <<<"$nodes")
# The private address of the head node: the first that its name stands for, never 0.0.0.0.
address=$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | awk '{print $1}')

# One start per node; --block keeps each as long as the job lives. GPUs and CPUs are those that Slurm gave.
srun --nodes=1 --ntasks=1 --nodelist="$head" \
  ray start --head --block --node-ip-address="$address" --port="$PORT" --num-cpus="$SLURM_CPUS_PER_TASK" \
  --include-dashboard=false &
sleep 10
if [ "$SLURM_JOB_NUM_NODES" -gt 1 ]; then
  srun --nodes="$((SLURM_JOB_NUM_NODES - 1))" --ntasks="$((SLURM_JOB_NUM_NODES - 1))" --exclude="$head" \
    ray start --block --address="$address:$PORT" --num-cpus="$SLURM_CPUS_PER_TASK" &
  sleep 10
fi

# The driver runs on the head node, beside a node of Ray's: that is where Ray expects it.
srun --overlap --nodes=1 --ntasks=1 --nodelist="$head" posattn "$@" --cluster "$address:$PORT" &
driver=$!
trap 'kill -TERM "$driver"' TERM
wait "$driver" || wait "$driver"  # a signal ends the first wait; the driver still writes what it has
