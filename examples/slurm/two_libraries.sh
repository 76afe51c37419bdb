#!/bin/sh
# One MPI job on two partitions, each part under its own MPI library: sbatch two_libraries.sh
#SBATCH --job-name=two-libraries --output=two_libraries.out
#SBATCH --partition=left --nodes=2 --ntasks=3
#SBATCH hetjob
#SBATCH --partition=right --nodes=2 --ntasks=3
exec impirun -slurm --vendor mpich pi.py : --vendor openmpi pi.py
