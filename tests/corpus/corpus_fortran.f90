! Fortran's own part of MPI over our library: constants by address, attributes, operations, requests.
module functions
  use mpi
  implicit none
  integer :: copies = 0, deletions = 0, queries = 0
contains
  subroutine larger(a, b, n, kind)
    integer, intent(in) :: n, kind
    double precision, intent(in) :: a(n)
    double precision, intent(inout) :: b(n)
    if (kind /= MPI_DOUBLE_PRECISION) stop 11
    b = max(a, b)
  end subroutine larger

  subroutine copied(comm, key, extra, value, made, flag, error)
    integer :: comm, key, error
    integer(MPI_ADDRESS_KIND) :: extra, value, made
    logical :: flag
    copies = copies + 1
    made = value + extra
    flag = .true.
    error = MPI_SUCCESS
  end subroutine copied

  subroutine deleted(comm, key, value, extra, error)
    integer :: comm, key, error
    integer(MPI_ADDRESS_KIND) :: value, extra
    deletions = deletions + 1
    error = MPI_SUCCESS
  end subroutine deleted

  subroutine asked(extra, status, error)
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: status(MPI_STATUS_SIZE), error
    queries = queries + int(extra)
    status(MPI_TAG) = 17
    call MPI_Status_set_elements(status, MPI_INTEGER, 3, error)
    call MPI_Status_set_cancelled(status, .false., error)
  end subroutine asked

  subroutine freed(extra, error)
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: error
    error = MPI_SUCCESS
  end subroutine freed

  subroutine cancelled(extra, complete, error)
    integer(MPI_ADDRESS_KIND) :: extra
    logical :: complete
    integer :: error
    error = MPI_SUCCESS
  end subroutine cancelled
end module functions

