// Boost.MPI: serialised objects, collectives of them, and a split communicator.
#include <boost/mpi.hpp>
#include <boost/serialization/map.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <functional>
#include <iostream>
#include <map>

namespace mpi = boost::mpi;

int main(int argc, char **argv)
{
    mpi::environment env(argc, argv);
    mpi::communicator world;
    const int rank = world.rank(), size = world.size();

    std::string all;
    mpi::all_reduce(world, std::string(1, char('a' + rank)), all, std::plus<std::string>());

    std::map<std::string, std::vector<int>> sent, received;
    sent["from"] = std::vector<int>(1 + rank, rank);
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    mpi::request request = world.isend(next, 7, sent);
    world.recv(previous, 7, received);
    request.wait();

    std::vector<std::string> names;
    mpi::all_gather(world, std::string(1 + rank, 'x'), names);
    mpi::communicator half = world.split(rank % 2);
    const int sum = mpi::all_reduce(half, rank, std::plus<int>());

    bool right = all == std::string("abcdefgh").substr(0, size);
    right = right && received["from"] == std::vector<int>(1 + previous, previous);
    right = right && names.back() == std::string(size, 'x') && int(names.size()) == size;
    int expected = 0;
    for (int other = rank % 2; other < size; other += 2) expected += other;
    right = right && sum == expected;
    std::cout << "rank " + std::to_string(rank) + " of " + std::to_string(size) + (right ? ": right\n" : ": wrong\n")
              << std::flush;
    return right ? 0 : 1;
}
