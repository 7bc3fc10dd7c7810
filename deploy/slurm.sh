#!/bin/bash
# A Ray cluster inside one Slurm job, and a study on it:
#
#   sbatch --nodes=8 --gpus-per-node=4 deploy/slurm.sh run ood-scale --preset paper --out runs
#
# Killed by its time limit, the job goes on where it was when it is submitted again: results and checkpoints lie below
# --out, which must be on a disk that the first node can write to. Where the head node has several networks, ADDRESS
# names its private address: sbatch --export=ALL,ADDRESS=10.0.0.1 …
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
last=$(tail -n 1 <<<"$nodes")

# Since Slurm 22.05, srun does not take --cpus-per-task from the job: without it, every step would get one CPU.
step() { srun --overlap --cpus-per-task="$SLURM_CPUS_PER_TASK" "$@"; }
on() { step --nodes=1 --ntasks=1 --nodelist="$1" "${@:2}"; }

# The address by which the last node knows the head; alone, the first that the head has. Never a loopback: many machines
# have 127.0.1.1 for their own name.
addresses() {
  on "$last" getent ahostsv4 "$head" || true
  on "$head" hostname --all-ip-addresses | tr ' ' '\n'
}
address=${ADDRESS:-$(addresses | awk '$1 ~ /^[0-9.]+$/ && $1 !~ /^127\./ && !found++ {print $1}')}
: "${address:?no address of $head found that other nodes reach: name one, sbatch --export=ALL,ADDRESS=10.0.0.1}"

# One start per node; --block keeps each as long as the job lives. GPUs and CPUs are those that Slurm gave.
on "$head" ray start --head --block --node-ip-address="$address" --port="$PORT" --num-cpus="$SLURM_CPUS_PER_TASK" \
  --include-dashboard=false &
sleep 10
others=$((SLURM_JOB_NUM_NODES - 1))
if [ "$others" -gt 0 ]; then
  step --nodes="$others" --ntasks="$others" --exclude="$head" \
    ray start --block --address="$address:$PORT" --num-cpus="$SLURM_CPUS_PER_TASK" &
  sleep 10
fi

# The driver runs on the head node, beside a node of Ray's: that is where Ray expects it.
on "$head" posattn "$@" --cluster "$address:$PORT" &
driver=$!
trap 'kill -TERM "$driver"' TERM
wait "$driver" || wait "$driver"  # a signal ends the first wait; the driver still writes what it has
