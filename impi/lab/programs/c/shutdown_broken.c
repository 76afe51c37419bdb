/* The twin of shutdown_broken.py. The kernel ends a program that writes behind the other end's close, unless the
   library keeps that from it. */
#include "report.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>

/* Whether the other end of a connection of this process has closed it. */
static int is_broken(void)
{
    int fd;
    for (fd = 0; fd < 65536; fd++) {
        struct tcp_info info;
        socklen_t length = sizeof info;
        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_state == TCP_CLOSE_WAIT)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    char into[8] = "";
    int mine;
    MPI_Status status;
    begin(&argc, &argv);

    check_int("size of MPI_COMM_WORLD", size, planned_size());
    done();
    MPI_Barrier(MPI_COMM_WORLD); /* no rank has left when the last report is written */
    if (rank == size - 1)
        _exit(3);
    signal(SIGTERM, SIG_IGN); /* whoever is told to end must have time to send */
    mine = the.client[rank] == the.client[size - 1];
    while (!mine && !is_broken())
        ;
    while (!mine)
        MPI_Send(into, 1, MPI_BYTE, size - 1, 70, MPI_COMM_WORLD);
    MPI_Recv(into, 8, MPI_BYTE, 0, 70, MPI_COMM_WORLD, &status); /* which will never come */
    return 0;
}
