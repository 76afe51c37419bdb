"""simplempi: scatter and a parallel for."""

from simplempi import simpleMPI

smpi = simpleMPI.simpleMPI() if hasattr(simpleMPI, "simpleMPI") else simpleMPI()
mine = smpi.scatterList(list(range(11)))
print("part", list(mine))
for n in smpi.parfor(range(6)):
    print("turn", n)
