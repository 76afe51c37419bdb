"""mpi-list: a distributed list, mapped, filtered, reduced and scanned."""

from mpi_list import Context

context = Context()
numbers = context.iterates(20)
squares = numbers.map(lambda n: n * n).filter(lambda n: n % 3)
total = squares.reduce(lambda a, b: a + b, 0)
whole = numbers.scan(lambda a, b: a + b).collect()
if context.rank == 0:
    print(total, whole)
print(context.rank, squares.len())
