"""deap: a genetic algorithm whose map is mpi4py's executor."""

import random

from deap import algorithms, base, creator, tools
from mpi4py.futures import MPICommExecutor

creator.create("Fitness", base.Fitness, weights=(1.0,))
creator.create("Individual", list, fitness=creator.Fitness)


def ones(individual):
    return (sum(individual),)


if __name__ == "__main__":
    with MPICommExecutor() as executor:
        if executor is not None:
            random.seed(64)
            box = base.Toolbox()
            box.register("bit", random.randint, 0, 1)
            box.register(
                "individual", tools.initRepeat, creator.Individual, box.bit, 40
            )
            box.register("population", tools.initRepeat, list, box.individual)
            box.register("evaluate", ones)
            box.register("mate", tools.cxTwoPoint)
            box.register("mutate", tools.mutFlipBit, indpb=0.05)
            box.register("select", tools.selTournament, tournsize=3)
            box.register("map", executor.map)
            population, _ = algorithms.eaSimple(
                box.population(n=30), box, 0.5, 0.2, 8, verbose=False
            )
            print(sorted(sum(individual) for individual in population))
