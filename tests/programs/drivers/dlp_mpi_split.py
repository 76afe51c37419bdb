"""dlp-mpi: work is split by a manager and in turns."""

import dlp_mpi

mine = [
    n * n
    for n in dlp_mpi.split_managed(
        list(range(15)), is_indexable=True, progress_bar=False
    )
]
parts = dlp_mpi.gather(mine)
turns = dlp_mpi.gather(list(dlp_mpi.split_round_robin(list(range(15)), indexable=True)))
if dlp_mpi.IS_MASTER:
    print(sorted(sum(parts, [])), turns)
print(dlp_mpi.bcast({"from": dlp_mpi.RANK if dlp_mpi.IS_MASTER else None})["from"] == 0)