program calls
  use functions
  implicit none
  integer :: rank, procs, error, op, key, other, request, count, kind, i, row(4), got(4), copy, sources(1), ends(1)
  integer :: status(MPI_STATUS_SIZE), requests(2), graph, in, out
  integer(MPI_ADDRESS_KIND) :: extra, value, place
  double precision :: numbers(3), results(3)
  logical :: flag, weighted
  character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: text

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, procs, error)
  call MPI_Get_library_version(text, count, error)
  call check(index(text, 'impi') > 0, 'library')

  ! MPI_IN_PLACE, MPI_BOTTOM, MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE
  row = rank + 1
  call MPI_Allreduce(MPI_IN_PLACE, row, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  call check(all(row == procs * (procs + 1) / 2), 'in place')
  row = rank
  call MPI_Get_address(row, place, error)
  call MPI_Type_create_hindexed(1, [4], [place], MPI_INTEGER, kind, error)
  call MPI_Type_commit(kind, error)
  call MPI_Bcast(MPI_BOTTOM, 1, kind, procs - 1, MPI_COMM_WORLD, error)
  call check(all(row == procs - 1), 'bottom')
  call MPI_Type_free(kind, error)
  call MPI_Sendrecv(rank, 1, MPI_INTEGER, mod(rank + 1, procs), 5, row, 1, MPI_INTEGER, &
    mod(rank + procs - 1, procs), 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
  call check(row(1) == mod(rank + procs - 1, procs), 'no status')
  call MPI_Irecv(row(2), 1, MPI_INTEGER, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, requests(1), error)
  call MPI_Isend(rank, 1, MPI_INTEGER, mod(rank + 1, procs), 6, MPI_COMM_WORLD, requests(2), error)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
  call check(row(2) == row(1) .and. requests(1) == MPI_REQUEST_NULL, 'no statuses')
  call MPI_Sendrecv(row, 3, MPI_INTEGER, rank, 7, got, 4, MPI_INTEGER, rank, 7, MPI_COMM_WORLD, status, error)
  call MPI_Get_count(status, MPI_INTEGER, count, error)
  call check(count == 3 .and. status(MPI_SOURCE) == rank .and. status(MPI_TAG) == 7, 'status')

  ! An operation of the program
  numbers = [1d0, 2d0, 3d0] * rank
  call MPI_Op_create(larger, .true., op, error)
  call MPI_Allreduce(numbers, results, 3, MPI_DOUBLE_PRECISION, op, MPI_COMM_WORLD, error)
  call check(all(results == [1d0, 2d0, 3d0] * (procs - 1)), 'operation')
  call MPI_Op_free(op, error)

  ! Pairs of Fortran
  row(:2) = [mod(rank + 1, procs), rank]
  call MPI_Allreduce(row, got, 1, MPI_2INTEGER, MPI_MINLOC, MPI_COMM_WORLD, error)
  call check(got(1) == 0 .and. got(2) == procs - 1, 'pair of integers')
  numbers(:2) = [dble(rank), dble(rank)]
  call MPI_Allreduce(numbers, results, 1, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, MPI_COMM_WORLD, error)
  call check(all(results(:2) == dble(procs - 1)), 'pair of reals')

  ! Attributes: integers of the size of an address, with functions and without
  extra = 100
  call MPI_Comm_create_keyval(copied, deleted, key, extra, error)
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, other, extra, error)
  value = -5_MPI_ADDRESS_KIND * 2_MPI_ADDRESS_KIND**40
  call MPI_Comm_set_attr(MPI_COMM_WORLD, key, value, error)
  call MPI_Comm_set_attr(MPI_COMM_WORLD, other, value, error)
  call MPI_Comm_dup(MPI_COMM_WORLD, copy, error)
  call MPI_Comm_get_attr(copy, key, place, flag, error)
  call check(flag .and. place == value + 100 .and. copies == 1, 'copied attribute')
  call MPI_Comm_get_attr(copy, other, place, flag, error)
  call check(flag .and. place == value, 'attribute')
  call MPI_Comm_free(copy, error)
  call check(deletions == 1, 'deletion')
  call MPI_Comm_delete_attr(MPI_COMM_WORLD, key, error)
  call check(deletions == 2, 'second deletion')
  call MPI_Comm_get_attr(MPI_COMM_WORLD, key, place, flag, error)
  call check(.not. flag, 'no attribute')
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, place, flag, error)
  call check(flag .and. place >= 32767, 'predefined attribute')
  call MPI_Comm_free_keyval(key, error)
  call MPI_Comm_free_keyval(other, error)

  ! A generalized request
  extra = 1
  call MPI_Grequest_start(asked, freed, cancelled, extra, request, error)
  call MPI_Grequest_complete(request, error)
  call MPI_Wait(request, status, error)
  call MPI_Get_count(status, MPI_INTEGER, count, error)
  call check(queries == 1 .and. status(MPI_TAG) == 17 .and. count == 3, 'generalized request')

  ! MPI_UNWEIGHTED
  sources(1) = mod(rank + procs - 1, procs)
  ends(1) = mod(rank + 1, procs)
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, sources, MPI_UNWEIGHTED, 1, ends, MPI_UNWEIGHTED, &
    MPI_INFO_NULL, .false., graph, error)
  call MPI_Dist_graph_neighbors_count(graph, in, out, weighted, error)
  call check(in == 1 .and. out == 1 .and. .not. weighted, 'unweighted')
  call MPI_Comm_free(graph, error)

  ! An error that the program asks for
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, error)
  call MPI_Send(row, 1, MPI_INTEGER, procs, 0, MPI_COMM_WORLD, error)
  call MPI_Error_class(error, i, error)
  call check(i == MPI_ERR_RANK, 'error')

  print '(a, i0, a, i0, a)', 'rank ', rank, ' of ', procs, ': right'
  call MPI_Finalize(error)

contains
  subroutine check(right, what)
    logical, intent(in) :: right
    character(len=*), intent(in) :: what
    if (.not. right) then
      print '(a, i0, a, a)', 'rank ', rank, ': wrong: ', what
      flush (6)
      call MPI_Abort(MPI_COMM_WORLD, 9, error)
    end if
  end subroutine check
end program calls
