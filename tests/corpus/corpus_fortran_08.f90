! The module of Fortran 2008 over our library: handles are types, lengths of texts are passed as ints.
program modern
  use mpi_f08
  implicit none
  integer :: rank, procs, i, length, given(3), found(3)
  type(MPI_Comm) :: half, copy
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: status, statuses(2)
  type(MPI_Datatype) :: column, pieces(2)
  type(MPI_Info) :: info
  type(MPI_Op) :: larger
  integer(MPI_ADDRESS_KIND) :: lower, extent
  integer :: grid(4, 4)
  character(len=MPI_MAX_OBJECT_NAME) :: name
  character(len=12) :: value
  logical :: flag

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, procs)

  call MPI_Irecv(i, 1, MPI_INTEGER, mod(rank + procs - 1, procs), 3, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(rank, 1, MPI_INTEGER, mod(rank + 1, procs), 3, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, statuses)
  call check(i == mod(rank + procs - 1, procs) .and. statuses(1)%MPI_SOURCE == i, 'ring')
  call check(requests(1) == MPI_REQUEST_NULL, 'no request')
  call MPI_Irecv(i, 1, MPI_INTEGER, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, requests(2))
  requests(1) = MPI_REQUEST_NULL
  call MPI_Send(rank, 1, MPI_INTEGER, mod(rank + 1, procs), 4, MPI_COMM_WORLD)
  call MPI_Waitany(2, requests, length, status)
  call check(length == 2 .and. status%MPI_TAG == 4, 'index from 1')

  given = [rank, 1, -rank]
  call MPI_Allreduce(given, found, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call check(all(found == [procs * (procs - 1) / 2, procs, -procs * (procs - 1) / 2]), 'sum')
  call MPI_Allreduce(MPI_IN_PLACE, given, 3, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
  call check(all(given == [procs - 1, 1, 0]), 'in place')
  call MPI_Op_create(larger_of, .true., larger)
  given = [rank, 1, -rank]
  call MPI_Allreduce(given, found, 3, MPI_INTEGER, larger, MPI_COMM_WORLD)
  call check(all(found == [procs - 1, 1, 0]), 'operation')
  call MPI_Op_free(larger)

  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half)
  call MPI_Comm_set_name(half, '  half of it   ')
  call MPI_Comm_get_name(half, name, length)
  call check(name == 'half of it' .and. length == 10, 'name')
  call MPI_Comm_dup(half, copy)
  call check(copy /= half, 'copy')
  call MPI_Comm_free(copy)
  call MPI_Comm_free(half)

  call MPI_Info_create(info)
  call MPI_Info_set(info, ' key ', 'a value')
  call MPI_Info_get(info, 'key', 12, value, flag)
  call check(flag .and. value == 'a value', 'info')
  call MPI_Info_get(info, 'none', 12, value, flag)
  call check(.not. flag, 'no info')
  call MPI_Info_free(info)

  call MPI_Type_vector(4, 1, 4, MPI_INTEGER, column)
  call MPI_Type_create_struct(2, [1, 1], [0_MPI_ADDRESS_KIND, 4_MPI_ADDRESS_KIND], [MPI_INTEGER, MPI_INTEGER], pieces(1))
  call MPI_Type_commit(column)
  call MPI_Type_get_extent(pieces(1), lower, extent)
  call check(lower == 0 .and. extent == 8, 'structure')
  grid = rank
  call MPI_Bcast(grid(2, 1), 1, column, procs - 1, MPI_COMM_WORLD)
  call check(all(grid(2, :) == procs - 1) .and. all(grid(1, :) == rank), 'row of a grid')
  call MPI_Type_free(column)
  call MPI_Type_free(pieces(1))

  print '(a, i0, a, i0, a)', 'rank ', rank, ' of ', procs, ': right'
  call MPI_Finalize()

contains
  subroutine larger_of(in, inout, n, kind)
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    type(c_ptr), value :: in, inout
    integer :: n
    type(MPI_Datatype) :: kind
    integer, pointer :: a(:), b(:)
    if (kind /= MPI_INTEGER) stop 11
    call c_f_pointer(in, a, [n])
    call c_f_pointer(inout, b, [n])
    b = max(a, b)
  end subroutine larger_of

  subroutine check(right, what)
    logical, intent(in) :: right
    character(len=*), intent(in) :: what
    if (.not. right) then
      print '(a, i0, a, a)', 'rank ', rank, ': wrong: ', what
      flush (6)
      call MPI_Abort(MPI_COMM_WORLD, 9)
    end if
  end subroutine check
end program modern
